"""The replay of off-policy algorithms: transitions in preallocated arrays, stored in O(1), gathered by index arrays.

Every observation is kept once: what follows a step is the next row of the same environment, or, where a time limit cut
the episode, an observation kept aside (after a true end it is never asked for). Stacked frames are kept as single
frames and put together again, cut where an episode began.
"""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from tfbaselines.envs.vec import VecEnv, VecFrameStack, find_wrapper
from tfbaselines.envs.vec.observations import ONLY, parts_of, parts_of_obs
from tfbaselines.experience.memory import GIB, check_memory
from tfbaselines.files import put_back, replace_directory
from tfbaselines.policy.encoding import observation_dtype

Batch = dict[str, Any]

FORMAT = "tfbaselines-replay-1"


class Replay:
    """The latest transitions of several environments.

    Args:
        env: the environments.
        size: how many transitions to keep, over all of them.
        gamma: discount per step, for returns of several steps.
        n_step: steps that a return has before it bootstraps.
        state_size: width of a recurrent policy's memory, kept before each step; 0 for none.
    """

    def __init__(self, env: VecEnv, size: int, gamma: float = 0.99, n_step: int = 1, state_size: int = 0) -> None:
        self._count, self._gamma, self._n_step = env.num_envs, gamma, n_step
        # A row of each environment is never read: the one that the next observation is written to.
        self._slots = max(2, -(-int(size) // env.num_envs)) + 1
        self._parts = parts_of(env.observation_space)
        self._dict = isinstance(env.observation_space, spaces.Dict)
        stacked = find_wrapper(env, VecFrameStack)
        self._nstack = stacked.nstack if stacked else 1
        shape = (self._slots, env.num_envs)
        action = env.action_space
        layout = {
            **{
                f"obs/{name}": (self._kept_shape(name, space), observation_dtype(space))
                for name, space in self._parts.items()
            },
            "actions": (action.shape, np.float32 if isinstance(action, spaces.Box) else action.dtype),
            "rewards": ((), np.float32),
            "first": ((), bool),
            "terminated": ((), bool),
            "truncated": ((), bool),
        }
        if state_size:
            layout["states"] = ((state_size,), np.float32)
        self.nbytes = sum(int(np.prod((*shape, *tail))) * np.dtype(dtype).itemsize for tail, dtype in layout.values())
        check_memory(self.nbytes)
        self._arrays = {name: np.zeros((*shape, *tail), dtype) for name, (tail, dtype) in layout.items()}
        self._arrays["first"][0] = True
        # The observations after which a time limit cut an episode, by slot and environment.
        self._last: dict[tuple[int, int], dict[str, np.ndarray]] = {}
        self._head = self._filled = 0
        # The next step's observation is not what followed the latest one.
        self._begins = True

    def __len__(self) -> int:
        return self._filled * self._count

    @property
    def obs_nbytes(self) -> int:
        """Bytes of one observation as it is sampled, stacked frames put together."""
        return sum(self._arrays[f"obs/{name}"][0, 0].nbytes * self._frames(name) for name in self._parts)

    @property
    def size(self) -> int:
        """How many transitions there is room for."""
        return (self._slots - 1) * self._count

    def describe(self) -> str:
        """Words on the memory that the arrays take."""
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
        """Take in one step of every environment.

        Args:
            obs: [N, ...] before the step.
            actions: [N, ...].
            rewards: [N].
            next_obs: [N, ...] to act on next: after an episode's end the first of the next one.
            dones: [N] whether the episode ended.
            infos: of the step; 'TimeLimit.truncated' and 'final_observation' where it ended.
            states: [N, S] memory before the step.
        """
        t, after = self._head, (self._head + 1) % self._slots
        arrays = self._arrays
        if self._begins:
            self._write_obs(t, obs)
            self._begins = False
        for i in range(self._count):
            self._last.pop((t, i), None)
        arrays["actions"][t], arrays["rewards"][t] = actions, rewards
        arrays["terminated"][t], arrays["truncated"][t] = dones, False
        if "states" in arrays:
            arrays["states"][t] = states
        for i in np.flatnonzero(dones):
            if infos[i].get("TimeLimit.truncated"):
                arrays["truncated"][t, i], arrays["terminated"][t, i] = True, False
                final = infos[i]["final_observation"]
                self._last[t, int(i)] = {name: np.array(part) for name, part in parts_of_obs(final).items()}
        self._write_obs(after, next_obs)
        arrays["first"][after] = dones
        self._head = after
        self._filled = min(self._filled + 1, self._slots - 1)

    def latest(self, steps: int) -> tuple[Any, np.ndarray]:
        """Observations and actions [steps * N, ...] of the latest steps."""
        steps = min(steps, self._oldest())
        age, n = np.repeat(np.arange(steps, 0, -1), self._count), np.tile(np.arange(self._count), steps)
        t = (self._head - age) % self._slots
        return self._observations(t, n, age), self._arrays["actions"][t, n]

    def sample(self, rng: np.random.Generator, batches: int, batch_size: int) -> Batch:
        """Transitions drawn independently: arrays [batches, batch_size, ...].

        Returns:
            obs, actions, rewards (discounted sums over up to n_step steps), next_obs, and discounts: what the value of
            next_obs counts for, 0 after a true end.
        """
        count = batches * batch_size
        age = rng.integers(1, self._oldest() + 1, size=count)
        t, n = (self._head - age) % self._slots, rng.integers(self._count, size=count)
        rewards, discounts, last = self._returns(t, n, age)
        batch = {
            "obs": self._observations(t, n, age),
            "actions": self._arrays["actions"][t, n],
            "rewards": rewards,
            "next_obs": self._next_observations(last, n, (self._head - last) % self._slots),
            "discount": discounts,
        }
        return _reshaped(batch, (batches, batch_size))

    def sample_sequences(self, rng: np.random.Generator, batches: int, batch_size: int, length: int) -> Batch:
        """Successive steps of one environment, and what was seen after them: length + 1 rows for each sequence.

        Returns:
            arrays [batches, batch_size * (length + 1), ...], sequence after sequence: obs, episode_start (1 where an episode
            begins), actions, rewards and discounts as `sample` gives them, and weights, 0 for rows of which not all is
            known: the last ones, and those whose return a time limit cut off. Also next_rows [batches, batch_size,
            length + 1], the row of its sequence from which a row's return goes on, and states [batches, batch_size, S]
            before the first row.
        """
        if self._filled < length:
            raise ValueError(f"sequences of {length} steps cannot be drawn from {self._filled} steps")
        count = batches * batch_size
        age = rng.integers(length, self._oldest() + 1, size=count)
        start, n = (self._head - age) % self._slots, rng.integers(self._count, size=count)
        place = np.arange(length + 1)
        rows = ((start[:, None] + place) % self._slots).ravel()
        envs = np.repeat(n, length + 1)
        # The last row's return is taken as if it had a step, and its weight is 0.
        rewards, discounts, last = self._returns(rows, envs, np.tile(np.maximum(length - place, 1), count))
        steps_on = ((last - rows) % self._slots).reshape(count, length + 1) + 1
        batch = {
            "obs": self._observations(rows, envs, (age[:, None] - place).ravel()),
            "episode_start": self._arrays["first"][rows, envs].astype(np.float32),
            "actions": self._arrays["actions"][rows, envs],
            "rewards": rewards,
            "discount": discounts,
            "valid": (~self._arrays["truncated"][last, envs]).astype(np.float32),
        }
        batch["valid"][length :: length + 1] = 0.0
        batch = _reshaped(batch, (batches, batch_size * (length + 1)))
        per_sequence = {"next_rows": np.minimum(place + steps_on, length).astype(np.int32)}
        if "states" in self._arrays:
            per_sequence["states"] = self._arrays["states"][start, n]
        return batch | _reshaped(per_sequence, (batches, batch_size))

    def save(self, directory: str | os.PathLike) -> None:
        """Write everything to a directory of .npy files, whole or not at all; `load` maps them into memory."""
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
        (scratch / "replay.json").write_text(json.dumps({"format": FORMAT, "steps": self._filled}), encoding="utf-8")
        replace_directory(target, scratch)

    def load(self, directory: str | os.PathLike) -> None:
        """Take over the latest of what `save` wrote, as much as there is room for."""
        source = Path(directory)
        put_back(source)
        try:
            about = json.loads((source / "replay.json").read_text(encoding="utf-8"))
            saved = {name: _mapped(source / _file(name)) for name in self._arrays}
            keys = _mapped(source / "last.npy")
            last = {name: _mapped(source / _file(f"last/{name}")) for name in self._parts}
        except (OSError, ValueError) as error:
            raise ValueError(f"'{source}' is not a saved replay: {error}") from None
        shapes = {name: array.shape[1:] for name, array in saved.items()}
        wanted = {name: array.shape[1:] for name, array in self._arrays.items()}
        if shapes != wanted:
            raise ValueError(f"the replay in '{source}' is of other environments: {shapes}, here {wanted}")
        steps = min(about["steps"], self._slots - 1)
        skipped = about["steps"] - steps
        for name, array in self._arrays.items():
            array[: steps + 1] = saved[name][skipped : skipped + steps + 1]
        self._last = {
            (int(t) - skipped, int(i)): {name: np.array(parts[k]) for name, parts in last.items()}
            for k, (t, i) in enumerate(keys)
            if t >= skipped
        }
        self._head = self._filled = steps
        self._cut_all()

    def _cut_all(self) -> None:
        """What was going on is cut off: the environments begin new episodes."""
        t, here, arrays = self._head - 1, np.array([self._head]), self._arrays
        for i in range(self._count):
            if not (arrays["terminated"][t, i] or arrays["truncated"][t, i]):
                arrays["truncated"][t, i] = True
                obs = parts_of_obs(self._observations(here, np.array([i]), np.zeros(1, int)))
                self._last[t, i] = {name: part[0] for name, part in obs.items()}
        arrays["first"][self._head] = True
        self._begins = True

    def _oldest(self) -> int:
        """The age of the oldest step whose stacked frames are all still there."""
        full = self._filled == self._slots - 1
        return max(1, self._filled - (self._nstack - 1 if full else 0))

    def _frames(self, name: str) -> int:
        """How many frames a part shows: only what is not a part of a user's Dict can be stacked."""
        return self._nstack if name == ONLY else 1

    def _kept_shape(self, name: str, space: spaces.Space) -> tuple[int, ...]:
        frames = self._frames(name)
        return space.shape if frames == 1 else (*space.shape[:-1], space.shape[-1] // frames)

    def _write_obs(self, t: int, obs: Any) -> None:
        for name, part in parts_of_obs(obs).items():
            kept = self._arrays[f"obs/{name}"]
            kept[t] = part[..., -kept.shape[-1] :] if self._frames(name) > 1 else part

    def _returns(self, t: np.ndarray, n: np.ndarray, age: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Discounted rewards of up to n_step steps from t, what the value after them counts for, and the last step."""
        rewards, ended, cut = (self._arrays[name] for name in ("rewards", "terminated", "truncated"))
        total, last = rewards[t, n].copy(), t.copy()
        weight = np.where(ended[t, n], 0.0, self._gamma).astype(np.float32)
        going = ~(ended[t, n] | cut[t, n])
        for k in range(1, self._n_step):
            going &= age > k
            at = (t + k) % self._slots
            total += np.where(going, weight * rewards[at, n], 0.0)
            weight = np.where(going, np.where(ended[at, n], 0.0, weight * self._gamma), weight).astype(np.float32)
            last = np.where(going, at, last)
            going &= ~(ended[at, n] | cut[at, n])
        return total, weight, last

    def _next_observations(self, t: np.ndarray, n: np.ndarray, age: np.ndarray) -> Any:
        """What was seen after the steps at t: the next rows, or what is kept aside of episodes that were cut."""
        obs = self._observations((t + 1) % self._slots, n, age - 1)
        for k in np.flatnonzero(self._arrays["truncated"][t, n]):
            for name, part in self._last[int(t[k]), int(n[k])].items():
                parts_of_obs(obs)[name][k] = part
        return obs

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
        there = np.ones(len(t), bool)
        for k in range(1, self._nstack):
            there &= ~self._arrays["first"][(t - k + 1) % self._slots, n] & (age + k <= self._filled)
            end = width * (self._nstack - k)
            obs[there, ..., end - width : end] = kept[(t[there] - k) % self._slots, n[there]]
        return obs


def _file(name: str) -> str:
    """The name of an array's file."""
    return f"{name.replace('/', '.')}.npy"


def _mapped(path: Path) -> np.ndarray:
    return np.load(path, mmap_mode="r", allow_pickle=False)


def _reshaped(batch: Any, lead: tuple[int, ...]) -> Any:
    """Every array's first axis as several."""
    if isinstance(batch, dict):
        return {name: _reshaped(part, lead) for name, part in batch.items()}
    return batch.reshape(*lead, *batch.shape[1:])
