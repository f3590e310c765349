"""Action masks from infos, and observations of several parts packed into rows of bytes.

Rollouts, replays and batches then hold one array, and policies unpack the parts in their compiled functions.
"""

import functools
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from tfbaselines.envs.vec.base import (
    StepResult,
    VecEnv,
    VecEnvObservationWrapper,
    VecEnvWrapper,
    change_last,
    find_wrapper,
)
from tfbaselines.envs.vec.observations import MASK, ONLY, in_a_row, parts_of
from tfbaselines.errors import UsageError


class VecActionMask(VecEnvWrapper):
    """Add the action masks of infos to observations: a part 'action_mask', 1 for each allowed choice."""

    keeps_observations = True

    def __init__(self, venv: VecEnv) -> None:
        self._width = choices_of(venv.action_space)
        parts = parts_of(venv.observation_space)
        super().__init__(venv, spaces.Dict({**parts, MASK: spaces.MultiBinary(self._width)}))

    def reset(self) -> Any:
        obs = self.venv.reset()
        return self._with(obs, np.stack([self._mask(i, info) for i, info in enumerate(self.venv.reset_infos)]))

    def step_wait(self) -> StepResult:
        obs, rewards, dones, infos = self.venv.step_wait()
        shown = [info["reset_info"] if done else info for done, info in zip(dones, infos, strict=True)]
        masks = [self._mask(i, info) for i, info in enumerate(shown)]
        for i in np.flatnonzero(dones):
            mask = self._mask(i, infos[i], True)
            change_last(infos[i], functools.partial(self._with, mask=mask))
        return self._with(obs, np.stack(masks)), rewards, dones, infos

    def rest(self, number: int) -> bool:
        # Environments at rest have no infos, and so no masks.
        return False

    def _with(self, obs: Any, mask: np.ndarray) -> dict[str, np.ndarray]:
        return (dict(obs) if isinstance(obs, dict) else {ONLY: obs}) | {MASK: mask}

    def _mask(self, i: int, info: dict[str, Any], final: bool = False) -> np.ndarray:
        if MASK not in info:
            if final:
                return np.ones(self._width, np.int8)
            raise UsageError(f"environment {i}: an info has no '{MASK}': it is needed after every step and reset")
        # After the last step no action follows.
        return read_mask(info[MASK], self.action_space, some=not final, environment=i)


class VecCheckedMask(VecEnvWrapper):
    """Check the 'action_mask' of Dict observations in every step by `check_masks`."""

    def reset(self) -> Any:
        return self._checked(self.venv.reset())

    def step_wait(self) -> StepResult:
        obs, rewards, dones, infos = self.venv.step_wait()
        return self._checked(obs), rewards, dones, infos

    def _checked(self, obs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        check_masks(obs[MASK], self.action_space, environment=0)
        return obs


def read_mask(
    mask: Any, actions: spaces.Discrete | spaces.MultiDiscrete, some: bool = True, environment: int | None = None
) -> np.ndarray:
    """Return a mask of any form that `in_a_row` accepts as int8 [choices]; UsageError if `check_masks` refuses it."""
    row, choices = in_a_row(mask), choices_of(actions)
    if row.size != choices:
        raise UsageError(f"{_place(environment)}an '{MASK}' has {row.size} entries, the actions have {choices} choices")
    check_masks(row[None], actions, some, environment)
    return row.astype(np.int8)


def _place(environment: int | None) -> str:
    return "" if environment is None else f"environment {environment}: "


def check_masks(
    masks: np.ndarray,
    actions: spaces.Discrete | spaces.MultiDiscrete,
    some: bool = True,
    environment: int | None = None,
) -> None:
    """Raise a UsageError unless entries of masks [N, choices] are 0 or 1 and, with `some`, each part allows a choice.

    Errors name the environment: `environment` is the number of the first mask's, or None.
    """
    allowed = masks == 1
    if (wrong := masks != allowed).any():
        what = f"has the entry {masks[wrong][0]}: 1 allows a choice, 0 forbids it"
    else:
        parts = [0] if isinstance(actions, spaces.Discrete) else [0, *np.cumsum(actions.nvec)[:-1]]
        wrong = ~np.logical_or.reduceat(allowed, parts, axis=1)
        if not some or not wrong.any():
            return
        what = "allows nothing: an episode without allowed actions must end"
    first = int(np.argmax(wrong.any(axis=1)))
    raise UsageError(f"{_place(None if environment is None else environment + first)}an '{MASK}' {what}")


def choices_of(space: spaces.Discrete | spaces.MultiDiscrete) -> int:
    """Return the number of entries of an action mask."""
    return int(space.n) if isinstance(space, spaces.Discrete) else int(np.sum(space.nvec))


def with_action_masks(env: VecEnv) -> VecEnv:
    """Wrap environments in VecActionMask if their infos have masks; a reset finds out.

    An 'action_mask' that is a part of Dict observations stays the same, and is checked.
    """
    parts, actions = parts_of(env.observation_space), env.action_space
    if MASK in parts:
        _require_choices("observations", actions)
        if parts[MASK].shape != (choices_of(actions),):
            found = f"the observations' '{MASK}' is {parts[MASK]}"
            raise UsageError(f"{found}: the actions have {choices_of(actions)} choices")
        checked = find_wrapper(env, VecActionMask) or find_wrapper(env, VecCheckedMask)
        return env if checked else VecCheckedMask(env)
    if find_wrapper(env, _Begun) or isinstance(actions, spaces.Box):
        return env
    begun = _Begun(env)
    if not all(MASK in info for info in begun.reset_infos):
        return begun
    _require_choices("infos", actions)
    return VecActionMask(begun)


def refuse_action_masks(env: VecEnv, algorithm: str) -> None:
    """Raise a UsageError if environments that were just reset have action masks, for an algorithm without masks."""
    if any(MASK in info for info in env.reset_infos) or MASK in parts_of(env.observation_space):
        others = "deepq, ppo2 or sac (docs/howto/masks.md)"
        raise UsageError(f"{algorithm} takes no action masks, which the environments have: take {others}")


def _require_choices(masked: str, actions: spaces.Space) -> None:
    if not isinstance(actions, spaces.Discrete | spaces.MultiDiscrete):
        raise UsageError(f"{masked} have an '{MASK}': masks are for Discrete and MultiDiscrete actions, not {actions}")


class _Begun(VecEnvWrapper):
    """Reset the environments when it is made; the first reset() returns those observations."""

    keeps_observations = True

    def __init__(self, venv: VecEnv) -> None:
        super().__init__(venv)
        self._first = venv.reset()
        self._masked = all(MASK in info for info in venv.reset_infos)

    def reset(self) -> Any:
        first = self._first
        self._first = None
        return self.venv.reset() if first is None else first

    def step_wait(self) -> StepResult:
        self._first = None
        result = self.venv.step_wait()
        if not self._masked and any(MASK in info for info in result[-1]):
            raise UsageError(f"infos of steps have an '{MASK}', infos of reset have none: it is needed after both")
        return result

    def restore(self, state: dict[str, Any]) -> None:
        # The episode of the first reset is not part of the resumed run.
        self._first = None
        super().restore(state)


class Place(NamedTuple):
    """The place of a part in a row: its first byte, the byte after it, its type and its shape."""

    start: int
    end: int
    dtype: np.dtype
    shape: tuple[int, ...]


class PackedSpace(spaces.Box):
    """The space of Dict observations, of Box and discrete parts, that are packed into rows of bytes."""

    def __init__(self, parts: spaces.Dict) -> None:
        self.parts = parts
        self.places = {}
        start = 0
        for name, part in parts.spaces.items():
            dtype, shape = _dtype(name, part), tuple(part.shape or ())
            end = start + math.prod(shape) * dtype.itemsize
            self.places[name] = Place(start, end, dtype, shape)
            start = end
        super().__init__(0, 255, (start,), np.uint8)

    def pack(self, obs: Mapping[str, Any]) -> np.ndarray:
        """Pack a batch of observations into rows [B, bytes]."""
        return np.concatenate([_bytes(obs[name], place) for name, place in self.places.items()], axis=1)

    def unpack(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """Unpack the observations in rows [B, bytes]."""
        return {
            name: np.ascontiguousarray(rows[:, place.start : place.end]).view(place.dtype).reshape(-1, *place.shape)
            for name, place in self.places.items()
        }


def _dtype(name: str, space: spaces.Space) -> np.dtype:
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        return np.dtype(np.int32)
    if isinstance(space, spaces.Box | spaces.MultiBinary):
        return np.dtype(np.uint8 if space.dtype in (np.uint8, np.int8) else np.float32)
    raise UsageError(
        f"observation part '{name}', {space}, is not supported: Box, Discrete, MultiDiscrete and MultiBinary are"
    )


def _bytes(values: Any, place: Place) -> np.ndarray:
    values = np.ascontiguousarray(values, place.dtype)
    return values.reshape(len(values), -1).view(np.uint8)


def opened(space: spaces.Space) -> spaces.Space:
    """Return the Dict of a PackedSpace; other spaces stay the same."""
    return space.parts if isinstance(space, PackedSpace) else space


def unpacked(obs: Any, space: spaces.Space) -> Any:
    """Unpack a batch of observations if its space is a PackedSpace."""
    return space.unpack(obs) if isinstance(space, PackedSpace) and not isinstance(obs, Mapping) else obs


class VecPacked(VecEnvObservationWrapper):
    """Pack Dict observations into rows of bytes."""

    def __init__(self, venv: VecEnv) -> None:
        super().__init__(venv, PackedSpace(venv.observation_space))

    def process(self, obs: Mapping[str, np.ndarray]) -> np.ndarray:
        return self.observation_space.pack(obs)


def with_packed_observations(env: VecEnv) -> VecEnv:
    """Add action masks to the observations, and pack observations of several parts into rows."""
    if isinstance(env.observation_space, PackedSpace):
        return env
    env = with_action_masks(env)
    return VecPacked(env) if isinstance(env.observation_space, spaces.Dict) else env
