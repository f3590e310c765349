"""Observations of any space: batches as arrays, checks of their values, and nested spaces as one Dict or array."""

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from tfbaselines.errors import NotFiniteError, UsageError, warn

# Name of the action mask, in Dict observations and in infos.
MASK = "action_mask"
# Name of the only part of an observation that is not a Dict.
ONLY = "all"

# Bytes between the starts of arrays in one buffer.
ALIGNMENT = 64

# Losses square rewards in float32.
MOST_SQUARED = float(np.finfo(np.float32).max)
MOST = MOST_SQUARED**0.5

AFTER_RESET = "observation after reset"
WHOLE = (int, np.integer)

# Spaces with arrays: of observations, or of the parts of a Dict.
ARRAYS = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)


def unsupported(space: spaces.Space) -> UsageError:
    """Return the error for a space without arrays."""
    names = ", ".join(kind.__name__ for kind in ARRAYS)
    return UsageError(f"observation space {space!s:.100} is not supported: {names}, or a Dict or Tuple with such parts")


def parts_of(space: spaces.Space) -> dict[str, spaces.Space]:
    """Return the spaces of a Dict by name, and any other space by the name ONLY."""
    return dict(space.spaces) if isinstance(space, spaces.Dict) else {ONLY: space}


def fault_of_space(space: spaces.Space) -> str | None:
    """Return why no algorithm can use a space; None if nothing is wrong."""
    parts = dict(_leaves(space, spaces.Dict | spaces.Tuple))
    arrays = {name: part for name, part in parts.items() if isinstance(part, ARRAYS)}
    if arrays and not any(math.prod(part.shape) for part in arrays.values()):
        return "it has no elements"
    for name, part in arrays.items():
        if isinstance(part, spaces.Box) and not (part.low <= part.high).all():
            reason = "NaN as a bound" if np.isnan([part.low, part.high]).any() else "a low above its high"
            return f"its part '{name}' has {reason}" if name else f"it has {reason}"
    return None


def is_image(space: spaces.Space) -> bool:
    """Return whether observations are images: uint8 of rank 3. Convolutional networks scale them."""
    return isinstance(space, spaces.Box) and space.dtype == np.uint8 and len(space.shape) == 3


def parts_of_obs(obs: Any) -> Mapping[str, Any]:
    """Return the parts of an observation or a batch, by the names of `parts_of`."""
    return obs if isinstance(obs, Mapping) else {ONLY: obs}


def in_a_row(mask: Any) -> np.ndarray:
    """Return an action mask as one row; a mask of MultiDiscrete actions may be a list or tuple of parts."""
    parts = mask if isinstance(mask, list | tuple) else [mask]
    return np.concatenate([np.ravel(part) for part in parts] or [[]])


def observation_bytes(num_envs: int, space: spaces.Space) -> int:
    """Return the memory that Observations needs; ValueError for a space without arrays."""
    return sum(_slot(num_envs, part) for part in _arrays_of(space).values())


def _arrays_of(space: spaces.Space) -> dict[str, spaces.Space]:
    named = parts_of(space)
    if not named or not all(isinstance(part, ARRAYS) for part in named.values()):
        raise unsupported(space)
    return named


def _slot(num_envs: int, part: spaces.Space) -> int:
    nbytes = num_envs * math.prod(part.shape) * part.dtype.itemsize
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


class Observations:
    """Arrays that hold one observation of each environment.

    Args:
        num_envs: number of environments.
        space: space of one observation; a Dict makes a dictionary of arrays.
        memory: a buffer of `observation_bytes` for the arrays; None allocates them.
    """

    def __init__(self, num_envs: int, space: spaces.Space, memory: Any = None) -> None:
        self._arrays: dict[str, np.ndarray] = {}
        start = 0
        for key, part in _arrays_of(space).items():
            shape = (num_envs, *part.shape)
            if memory is None:
                self._arrays[key] = np.zeros(shape, part.dtype)
            else:
                self._arrays[key] = np.ndarray(shape, part.dtype, memory, start)
                start += _slot(num_envs, part)
        self._only = None if isinstance(space, spaces.Dict) else self._arrays[ONLY]
        self._floats = [(array, array.reshape(-1)) for array in self._arrays.values() if array.dtype.kind == "f"]

    def put(self, i: int, obs: Any) -> None:
        """Store environment i's observation."""
        if self._only is not None:
            self._only[i] = obs
        else:
            for key, array in self._arrays.items():
                array[i] = obs[key]

    def copy(self) -> Any:
        """Return a copy of the batch."""
        if self._only is not None:
            return self._only.copy()
        return {key: array.copy() for key, array in self._arrays.items()}

    def finite(self) -> bool:
        """Return whether every number is finite. The sum of squares is the cheapest check."""
        for array, flat in self._floats:
            # Squares of finite numbers can overflow.
            if not math.isfinite(flat.dot(flat)) and not np.isfinite(array).all():
                return False
        return True

    def first_not_finite(self) -> int | None:
        """Return the first environment with a number that is not finite."""
        rows = [~np.isfinite(array).reshape(len(array), -1).all(axis=1) for array, _ in self._floats]
        bad = np.flatnonzero(np.any(rows, axis=0)) if rows else []
        return int(bad[0]) if len(bad) else None


class Misfit(UsageError):
    """An observation does not fit its space."""


class Fit:
    """Refuse observations that numpy would convert silently: of another shape, dtype or range than their space."""

    def __init__(self, space: spaces.Space) -> None:
        self._only = None if isinstance(space, spaces.Dict) else _PartFit(space)
        self._parts = {key: _PartFit(part, f", part '{key}',") for key, part in parts_of(space).items()}
        # Most observations of a Box have this shape and dtype: the fast path.
        self._shape, self._dtype = (space.shape, space.dtype) if isinstance(space, spaces.Box) else (object(), None)

    def __call__(self, obs: Any, quantity: str = "observation") -> None:
        """Raise a Misfit unless an observation fits; `quantity` is its name in errors."""
        if self._only is not None:
            self._only(obs, quantity)
            return
        shown = parts_of_obs(obs)
        for key, part in self._parts.items():
            if key not in shown:
                raise Misfit(f"{quantity}, part '{key}', is missing")
            part(shown[key], quantity)

    def step(self, obs: Any, done: bool, info: dict[str, Any]) -> None:
        """Raise a Misfit unless the result of `step_same` fits."""
        if done:
            self(info["final_observation"], "final observation")
            self(obs, AFTER_RESET)
        elif getattr(obs, "shape", None) != self._shape or obs.dtype is not self._dtype:
            self(obs)


class _PartFit:
    """Fit for one array; `name` is a suffix of the observation's name in errors."""

    def __init__(self, space: spaces.Space, name: str = "") -> None:
        self._space = space
        self._name = name
        self._shape = space.shape
        self._castable = {space.dtype}
        self._first = self._end = None
        if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
            self._first = space.start
            self._end = space.start + (space.n if isinstance(space, spaces.Discrete) else space.nvec)

    def __call__(self, value: Any, quantity: str) -> None:
        if isinstance(value, WHOLE) and isinstance(self._space, spaces.Discrete):
            within = self._first <= value < self._end
        else:
            if getattr(value, "shape", None) != self._shape or value.dtype not in self._castable:
                value = self._array(value, quantity)
            within = self._first is None or np.all((self._first <= value) & (value < self._end))
        if not within:
            raise Misfit(f"{quantity}{self._name} is {value}: its space is {self._space}")

    def _array(self, value: Any, quantity: str) -> np.ndarray:
        array, space = np.asarray(value), self._space
        if array.shape != space.shape:
            raise Misfit(f"{quantity}{self._name} has shape {array.shape}, its space has shape {space.shape}")
        integers = array.dtype.kind in "biu" and space.dtype.kind in "biu"
        if not (integers or np.can_cast(array.dtype, space.dtype, "same_kind")):
            raise Misfit(f"{quantity}{self._name} has dtype {array.dtype}, its space has dtype {space.dtype}")
        if not integers or np.can_cast(array.dtype, space.dtype):
            self._castable.add(array.dtype)
        else:
            # In a narrower type the entries would wrap.
            held = np.iinfo(space.dtype)
            wrong = (array < held.min) | (array > held.max)
            if wrong.any():
                entry = f"the entry {array[wrong][0]}, its space has dtype {space.dtype}"
                raise Misfit(f"{quantity}{self._name} has {entry} of {held.min} to {held.max}")
        return array


class NumberChecks:
    """Check that observations and rewards are finite, and that float32 can hold the squares of rewards.

    `names` are the environments' names in errors; `steps` counts the steps that each of them has taken.
    """

    def __init__(self, names: Sequence[str], observations: Observations) -> None:
        self._names = names
        self._observations = observations
        self.steps = 0

    def begun(self) -> None:
        """Check the observations after a reset of every environment."""
        if not self._observations.finite():
            raise self._error(AFTER_RESET, self._observations.first_not_finite())

    def final(self, i: int, info: dict[str, Any]) -> None:
        """Check the last observation of environment i's episode; `stepped` follows."""
        for part in parts_of_obs(info["final_observation"]).values():
            array = np.asarray(part)
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                self.steps += 1
                raise self._error("final observation", i)

    def stepped(self, rewards: np.ndarray, dones: Sequence[bool]) -> None:
        """Check the observations and the float64 rewards after a step of every environment."""
        self.steps += 1
        if not rewards.dot(rewards) <= MOST_SQUARED:
            self._check_rewards(rewards)
        if not self._observations.finite():
            i = self._observations.first_not_finite()
            raise self._error(AFTER_RESET if dones[i] else "observation", i)

    def _check_rewards(self, rewards: np.ndarray) -> None:
        for i, reward in enumerate(rewards):
            if not np.isfinite(reward):
                raise self._error("reward", i)
            if abs(reward) > MOST:
                raise NotFiniteError(
                    f"{self._names[i]}: reward {reward:g} at step {self.steps} is not a finite number when squared in "
                    f"float32: at most {MOST:.2g}"
                )

    def _error(self, quantity: str, i: int) -> NotFiniteError:
        return NotFiniteError(f"{self._names[i]}: {quantity} at step {self.steps} is not a finite number")


class NamedParts(gymnasium.ObservationWrapper):
    """Turn Tuple and nested observations into one Dict; the parts' names are their paths: '0', '1', 'camera.left'.

    Parts that no network takes are dropped.
    """

    def __init__(self, env: gymnasium.Env) -> None:
        super().__init__(env)
        parts = named_parts_of(env.observation_space).spaces
        self._dropped = tuple(parts.keys() - array_parts(parts).keys())
        self.observation_space = spaces.Dict(array_parts(parts))

    def observation(self, observation: Any) -> dict[str, Any]:
        parts = named_parts(observation)
        if self._dropped:
            # A text, graph or sequence may itself be a tuple of parts.
            return {name: parts[name] for name in self.observation_space.spaces if name in parts}
        return parts


def named_parts(observation: Any) -> Any:
    """Return the parts of a Tuple or nested observation by name; other observations stay the same."""
    if not isinstance(observation, dict | tuple):
        return observation
    if isinstance(observation, dict) and isinstance(mask := observation.get(MASK), tuple):
        observation = observation | {MASK: in_a_row(mask)}
    return dict(_leaves(observation, dict | tuple))


def named_parts_of(space: spaces.Space) -> spaces.Dict:
    """Return the space of NamedParts; an action mask of several parts becomes one part."""
    if isinstance(space, spaces.Dict) and isinstance(mask := space.spaces.get(MASK), spaces.Tuple):
        width = sum(int(np.prod(part.shape)) for part in mask.spaces)
        space = spaces.Dict({**space.spaces, MASK: spaces.MultiBinary(width)})
    return spaces.Dict(dict(_leaves(space, spaces.Dict | spaces.Tuple)))


def _leaves(value: Any, kinds: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if not isinstance(value, kinds):
        yield name, value
        return
    for key, inner in value.items() if isinstance(value, dict | spaces.Dict) else enumerate(value):
        yield from _leaves(inner, kinds, f"{name}.{key}" if name else str(key))


def array_parts(parts: Mapping[str, spaces.Space]) -> dict[str, spaces.Space]:
    """Select the parts that are arrays of a known size."""
    return {name: part for name, part in parts.items() if isinstance(part, ARRAYS)}


def without_arrays(space: spaces.Space) -> str | None:
    """Explain which parts of a Dict or Tuple are dropped, since no network takes them; None if all are arrays."""
    if not isinstance(space, spaces.Dict | spaces.Tuple):
        return None
    parts = named_parts_of(space).spaces
    others = [f"'{name}' ({type(part).__name__})" for name, part in parts.items() if not isinstance(part, ARRAYS)]
    if not others:
        return None
    if len(others) == len(parts):
        raise unsupported(space)
    advice = "gymnasium.wrappers.TransformObservation can make numbers of them"
    return f"observations are used without {', '.join(others)}, which no network takes: {advice}"


@functools.cache
def _warn_once(text: str) -> None:
    warn(text)


def with_named_parts(env: gymnasium.Env) -> gymnasium.Env:
    """Wrap an environment in NamedParts if its observations are a Tuple or nested, or have parts without arrays."""
    space = env.observation_space
    dropped = without_arrays(space)
    if dropped:
        _warn_once(dropped)
    nested = isinstance(space, spaces.Dict) and any(
        isinstance(part, spaces.Dict | spaces.Tuple) for part in space.spaces.values()
    )
    return NamedParts(env) if dropped or nested or isinstance(space, spaces.Tuple) else env


class DiscreteParts(gymnasium.ObservationWrapper):
    """Join Discrete and MultiDiscrete parts into one MultiDiscrete, in the order of NamedParts.

    Networks receive the same numbers as from a flat Box, and a table has a cell for each value.
    """

    def __init__(self, env: gymnasium.Env) -> None:
        super().__init__(env)
        self._parts = named_parts_of(env.observation_space).spaces
        parts = self._parts.values()
        counts = [np.ravel(part.nvec if isinstance(part, spaces.MultiDiscrete) else part.n) for part in parts]
        starts = [np.ravel(part.start) for part in parts]
        self.observation_space = spaces.MultiDiscrete(np.concatenate(counts), start=np.concatenate(starts))

    def observation(self, observation: Any) -> np.ndarray:
        parts = named_parts(observation)
        # An environment may return the parts of a Dict in another order.
        return np.concatenate([np.ravel(parts[name]) for name in self._parts])


def flattened(env: gymnasium.Env) -> gymnasium.Env:
    """Flatten Dict and Tuple observations to one Box; other observations stay the same.

    Observations of discrete parts become a MultiDiscrete. Observations with an image or an action mask stay a Dict,
    since a flat Box would lose them.
    """
    if not isinstance(env.observation_space, spaces.Dict | spaces.Tuple):
        return env
    if not named_parts_of(env.observation_space).spaces:
        raise unsupported(env.observation_space)
    if without_arrays(env.observation_space):
        env = with_named_parts(env)
    parts = named_parts_of(env.observation_space).spaces
    if MASK in parts or any(map(is_image, parts.values())):
        return with_named_parts(env)
    if all(isinstance(part, spaces.Discrete | spaces.MultiDiscrete) for part in parts.values()):
        return DiscreteParts(env)
    return gymnasium.wrappers.FlattenObservation(env)
