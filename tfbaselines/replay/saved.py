"""The interface that every replay of single steps has, whichever way it chooses rows.

Checks of a saved replay before it is taken over: it may be damaged, or from a stranger.
"""

import os
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from gymnasium import spaces

from tfbaselines.errors import UsageError

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


Arrays = dict[str, np.ndarray]

# Bytes of replay.json.
LARGEST_ABOUT = 2**20


def steps_of(about: Any) -> int:
    """The number of steps of each environment that replay.json states; ValueError when it states none."""
    steps = about.get("steps") if isinstance(about, dict) else None
    if type(steps) is not int or steps < 0:
        raise UsageError("replay.json does not have the number of steps")
    return steps


def check_arrays(source: Path, steps: int, saved: Arrays, own: Arrays) -> None:
    """ValueError unless saved arrays have a row for each step and one more, and else the shapes and types of `own`."""
    shapes = {name: array.shape[1:] for name, array in saved.items()}
    wanted = {name: array.shape[1:] for name, array in own.items()}
    if shapes != wanted:
        raise UsageError(f"the replay in '{source}' is of other environments: {shapes}, here {wanted}")
    for name, array in saved.items():
        dtype = own[name].dtype
        if not array.ndim or len(array) != steps + 1 or not np.can_cast(array.dtype, dtype, "same_kind"):
            raise UsageError(
                f"the replay in '{source}' is damaged: {name} has shape {array.shape} and type {array.dtype}, "
                f"not {(steps + 1, *wanted[name])} and {dtype}"
            )


def check_last(source: Path, ends: np.ndarray, keys: np.ndarray, last: Arrays, parts: dict[str, spaces.Space]) -> None:
    """ValueError unless there is a last observation for every end of an episode that needs one.

    Args:
        source: where they are from, for the error.
        ends: [steps + 1, N] the steps that need one; the last row has no step.
        keys: [K, 2] the steps and environments of the last observations.
        last: the observations [K, ...] by their part's name.
        parts: the parts' spaces.
    """
    damaged = UsageError(f"the replay in '{source}' is damaged: last observations do not fit the ends of its episodes")
    if keys.ndim != 2 or keys.shape[1] != 2 or not np.issubdtype(keys.dtype, np.integer):
        raise damaged
    if len(keys) and not np.all((keys >= 0) & (keys < ends.shape)):
        raise damaged
    if any(len(keys) and last[name].shape != (len(keys), *space.shape) for name, space in parts.items()):
        raise damaged
    missing = np.array(ends)
    missing[tuple(keys.T)] = False
    if missing[:-1].any():
        raise damaged
