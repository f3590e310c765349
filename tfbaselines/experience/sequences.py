"""Demonstrations as the batches that policies are trained on: rows, or sequences for policies with a memory."""

from typing import Any

import numpy as np

from tfbaselines.experience.demonstrations import Demonstrations


def as_rows(demonstrations: Demonstrations, every: int = 1) -> dict[str, np.ndarray]:
    """obs [B, ...], actions [B, ...] and valid [B], ones.

    Args:
        demonstrations: the episodes.
        every: see Demonstrations.rows.
    """
    rows = demonstrations.rows(every)
    valid = np.ones(len(rows), np.float32)
    return {"obs": demonstrations.obs[rows], "actions": demonstrations.actions[rows], "valid": valid}


class Sequences:
    """Episodes cut into sequences of equal length, the last of each episode filled up with steps that do not count.

    Attributes:
        data: obs, actions, episode_start and valid [S, L, ...], and states [S, M], the memory before each sequence.

    Args:
        demonstrations: the episodes.
        length: L.
        state_size: M.
        every: every how many steps of an episode one counts.
    """

    def __init__(self, demonstrations: Demonstrations, length: int, state_size: int, every: int = 1) -> None:
        pieces = [-(-int(steps) // length) for steps in demonstrations.lengths]
        numbers = iter(range(sum(pieces)))
        # [E, K] number of each episode's k-th sequence, -1 behind its last one.
        self._numbers = np.full((len(pieces), max(pieces)), -1)
        rows, self.data = np.full((sum(pieces), length), -1), {}
        begins = demonstrations.ends - demonstrations.lengths
        for episode, (begin, end, count) in enumerate(zip(begins, demonstrations.ends, pieces, strict=True)):
            for k in range(count):
                number = self._numbers[episode, k] = next(numbers)
                own = np.arange(begin + k * length, min(begin + (k + 1) * length, end))
                rows[number, : len(own)] = own
        counts = np.zeros(len(demonstrations), np.float32)
        counts[demonstrations.rows(every)] = 1.0
        valid = (rows >= 0).astype(np.float32)
        self.data = {
            "obs": demonstrations.obs[rows],
            "actions": demonstrations.actions[rows],
            "episode_start": demonstrations.episode_start[rows].astype(np.float32) * valid,
            "valid": counts[rows] * valid,
            "states": np.zeros((len(rows), state_size), np.float32),
        }

    def refresh(self, memory: Any) -> None:
        """Compute the memory before each sequence with the policy as it is now.

        Args:
            memory: function of obs, episode_start [E, L, ...] and states [E, M] that gives the states after them.
        """
        for k in range(1, self._numbers.shape[1]):
            before = self._numbers[:, k - 1]
            after = memory(*(self.data[name][before] for name in ("obs", "episode_start", "states")))
            here = self._numbers[:, k] >= 0
            self.data["states"][self._numbers[here, k]] = after[here]
