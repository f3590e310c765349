"""Examine a user's environment: Gymnasium's own check, a random walk under the checks of training, and advice."""

import re
import time
import warnings
from collections import namedtuple
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env
from gymnasium.utils.passive_env_checker import env_reset_passive_checker, env_step_passive_checker

from tfbaselines.envs.monitor import success_of
from tfbaselines.envs.state import episode_state, in_words, restore_episode
from tfbaselines.envs.vec.observations import (
    MASK,
    Fit,
    Misfit,
    array_parts,
    fault_of_space,
    is_image,
    named_parts,
    named_parts_of,
    parts_of,
    parts_of_obs,
    without_arrays,
)
from tfbaselines.envs.vec.packed import read_mask
from tfbaselines.envs.vec.worker import EXAMINE, why
from tfbaselines.errors import UsageError

MISTAKE, ADVICE, RIGHT = "change", "advice", "right"

OBSERVATIONS = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary, spaces.Dict, spaces.Tuple)
ACTIONS = (spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary, spaces.Box)
# Action spaces that a mask can restrict.
MASKED = (spaces.Discrete, spaces.MultiDiscrete)
# Networks learn slowly from larger inputs and returns.
LARGE_INPUT, LARGE_REWARD = 100.0, 100.0
SEED = 0

# Findings of Gymnasium that training does not depend on. Other exceptions are mistakes, and so are these warnings.
HARMLESS = re.compile("share an object|truncates after 1 step")
WRONG_RESULT = re.compile("^(The reward|Expects|The result|Core environment|Current gymnasium)")
OUTSIDE = "not within the observation space"
# Its notice on wrappers, and on bounds of observations that no algorithm here needs.
IGNORED = re.compile("different from the unwrapped|^A Box observation space m.*infin")
# Before the texts of its warnings.
PREFIX = re.compile(r"^\x1b\[\d+mWARN: |\x1b\[0m$|^WARN: ")


class Finding(NamedTuple):
    """A result: MISTAKE, ADVICE or RIGHT, and a line of text."""

    kind: str
    text: str


Step = namedtuple("Step", "obs reward terminated truncated info")


class _Wrong(Exception):
    """A mistake that ends the examination."""


def check(make: Callable[[], gymnasium.Env], steps: int = 1000) -> Iterator[Finding]:
    """Yield findings on the environment that `make` makes; a mistake that prevents further checks is the last."""
    env, unclosed = _Watched(make()), []
    try:
        yield from _findings(env, steps)
    except _Wrong as wrong:
        yield Finding(MISTAKE, str(wrong))
    finally:
        # A generator that is closed early must not yield here.
        try:
            _called("close()", env.close)
        except _Wrong as wrong:
            unclosed.append(Finding(MISTAKE, str(wrong)))
    yield from unclosed


def _findings(env: "_Watched", steps: int) -> Iterator[Finding]:
    for finding in _gymnasium_findings(env, check_env, env, skip_render_check=True, skip_close_check=True)[1]:
        yield finding
        if finding.kind == MISTAKE:
            return
    yield Finding(RIGHT, "Gymnasium's check_env finds no mistake, and one seed gives one course")
    yield from _spaces(env)
    seen, speed = _walk(env, steps)
    yield Finding(RIGHT, f"{len(seen)} random steps fit the spaces, and no number is NaN or infinite")
    yield from _numbers(env, seen)
    yield from _episodes(env, seen, speed)
    yield from _continuation(env.env)


def _gymnasium_findings(
    env: "_Watched", function: Callable[..., Any], *args: Any, **kwargs: Any
) -> tuple[Any, list[Finding]]:
    """Call a check of Gymnasium; return its result and its exceptions and warnings as findings."""
    result = None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = function(*args, **kwargs)
            failed = []
        except _Wrong:
            raise
        except Exception as error:
            failed = [_judged(env, " ".join(str(error).split()), HARMLESS.search(str(error)) is None)]
    texts = [str(warning.message) for warning in caught if PREFIX.search(str(warning.message))]
    texts = dict.fromkeys(PREFIX.sub("", text) for text in texts)
    return result, [
        *(_judged(env, text, WRONG_RESULT.match(text) is not None) for text in texts if not IGNORED.search(text)),
        *failed,
    ]


def _judged(env: "_Watched", text: str, wrong: bool) -> Finding:
    """Make a finding of Gymnasium's text, with the reason for an observation that is not in its space."""
    if OUTSIDE in text:
        wrong = True
        reason = _misfit(env.observation_space, env.obs)
        text = f"{text.rstrip('.')}{f': {reason}' if reason else ''}"
    return Finding(MISTAKE if wrong else ADVICE, text)


def _misfit(space: spaces.Space, obs: Any) -> str | None:
    """Return why training or the bounds of its space refuse an observation; None for one that fits."""
    parts, named = _parts(space), parts_of_obs(named_parts(obs))
    several = isinstance(space, spaces.Dict | spaces.Tuple)
    try:
        Fit(spaces.Dict(parts) if several else space)(named if several else obs)
    except Misfit as misfit:
        return str(misfit)
    for name, part in parts.items():
        array = np.asarray(named[name])
        shown = f"observation, part '{name}'," if several else "observation"
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            return f"{shown} is NaN or infinite"
        if isinstance(part, spaces.Box) and ((array < part.low).any() or (array > part.high).any()):
            return f"{shown} is outside of its space's bounds: widen low and high of the Box, or clip"
        if array.dtype != part.dtype:
            return f"{shown} has dtype {array.dtype}, its space has dtype {part.dtype}"
    return None


def _called(what: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    try:
        return function(*args, **kwargs)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        text = why(error).removesuffix(f": {EXAMINE}")
        raise _Wrong(f"{what} failed: {' '.join(text.split())[:500]}") from None


class _Watched(gymnasium.Wrapper):
    """Name calls that fail, keep the latest observation, and replace actions that a mask forbids."""

    def __init__(self, env: gymnasium.Env) -> None:
        super().__init__(env)
        self.steps = 0
        # Time of the steps.
        self.seconds = 0.0
        self.obs: Any = None
        self._mask: np.ndarray | None = None
        self._masked: bool | None = None

    def reset(self, **kwargs: Any) -> Any:
        result = _called("reset", self.env.reset, **kwargs)
        if isinstance(result, tuple) and len(result) == 2:
            self._watch("reset", *result)
        return result

    def step(self, action: Any) -> Any:
        self.steps += 1
        action = self._allowed(action)
        begun = time.perf_counter()
        result = _called(f"step {self.steps} with action {action}", self.env.step, action)
        self.seconds += time.perf_counter() - begun
        if isinstance(result, tuple) and len(result) == 5:
            over = bool(result[2] or result[3])
            self._watch(f"step {self.steps}", result[0], result[-1], some=not over)
        return result

    def _watch(self, what: str, obs: Any, info: Any, some: bool = True) -> None:
        self.obs = obs
        space = self.action_space
        source = obs if isinstance(obs, dict) and MASK in obs else info
        masked = isinstance(source, dict) and MASK in source and (source is obs or not isinstance(space, spaces.Box))
        if self._masked is None:
            self._masked = masked
        if masked != self._masked:
            text = f"no '{MASK}', which was there before" if self._masked else f"an '{MASK}' for the first time"
            raise _Wrong(f"after {what}: {text}: it is needed after every step and reset")
        if masked and not isinstance(space, MASKED):
            text = f"an '{MASK}' is for Discrete and MultiDiscrete actions, not {space!s:.100}"
            raise _Wrong(f"after {what}: {text}")
        try:
            self._mask = read_mask(source[MASK], space, some) if masked else None
        except ValueError as error:
            raise _Wrong(f"after {what}: {error}") from None

    def _allowed(self, action: Any) -> Any:
        """Replace forbidden choices by the next allowed ones."""
        if self._mask is None or not self._mask.any():
            return action
        space = self.action_space
        counts = np.ravel(space.nvec if isinstance(space, spaces.MultiDiscrete) else space.n)
        choices = np.ravel(action - space.start)
        for i, mask in enumerate(np.split(self._mask, np.cumsum(counts)[:-1])):
            allowed = np.flatnonzero(mask)
            choices[i] = allowed[np.searchsorted(allowed, choices[i]) % len(allowed)]
        return space.dtype.type(choices.reshape(np.shape(action))) + space.start


def _spaces(env: gymnasium.Env) -> Iterator[Finding]:
    seen, actions = env.observation_space, env.action_space
    for name, space, accepted in (("observation", seen, OBSERVATIONS), ("action", actions, ACTIONS)):
        if not isinstance(space, accepted):
            names = ", ".join(kind.__name__ for kind in accepted)
            raise _Wrong(f"{name}_space is {type(space).__name__}: it must be one of {names}")
    try:
        dropped = without_arrays(seen)
    except UsageError as error:
        raise _Wrong(str(error)) from None
    if dropped:
        yield Finding(ADVICE, dropped)
    for name, space in (("observation", seen), ("action", actions)):
        if fault := fault_of_space(space):
            raise _Wrong(f"{name}_space {space!s:.100} is not valid: {fault}")
    if isinstance(actions, spaces.MultiDiscrete) and len(actions.shape) != 1:
        raise _Wrong(f"action_space {' '.join(str(actions).split())}: nvec must be of rank 1")
    yield Finding(RIGHT, f"observations {_shown(seen)}, actions {_shown(actions)}")
    for part in _parts(seen).values():
        picture = is_image(part) and part.shape[-1] in (1, 3, 4)
        if isinstance(part, spaces.Box) and len(part.shape) == 3 and not picture:
            text = f"observations {_shown(part)} are no images to a cnn: images are uint8 with channels last"
            yield Finding(ADVICE, text)
    if isinstance(actions, spaces.Box) and not actions.is_bounded():
        yield Finding(ADVICE, "actions without bounds: sac, td3 and ddpg need them: give the Box finite low and high")


def _parts(space: spaces.Space) -> dict[str, spaces.Space]:
    if not isinstance(space, spaces.Dict | spaces.Tuple):
        return parts_of(space)
    return array_parts(named_parts_of(space).spaces)


def _walk(env: _Watched, steps: int) -> tuple[list[Step], float]:
    """Take random steps from a seeded reset; return them and their number per second."""
    env.action_space.seed(SEED)
    env.steps = 0
    env.seconds = 0.0
    seen = []
    _examined(env, env_reset_passive_checker, env, seed=SEED)
    for number in range(1, steps + 1):
        step = Step(*_examined(env, env_step_passive_checker, env, env.action_space.sample()))
        try:
            success_of(step.info)
        except ValueError as error:
            raise _Wrong(f"step {number}: {error}") from None
        seen.append(step)
        if step.terminated or step.truncated:
            _examined(env, env_reset_passive_checker, env)
    return seen, len(seen) / max(env.seconds, 1e-9)


def _examined(env: _Watched, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    result, findings = _gymnasium_findings(env, function, *args, **kwargs)
    for finding in findings:
        if finding.kind == MISTAKE:
            raise _Wrong(f"step {env.steps}: {finding.text}")
    return result


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
        text = f"no episode ended within {len(seen)} steps and there is no time limit: returns are sums over episodes"
        yield Finding(ADVICE, f"{text} (max_episode_steps in gymnasium.register)")
    yield Finding(RIGHT, f"{ends} episodes ended; {speed:,.0f} steps a second")


def _continuation(env: gymnasium.Env) -> Iterator[Finding]:
    """Find whether a resumed run can continue an episode."""
    failures: list[str] = []

    def failed(what: str, why: str) -> None:
        failures.append(in_words(what, why))

    state = episode_state(env, failed)
    if state is not None:
        restore_episode(env, state, failed)
    if failures:
        yield Finding(ADVICE, f"{failures[0]} (if it is for something else: give it another name)")
    elif state is None:
        text = "a resumed run begins another episode: get_state() and set_state(state) would continue it"
        yield Finding(ADVICE, f"{text} (every wrapper needs them too)")


def _shown(space: spaces.Space) -> str:
    if isinstance(space, spaces.Box):
        return f"Box {space.shape} {space.dtype}"
    if isinstance(space, spaces.Dict):
        return f"Dict of {', '.join(f'{name}: {_shown(part)}' for name, part in space.spaces.items())}"
    return str(space)
