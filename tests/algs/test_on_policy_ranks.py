"""Two ranks of a2c, vpg and ppo take the step of one rank with both batches joined, and hold bit-equal parameters."""

import sys

from commands import finish, start


def test_ranks_with_parts_of_a_batch_take_the_step_of_one_rank_with_the_whole(tmp_path):
    (tmp_path / "script.py").write_text(RANKS.format(paths=sys.path[:3]))
    status, out, err = finish(start("script", cwd=tmp_path, launcher=("mpirun", "-np", "2")), timeout=300)
    assert status == 0, err
    assert out.count("equal") == 2


RANKS = """
import sys
sys.path[:0] = {paths!r}
from types import SimpleNamespace

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.algs import a2c, ppo, vpg
from tfbaselines.optim.optimizers import RMSProp
from tfbaselines.optim.update import Update
from tfbaselines.parallel import mpi
from tfbaselines.policy.policy import build_policy
from tfbaselines.running.epoch_run import make_update

comm, alone = mpi.world(), mpi.Communicator()
space = spaces.Box(-1, 1, (3,), np.float32)
env = SimpleNamespace(observation_space=space, action_space=spaces.Discrete(2))


def policy():
    made = build_policy(env, "mlp", "copy", num_hidden=8)
    rng = np.random.default_rng(5)
    for variable in made.trainable_variables:
        variable.assign(rng.normal(size=variable.shape) * 0.3)
    return made


def flat(made):
    return np.concatenate([variable.numpy().ravel() for variable in made.trainable_variables])


rng = np.random.default_rng(0)
rows = 32
whole = {{
    "obs": rng.normal(size=(rows, 3)).astype(np.float32),
    "actions": rng.integers(2, size=rows),
    "values": rng.normal(size=rows).astype(np.float32),
    "returns": rng.normal(size=rows).astype(np.float32),
    "advantages": rng.normal(size=rows).astype(np.float32),
    "neglogpacs": np.full(rows, 0.7, np.float32),
}}
mine = {{name: array[comm.rank :: comm.size] for name, array in whole.items()}}


def a2c_step(made, data, comm):
    config = a2c.Config()
    variables, optimizer = made.trainable_variables, RMSProp()
    update = Update(lambda batch, _: a2c.loss(made, batch, config), variables, optimizer, max_grad_norm=0.5, comm=comm)
    update(data, np.arange(len(data["obs"]), dtype=np.int32)[None], lr=0.1)


def vpg_step(made, data, comm):
    make_update(made, lambda batch: vpg.loss(made, batch), 1, 4, comm=comm)(data, pi_lr=0.05, vf_lr=0.05)


def ppo_step(made, data, comm):
    update = make_update(made, lambda batch: ppo.loss(made, batch, 0.2), 40, 4, 0.02, comm=comm)
    assert 1 < update(data, pi_lr=0.01, vf_lr=0.05).steps[0] < 40


for step in (a2c_step, vpg_step, ppo_step):
    one, several = policy(), policy()
    step(one, whole, alone)
    step(several, mine, comm)
    np.testing.assert_allclose(flat(several), flat(one), rtol=0, atol=1e-5, err_msg=step.__name__)
    mpi.sync_check(flat(several), comm)
    assert np.abs(flat(one) - flat(policy())).max() > 1e-3
print("equal", flush=True)
"""
