"""Ranks of a run: their seeds, their description, and the check that they stay in step."""

import random
import socket
from typing import Any

import keras
import numpy as np

from tfbaselines.parallel import mpi


def seed_everything(seed: int | None, comm: mpi.Communicator) -> np.random.Generator:
    """Seed Python, numpy and Keras, and return the run's generator; ranks get seeds 10,000 apart.

    Args:
        seed: None for a seed from the operating system.
        comm: communicator of this rank.
    """
    if seed is None:
        seed = int(np.random.SeedSequence().generate_state(1)[0])
    seed = (int(seed) + 10_000 * comm.rank) % 2**32
    random.seed(seed)
    np.random.seed(seed)
    keras.utils.set_random_seed(seed)
    return np.random.default_rng(seed)


def ranks_text(comm: mpi.Communicator, num_envs: int) -> str:
    """Return one line on the ranks, hosts, environments and threads of a run.

    Args:
        comm: the ranks.
        num_envs: environments of this rank.
    """
    own = (socket.gethostname(), num_envs, mpi.threads_for_rank(comm))
    hosts, envs, threads = zip(*comm.gather(own), strict=True)
    return (
        f"ranks: {comm.size}, hosts: {len(set(hosts))}, environments in all: {sum(envs)}, "
        f"threads a rank: {min(threads)}"
    )


def check_in_step(variables: list[Any], comm: mpi.Communicator) -> None:
    """Raise an error unless every rank has the same parameters.

    Args:
        variables: parameters of this rank.
        comm: the ranks.
    """
    if comm.size > 1:
        mpi.sync_check(np.concatenate([mpi.values(variable).ravel() for variable in variables]), comm)
