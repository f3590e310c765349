"""Started by mpirun on two ranks: see test_trpo_mpi.py. Exits with 0 when every rank is satisfied."""

from types import SimpleNamespace

import numpy as np
import tensorflow as tf
from gymnasium import spaces
from helpers import vec

from tfbaselines.algs import ppo1, trpo, trpo_mpi
from tfbaselines.envs import tiny
from tfbaselines.losses.policy_gradient import squared_value_loss
from tfbaselines.optim.optimizers import Adam
from tfbaselines.optim.update import Update
from tfbaselines.parallel import mpi
from tfbaselines.policy.policy import build_policy
from tfbaselines.running import trust_region

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
    shapes = {"obs": (ROWS, 3), "actions": (ROWS, 2), "advantages": (ROWS,), "returns": (ROWS,)}
    return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def stepped(comm, algorithm, data):
    """Weights after a step of the policy, of the value function, and of ppo1's loss."""
    policy = made(comm)
    data = data | {"neglogpacs": np.ones(len(data["obs"]), np.float32)}
    data["flat"] = policy.forward(tf.constant(data["obs"])).flat.numpy()
    if algorithm is ppo1:
        steps = Update(
            lambda batch, _: ppo1.loss(policy, batch, 0.2, 0.01), policy.trainable_variables, Adam(), comm=comm
        )
        steps(data, np.arange(len(data["obs"]))[None], lr=1e-2)
        return weights(policy)
    make_step = algorithm.make_step if algorithm is trpo else trust_region.make_step
    taken = make_step(policy, algorithm.Config(), comm=comm)(data)
    assert taken.part > 0.0
    fit = Update(lambda batch, _: squared_value_loss(policy, batch), policy.value_variables, Adam(), comm=comm)
    fit(data, np.arange(len(data["obs"]))[None], lr=1e-2)
    return weights(policy)


def check_steps(world):
    """Two ranks with a batch each take the step of one rank with both."""
    own, both = data_of(world.rank), [data_of(rank) for rank in range(world.size)]
    joined = {name: np.concatenate([data[name] for data in both]) for name in own}
    for algorithm in (trpo_mpi, trpo, ppo1):
        together, alone = stepped(world, algorithm, own), stepped(mpi.Communicator(), algorithm, joined)
        np.testing.assert_allclose(together, alone, rtol=0.0, atol=1e-5, err_msg=algorithm.__name__)
        mpi.sync_check(together, world)


def check_runs(world):
    """Whole runs end with the same parameters on all ranks, and count the episodes of all."""
    small = {"seed": 0, "num_hidden": 8}
    for algorithm, arguments in (
        (trpo_mpi, {"timesteps_per_batch": 80, "max_iters": 3}),
        (trpo, {"steps_per_epoch": 80, "epochs": 3, "train_v_iters": 2}),
        (ppo1, {"timesteps_per_actorbatch": 80, "max_iters": 3, "optim_epochs": 2}),
    ):
        env = vec(lambda: tiny.DiscreteIdentityEnv(4, episode_len=10), seed=world.rank)
        counts = []
        if algorithm is not trpo:
            arguments["callback"] = lambda names, _, counts=counts: counts.append(names["episodes_so_far"])
        model = algorithm.learn("mlp", env, **small, **arguments)
        mpi.sync_check(weights(model.policy), world)
        assert counts in ([], [0, 16, 32]), counts


if __name__ == "__main__":
    tf.config.run_functions_eagerly(True)
    check_steps(mpi.world())
    check_runs(mpi.world())
