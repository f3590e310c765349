"""Running statistics of observations, merged over ranks and read by compiled functions."""

from typing import Any

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.envs.vec.observations import MASK as ACTION_MASK
from tfbaselines.envs.vec.observations import ONLY, is_image
from tfbaselines.errors import bad_argument
from tfbaselines.parallel import mpi
from tfbaselines.parallel.moments import MpiRunningMeanStd
from tfbaselines.policy.encoding import encoded_shape

# TD3+BC adds it to the standard deviation of a data set.
ADDED_STD = 1e-3


class Normalizer:
    """Running mean and standard deviation of observations, copied to variables that compiled functions read.

    Args:
        shape: of one encoded observation.
        comm: communicator over which batches are merged.
        start: initial statistics; see MpiRunningMeanStd.
    """

    def __init__(self, shape: tuple[int, ...], comm: mpi.Communicator | None, **start: float) -> None:
        self._statistics = MpiRunningMeanStd(shape=shape, comm=mpi.wrap(comm), **start)
        self._mean = tf.Variable(self._statistics.mean, dtype=tf.float32, trainable=False)
        self._std = tf.Variable(self._statistics.std, dtype=tf.float32, trainable=False)

    @property
    def variables(self) -> list[tf.Variable]:
        """Mean and standard deviation."""
        return [self._mean, self._std]

    @property
    def mean(self) -> np.ndarray:
        """Mean of all observations so far, in their shape."""
        return self._statistics.mean

    @property
    def std(self) -> np.ndarray:
        """Standard deviation of all observations so far, in their shape."""
        return self._statistics.std

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of one observation, under its name in `parts_of`."""
        return {ONLY: self.mean.shape}

    def apply(self, x: tf.Tensor) -> tf.Tensor:
        """Normalize a batch [B, ...]."""
        return (tf.cast(x, tf.float32) - self._mean) / self._std

    def update(self, observations: np.ndarray) -> None:
        """Merge this rank's batch [B, ...] and the other ranks' into the statistics."""
        self._statistics.update(observations)
        self._refresh()

    def add(self, total: dict[str, np.ndarray], squares: dict[str, np.ndarray], count: float) -> None:
        """Add sums by name that are equal on every rank; see MpiRunningMeanStd.add."""
        self._statistics.add(total[ONLY], squares[ONLY], count)
        self._refresh()

    def fit(self, observations: np.ndarray) -> None:
        """Use the statistics of a data set [B, ...] that is equal on every rank; see MpiRunningMeanStd.fit."""
        self._statistics.fit(observations, ADDED_STD)
        self._refresh()

    def state(self) -> dict[str, Any]:
        """Save the statistics."""
        return self._statistics.state()

    def restore(self, state: dict[str, Any]) -> None:
        """Load a state that `state` returned."""
        self._statistics.restore(state)
        self._refresh()

    def _refresh(self) -> None:
        self._mean.assign(self._statistics.mean)
        self._std.assign(self._statistics.std)


class DictNormalizer:
    """A Normalizer for each numeric part of Dict observations.

    Args:
        space: of observations.
        comm: communicator over which batches are merged.
        start: initial statistics; see MpiRunningMeanStd.
    """

    def __init__(self, space: spaces.Dict, comm: mpi.Communicator | None, **start: float) -> None:
        self._parts = {
            name: Normalizer(encoded_shape(part), comm, **start) for name, part in numeric_parts(space).items()
        }

    def __getitem__(self, name: str) -> Normalizer:
        return self._parts[name]

    def __contains__(self, name: str) -> bool:
        return name in self._parts

    @property
    def variables(self) -> list[tf.Variable]:
        """Means and standard deviations of all parts."""
        return [variable for part in self._parts.values() for variable in part.variables]

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of each part of an observation that has statistics."""
        return {name: part.mean.shape for name, part in self._parts.items()}

    def apply(self, obs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Normalize the numeric parts of a batch; the others stay unchanged."""
        return obs | {name: part.apply(obs[name]) for name, part in self._parts.items()}

    def add(self, total: dict[str, np.ndarray], squares: dict[str, np.ndarray], count: float) -> None:
        """Add sums by part that are equal on every rank."""
        for name, part in self._parts.items():
            part.add({ONLY: total[name]}, {ONLY: squares[name]}, count)

    def update(self, observations: dict[str, np.ndarray]) -> None:
        """Merge a batch into the statistics of every part."""
        for name, part in self._parts.items():
            part.update(observations[name])

    def state(self) -> dict[str, Any]:
        """Save the statistics by part."""
        return {name: part.state() for name, part in self._parts.items()}

    def restore(self, state: dict[str, Any]) -> None:
        """Load a state that `state` returned."""
        for name, part in self._parts.items():
            part.restore(state[name])


def make_normalizer(space: spaces.Space, comm: mpi.Communicator | None) -> Normalizer | DictNormalizer:
    """Make the normalizer of an observation space; raise an error if it has no numbers to normalize."""
    if isinstance(space, spaces.Dict):
        return DictNormalizer(space, comm)
    if not isinstance(space, spaces.Box):
        raise bad_argument("normalize_observations", True, f"needs Box observations, not {space}")
    return Normalizer(encoded_shape(space), comm)


def numeric_parts(space: spaces.Dict) -> dict[str, spaces.Box]:
    """Select the Box parts of a Dict that are neither images nor action masks."""
    numeric = {name: part for name, part in space.items() if isinstance(part, spaces.Box) and not is_image(part)}
    return {name: part for name, part in numeric.items() if name != ACTION_MASK}
