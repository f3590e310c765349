"""What an environment of the user's own would do to a run, found by stepping it: mistakes, and advice."""

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces

from tfbaselines.envs.monitor import success_of
from tfbaselines.envs.state import episode_state, in_words, restore_episode
from tfbaselines.envs.vec.checks import EXAMINE, why
from tfbaselines.envs.vec.observations import MASK, named_parts_of
from tfbaselines.envs.vec.packed import choices_of, read_mask

MISTAKE, ADVICE, RIGHT = "change", "advice", "right"

OBSERVATIONS = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary, spaces.Dict, spaces.Tuple)
ACTIONS = (spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary, spaces.Box)
# Those that a mask may forbid some of.
MASKED = (spaces.Discrete, spaces.MultiDiscrete)
# Networks learn slowly from inputs that are much larger than one, and from returns that are.
LARGE_INPUT, LARGE_REWARD = 100.0, 100.0
SEED = 0


class Finding(NamedTuple):
    """One result: MISTAKE, ADVICE or RIGHT, and a line of text."""

    kind: str
    text: str


class Step(NamedTuple):
    """What one step returned."""

    obs: Any
    reward: Any
    terminated: Any
    truncated: Any
    info: Any


def check(make: Callable[[], gymnasium.Env], steps: int = 1000) -> Iterator[Finding]:
    """Examine an environment.

    Args:
        make: makes it, twice.
        steps: random steps that are taken.

    Yields:
        Findings; the first mistake that nothing can follow is the last of them.
    """
    env, unclosed = make(), []
    try:
        yield from _findings(env, make, steps)
    except _Wrong as wrong:
        yield Finding(MISTAKE, str(wrong))
    finally:
        # Nothing can be yielded here, as nobody may listen any more.
        try:
            _called("close()", env.close)
        except _Wrong as wrong:
            unclosed.append(Finding(MISTAKE, str(wrong)))
    yield from unclosed


class _Wrong(Exception):
    """A mistake after which nothing more can be found."""


def _findings(env: gymnasium.Env, make: Callable[[], gymnasium.Env], steps: int) -> Iterator[Finding]:
    fatal = yield from _spaces(env)
    if fatal:
        return
    seen, speed = _walk(env, steps)
    yield Finding(RIGHT, f"{len(seen)} random steps fit the spaces, and no number is NaN or infinite")
    yield from _numbers(env, seen)
    yield from _episodes(env, seen, speed)
    yield from _determinism(env, make)
    yield from _going_on(env)


def _spaces(env: gymnasium.Env) -> Iterator[Finding]:
    """Findings on the spaces; returns whether they rule every algorithm out."""
    fatal = False
    for name, accepted in (("observation_space", OBSERVATIONS), ("action_space", ACTIONS)):
        space = getattr(env, name, None)
        if not isinstance(space, accepted):
            fatal = True
            names = ", ".join(kind.__name__ for kind in accepted)
            yield Finding(MISTAKE, f"{name} is {type(space).__name__}: it must be one of {names}")
    if fatal:
        return True
    if not (space := env.observation_space).is_np_flattenable or (hasattr(space, "spaces") and not len(space.spaces)):
        yield Finding(MISTAKE, f"observation_space {space!s:.100}: it must have parts, and none of unknown length")
        return True
    if isinstance(env.action_space, spaces.MultiDiscrete) and len(env.action_space.shape) != 1:
        yield Finding(MISTAKE, f"action_space {' '.join(str(env.action_space).split())}: nvec must be of rank 1")
        return True
    yield Finding(RIGHT, f"observations {_shown(env.observation_space)}, actions {_shown(env.action_space)}")
    for space in _boxes(env.observation_space):
        if len(space.shape) == 3 and (space.dtype != np.uint8 or space.shape[-1] not in (1, 3, 4)):
            text = f"observations {_shown(space)} are no images to a cnn: these are uint8, with channels last"
            yield Finding(ADVICE, text)
    yield from _of_actions(env.action_space)
    yield from _of_masks(env)
    return False


def _of_actions(space: spaces.Space) -> Iterator[Finding]:
    if not isinstance(space, spaces.Box):
        return
    if not space.is_bounded():
        yield Finding(ADVICE, "actions without bounds: sac, td3 and ddpg need them: give the Box finite low and high")
    elif not (np.allclose(space.low, -1.0) and np.allclose(space.high, 1.0)):
        text = "actions are not between -1 and 1: ppo2, a2c, trpo_mpi and others begin with a deviation of 1 around 0"
        yield Finding(ADVICE, f"{text} (gymnasium.wrappers.RescaleAction)")


def _of_masks(env: gymnasium.Env) -> Iterator[Finding]:
    if isinstance(env.observation_space, spaces.Dict) and isinstance(env.action_space, MASKED):
        part, count = named_parts_of(env.observation_space).spaces.get(MASK), choices_of(env.action_space)
        if part is not None and part.shape != (count,):
            text = f"observations have {part!s:.100} as '{MASK}'"
            yield Finding(MISTAKE, f"{text}: it must have the {count} choices in a row, MultiBinary({count})")


def _walk(env: gymnasium.Env, steps: int) -> tuple[list[Step], float]:
    """Random steps from a seeded reset, and how many there were a second; _Wrong for one that does not fit."""
    env.action_space.seed(SEED)
    seen, taken = [], 0.0
    mask = first = _mask(env, *_check_reset(env, _called("reset", env.reset, seed=SEED)), "reset")
    for number in range(1, steps + 1):
        what, action = f"step {number}", _sample(env.action_space, mask)
        begun = time.perf_counter()
        result = _called(f"{what} with action {action}", env.step, action)
        taken += time.perf_counter() - begun
        step = _check_step(env, result, what)
        seen.append(step)
        over = step.terminated or step.truncated
        mask = _mask(env, step.obs, step.info, what, some=not over)
        if over:
            what = "reset after an end"
            mask = _mask(env, *_check_reset(env, _called(what, env.reset)), what)
        if (mask is None) != (first is None):
            text = f"no '{MASK}', which was there before" if mask is None else f"an '{MASK}' for the first time"
            raise _Wrong(f"after {what}: {text}: it is needed after every step and reset")
    return seen, len(seen) / max(taken, 1e-9)


def _called(what: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    try:
        return function(*args, **kwargs)
    except Exception as error:
        text = why(error).removesuffix(f": {EXAMINE}")
        raise _Wrong(f"{what} failed: {' '.join(text.split())[:500]}") from None


def _mask(env: gymnasium.Env, obs: Any, info: dict[str, Any], what: str, some: bool = True) -> np.ndarray | None:
    """The actions that are allowed, as training reads them: 1 or 0 for each choice, those of all parts in a row.

    Args:
        env: the environment.
        obs: an observation, which may have the mask as a part.
        info: beside it, which may have the mask else.
        what: returned them, for errors.
        some: whether something must be allowed; nothing need be after the last step.

    Returns:
        The mask; None where there is none. _Wrong for one that training refuses.
    """
    space, in_obs = env.action_space, isinstance(obs, dict) and MASK in obs
    if not in_obs and (MASK not in info or isinstance(space, spaces.Box)):
        return None
    try:
        if not isinstance(space, MASKED):
            raise UsageError(f"an '{MASK}' is for Discrete and MultiDiscrete actions, not {space!s:.100}")
        return read_mask((obs if in_obs else info)[MASK], space, some)
    except ValueError as error:
        raise _Wrong(f"after {what}: {error}") from None


def _sample(space: spaces.Space, mask: np.ndarray | None) -> Any:
    """A random action, of those that are allowed."""
    if mask is None:
        return space.sample()
    parts = tuple(np.split(mask, np.cumsum(space.nvec)[:-1])) if isinstance(space, spaces.MultiDiscrete) else mask
    return space.sample(mask=parts)


def _check_reset(env: gymnasium.Env, result: Any) -> tuple[Any, dict[str, Any]]:
    if not (isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], dict)):
        raise _Wrong("reset must return (observation, info), info being a dict")
    _check_observation(env.observation_space, result[0], "reset's observation")
    return result


def _check_step(env: gymnasium.Env, result: Any, what: str) -> Step:
    if not (isinstance(result, tuple) and len(result) == 5):
        raise _Wrong("step must return (observation, reward, terminated, truncated, info)")
    step = Step(*result)
    _check_observation(env.observation_space, step.obs, f"the observation of {what}")
    if not isinstance(step.reward, int | float | np.number):
        raise _Wrong(f"the reward of {what} is of type {type(step.reward).__name__}: it must be a number")
    if not np.isfinite(step.reward):
        raise _Wrong(f"the reward of {what} is {step.reward}")
    for name in ("terminated", "truncated"):
        if not isinstance(getattr(step, name), bool | np.bool_):
            raise _Wrong(f"{name} of {what} is {getattr(step, name)!r}: it must be True or False")
    if not isinstance(step.info, dict):
        raise _Wrong(f"the info of {what} is of type {type(step.info).__name__}: it must be a dict")
    try:
        success_of(step.info)
    except ValueError as error:
        raise _Wrong(f"{what}: {error}") from None
    return step


def _check_observation(space: spaces.Space, obs: Any, what: str) -> None:
    """_Wrong for an observation that is not in its space; names the part, and in what it differs."""
    if isinstance(space, spaces.Dict):
        if not isinstance(obs, dict) or obs.keys() != space.spaces.keys():
            raise _Wrong(f"{what} must be a dict with {', '.join(space.spaces)}")
        for name, part in space.spaces.items():
            _check_observation(part, obs[name], f"{what}['{name}']")
    elif isinstance(space, spaces.Box):
        array = np.asarray(obs)
        if array.shape != space.shape:
            raise _Wrong(f"{what} has shape {array.shape}, its space {space.shape}")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise _Wrong(f"{what} is NaN or infinite")
        if not np.can_cast(array.dtype, space.dtype, "same_kind"):
            raise _Wrong(f"{what} is of type {array.dtype}, its space of {space.dtype}")
        if (array < space.low).any() or (array > space.high).any():
            raise _Wrong(f"{what} is outside of its space's bounds: widen low and high of the Box, or clip")
    elif not space.contains(obs):
        raise _Wrong(f"{what} ({str(obs)[:60]}) is not in {space}")


def _numbers(env: gymnasium.Env, seen: list[Step]) -> Iterator[Finding]:
    rewards = np.array([float(step.reward) for step in seen])
    if isinstance(env.observation_space, spaces.Box) and env.observation_space.dtype != np.uint8:
        largest = max(float(np.abs(step.obs).max(initial=0.0)) for step in seen)
        if largest > LARGE_INPUT:
            text = f"observations reach {largest:.3g}: --normalize_observations=True, or scale them to about 1"
            yield Finding(ADVICE, text)
    if np.abs(rewards).max() > LARGE_REWARD:
        yield Finding(ADVICE, f"rewards reach {np.abs(rewards).max():.3g}: --reward_scale, or scale them to about 1")
    if (rewards == rewards[0]).all() and not any(step.terminated for step in seen):
        yield Finding(ADVICE, f"every random step gave the reward {rewards[0]:g}: there is little to learn from")
    if any(MASK in step.info for step in seen):
        yield Finding(RIGHT, "infos have action masks")


def _episodes(env: gymnasium.Env, seen: list[Step], speed: float) -> Iterator[Finding]:
    ends = sum(bool(step.terminated or step.truncated) for step in seen)
    limited = env.spec is not None and env.spec.max_episode_steps is not None
    if not ends and not limited:
        text = f"no episode ended within {len(seen)} steps and there is no time limit: episodes are what returns are of"
        yield Finding(ADVICE, f"{text} (max_episode_steps in gymnasium.register)")
    yield Finding(RIGHT, f"{ends} episodes ended; {speed:,.0f} steps a second")


def _determinism(env: gymnasium.Env, make: Callable[[], gymnasium.Env]) -> Iterator[Finding]:
    """Whether two environments with one seed and the same actions show the same."""
    other = make()
    try:
        same = _same_course(env, other)
    finally:
        # The first environment's close() is the same, and its failure a finding.
        with contextlib.suppress(Exception):
            other.close()
    if same:
        yield Finding(RIGHT, "one seed gives one course")
    else:
        text = "two environments with one seed differ: draw from self.np_random, after super().reset(seed=seed)"
        yield Finding(MISTAKE, text)


def _same_course(env: gymnasium.Env, other: gymnasium.Env, steps: int = 50) -> bool:
    env.action_space.seed(SEED)
    what = "reset"
    one, two = (_check_reset(each, _called(what, each.reset, seed=SEED)) for each in (env, other))
    for number in range(1, steps + 1):
        if not _alike(one, two):
            return False
        action = _sample(env.action_space, _mask(env, one[0], one[-1], what))
        what = f"step {number} of an episode begun again"
        results = [_called(f"{what} with action {action}", each.step, action) for each in (env, other)]
        one, two = (_check_step(env, result, what) for result in results)
        if one.terminated or one.truncated:
            break
    return _alike(one, two)


def _alike(one: tuple, two: tuple) -> bool:
    """Whether two resets or steps returned the same; of the infos, their last parts, only masks count."""
    return _equal((*one[:-1], one[-1].get(MASK)), (*two[:-1], two[-1].get(MASK)))


def _going_on(env: gymnasium.Env) -> Iterator[Finding]:
    """Whether an episode can be saved and taken up again."""
    failures: list[str] = []

    def failed(what: str, why: str) -> None:
        failures.append(in_words(what, why))

    state = episode_state(env, failed)
    if state is not None:
        restore_episode(env, state, failed)
    if failures:
        yield Finding(ADVICE, f"{failures[0]} (if it is for something else: give it another name)")
    elif state is None:
        text = "a resumed run begins its episode anew: get_state() and set_state(state) would let it go on"
        yield Finding(ADVICE, f"{text} (every wrapper needs them too)")


def _equal(one: Any, two: Any) -> bool:
    if isinstance(one, dict):
        return one.keys() == two.keys() and all(_equal(one[name], two[name]) for name in one)
    if isinstance(one, list | tuple):
        return len(one) == len(two) and all(map(_equal, one, two))
    return bool(np.array_equal(one, two))


def _boxes(space: spaces.Space) -> Iterator[spaces.Box]:
    if isinstance(space, spaces.Box):
        yield space
    for part in getattr(space, "spaces", {}).values() if isinstance(space, spaces.Dict) else ():
        yield from _boxes(part)


def _shown(space: spaces.Space) -> str:
    if isinstance(space, spaces.Box):
        return f"Box {space.shape} {space.dtype}"
    if isinstance(space, spaces.Dict):
        return f"Dict of {', '.join(f'{name}: {_shown(part)}' for name, part in space.spaces.items())}"
    return str(space)
