"""ACKTR on two ranks: part of on_policy_ranks.py."""

import numpy as np
from helpers import vec

from tfbaselines.algs import acktr
from tfbaselines.config.options import RunOptions
from tfbaselines.envs import tiny
from tfbaselines.parallel import mpi
from tfbaselines.training.on_policy import OnPolicyRun

ROWS, UPDATES = 20, 12


def made(comm, **arguments):
    """A step of a policy that is the same everywhere."""
    config = acktr.Config(comm=comm, total_timesteps=ROWS, network_kwargs={"num_hidden": 8}, **arguments)
    run = OnPolicyRun(acktr.ALGORITHM, "mlp", vec(lambda: tiny.BoxIdentityEnv((2,), 10)), config)
    rng = np.random.default_rng(0)
    for variable in run.policy.trainable_variables:
        variable.assign(0.3 * rng.standard_normal(variable.shape))
    return run.policy, acktr.make_step(run)


def data_of(*seed):
    rng = np.random.default_rng(seed)
    shapes = {"obs": (ROWS, 2), "actions": (ROWS, 2), "values": (ROWS,), "returns": (ROWS,), "noise": (ROWS,)}
    return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def learnt(policy, step):
    """Everything that is to be equal on all ranks."""
    variables = [variable.numpy() for variable in (*policy.trainable_variables, *step.variables)]
    return np.concatenate([variable.ravel() for variable in variables])


def steps_of(step, data):
    """Yields what was learnt after each update; data takes the number of an update."""
    for update in range(UPDATES):
        step[1](data(update), lr=0.1)
        yield learnt(*step)


def check_steps(world):
    """Two ranks with a batch each take the steps of one rank with both; in the background they only stay in step."""

    def joined(update):
        both = [data_of(rank, update) for rank in range(world.size)]
        return {name: np.concatenate([data[name] for data in both]) for name in both[0]}

    *_, alone = steps_of(made(mpi.Communicator(), is_async=False), joined)
    for is_async, kind in ((False, "batches"), (False, "gradients"), (True, "gradients")):
        together = made(world, is_async=is_async, run=RunOptions(mpi_exchange=kind))
        for last in steps_of(together, lambda update: data_of(world.rank, update)):
            mpi.sync_check(last, world)
        assert together[1].eigen.numpy().any() and together[1].velocity.numpy().any()
        if not is_async:
            np.testing.assert_allclose(last, alone, rtol=0.0, atol=1e-3)
            change = together[0].trainable_variables[0].numpy() - made(world)[0].trainable_variables[0].numpy()
            assert np.abs(change).max() > 0.05


def check_in_the_background(world):
    """Whole runs whose factors are decomposed beside them end with the same parameters on all ranks."""
    env = vec(lambda: tiny.DiscreteIdentityEnv(4, episode_len=10), seed=world.rank)
    model = acktr.learn("mlp", env, total_timesteps=UPDATES * ROWS, seed=0, num_hidden=8, is_async=True)
    mpi.sync_check(learnt(model.policy, model.optimizer), world)


def check(world):
    check_steps(world)
    check_in_the_background(world)
