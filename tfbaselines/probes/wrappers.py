"""Signs in the wrappers around an environment: the same actions are taken with them and without them."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces

from tfbaselines.doctor.findings import number
from tfbaselines.probes.signs import Sign
from tfbaselines.probes.walks import Course, bounds_of, course, random_action, row_of

SEEDS, STEPS = range(8), 60
# Least steps for a comparison.
LEAST = 20
# Ratio between two scales of rewards or observations that is worth a sign, in powers of ten.
FAR = 2.5
# Explained share of a number of the innermost observations below which it is lost.
LOST = 0.4


class Pair(NamedTuple):
    """One course twice: with all wrappers, and in the innermost environment; and the first observation there."""

    outer: Course
    inner: Course
    first_inner: np.ndarray


def pairs(make: Callable[[], gymnasium.Env]) -> list[Pair]:
    """Take equal random actions from equal seeds, with the wrappers and without."""
    outer, inner = make(), make().unwrapped
    found = []
    try:
        same = isinstance(outer.action_space, type(inner.action_space))
        if not same or outer.action_space.shape != inner.action_space.shape:
            return []
        for seed in SEEDS:
            rng = np.random.default_rng(seed)
            actions = [_inside(inner.action_space, random_action(outer.action_space, rng)) for _ in range(STEPS)]
            first = row_of(inner.observation_space, inner.reset(seed=seed)[0])
            found.append(Pair(course(outer, seed, actions), course(inner, seed, actions), first))
        return found
    finally:
        outer.close()
        inner.close()


def _inside(space: spaces.Space, action: np.ndarray) -> np.ndarray:
    return np.clip(action, space.low, space.high).astype(space.dtype) if isinstance(space, spaces.Box) else action


def wrapper_signs(found: list[Pair]) -> Iterator[Sign]:
    """Judge what wrappers do to rewards, observations and ends."""
    yield from _end_signs(found)
    outer, inner = (np.concatenate([rewards(pair) for pair in found] or [np.zeros(0)]) for rewards in (_outer, _inner))
    if len(outer) >= LEAST:
        yield from _reward_signs(outer, inner, found)
    if found and all(pair.outer.obs.shape[1:] == pair.inner.obs.shape[1:] for pair in found):
        yield from _observation_signs(found)
    if found and all(pair.outer.obs.ndim == 2 for pair in found):
        yield from lost_signs(found)


def _common(pair: Pair) -> int:
    return min(len(pair.outer.rewards), len(pair.inner.rewards))


def _outer(pair: Pair) -> np.ndarray:
    return pair.outer.rewards[: _common(pair)]


def _inner(pair: Pair) -> np.ndarray:
    return pair.inner.rewards[: _common(pair)]


def _reward_signs(outer: np.ndarray, inner: np.ndarray, found: list[Pair]) -> Iterator[Sign]:
    factor = float(outer @ inner / max(inner @ inner, 1e-300))
    fits = inner.any() and np.allclose(outer, factor * inner, rtol=1e-4, atol=1e-6 * np.abs(outer).max())
    if fits and factor < 0:
        yield Sign("reward_sign", f"wrappers multiply them by {number(factor)}", 0.97)
    if fits and factor != 0 and abs(np.log10(abs(factor))) > FAR:
        rule = "reward_large" if abs(factor) > 1 else "reward_small"
        yield Sign(rule, f"wrappers multiply them by {number(factor)}", 0.93)
    if inner.std() > 1e-6 * np.abs(inner).max() and outer.std() == 0:
        if outer.any():
            yield Sign("constant_reward", f"wrappers return {number(outer[0])} whatever the environment pays", 0.95)
        else:
            yield Sign("reward_at_end", "wrappers return 0 in steps that have a reward", 0.93)
    elif not fits and inner.std() > 0:
        late = np.concatenate([_outer(pair)[1:] - factor_of(pair) * _inner(pair)[:-1] for pair in found])
        if np.abs(late).max(initial=np.inf if not len(late) else 0.0) < 1e-4 * max(np.abs(outer).max(), 1e-12):
            yield Sign("reward_delay", "wrappers return each reward a step later", 0.97)


def factor_of(pair: Pair) -> float:
    """Return the factor of rewards that come a step later."""
    later, earlier = _outer(pair)[1:], _inner(pair)[:-1]
    return float(later @ earlier / max(earlier @ earlier, 1e-300))


def _observation_signs(found: list[Pair]) -> Iterator[Sign]:
    outer, inner, before = ([], [], [])
    for pair in found:
        length = _common(pair)
        outer.append(pair.outer.obs[:length])
        inner.append(pair.inner.obs[:length])
        before.append(np.concatenate([pair.first_inner[None], pair.inner.obs[: length - 1]]))
    outer, inner, before = (np.concatenate(rows) for rows in (outer, inner, before))
    if len(outer) < LEAST:
        return
    varied = inner.std(0) > 0
    lost = np.flatnonzero(varied & (outer.std(0) == 0))
    if len(lost):
        shown = ", ".join(map(str, lost[:6]))
        yield Sign("constant_observation", f"wrappers hold number {shown} constant", 0.97)
    kept = varied & (outer.std(0) > 0)
    if not kept.any():
        return
    outer, inner, before = outer[:, kept], inner[:, kept], before[:, kept]
    slopes = (outer - outer.mean(0)) * (inner - inner.mean(0))
    slopes = slopes.mean(0) / inner.var(0)
    if np.allclose(outer - outer.mean(0), slopes * (inner - inner.mean(0)), rtol=1e-3, atol=1e-3 * outer.std(0)):
        factor = float(np.exp(np.log(np.maximum(np.abs(slopes), 1e-300)).mean()))
        # A wrapper that brings them nearer to 1 does well.
        worse = np.abs(np.log(outer.std(0))).mean() > np.abs(np.log(inner.std(0))).mean()
        if worse and abs(np.log10(factor)) > FAR:
            rule = "observation_size" if factor > 1 else "observation_spread"
            yield Sign(rule, f"wrappers multiply them by {number(factor)}", 0.93)
        return
    if np.allclose(outer, before, rtol=1e-4, atol=1e-6):
        yield Sign("observation_delay", "wrappers return each observation a step later", 0.97)


def lost_signs(found: list[Pair]) -> Iterator[Sign]:
    """Judge whether the innermost observations follow from those that wrappers return, by a linear fit for each."""
    outer, inner = (
        np.concatenate([getattr(pair, name).obs[: _common(pair)] for pair in found] or [np.zeros((0, 1))])
        for name in ("outer", "inner")
    )
    if len(outer) < max(LEAST, 4 * outer.shape[1]) or np.array_equal(outer, inner):
        return
    columns = np.concatenate([np.ones((len(outer), 1)), outer], axis=1)
    varied = inner.std(0) > 1e-9 * (1 + np.abs(inner).max(0))
    missed = inner - columns @ np.linalg.lstsq(columns, inner, rcond=None)[0]
    shares = 1 - missed.var(0) / np.maximum(inner.var(0), 1e-300)
    lost = np.flatnonzero(varied & (shares < LOST))
    if len(lost):
        shown = ", ".join(f"{place} ({max(0.0, shares[place]):.0%})" for place in lost[:4])
        yield Sign("lost_observation", f"hardly explained in its number {shown}", 0.8)


def _end_signs(found: list[Pair]) -> Iterator[Sign]:
    ended = [pair for pair in found if pair.inner.over[-1] and len(pair.inner.rewards) < STEPS]
    # Wrappers that change actions end episodes at other times, but they do end them.
    if len(ended) > 1 and not any(pair.outer.over.any() for pair in found):
        yield Sign("no_ends", f"wrappers hide the ends of {len(ended)} of {len(found)} courses", 0.96)


def reach_signs(make: Callable[[], gymnasium.Env]) -> Iterator[Sign]:
    """Judge whether the bounds of actions reach as far as those of the innermost environment."""
    outer = make()
    inner = outer.unwrapped
    try:
        if not all(
            isinstance(env.action_space, spaces.Box) and env.action_space.is_bounded() for env in (outer, inner)
        ):
            return
        if outer.action_space.shape != inner.action_space.shape:
            return
        ratio, effects = _reach(outer, inner)
    finally:
        outer.close()
    if ratio < 0.34:
        what = (
            "of the effect that the innermost environment's own have"
            if effects
            else "of the innermost environment's own"
        )
        certainty = (0.95 if effects else 0.8) if ratio < 0.15 else 0.65
        yield Sign("action_bounds", f"the bounds reach {ratio:.0%} {what}", certainty)


def _reach(outer: gymnasium.Env, inner: gymnasium.Env) -> tuple[float, bool]:
    """Return how far bounds reach, as a share of the innermost ones, and whether effects were compared.

    Effects can be compared if wrappers leave observations as they are.
    """
    ratios = []
    for seed in SEEDS:
        firsts = [row_of(env.observation_space, env.reset(seed=seed)[0]) for env in (outer, inner)]
        if firsts[0].shape != firsts[1].shape or not np.allclose(*firsts):
            widths = [np.subtract(*bounds_of(env.action_space)[::-1]) for env in (outer, inner)]
            return float(np.median(widths[0] / np.maximum(widths[1], 1e-12))), False
        sizes = []
        for env in (outer, inner):
            low, high = bounds_of(env.action_space)
            ends = [course(env, seed, [end.astype(env.action_space.dtype)] * 2) for end in (low, high)]
            length = min(len(one.rewards) for one in ends)
            sizes.append(float(np.abs(ends[0].obs[:length] - ends[1].obs[:length]).max()))
        if sizes[1] > 0:
            ratios.append(sizes[0] / sizes[1])
    return (float(np.median(ratios)), True) if ratios else (1.0, False)
