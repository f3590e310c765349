"""A replay: the latest transitions in preallocated arrays, stored in O(1), gathered by their row numbers.

Every observation is kept once. The observation after a step is the next row of the same environment; if a time limit
cut the episode, it is kept aside (after a termination only learned rewards need it). Stacked frames are kept as single
frames and stacked again, back to where the episode began.

A transition's row number is step * num_envs + environment; steps are counted from the first one stored (after loading,
from the oldest one loaded). Numbers are never reused, so the number of an overwritten row is recognized as too old.
"""

import copy
import os
from typing import Any

import numpy as np
from gymnasium import spaces

from tfbaselines.envs.vec import VecEnv, shared_frames
from tfbaselines.envs.vec.base import last_observation
from tfbaselines.envs.vec.observations import ONLY, parts_of, parts_of_obs
from tfbaselines.errors import UsageError
from tfbaselines.files import GIB, require_memory
from tfbaselines.policy.encoding import observation_dtype
from tfbaselines.replay.saved import LastObservations, read_replay, write_replay

Batch = dict[str, Any]

# Shape per transition and type of each array, by name.
Layout = dict[str, tuple[tuple[int, ...], Any]]


class Replay:
    """The latest transitions of several environments, drawn uniformly.

    Attributes:
        num_envs: number of environments N.
        steps: steps of each environment stored so far, overwritten ones included.
        nbytes: memory of the arrays.

    Args:
        env: the environments.
        size: transitions to keep, over all environments.
        gamma: discount per step, for returns of several steps.
        n_step: number of rewards in a return before it bootstraps.
        state_size: width of a recurrent policy's state, kept before each step; 0 for none.
        extra: layout of a subclass's arrays.
        keep_ends: keep the last observation also after a termination, and gather the observation after an end.
    """

    def __init__(
        self,
        env: VecEnv,
        size: int,
        gamma: float = 0.99,
        n_step: int = 1,
        state_size: int = 0,
        extra: Layout | None = None,
        keep_ends: bool = False,
    ) -> None:
        self.num_envs = env.num_envs
        self._gamma = gamma
        self._n_step = n_step
        # The ends of an episode after which its last observation is kept aside.
        self._kept_ends = ("truncated", "terminated") if keep_ends else ("truncated",)
        # The slot after the latest step has no transition yet, only the next observation.
        self._slots = max(2, -(-int(size) // env.num_envs)) + 1
        self._parts = parts_of(env.observation_space)
        self._dict = isinstance(env.observation_space, spaces.Dict)
        self._nstack = shared_frames(env)
        layout = self._layout(env.action_space, state_size) | (extra or {})
        lead = (self._slots, env.num_envs)
        self.nbytes = sum(int(np.prod((*lead, *tail))) * np.dtype(dtype).itemsize for tail, dtype in layout.values())
        require_memory(self.nbytes, "replay_size")
        self._arrays = {name: np.zeros((*lead, *tail), dtype) for name, (tail, dtype) in layout.items()}
        self._arrays["episode_start"][0] = True
        # By slot and environment.
        self._last: LastObservations = {}
        self.steps = self._filled = 0
        # The next step's observation is not stored yet: it does not follow from an earlier step.
        self._begins = True

    def _layout(self, action: spaces.Space, state_size: int) -> Layout:
        obs = {
            f"obs/{name}": (self._kept_shape(name, space), observation_dtype(space))
            for name, space in self._parts.items()
        }
        flags = dict.fromkeys(("episode_start", "terminated", "truncated"), ((), bool))
        action_dtype = np.float32 if isinstance(action, spaces.Box) else action.dtype
        states = {"states": ((state_size,), np.float32)} if state_size else {}
        return {**obs, "actions": (action.shape, action_dtype), "rewards": ((), np.float32), **flags, **states}

    def __len__(self) -> int:
        return self._filled * self.num_envs

    @property
    def obs_nbytes(self) -> int:
        """Bytes of one sampled observation with all its stacked frames."""
        return sum(self._arrays[f"obs/{name}"][0, 0].nbytes * self._frames(name) for name in self._parts)

    @property
    def size(self) -> int:
        """Transitions that fit into it."""
        return (self._slots - 1) * self.num_envs

    @property
    def reach(self) -> int:
        """Number of the latest steps that can be gathered, all their stacked frames included."""
        full = self._filled == self._slots - 1
        return max(1, self._filled - (self._nstack - 1 if full else 0))

    @property
    def _head(self) -> int:
        """Slot of the next step."""
        return self.steps % self._slots

    def describe(self) -> str:
        """Return memory and size as one line for the log."""
        return f"replay: {self.nbytes / GIB:.2f} GiB for {self.size} transitions"

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
        """Store one step of every environment.

        Args:
            obs: observations [N, ...] before the step.
            actions: actions [N, ...].
            rewards: rewards [N].
            next_obs: observations [N, ...] to act on next: after an episode's end the first of the next episode.
            dones: whether the episode ended, [N].
            infos: infos of the step, with 'TimeLimit.truncated' and 'final_observation' at an episode's end.
            states: recurrent states [N, S] before the step.
        """
        t, after = self._head, (self.steps + 1) % self._slots
        arrays = self._arrays
        if self._begins:
            self._write_obs(t, obs)
            self._begins = False
        for i in range(self.num_envs):
            self._last.pop((t, i), None)
        arrays["actions"][t], arrays["rewards"][t] = actions, rewards
        arrays["terminated"][t], arrays["truncated"][t] = dones, False
        if "states" in arrays:
            arrays["states"][t] = states
        for i in np.flatnonzero(dones):
            if infos[i].get("TimeLimit.truncated"):
                arrays["truncated"][t, i], arrays["terminated"][t, i] = True, False
            if self._aside(arrays, (t, i)):
                final = last_observation(infos[i])
                self._last[t, int(i)] = {name: np.array(part) for name, part in parts_of_obs(final).items()}
        self._write_obs(after, next_obs)
        arrays["episode_start"][after] = dones
        self.steps += 1
        self._filled = min(self._filled + 1, self._slots - 1)

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
        """Return observations and actions [steps * N, ...] of the latest steps."""
        steps = min(steps, self.reach)
        age, n = np.repeat(np.arange(steps, 0, -1), self.num_envs), np.tile(np.arange(self.num_envs), steps)
        t = (self._head - age) % self._slots
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
        if "states" in self._arrays:
            batch["states"] = self._arrays["states"][start, n]
        return batch

    def save(self, directory: str | os.PathLike) -> None:
        """Write everything to a directory of .npy files, whole or not at all."""
        rows = (self._head - self._filled + np.arange(self._filled + 1)) % self._slots
        last = {(int((t - rows[0]) % self._slots), i): obs for (t, i), obs in self._last.items()}
        write_replay(directory, self._arrays, rows, last, self._about())

    def load(self, directory: str | os.PathLike, episodes_continue: bool = False) -> None:
        """Read what `save` wrote: the latest steps, as many as fit; UsageError if it is damaged or does not fit.

        Args:
            directory: saved replay.
            episodes_continue: the environments continue the episodes they were in; otherwise these are truncated.
        """
        saved = read_replay(directory, self._arrays, self._parts, self._aside)
        total = saved.about["steps"]
        steps = min(total, self._slots - 1)
        skipped = total - steps
        for name, array in self._arrays.items():
            array[: steps + 1] = saved.arrays[name][skipped : skipped + steps + 1]
        self._last = {(t - skipped, i): obs for (t, i), obs in saved.last.items() if t >= skipped}
        self.steps = self._filled = steps
        self._restore_about(saved.about)
        self._begins = False
        if not episodes_continue:
            self._truncate_open_episodes()

    def _about(self) -> dict[str, Any]:
        """Return what is saved in addition to the arrays."""
        return {"steps": self._filled}

    def _restore_about(self, about: dict[str, Any]) -> None:
        """Restore a subclass's part of `_about`; the arrays are already loaded."""

    def _truncate_open_episodes(self) -> None:
        """End the episodes that were open when the replay was saved: the environments begin new ones."""
        t, here, arrays = self._head - 1, np.array([self._head]), self._arrays
        for i in range(self.num_envs):
            if not (arrays["terminated"][t, i] or arrays["truncated"][t, i]):
                arrays["truncated"][t, i] = True
                obs = parts_of_obs(self._observations(here, np.array([i]), np.zeros(1, int)))
                self._last[t, i] = {name: part[0] for name, part in obs.items()}
        arrays["episode_start"][self._head] = True
        self._begins = True

    def _draw(self, rng: np.random.Generator, count: int, length: int = 1) -> np.ndarray:
        """Draw row numbers [count], each followed by at least `length - 1` more steps of its environment."""
        age = rng.integers(length, self.reach + 1, size=count)
        return (self.steps - age) * self.num_envs + rng.integers(self.num_envs, size=count)

    def _locate(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the slots, environments and ages in steps of row numbers."""
        step, n = np.divmod(rows, self.num_envs)
        return step % self._slots, n, self.steps - step

    def _frames(self, name: str) -> int:
        """Return the number of frames in a part of an observation; parts of a user's Dict are not stacked."""
        return self._nstack if name == ONLY else 1

    def _kept_shape(self, name: str, space: spaces.Space) -> tuple[int, ...]:
        frames = self._frames(name)
        return space.shape if frames == 1 else (*space.shape[:-1], space.shape[-1] // frames)

    def _write_obs(self, t: int, obs: Any) -> None:
        for name, part in parts_of_obs(obs).items():
            kept = self._arrays[f"obs/{name}"]
            kept[t] = part[..., -kept.shape[-1] :] if self._frames(name) > 1 else part

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

    def _aside(self, arrays: Any, at: Any = ...) -> np.ndarray:
        """Return whether the last observation of a step is kept aside, for the steps at some indices of the arrays."""
        return np.logical_or.reduce([arrays[name][at] for name in self._kept_ends])

    def _next_observations(self, t: np.ndarray, n: np.ndarray, following: Any) -> Any:
        """Return the observations after the steps in slots t: `following`, overwritten by observations kept aside."""
        for k in np.flatnonzero(self._aside(self._arrays, (t, n))):
            for name, part in self._last[int(t[k]), int(n[k])].items():
                parts_of_obs(following)[name][k] = part
        return following

    def _observations(self, t: np.ndarray, n: np.ndarray, age: np.ndarray) -> Any:
        obs = {name: self._stacked(name, t, n, age) for name in self._parts}
        return obs if self._dict else obs[ONLY]

    def _stacked(self, name: str, t: np.ndarray, n: np.ndarray, age: np.ndarray) -> np.ndarray:
        kept = self._arrays[f"obs/{name}"]
        if self._frames(name) == 1:
            return kept[t, n]
        width = kept.shape[-1]
        obs = np.zeros((len(t), *kept.shape[2:-1], width * self._nstack), kept.dtype)
        obs[..., -width:] = kept[t, n]
        stored = np.ones(len(t), bool)
        for k in range(1, self._nstack):
            stored &= ~self._arrays["episode_start"][(t - k + 1) % self._slots, n] & (age + k <= self._filled)
            end = width * (self._nstack - k)
            obs[stored, ..., end - width : end] = kept[(t[stored] - k) % self._slots, n[stored]]
        return obs


def reshaped(batch: Any, lead: tuple[int, ...]) -> Any:
    """Split the first axis of every array into the axes `lead`."""
    if isinstance(batch, dict):
        return {name: reshaped(part, lead) for name, part in batch.items()}
    return batch.reshape(*lead, *batch.shape[1:])
