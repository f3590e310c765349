"""What a run starts from and how it may end: its plan, its seed, its ranks, and the end by a signal."""

import os
import random
import signal
import socket
from dataclasses import dataclass

import keras
import numpy as np

from tfbaselines.parallel import mpi
from tfbaselines.settings.bases import PolicyConfig

# Steps of a run that something else ends.
UNLIMITED = 10**15


class Interrupted(Exception):
    """The run was stopped by a signal, after its checkpoint was saved if it could be.

    Attributes:
        signal: the signal's number.
        checkpoint: where the checkpoint is, or None when there is none of this update.

    Args:
        number: the signal's.
        checkpoint: see above.
        directory: the log directory, or None when the run has none.
        before: the update of the checkpoint before.
    """

    def __init__(self, number: int, checkpoint: str | None, directory: str | None = None, before: int = 0) -> None:
        if checkpoint:
            saved = f"checkpoint saved in {checkpoint}"
        elif directory is None:
            saved = "no log directory, so nothing was saved"
        else:
            # A resumed run may have begun with a checkpoint of another directory.
            path = os.path.join(directory, "checkpoints", f"{before:05d}")
            last = f"the last one is {path}" if os.path.exists(path) else "nor is there an earlier one"
            saved = f"no checkpoint was saved, {last}"
        super().__init__(f"stopped by {signal.Signals(number).name}: {saved}")
        self.signal, self.checkpoint = number, checkpoint


@dataclass(frozen=True, kw_only=True)
class Plan:
    """When a run does what; steps are those of this rank.

    Attributes:
        total_timesteps: environment steps of the run; whole updates only, the rest is dropped.
        steps_per_update: environment steps in an update.
        log_interval: updates between rows of the logs.
        log_first: log the first update too; otherwise the last one, whatever its number.
        log_episodes: episodes between rows of the logs, in place of the above; a run of fewer has one row, at its end.
        save_interval: updates between checkpoints; 0 saves only the last, and on a signal.
        replay_interval: updates between checkpoints beside which the replay is saved; 0 saves it with each. The last
            one has it in any case.
    """

    total_timesteps: int
    steps_per_update: int
    log_interval: int = 1
    log_first: bool = True
    log_episodes: int | None = None
    save_interval: int = 0
    replay_interval: int = 0

    def __post_init__(self) -> None:
        if 0 < self.total_timesteps < self.steps_per_update:
            raise ValueError(
                f"nothing to train: {self.total_timesteps} steps are less than one update of {self.steps_per_update}; "
                "raise them, or lower the steps of an update (num_env, and the argument for the steps between updates)"
            )

    @classmethod
    def of(cls, config: PolicyConfig, num_envs: int) -> "Plan":
        """Of an algorithm whose updates begin with a rollout of num_envs environments."""
        return cls(
            total_timesteps=int(config.total_timesteps),
            steps_per_update=num_envs * config.nsteps,
            log_interval=config.log_interval,
            save_interval=config.save_interval,
        )


def seed_everything(seed: int | None, comm: mpi.Communicator) -> np.random.Generator:
    """Seed Python, numpy and Keras, and make the run's generator; ranks get seeds 10,000 apart.

    Args:
        seed: None for a seed from the operating system.
        comm: this rank's communicator.
    """
    if seed is None:
        seed = int(np.random.SeedSequence().generate_state(1)[0])
    seed = (int(seed) + 10_000 * comm.rank) % 2**32
    random.seed(seed)
    np.random.seed(seed)
    keras.utils.set_random_seed(seed)
    return np.random.default_rng(seed)


def ranks_text(comm: mpi.Communicator, num_envs: int) -> str:
    """What a run of several ranks is made of, in one line.

    Args:
        comm: the ranks.
        num_envs: environments of this one.
    """
    own = socket.gethostname(), num_envs, mpi.threads_for_rank(comm)
    hosts, envs, threads = zip(*comm.gather(own), strict=True)
    return (
        f"ranks: {comm.size}, hosts: {len(set(hosts))}, environments in all: {sum(envs)}, "
        f"threads a rank: {min(threads)}"
    )
