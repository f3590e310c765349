"""Storage of a replay: the latest transitions in preallocated arrays, stored in O(1), saved and restored.

Every observation is kept once. The observation after a step is the next row of the same environment; if a time limit
cut the episode, it is kept aside (after a termination only learned rewards need it). Stacked frames are kept as single
frames and stacked again, back to where the episode began.
"""

import os
from collections.abc import Iterable
from typing import Any

import numpy as np
from gymnasium import spaces

from tfbaselines.envs.vec import VecEnv, shared_frames
from tfbaselines.envs.vec.base import last_observation
from tfbaselines.envs.vec.observations import ONLY, parts_of, parts_of_obs
from tfbaselines.errors import UsageError
from tfbaselines.files import GIB, require_memory
from tfbaselines.policy.encoding import observation_dtype
from tfbaselines.replay.saved import LastObservations, check_arrays, check_last, read_replay, write_replay

# Shape per transition and type of each array, by name.
Layout = dict[str, tuple[tuple[int, ...], Any]]


def clip_rewards(rewards: np.ndarray, bound: float | None) -> np.ndarray:
    """Clip rewards to a bound of their magnitude; None for none."""
    return rewards if bound is None else np.clip(rewards, -bound, bound)


class Storage:
    """The latest transitions of several environments.

    Attributes:
        changing: names of arrays that change after a step was stored.
        num_envs: number of environments N.
        steps: steps of each environment stored so far, overwritten ones included.
        size: transitions that fit into it.
        nbytes: memory of the arrays.
        item_nbytes: memory of one step of every environment.
        obs_nbytes: bytes of one sampled observation with all its stacked frames.

    Args:
        env: the environments.
        size: transitions to keep, over all environments.
        gamma: discount per step, for returns of several steps.
        n_step: number of rewards in a return before it bootstraps.
        state_size: width of a recurrent policy's state, kept before each step; 0 for none.
        extra: layout of a subclass's arrays.
        keep_ends: keep the last observation also after a termination, and gather the observation after an end.
        reward_clip: bound of the rewards' magnitude; None for none.
    """

    changing: tuple[str, ...] = ()

    def __init__(
        self,
        env: VecEnv,
        size: int,
        gamma: float = 0.99,
        n_step: int = 1,
        state_size: int = 0,
        extra: Layout | None = None,
        keep_ends: bool = False,
        reward_clip: float | None = None,
    ) -> None:
        self.num_envs = env.num_envs
        self._reward_clip = reward_clip
        self._gamma = gamma
        self._n_step = n_step
        # The ends of an episode after which its last observation is kept aside.
        self._kept_ends = ("truncated", "terminated") if keep_ends else ("truncated",)
        # The slot after the latest step has no transition yet, only the next observation.
        self._slots = max(2, -(-int(size) // env.num_envs)) + 1
        self.size = (self._slots - 1) * env.num_envs
        self._parts = parts_of(env.observation_space)
        self._dict = isinstance(env.observation_space, spaces.Dict)
        self._nstack = shared_frames(env)
        layout = self._layout(env.action_space, state_size) | (extra or {})
        if getattr(env, "valid", None) is not None:
            layout |= {"valid": ((), bool)}
        lead = (self._slots, env.num_envs)
        self.nbytes = sum(int(np.prod((*lead, *tail))) * np.dtype(dtype).itemsize for tail, dtype in layout.values())
        require_memory(self.nbytes, "replay_size")
        self._arrays = {name: np.zeros((*lead, *tail), dtype) for name, (tail, dtype) in layout.items()}
        self.item_nbytes = self.nbytes // self._slots
        self.obs_nbytes = sum(self._arrays[f"obs/{name}"][0, 0].nbytes * self._frames(name) for name in self._parts)
        # By slot and environment.
        self._last: LastObservations = {}
        self.steps = self._filled = 0
        # The next step's observation is not stored yet: it does not follow from an earlier step.
        self._begins = True
        # Frames before the oldest step are missing.
        self._lost = False

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
    def reach(self) -> int:
        """Number of the latest steps that can be gathered, all their stacked frames included."""
        lost = self._lost or self._filled == self._slots - 1
        return max(1, self._filled - (self._nstack - 1 if lost else 0))

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
        valid: np.ndarray | None = None,
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
            valid: whether each row counts, [N]; None if all do. Others are never drawn.
        """
        t, after = self._head, (self.steps + 1) % self._slots
        arrays = self._arrays
        if self._begins:
            self._write_obs(t, obs)
            arrays["episode_start"][t] = True
            self._begins = False
        for i in range(self.num_envs):
            self._last.pop((t, i), None)
        arrays["actions"][t], arrays["rewards"][t] = actions, self._clipped(rewards)
        arrays["terminated"][t], arrays["truncated"][t] = dones, False
        if "states" in arrays:
            arrays["states"][t] = states
        if "valid" in arrays:
            arrays["valid"][t] = valid
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

    def _clipped(self, rewards: np.ndarray) -> np.ndarray:
        return clip_rewards(rewards, self._reward_clip)

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
        self._lost = not self._arrays["episode_start"][0].all()
        self.steps = self._filled = steps
        self._finish_loading(saved.about, False, episodes_continue)

    def _finish_loading(self, about: dict[str, Any], begins: bool, episodes_continue: bool) -> None:
        self._begins = begins
        if not (begins or episodes_continue):
            self._truncate_open_episodes()
        self._restore_about(about)

    def _about(self) -> dict[str, Any]:
        """Return what is saved in addition to the arrays."""
        return {"steps": self._filled}

    def _restore_about(self, about: dict[str, Any]) -> None:
        """Restore a subclass's part of `_about`, and what follows from the arrays, which are already loaded."""

    def span(self) -> tuple[int, int]:
        """Return the number of the oldest step, and the number of steps stored so far."""
        return self.steps - self._filled, self.steps

    def items(self, first: int, last: int) -> dict[str, Any]:
        """Return the steps first to last - 1: arrays, and the last observations of episodes that ended in them."""
        rows = np.arange(first, last) % self._slots
        steps = {(first + (t - first) % self._slots, i): obs for (t, i), obs in self._last.items()}
        ends = {place: obs for place, obs in steps.items() if place[0] < last}
        return {
            "arrays": {name: array[rows] for name, array in self._arrays.items() if name not in self.changing},
            "ends": np.array(list(ends), np.int64).reshape(-1, 2),
            "last": {name: np.array([obs[name] for obs in ends.values()]) for name in self._parts},
        }

    def state(self) -> dict[str, Any]:
        """Return everything but the items: counters, the next step's observation, and arrays that change."""
        rows = np.arange(self.steps - self._filled, self.steps + 1) % self._slots
        next_step = {name: self._arrays[name][rows[-1:]] for name in self._next_names()}
        changing = {name: self._arrays[name][rows] for name in self.changing}
        counters = {"stored": self.steps, "begins": self._begins}
        return self._about() | counters | {"next": next_step, "changing": changing}

    def rebuild(
        self, state: dict[str, Any], pieces: Iterable[tuple[int, dict[str, Any]]], episodes_continue: bool
    ) -> None:
        """Restore the result of `state` and pieces of `items`; the replay is empty after an error."""
        stored, filled = state["stored"], state["steps"]
        if type(stored) is not int or type(filled) is not int or not 0 <= filled <= stored:
            raise UsageError("the number of its steps is missing")
        begin = end = stored - min(filled, self._slots - 1)
        self.steps = self._filled = 0
        self._begins = True
        self._last = {}
        for first, piece in pieces:
            if first > end:
                raise UsageError(f"its files lack the steps from {end} to {first}")
            end = self._take(first, begin, piece)
        if end != stored:
            raise UsageError(f"its files end at step {end}, not {stored}")
        check_arrays("it", 1, state["next"], {name: self._arrays[name] for name in self._next_names()})
        check_arrays("it", filled + 1, state["changing"], {name: self._arrays[name] for name in self.changing})
        rows = np.arange(begin, stored + 1) % self._slots
        for name, array in state["next"].items():
            self._arrays[name][rows[-1]] = array[0]
        for name, array in state["changing"].items():
            self._arrays[name][rows] = array[-len(rows) :]
        self.steps, self._filled = stored, stored - begin
        self._lost = begin > 0
        self._finish_loading(state, state["begins"] is True, episodes_continue)

    def _next_names(self) -> list[str]:
        return ["episode_start", *(f"obs/{name}" for name in self._parts)]

    def _take(self, first: int, begin: int, piece: dict[str, Any]) -> int:
        """Put a piece of `items` into its place, without the steps before `begin`; return the step after it."""
        arrays, ends, last = piece["arrays"], piece["ends"], piece["last"]
        wanted = {name: array for name, array in self._arrays.items() if name not in self.changing}
        count = len(arrays["rewards"])
        check_arrays("it", count, arrays, wanted)
        check_last("it", self._aside(arrays), ends - [first, 0], last, self._parts)
        skipped = max(0, begin - first)
        slots = np.arange(first + skipped, first + count) % self._slots
        for name, array in arrays.items():
            self._arrays[name][slots] = array[skipped:]
        for k, (step, i) in enumerate(ends.tolist()):
            if step >= begin:
                self._last[step % self._slots, i] = {name: np.array(part[k]) for name, part in last.items()}
        return first + count

    def _truncate_open_episodes(self) -> None:
        """End the episodes that were open when the replay was saved: the environments begin new ones."""
        t, here, arrays = (self.steps - 1) % self._slots, np.array([self._head]), self._arrays
        for i in range(self.num_envs):
            if not (arrays["terminated"][t, i] or arrays["truncated"][t, i]):
                arrays["truncated"][t, i] = True
                obs = parts_of_obs(self._observations(here, np.array([i]), np.zeros(1, int)))
                self._last[t, i] = {name: part[0] for name, part in obs.items()}
        arrays["episode_start"][self._head] = True
        self._begins = True

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

    def _aside(self, arrays: Any, at: Any = ...) -> np.ndarray:
        """Return whether the last observation of a step is kept aside, for the steps at some indices of the arrays."""
        return np.logical_or.reduce([arrays[name][at] for name in self._kept_ends])

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
