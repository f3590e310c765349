"""A replay: the latest transitions, gathered by their row numbers.

A transition's row number is step * num_envs + environment; steps are counted from the first one stored (after `load`,
from the oldest one loaded). Numbers are never reused, so the number of an overwritten row is recognized as too old.
"""

import copy
from typing import Any

import numpy as np

from tfbaselines.envs.vec.observations import parts_of_obs
from tfbaselines.errors import UsageError
from tfbaselines.replay.storage import Storage

Batch = dict[str, Any]

# Draws of rows that are not valid after which all valid rows are looked up.
MOST_DRAWS = 20


class Replay(Storage):
    """The latest transitions of several environments, drawn uniformly; see Storage for the arguments."""

    def sample(self, rng: np.random.Generator, batches: int, batch_size: int) -> Batch:
        """Draw transitions [batches, batch_size, ...], each as likely as any other; see `gather`."""
        return reshaped(self.gather(self._draw(rng, batches * batch_size)), (batches, batch_size))

    def sample_sequences(self, rng: np.random.Generator, batches: int, batch_size: int, length: int) -> Batch:
        """Draw sequences of `length` successive steps of one environment, each followed by one more row.

        Returns:
            The arrays of `gather_sequences`: rows [batches, batch_size * (length + 1), ...], sequence after sequence,
            next_rows [batches, batch_size, length + 1] and states [batches, batch_size, S].
        """
        stored = min(self.reach, len(self) // self.num_envs)
        if stored < length:
            raise UsageError(f"sequences of {length} steps cannot be drawn from {stored} steps")
        batch = self.gather_sequences(self._draw(rng, batches * batch_size, length), length)
        per_sequence = {name: batch.pop(name) for name in ("next_rows", "states") if name in batch}
        rows = reshaped(batch, (batches, batch_size * (length + 1)))
        return rows | reshaped(per_sequence, (batches, batch_size))

    def update_priorities(self, rows: np.ndarray, td_errors: np.ndarray) -> None:
        """Take the errors of sampled rows; uniform sampling has no priorities."""

    def latest(self, steps: int) -> tuple[Any, np.ndarray]:
        """Return observations and actions [steps * N, ...] of the latest steps, of valid rows alone."""
        steps = min(steps, self.reach)
        age, n = np.repeat(np.arange(steps, 0, -1), self.num_envs), np.tile(np.arange(self.num_envs), steps)
        t = (self._head - age) % self._slots
        if "valid" in self._arrays:
            counts = self._arrays["valid"][t, n]
            age, n, t = age[counts], n[counts], t[counts]
        return self._observations(t, n, age), self._arrays["actions"][t, n]

    def gather_latest(self, steps: int) -> Batch:
        """Gather the transitions [steps * N, ...] of the latest steps."""
        count = min(steps, self.reach) * self.num_envs
        return self.gather(np.arange(self.steps * self.num_envs - count, self.steps * self.num_envs))

    def gather(self, rows: np.ndarray) -> Batch:
        """Gather transitions by their row numbers [B].

        Returns:
            Arrays [B, ...]: obs, actions, rewards (discounted sums of up to n_step), next_obs, discount (factor of the
            value of next_obs, 0 after a termination) and rows. With keep_ends also `following`: at an episode's end the
            first observation of the next one, else next_obs.
        """
        t, n, age = self._locate(rows)
        rewards, discount, last = self._returns(t, n, age)
        following = self._observations((last + 1) % self._slots, n, (self._head - last) % self._slots - 1)
        kept = {"following": copy.deepcopy(following)} if "terminated" in self._kept_ends else {}
        return {
            "obs": self._observations(t, n, age),
            "actions": self._arrays["actions"][t, n],
            "rewards": rewards,
            "next_obs": self._next_observations(last, n, following),
            "discount": discount,
            "rows": rows,
            **kept,
        }

    def gather_sequences(self, rows: np.ndarray, length: int) -> Batch:
        """Gather sequences of `length` steps of one environment, each with the row after its last step.

        Args:
            rows: row numbers [B] of the first steps.
            length: number L of steps in a sequence.

        Returns:
            Arrays [B * (L + 1), ...], sequence after sequence: obs, episode_start, actions, rewards and discount as in
            `gather`, and valid, 0 for rows without a complete return: the last of each sequence, and rows before a time
            limit that cut their return. Also next_rows [B, L + 1], the row of the sequence from which a row's return
            bootstraps, and states [B, S] before the first row.
        """
        start, n, age = self._locate(rows)
        count, place = len(rows), np.arange(length + 1)
        t = ((start[:, None] + place) % self._slots).ravel()
        envs = np.repeat(n, length + 1)
        # The last row has no step; computing a return for it keeps the arrays regular, and valid 0 excludes it.
        rewards, discount, last = self._returns(t, envs, np.tile(np.maximum(length - place, 1), count))
        steps_on = ((last - t) % self._slots).reshape(count, length + 1) + 1
        batch = {
            "obs": self._observations(t, envs, (age[:, None] - place).ravel()),
            "episode_start": self._arrays["episode_start"][t, envs].astype(np.float32),
            "actions": self._arrays["actions"][t, envs],
            "rewards": rewards,
            "discount": discount,
            "valid": (~self._arrays["truncated"][last, envs]).astype(np.float32),
            "next_rows": np.minimum(place + steps_on, length).astype(np.int32),
        }
        batch["valid"][length :: length + 1] = 0.0
        if "valid" in self._arrays:
            batch["valid"] *= self._arrays["valid"][t, envs]
        if "states" in self._arrays:
            batch["states"] = self._arrays["states"][start, n]
        return batch

    def _draw(self, rng: np.random.Generator, count: int, length: int = 1) -> np.ndarray:
        """Draw valid row numbers [count], each followed by at least `length - 1` more steps of its environment."""
        age = rng.integers(length, self.reach + 1, size=count)
        rows = (self.steps - age) * self.num_envs + rng.integers(self.num_envs, size=count)
        if "valid" not in self._arrays:
            return rows
        for _ in range(MOST_DRAWS):
            wrong = np.flatnonzero(~self._counts(rows))
            if not len(wrong):
                return rows
            age = rng.integers(length, self.reach + 1, size=len(wrong))
            rows[wrong] = (self.steps - age) * self.num_envs + rng.integers(self.num_envs, size=len(wrong))
        # Hardly any row is valid.
        every = np.arange((self.steps - self.reach) * self.num_envs, (self.steps - length + 1) * self.num_envs)
        every = every[self._counts(every)]
        if not len(every):
            raise UsageError(f"no valid step among the latest {self.reach} can be learned from: raise replay_size")
        return rng.choice(every, size=count)

    @property
    def any_valid(self) -> bool:
        """True if there are valid rows."""
        return "valid" not in self._arrays or bool(self._arrays["valid"].any())

    def _counts(self, rows: np.ndarray) -> np.ndarray:
        t, n, _ = self._locate(rows)
        return self._arrays["valid"][t, n]

    def _locate(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the slots, environments and ages in steps of row numbers."""
        step, n = np.divmod(rows, self.num_envs)
        return step % self._slots, n, self.steps - step

    def _returns(self, t: np.ndarray, n: np.ndarray, age: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return n-step rewards from slots t, the discount of the value after them, and the last slot."""
        rewards, terminated, truncated = (self._arrays[name] for name in ("rewards", "terminated", "truncated"))
        total, last = rewards[t, n].copy(), t.copy()
        discount = np.where(terminated[t, n], 0.0, self._gamma).astype(np.float32)
        continues = ~(terminated[t, n] | truncated[t, n])
        for k in range(1, self._n_step):
            continues &= age > k
            at = (t + k) % self._slots
            total += np.where(continues, discount * rewards[at, n], 0.0)
            longer = np.where(terminated[at, n], 0.0, discount * self._gamma)
            discount = np.where(continues, longer, discount).astype(np.float32)
            last = np.where(continues, at, last)
            continues &= ~(terminated[at, n] | truncated[at, n])
        return total, discount, last

    def _next_observations(self, t: np.ndarray, n: np.ndarray, following: Any) -> Any:
        """Return the observations after the steps in slots t: `following`, overwritten by observations kept aside."""
        for k in np.flatnonzero(self._aside(self._arrays, (t, n))):
            for name, part in self._last[int(t[k]), int(n[k])].items():
                parts_of_obs(following)[name][k] = part
        return following


def reshaped(batch: Any, lead: tuple[int, ...]) -> Any:
    """Split the first axis of every array into the axes `lead`."""
    if isinstance(batch, dict):
        return {name: reshaped(part, lead) for name, part in batch.items()}
    return batch.reshape(*lead, *batch.shape[1:])
