"""The storage of replays: transitions in preallocated arrays, stored in O(1), gathered by their row numbers.

Every observation is kept once: the observation after a step is the next row of the same environment, or, where a time
limit cut the episode, one kept aside (after a termination only learnt rewards need it). Stacked frames are kept as
single frames and stacked again, up to where the episode began.

A transition's row number is step * num_envs + environment; steps are counted from the first one stored (after loading,
from the oldest one loaded). Numbers are never reused, so the number of an overwritten row is recognised as too old.
"""

import copy
import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from tfbaselines.arrays import GIB, map_array, read_document, require_memory
from tfbaselines.envs.vec import VecEnv, VecFrameStack, find_wrapper
from tfbaselines.envs.vec.base import last_observation
from tfbaselines.envs.vec.observations import ONLY, parts_of, parts_of_obs
from tfbaselines.errors import UsageError
from tfbaselines.files import put_back, replace_directory
from tfbaselines.policy.encoding import observation_dtype
from tfbaselines.replay.protocol import LARGEST_ABOUT, Batch, check_arrays, check_last, steps_of

FORMAT = "tfbaselines-replay-1"

# The format's file names of arrays that have been renamed since.
FILE_NAMES = {"terminated": "ended", "truncated": "cut", "episode_start": "first"}

# Name of an array to its shape per transition and its type.
Layout = dict[str, tuple[tuple[int, ...], Any]]


class Storage:
    """The latest transitions of several environments.

    Attributes:
        num_envs: N.
        steps: of each environment stored so far, overwritten ones included.
        nbytes: memory of the arrays.

    Args:
        env: the environments.
        size: transitions to keep, over all environments.
        gamma: discount per step, for returns of several steps.
        n_step: rewards in a return before it bootstraps.
        state_size: width of a recurrent policy's state, kept before each step; 0 for none.
        extra: further arrays of a subclass.
        keep_ends: keep the last observation of episodes that are terminated too, and gather what follows an end.
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
        self.num_envs, self._gamma, self._n_step = env.num_envs, gamma, n_step
        # Ends of episodes whose last observation is kept aside.
        self._kept_ends = ("truncated", "terminated") if keep_ends else ("truncated",)
        # The slot after the latest step has no transition yet, only the next observation.
        self._slots = max(2, -(-int(size) // env.num_envs)) + 1
        self._parts = parts_of(env.observation_space)
        self._dict = isinstance(env.observation_space, spaces.Dict)
        stacked = find_wrapper(env, VecFrameStack)
        self._nstack = stacked.nstack if stacked else 1
        layout = self._layout(env.action_space, state_size) | (extra or {})
        lead = (self._slots, env.num_envs)
        self.nbytes = sum(int(np.prod((*lead, *tail))) * np.dtype(dtype).itemsize for tail, dtype in layout.values())
        require_memory(self.nbytes, "replay_size")
        self._arrays = {name: np.zeros((*lead, *tail), dtype) for name, (tail, dtype) in layout.items()}
        self._arrays["episode_start"][0] = True
        # These observations, by slot and environment.
        self._last: dict[tuple[int, int], dict[str, np.ndarray]] = {}
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
        """Bytes of one observation as it is sampled, stacked frames put together."""
        return sum(self._arrays[f"obs/{name}"][0, 0].nbytes * self._frames(name) for name in self._parts)

    @property
    def size(self) -> int:
        """Transitions that fit into it."""
        return (self._slots - 1) * self.num_envs

    @property
    def reach(self) -> int:
        """How many of the latest steps can be gathered: those whose stacked frames are all still stored."""
        full = self._filled == self._slots - 1
        return max(1, self._filled - (self._nstack - 1 if full else 0))

    @property
    def _head(self) -> int:
        """The slot that the next step is written to."""
        return self.steps % self._slots

    def describe(self) -> str:
        """One line for the log: memory and size."""
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
            obs: [N, ...] before the step.
            actions: [N, ...].
            rewards: [N].
            next_obs: [N, ...] to act on next: after an episode's end the first of the next episode.
            dones: [N] whether the episode ended.
            infos: of the step; 'TimeLimit.truncated' and 'final_observation' where it ended.
            states: [N, S] before the step.
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

    def latest(self, steps: int) -> tuple[Any, np.ndarray]:
        """Observations and actions [steps * N, ...] of the latest steps."""
        steps = min(steps, self.reach)
        age, n = np.repeat(np.arange(steps, 0, -1), self.num_envs), np.tile(np.arange(self.num_envs), steps)
        t = (self._head - age) % self._slots
        return self._observations(t, n, age), self._arrays["actions"][t, n]

    def gather_latest(self, steps: int) -> Batch:
        """Transitions [steps * N, ...] of the latest steps; see `gather`."""
        count = min(steps, self.reach) * self.num_envs
        return self.gather(np.arange(self.steps * self.num_envs - count, self.steps * self.num_envs))

    def gather(self, rows: np.ndarray) -> Batch:
        """Transitions by their row numbers [B].

        Returns:
            Arrays [B, ...]: obs, actions, rewards (discounted sums of up to n_step), next_obs, discount (factor of the
            value of next_obs, 0 after a termination) and rows. With keep_ends also following: at an episode's end the
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
        """Sequences of `length` steps of one environment, each with the row after its last step.

        Args:
            rows: [B] row numbers of the first steps.
            length: steps of a sequence, L.

        Returns:
            Arrays [B * (L + 1), ...], sequence after sequence: obs, episode_start, actions, rewards and discount as in
            `gather`, and valid, 0 for rows without a complete return: the last of each sequence, and those whose return
            a time limit cut. Also next_rows [B, L + 1], the row of its sequence that a row's return bootstraps from,
            and states [B, S] before the first row.
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
        target = Path(directory)
        scratch = target.with_name(target.name + ".writing")
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)
        used = self._filled + 1
        rows = (self._head - self._filled + np.arange(used)) % self._slots
        for name, array in self._arrays.items():
            np.save(scratch / _file(name), array[rows])
        keys = [(int((t - rows[0]) % self._slots), i) for t, i in self._last]
        np.save(scratch / "last.npy", np.array(keys, np.int64).reshape(-1, 2))
        for name in self._parts:
            parts = [last[name] for last in self._last.values()]
            np.save(scratch / _file(f"last/{name}"), np.array(parts))
        (scratch / "replay.json").write_text(json.dumps(self._about()), encoding="utf-8")
        replace_directory(target, scratch)

    def load(self, directory: str | os.PathLike, episodes_continue: bool = False) -> None:
        """Read what `save` wrote: the latest steps, as many as fit; ValueError when it is damaged or of something else.

        Everything is checked before anything is taken over: the directory may come from a stranger.

        Args:
            directory: where it is.
            episodes_continue: the environments go on with the episodes they were in; otherwise these are truncated.
        """
        source = Path(directory)
        put_back(source)
        try:
            about = read_document(source / "replay.json", LARGEST_ABOUT)
            saved = {name: map_array(source / _file(name)) for name in self._arrays}
            keys = map_array(source / "last.npy")
            last = {name: map_array(source / _file(f"last/{name}")) for name in self._parts}
            total = steps_of(about)
        except (OSError, ValueError) as error:
            raise UsageError(f"'{source}' is not a saved replay: {error}") from None
        check_arrays(source, total, saved, self._arrays)
        check_last(source, self._aside(saved), keys, last, self._parts)
        steps = min(total, self._slots - 1)
        skipped = total - steps
        for name, array in self._arrays.items():
            array[: steps + 1] = saved[name][skipped : skipped + steps + 1]
        self._last = {
            (int(t) - skipped, int(i)): {name: np.array(parts[k]) for name, parts in last.items()}
            for k, (t, i) in enumerate(keys)
            if t >= skipped
        }
        self.steps = self._filled = steps
        self._restore_about(about)
        self._begins = False
        if not episodes_continue:
            self._truncate_open_episodes()

    def _about(self) -> dict[str, Any]:
        """What is saved beside the arrays."""
        return {"format": FORMAT, "steps": self._filled}

    def _restore_about(self, about: dict[str, Any]) -> None:
        """Read a subclass's own part of `_about`; the arrays are already loaded."""

    def _truncate_open_episodes(self) -> None:
        """After loading, the environments begin new episodes."""
        t, here, arrays = self._head - 1, np.array([self._head]), self._arrays
        for i in range(self.num_envs):
            if not (arrays["terminated"][t, i] or arrays["truncated"][t, i]):
                arrays["truncated"][t, i] = True
                obs = parts_of_obs(self._observations(here, np.array([i]), np.zeros(1, int)))
                self._last[t, i] = {name: part[0] for name, part in obs.items()}
        arrays["episode_start"][self._head] = True
        self._begins = True

    def _locate(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Slots, environments and ages in steps of row numbers."""
        step, n = np.divmod(rows, self.num_envs)
        return step % self._slots, n, self.steps - step

    def _frames(self, name: str) -> int:
        """Frames in a part of an observation; parts of a user's Dict are not stacked."""
        return self._nstack if name == ONLY else 1

    def _kept_shape(self, name: str, space: spaces.Space) -> tuple[int, ...]:
        frames = self._frames(name)
        return space.shape if frames == 1 else (*space.shape[:-1], space.shape[-1] // frames)

    def _write_obs(self, t: int, obs: Any) -> None:
        for name, part in parts_of_obs(obs).items():
            kept = self._arrays[f"obs/{name}"]
            kept[t] = part[..., -kept.shape[-1] :] if self._frames(name) > 1 else part

    def _returns(self, t: np.ndarray, n: np.ndarray, age: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Discounted rewards of up to n_step steps from slots t, the discount of the value after, and the last slot."""
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
        """Whether the last observation of steps is kept aside: those at some indices of a replay's arrays."""
        return np.logical_or.reduce([arrays[name][at] for name in self._kept_ends])

    def _next_observations(self, t: np.ndarray, n: np.ndarray, following: Any) -> Any:
        """Observations after the steps in slots t: the rows that follow, or those kept aside, written over them."""
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


def _file(name: str) -> str:
    return f"{FILE_NAMES.get(name, name).replace('/', '.')}.npy"


def reshaped(batch: Any, lead: tuple[int, ...]) -> Any:
    """Every array with its first axis split into the axes `lead`."""
    if isinstance(batch, dict):
        return {name: reshaped(part, lead) for name, part in batch.items()}
    return batch.reshape(*lead, *batch.shape[1:])
