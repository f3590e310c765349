"""The interface that every replay of single steps has, whichever way it chooses rows."""

import os
from typing import Any, Protocol

import numpy as np

Batch = dict[str, Any]


class ReplayProtocol(Protocol):
    """What an off-policy run needs of its replay.

    Attributes:
        num_envs: environments whose steps it holds side by side; one for a data set.
        size: transitions that fit into it.
        obs_nbytes: bytes of one sampled observation.
    """

    num_envs: int

    @property
    def size(self) -> int: ...

    @property
    def obs_nbytes(self) -> int: ...

    def __len__(self) -> int: ...

    def describe(self) -> str:
        """One line for the log: memory and size."""

    def put(
        self,
        obs: Any,
        actions: np.ndarray,
        rewards: np.ndarray,
        next_obs: Any,
        dones: np.ndarray,
        infos: list[dict[str, Any]],
        states: np.ndarray | None = None,
    ) -> None:
        """Store one step of every environment."""

    def latest(self, steps: int) -> tuple[Any, np.ndarray]:
        """Observations and actions [steps * N, ...] of the latest steps."""

    def sample(self, rng: np.random.Generator, batches: int, batch_size: int) -> Batch:
        """Arrays [batches, batch_size, ...]: obs, actions, rewards, next_obs, discount, rows; prioritised: weights."""

    def sample_sequences(self, rng: np.random.Generator, batches: int, batch_size: int, length: int) -> Batch:
        """Successive steps, for recurrent policies; rows that count have `valid` 1."""

    def update_priorities(self, rows: np.ndarray, td_errors: np.ndarray) -> None:
        """Report the errors of sampled rows; a replay without priorities ignores them."""

    def save(self, directory: str | os.PathLike) -> None:
        """Write everything to a directory."""

    def load(self, directory: str | os.PathLike, episodes_continue: bool = False) -> None:
        """Read what `save` wrote; open episodes are truncated unless the environments go on with them."""
