"""Started by mpirun on two ranks: see test_on_policy_ranks.py. Exits with 0 when every rank is satisfied.

Nothing is compiled: tests/support/two_ways.py compiles each kind of update on two ranks.
"""

from types import SimpleNamespace

import acktr_ranks
import numpy as np
import tensorflow as tf
from gymnasium import spaces
from helpers import vec

from tfbaselines.algs import a2c, ppo, ppo1, trpo, trpo_mpi, vpg
from tfbaselines.algs.trpo_mpi import trpo_mpi as trust_region
from tfbaselines.envs import tiny
from tfbaselines.learn.engine import Engine, Phase
from tfbaselines.learn.losses import squared_value_loss
from tfbaselines.learn.optimizers import Adam, RMSProp
from tfbaselines.parallel import mpi
from tfbaselines.policy.policy import build_policy
from tfbaselines.training.epochs import make_update

ROWS = 20


def made(comm):
    """A policy that is the same everywhere."""
    env = SimpleNamespace(observation_space=spaces.Box(-1, 1, (3,)), action_space=spaces.Box(-1, 1, (2,)))
    policy = build_policy(env, "mlp", "copy", num_hidden=8, comm=comm)
    rng = np.random.default_rng(0)
    for variable in policy.trainable_variables:
        variable.assign(0.3 * rng.standard_normal(variable.shape))
    return policy


def weights(policy):
    return np.concatenate([variable.numpy().ravel() for variable in policy.trainable_variables])


def data_of(rank):
    rng = np.random.default_rng(rank + 1)
    shapes = {"obs": (ROWS, 3), "actions": (ROWS, 2), "advantages": (ROWS,), "returns": (ROWS,), "values": (ROWS,)}
    return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def descend(policy, loss, variables, optimizer, data, comm, lr, **kwargs):
    """One step on all rows."""
    Engine([Phase("policy", loss, variables, optimizer, **kwargs)], comm=comm).minibatches(data, lr=lr)


def a2c_step(policy, data, comm):
    config, variables = a2c.Config(), policy.trainable_variables
    descend(policy, lambda b: a2c.loss(policy, b, config), variables, RMSProp(), data, comm, 0.1, max_grad_norm=0.5)


def vpg_step(policy, data, comm):
    make_update(policy, lambda batch: vpg.loss(policy, batch), 1, 4, comm=comm).repeat(data, pi_lr=0.05, vf_lr=0.05)


def ppo_step(policy, data, comm):
    update = make_update(policy, lambda batch: ppo.loss(policy, batch, 0.2), 40, 4, 0.02, comm=comm)
    assert 1 < update.repeat(data, pi_lr=0.01, vf_lr=0.05).steps[0] < 40


def ppo1_step(policy, data, comm):
    variables = policy.trainable_variables
    descend(policy, lambda batch: ppo1.loss(policy, batch, 0.2, 0.01), variables, Adam(), data, comm, 1e-2)


def trust_region_step(algorithm, make_step):
    def step(policy, data, comm):
        assert make_step(policy, algorithm.Config(cg_iters=4), comm=comm)(data, 0.01, ent_coef=0.0).part > 0.0
        fit = policy.value_variables
        descend(policy, lambda batch: squared_value_loss(policy, batch), fit, Adam(), data, comm, 1e-2)

    return step


STEPS = {
    "a2c": a2c_step,
    "vpg": vpg_step,
    "ppo": ppo_step,
    "ppo1": ppo1_step,
    "trpo_mpi": trust_region_step(trpo_mpi, trust_region.make_step),
    "trpo": trust_region_step(trpo, trpo.make_step),
}


def stepped(name, data, comm):
    """Weights after a step of the algorithm on data of the policy's own actions."""
    policy = made(comm)
    flat = policy.forward(tf.constant(data["obs"])).flat
    likely = policy.head.distribution(flat).neglogp(tf.constant(data["actions"]))
    own = {"flat": flat.numpy(), "neglogpacs": likely.numpy()}
    STEPS[name](policy, data | own, comm)
    return weights(policy)


def check_steps(world):
    """Two ranks with a batch each take the step of one rank with both."""
    own, both = data_of(world.rank), [data_of(rank) for rank in range(world.size)]
    joined = {name: np.concatenate([data[name] for data in both]) for name in own}
    for name in STEPS:
        together, alone = stepped(name, own, world), stepped(name, joined, mpi.Communicator())
        np.testing.assert_allclose(together, alone, rtol=0.0, atol=1e-5, err_msg=name)
        mpi.sync_check(together, world)
        assert np.abs(alone - weights(made(world))).max() > 1e-3


def check_counts(world):
    """Whole runs count the episodes of all ranks."""
    for algorithm, arguments in (
        (trpo_mpi, {"timesteps_per_batch": 80}),
        (ppo1, {"timesteps_per_actorbatch": 80, "optim_epochs": 2}),
    ):
        env, counts = vec(lambda: tiny.DiscreteIdentityEnv(4, episode_len=10), seed=world.rank), []
        arguments["callback"] = lambda names, _, counts=counts: counts.append(names["episodes_so_far"])
        algorithm.learn("mlp", env, seed=0, num_hidden=8, max_iters=3, **arguments)
        assert counts == [0, 16, 32], counts


if __name__ == "__main__":
    tf.config.run_functions_eagerly(True)
    check_steps(mpi.world())
    check_counts(mpi.world())
    acktr_ranks.check(mpi.world())
