"""Observations of several parts as one row of bytes, so that rollouts, replays and batches hold a single array.

Policies take the parts out again, in their compiled functions.

Which actions are allowed, told beside the observation: from infos' 'action_mask'.
"""

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
    """Observations become a Dict with a part 'action_mask': 1 for each choice that is allowed.

    Args:
        venv: environments with Discrete or MultiDiscrete actions, whose infos have an 'action_mask'.
    """

    def __init__(self, venv: VecEnv) -> None:
        self._width = choices_of(venv.action_space)
        parts = parts_of(venv.observation_space)
        super().__init__(venv, spaces.Dict({**parts, MASK: spaces.MultiBinary(self._width)}))

    def reset(self) -> Any:
        """See VecEnv."""
        obs = self.venv.reset()
        return self._with(obs, np.stack([self._mask(i, info) for i, info in enumerate(self.venv.reset_infos)]))

    def step_wait(self) -> StepResult:
        """See VecEnv."""
        obs, rewards, dones, infos = self.venv.step_wait()
        shown = [info["reset_info"] if done else info for done, info in zip(dones, infos, strict=True)]
        masks = [self._mask(i, info) for i, info in enumerate(shown)]
        for i in np.flatnonzero(dones):
            mask = self._mask(i, infos[i], True)
            change_last(infos[i], lambda obs, mask=mask: self._with(obs, mask))
        return self._with(obs, np.stack(masks)), rewards, dones, infos

    def rest(self, number: int) -> bool:
        """See VecEnv: environments at rest have no infos with masks."""
        return False

    def _with(self, obs: Any, mask: np.ndarray) -> dict[str, np.ndarray]:
        return (dict(obs) if isinstance(obs, dict) else {ONLY: obs}) | {MASK: mask}

    def _mask(self, i: int, info: dict[str, Any], final: bool = False) -> np.ndarray:
        if MASK not in info:
            if final:
                return np.ones(self._width, np.int8)
            raise UsageError(f"environment {i}: an info has no '{MASK}': it is needed after every step and reset")
        # Nothing is chosen after the last step.
        return read_mask(info[MASK], self.action_space, some=not final, environment=i)


class VecCheckedMask(VecEnvWrapper):
    """Dict observations with an 'action_mask' of their own, which is looked at in every step; see check_masks."""

    def reset(self) -> Any:
        """See VecEnv."""
        return self._checked(self.venv.reset())

    def step_wait(self) -> StepResult:
        """See VecEnv."""
        obs, rewards, dones, infos = self.venv.step_wait()
        return self._checked(obs), rewards, dones, infos

    def _checked(self, obs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        check_masks(obs[MASK], self.action_space, environment=0)
        return obs


def read_mask(
    mask: Any, actions: spaces.Discrete | spaces.MultiDiscrete, some: bool = True, environment: int | None = None
) -> np.ndarray:
    """A mask in any of its forms as int8 [choices]; ValueError for one that says nothing clear, see check_masks.

    Args:
        mask: as an info or an observation has it; see in_a_row.
        actions, some, environment: see check_masks.
    """
    row, choices = in_a_row(mask), choices_of(actions)
    if row.size != choices:
        place = _place(environment)
        raise UsageError(f"{place}an '{MASK}' has {row.size} entries, the actions have {choices} choices")
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
    """ValueError unless entries are 0 or 1, and something is allowed.

    Args:
        masks: [N, choices].
        actions: the action space.
        some: something has to be allowed in each part of each mask.
        environment: number of the first mask's environment, for errors; None where masks are not of environments.
    """
    allowed = masks == 1
    if (wrong := masks != allowed).any():
        what = f"has the entry {masks[wrong][0]}: 1 for what is allowed, else 0"
    else:
        parts = [0] if isinstance(actions, spaces.Discrete) else [0, *np.cumsum(actions.nvec)[:-1]]
        wrong = ~np.logical_or.reduceat(allowed, parts, axis=1)
        if not some or not wrong.any():
            return
        what = "allows nothing: an episode without anything to do has to end"
    first = int(np.argmax(wrong.any(axis=1)))
    raise UsageError(f"{_place(None if environment is None else environment + first)}an '{MASK}' {what}")


def choices_of(space: spaces.Discrete | spaces.MultiDiscrete) -> int:
    """How many choices an action mask is about."""
    return int(space.n) if isinstance(space, spaces.Discrete) else int(np.sum(space.nvec))


def with_action_masks(env: VecEnv) -> VecEnv:
    """The environments with VecActionMask around them if their infos have masks; they are reset to find out.

    Where Dict observations have an 'action_mask' already, it stays as it is.
    """
    parts, actions = parts_of(env.observation_space), env.action_space
    if MASK in parts:
        _check_part(parts[MASK], actions)
        checked = find_wrapper(env, VecActionMask) or find_wrapper(env, VecCheckedMask)
        return env if checked else VecCheckedMask(env)
    if find_wrapper(env, _Begun) or isinstance(actions, spaces.Box):
        return env
    begun = _Begun(env)
    if not all(MASK in info for info in begun.reset_infos):
        return begun
    if not isinstance(actions, spaces.Discrete | spaces.MultiDiscrete):
        raise UsageError(f"infos have an '{MASK}': masks are for Discrete and MultiDiscrete actions, not {actions}")
    return VecActionMask(begun)


def refuse_action_masks(env: VecEnv, algorithm: str) -> None:
    """ValueError when environments that were just reset have action masks, which an algorithm does not take."""
    if any(MASK in info for info in env.reset_infos) or MASK in parts_of(env.observation_space):
        raise UsageError(f"{algorithm} takes no action masks, which the environments have: take deepq, ppo2 or sac")


def _check_part(part: spaces.Space, actions: spaces.Space) -> None:
    if not isinstance(actions, spaces.Discrete | spaces.MultiDiscrete):
        raise UsageError(
            f"observations have an '{MASK}': masks are for Discrete and MultiDiscrete actions, not {actions}"
        )
    if part.shape != (choices_of(actions),):
        raise UsageError(f"the observations' '{MASK}' is {part}: the actions have {choices_of(actions)} choices")


class _Begun(VecEnvWrapper):
    """Resets the environments when it is made, and again only after that reset's observations were used."""

    def __init__(self, venv: VecEnv) -> None:
        super().__init__(venv)
        self._first = venv.reset()
        self._told = all(MASK in info for info in venv.reset_infos)

    def reset(self) -> Any:
        """See VecEnv."""
        first, self._first = self._first, None
        return self.venv.reset() if first is None else first

    def step_wait(self) -> StepResult:
        """See VecEnv."""
        self._first = None
        result = self.venv.step_wait()
        if not self._told and any(MASK in info for info in result[-1]):
            raise UsageError(f"infos of steps have an '{MASK}', those of reset have none: it is needed after both")
        return result

    def restore(self, state: dict[str, Any]) -> None:
        """See VecEnv; an episode that began before is not of the run that goes on."""
        self._first = None
        super().restore(state)


class Place(NamedTuple):
    """Where a part is in a row: its first byte, the byte after it, its type and its shape."""

    start: int
    end: int
    dtype: np.dtype
    shape: tuple[int, ...]


class PackedSpace(spaces.Box):
    """Rows of bytes that hold Dict observations.

    Args:
        parts: the observations; of Box, Discrete, MultiDiscrete and MultiBinary parts.
    """

    def __init__(self, parts: spaces.Dict) -> None:
        self.parts, self.places, start = parts, {}, 0
        for name, part in parts.spaces.items():
            dtype, shape = _dtype(name, part), tuple(part.shape or ())
            end = start + math.prod(shape) * dtype.itemsize
            self.places[name] = Place(start, end, dtype, shape)
            start = end
        super().__init__(0, 255, (start,), np.uint8)

    def pack(self, obs: Mapping[str, Any]) -> np.ndarray:
        """Rows [B, bytes] of a batch of observations."""
        return np.concatenate([_bytes(obs[name], place) for name, place in self.places.items()], axis=1)

    def unpack(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """The observations in rows [B, bytes]."""
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
    """The Dict in a PackedSpace; any other space as it is."""
    return space.parts if isinstance(space, PackedSpace) else space


def unpacked(obs: Any, space: spaces.Space) -> Any:
    """A batch of observations of a space, taken out of rows of bytes if it is a PackedSpace."""
    return space.unpack(obs) if isinstance(space, PackedSpace) and not isinstance(obs, Mapping) else obs


class VecPacked(VecEnvObservationWrapper):
    """Dict observations as rows of bytes.

    Args:
        venv: environments with Dict observations.
    """

    def __init__(self, venv: VecEnv) -> None:
        super().__init__(venv, PackedSpace(venv.observation_space))

    def process(self, obs: Mapping[str, np.ndarray]) -> np.ndarray:
        """See VecEnvObservationWrapper."""
        return self.observation_space.pack(obs)


def with_packed_observations(env: VecEnv) -> VecEnv:
    """The environments with action masks beside their observations, and observations of several parts in one row."""
    if isinstance(env.observation_space, PackedSpace):
        return env
    env = with_action_masks(env)
    return VecPacked(env) if isinstance(env.observation_space, spaces.Dict) else env
