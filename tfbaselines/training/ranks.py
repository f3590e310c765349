"""Ranks of a run: their seeds, the decisions that they share, and the check that they stay in step."""

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


def agree(signal: int, stopped: bool, save_due: bool, comm: mpi.Communicator) -> tuple[int, bool, bool]:
    """Agree over ranks whether the run stops, and whether it saves a checkpoint.

    Args:
        signal: number of a signal that came to this rank; 0 for none.
        stopped: this rank stops.
        save_due: a checkpoint is due; rank 0 decides.
        comm: the ranks.

    Returns:
        The number of a signal that came to any rank, or 0; whether any rank stops; whether a checkpoint is due.
    """
    if comm.size == 1:
        return signal, stopped, save_due
    every = comm.gather((signal, stopped, save_due))
    return max(number for number, _, _ in every), any(stops for _, stops, _ in every), every[0][2]
