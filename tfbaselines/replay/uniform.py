"""Rows chosen uniformly.

A replay that holds a data set from its beginning: for learning without an environment.
"""

import numpy as np

from tfbaselines.errors import UsageError
from tfbaselines.replay.protocol import Batch
from tfbaselines.replay.storage import Storage, reshaped


class Replay(Storage):
    """A replay whose rows are drawn independently, each as likely as any other. See Storage for its arguments."""

    def sample(self, rng: np.random.Generator, batches: int, batch_size: int) -> Batch:
        """Transitions [batches, batch_size, ...]; see Storage.gather."""
        return reshaped(self.gather(self._draw(rng, batches * batch_size)), (batches, batch_size))

    def sample_sequences(self, rng: np.random.Generator, batches: int, batch_size: int, length: int) -> Batch:
        """Sequences of `length` successive steps of one environment, each followed by one more row.

        Returns:
            The arrays of Storage.gather_sequences: those of rows [batches, batch_size * (length + 1), ...], sequence
            after sequence, next_rows [batches, batch_size, length + 1] and states [batches, batch_size, S].
        """
        stored = min(self.reach, len(self) // self.num_envs)
        if stored < length:
            raise UsageError(f"sequences of {length} steps cannot be drawn from {stored} steps")
        batch = self.gather_sequences(self._draw(rng, batches * batch_size, length), length)
        per_sequence = {name: batch.pop(name) for name in ("next_rows", "states") if name in batch}
        rows = reshaped(batch, (batches, batch_size * (length + 1)))
        return rows | reshaped(per_sequence, (batches, batch_size))

    def update_priorities(self, rows: np.ndarray, td_errors: np.ndarray) -> None:
        """Uniform sampling has no priorities."""

    def _draw(self, rng: np.random.Generator, count: int, length: int = 1) -> np.ndarray:
        """Row numbers [count], each followed by at least `length - 1` more steps of its environment."""
        age = rng.integers(length, self.reach + 1, size=count)
        return (self.steps - age) * self.num_envs + rng.integers(self.num_envs, size=count)
