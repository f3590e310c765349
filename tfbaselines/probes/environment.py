"""Signs in an environment: what its observations, rewards, actions and ends are like, from recorded steps."""

from collections.abc import Iterator, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from tfbaselines.doctor.findings import number
from tfbaselines.probes.prediction import Explained
from tfbaselines.probes.signs import Sign
from tfbaselines.probes.walks import (
    AFTER,
    BEFORE,
    Course,
    Effect,
    Walk,
    bounds_of,
    course,
    different_actions,
    effect,
    random_action,
    with_action,
)

# Sizes of observations and of rewards beyond which networks learn slowly; far beyond, hardly at all.
LARGE_OBS, FAR_TOO_LARGE_OBS = 100.0, 1e4
LARGE_REWARD, FAR_TOO_LARGE_REWARD = 200.0, 1e3
SMALL_REWARD, FAR_TOO_SMALL_REWARD = 5e-3, 5e-4
# Deviations of the number that varies most.
SMALL_SPREAD, FAR_TOO_SMALL_SPREAD = 0.02, 0.005
# Share of steps with a reward below which rewards are sparse.
SPARSE = 0.002
# Seeds of the experiments.
SEEDS = range(6)
# Shares of the range of actions whose effects are compared.
SHARES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
# Differences of explained shares that are clear.
CLEAR, NONE = 0.5, 0.02
# Share of different rewards that may be noise, and explained share of the next observation that may be none.
NOISE, UNRELATED = 0.5, 0.2


def observation_signs(walk: Walk) -> Iterator[Sign]:
    """Judge the scale and the constancy of observations as the environment returns them."""
    spread = walk.next_obs.std(0)
    if walk.obs.shape[1] > 1 or spread.any():
        constant = np.flatnonzero(np.ptp(walk.next_obs, axis=0) == 0)
        if len(constant) == walk.obs.shape[1]:
            yield Sign("constant_observation", f"all {len(constant)} numbers are always the same", 0.97)
        elif len(constant):
            certainty = 0.75 if np.any(walk.next_obs[0, constant] != 0) else 0.5
            yield Sign("constant_observation", f"number {_listed(constant)} is always the same", certainty)
    else:
        yield Sign("constant_observation", "the only number is always the same", 0.3)


def size_signs(obs: np.ndarray, rewards: np.ndarray) -> Iterator[Sign]:
    """Judge the sizes of observations [T, n] and rewards [T] as the learner gets them, after all normalization."""
    typical = float(np.quantile(np.abs(obs), 0.95, axis=0).max(initial=0.0))
    spread = float(obs.std(0).max(initial=0.0))
    if typical > LARGE_OBS:
        certainty = 0.95 if typical > FAR_TOO_LARGE_OBS else 0.6
        yield Sign("observation_size", f"{number(typical)} in size", certainty)
    elif 0 < spread < SMALL_SPREAD:
        certainty = 0.92 if spread < FAR_TOO_SMALL_SPREAD else 0.7
        yield Sign("observation_spread", f"{number(spread)} in each of their numbers", certainty)
    paid = np.abs(rewards[rewards != 0])
    if not len(paid):
        yield Sign("no_reward", f"none of {len(rewards)} random steps had a reward", 0.5)
        return
    if len(paid) < SPARSE * len(rewards):
        yield Sign("no_reward", f"{len(paid)} of {len(rewards)} random steps had a reward", 0.4)
    typical = float(np.median(paid))
    if typical > LARGE_REWARD:
        yield Sign("reward_large", f"{number(typical)} a step", 0.95 if typical > FAR_TOO_LARGE_REWARD else 0.65)
    largest = float(np.quantile(paid, 0.95))
    if largest < SMALL_REWARD:
        yield Sign("reward_small", f"{number(largest)} a step", 0.92 if largest < FAR_TOO_SMALL_REWARD else 0.8)


def reward_signs(walk: Walk, threshold: float | None, limit: int | None) -> Iterator[Sign]:
    """Judge the sign of rewards.

    Args:
        walk: random steps.
        threshold: return that counts as a solution, from the registry; None if it has none.
        limit: most steps in an episode; None if there is no limit.
    """
    rewards = walk.rewards
    # An end may bring the first reward above 0, so some must have been seen.
    ended = int(walk.terminated.sum()) >= 5
    if ended and threshold is not None and threshold > 0 and (rewards <= 0).all() and (rewards < 0).any():
        value = f"never above 0, but the registry's solved return is {number(threshold)}"
        yield Sign("reward_sign", value, 0.93)
    elif (rewards < 0).all() and np.ptp(rewards) == 0 and len(walk.lengths) > 4:
        always = walk.terminated[walk.over].all()
        if always and limit is not None and walk.lengths.mean() < 0.25 * limit:
            value = f"{number(rewards[0])} in every step, so ending at once is best"
            yield Sign("reward_sign", value, 0.8)
    if rewards.any() and np.ptp(rewards) == 0 and not walk.terminated.any() and len(rewards) >= 300:
        value = f"{number(rewards[0])} in each of {len(rewards)} random steps, and only time limits end episodes"
        yield Sign("constant_reward", value, 0.5)
    if len(walk.lengths) > 4 and walk.lengths.mean() > 10 and rewards.any() and not rewards[~walk.over].any():
        yield Sign("reward_at_end", f"0 in all but the last steps of {len(walk.lengths)} episodes", 0.45)


def prediction_signs(found: Explained, effects: Sequence[Effect]) -> Iterator[Sign]:
    """Judge delays and missing observations from fits; `effects` are those of single actions, if they were measured."""
    soonest = min((one.obs for one in effects), default=0.0)
    if (
        found.late - found.now > CLEAR / 2
        and found.late > found.alone + CLEAR / 2
        and found.two - found.late < CLEAR / 2
    ):
        value = f"{found.late:.0%} explained by the action before, {found.now:.0%} by the action itself"
        yield Sign("observation_delay", value, 0.93 if soonest >= 1 else 0.7)
    elif found.two - max(found.both, found.now) > 0.3 and found.two > CLEAR:
        value = f"{max(found.both, found.now):.0%} explained by one observation, {found.two:.0%} by two"
        yield Sign("hidden_velocity", value, 0.93 if found.two - found.both > CLEAR else 0.75)
    if found.reward_late - found.reward_now > CLEAR / 2 and found.reward_late > 0.8:
        value = f"{found.reward_late:.0%} explained by the step before, {found.reward_now:.0%} by the step itself"
        yield Sign("reward_delay", value, 0.93)
    if found.next_obs < UNRELATED:
        value = f"{found.next_obs:.0%} explained by the two before and the actions"
        yield Sign("noisy_observations", value, 0.65)
    elif found.noise > NOISE and max(found.reward_now, found.reward_late) < NONE:
        value = f"{found.reward_now:.0%} explained by the step and the one after, in {found.noise:.0%} different values"
        yield Sign("reward_noise", value, 0.85)
    gained = found.both - found.alone, found.reward_now - found.reward_alone
    if not effects and found.alone < 0.98 and all(np.isnan(one) or one < NONE for one in gained):
        value = f"{found.alone:.0%} explained without the action, {found.both:.0%} with it"
        yield Sign("actions_ignored", value, 0.85)


def repeated_start(walk: Walk) -> Iterator[Sign]:
    """Find a first step that returns the observation of the reset once more: later ones come a step late."""
    starts = np.flatnonzero(walk.first)
    later = np.flatnonzero(~walk.first)
    if len(starts) < 3 or len(later) < 20 or walk.obs.std(0).max() == 0:
        return
    same = (walk.next_obs[starts] == walk.obs[starts]).all(1).mean()
    same_later = (walk.next_obs[later] == walk.obs[later]).all(1).mean()
    if same == 1 and same_later < 0.2:
        yield Sign("observation_delay", "the first step of every episode returns the first observation again", 0.95)


def reset_signs(walk: Walk) -> Iterator[Sign]:
    """Find resets that return the last observation of the episode before: nothing was reset."""
    starts = np.flatnonzero(walk.first)[1:]
    if len(starts) >= 5 and walk.obs.std(0).any():
        same = (walk.obs[starts] == walk.next_obs[starts - 1]).all(1)
        if same.mean() > 0.9:
            value = f"the last one of the episode before, after {int(same.sum())} of {len(starts)} resets"
            yield Sign("no_resets", value, 0.95)


class NotRepeatable(Exception):
    """Equal actions after equal seeds gave different courses, so experiments with single actions say nothing."""


def experiments(env: gymnasium.Env) -> tuple[list[list[Effect]], list[tuple[int, int]]]:
    """Compare the effects of different actions in the same states.

    Returns:
        The effects of each action after the first in place of the first, by seed; and the pairs of actions with the
        same results.
    """
    space = env.action_space
    actions = different_actions(space)
    tried: list[list[Course]] = []
    for seed in SEEDS:
        before, after = _around(space, seed)
        courses = [course(env, seed, with_action(action, before, after)) for action in actions]
        if not effect(courses[0], course(env, seed, with_action(actions[0], before, after))).same:
            raise NotRepeatable
        if len(courses[0].rewards) > BEFORE:
            tried.append(courses)
    effects = [[effect(courses[0], courses[i], BEFORE) for courses in tried] for i in range(1, len(actions))]
    pairs = [(i, j) for j in range(len(actions)) for i in range(j)]
    equal = [(i, j) for i, j in pairs if all(effect(courses[i], courses[j], BEFORE).same for courses in tried)]
    return effects, equal


def _around(space: spaces.Space, seed: int) -> tuple[list[Any], list[Any]]:
    rng = np.random.default_rng(seed)
    before, after = ([random_action(space, rng) for _ in range(count)] for count in (BEFORE, AFTER))
    return before, after


def effect_signs(effects: Sequence[Sequence[Effect]], equal: Sequence[tuple[int, int]]) -> Iterator[Sign]:
    """Judge whether actions matter, and how soon; see `experiments` for the arguments."""
    every = [one for found in effects for one in found]
    if not every:
        return
    if all(one.same for one in every):
        value = f"{len(effects) + 1} different actions in the same {len(effects[0])} states had the same results"
        yield Sign("actions_ignored", value, 0.97)
        return
    if equal:
        shown = ", ".join(f"{i} and {j}" for i, j in equal[:4])
        yield Sign("equal_actions", f"the same for the actions {shown}", 0.4)
    obs = min(one.obs for one in every)
    if 1 <= obs < np.inf:
        yield Sign("late_effect", f"an action shows {obs:.0f} step later at the earliest", 0.5)
    # Rewards that change at ends alone come later in some cases; late rewards come later in each.
    later = {one.reward - one.obs for one in every if np.isfinite(one.obs)}
    if len(later) == 1 and 1 <= min(later) < np.inf:
        yield Sign("reward_delay", f"rewards change {min(later):.0f} step later than observations do", 0.85)


def bounds_signs(env: gymnasium.Env) -> Iterator[Sign]:
    """Judge whether the whole range of continuous actions has an effect."""
    space = env.action_space
    if not isinstance(space, spaces.Box):
        return
    if not space.is_bounded():
        yield Sign("action_bounds", "actions have no bounds", 0.4)
        return
    low, high = bounds_of(space)
    useful = []
    for seed in SEEDS:
        before, after = _around(space, seed)
        ends: list[Course] = []
        direction = np.where(np.random.default_rng(seed).random(space.shape) < 0.5, low, high)
        for share in SHARES:
            action = ((low + high) / 2 + share * (direction - (low + high) / 2)).astype(space.dtype)
            ends.append(course(env, seed, with_action(action, before, after)))
        if len(ends[-1].rewards) <= BEFORE:
            continue
        useful.append(
            next(share for share, one in zip(SHARES, ends, strict=True) if effect(one, ends[-1], BEFORE).same)
        )
    widest = max(useful, default=1.0)
    if useful and widest < 1.0 and min(useful) > SHARES[0]:
        value = f"all actions beyond {widest:.0%} of the range have the same effect"
        yield Sign("action_bounds", value, 0.95 if widest <= 0.1 else 0.8)
    largest = float(np.abs([low, high]).max())
    if largest > 1e3 and widest == 1.0:
        yield Sign("action_bounds", f"bounds reach {number(largest)}", 0.5)


def end_signs(walk: Walk, limit: int | None) -> Iterator[Sign]:
    """Judge how the episodes of a walk ended; `limit` is the registry's time limit."""
    lengths = walk.lengths
    if not len(lengths):
        if limit is not None and len(walk.rewards) > limit + 1:
            yield Sign("no_ends", f"no end in {len(walk.rewards)} steps, the time limit is {limit}", 0.97)
        elif limit is None:
            yield Sign("no_ends", f"no end in {len(walk.rewards)} random steps, and no time limit", 0.5)
        return
    if len(lengths) >= 3 and np.ptp(lengths) == 0 and lengths[0] > 1 and walk.terminated[walk.over].all():
        certainty = 0.95 if lengths[0] == limit else 0.75
        yield Sign("limit_as_end", f"every episode is terminated after exactly {lengths[0]} steps", certainty)


def copies_signs(copies: np.ndarray, starts: np.ndarray) -> Iterator[Sign]:
    """Judge whether copies of an environment draw different random numbers.

    Args:
        copies: [T, N, n] observations of N copies that took equal actions.
        starts: [E, n] first observations of episodes of one environment.
    """
    equal = all((copies[:, i] == copies[:, 0]).all() for i in range(1, copies.shape[1]))
    if copies.shape[1] < 2 or not equal:
        return
    if len(starts) > 1 and (starts != starts[0]).any():
        value = f"{copies.shape[1]} copies return the same observations, though episodes begin in different states"
        yield Sign("equal_copies", value, 0.95)
    else:
        yield Sign("equal_copies", f"{copies.shape[1]} copies return the same observations, in every episode", 0.4)


def return_signs(returns: dict[str, np.ndarray]) -> Iterator[Sign]:
    """Judge the returns of simple behaviors, by name: 'random', 'repeated', 'always A'."""
    known = {name: float(array.mean()) for name, array in returns.items() if len(array)}
    if len(known) < 2 or "random" not in known or len(returns["random"]) < 4:
        return
    best = max(known, key=lambda name: known[name])
    spread = float(returns["random"].std()) + 1e-9
    if best != "random" and known[best] > known["random"] + 3 * spread:
        value = f"'{best}' returns {number(known[best])}, random actions {number(known['random'])}"
        yield Sign("simple_behavior", value, 0.25)


def _listed(numbers: Sequence[int] | np.ndarray) -> str:
    shown = ", ".join(str(int(one)) for one in numbers[:6])
    return shown + (f" and {len(numbers) - 6} more" if len(numbers) > 6 else "")


def rollout_signs(steps: int | None, length: float) -> Iterator[Sign]:
    """Judge the steps of each environment in a rollout beside the mean length of episodes."""
    if steps and length > 20 and steps < min(5.0, length / 10):
        yield Sign("short_rollout", f"{steps} steps, random episodes have {length:.0f}", 0.6)


def horizon_signs(gamma: float | None, length: float, random: Walk, limit: int | None) -> Iterator[Sign]:
    """Judge the discount beside the mean length of episodes."""
    if not isinstance(gamma, int | float):
        return
    if gamma >= 1:
        over = random.over
        by_limit = not over.any() or bool(random.truncated[over].all())
        value = "1, and " + ("only time limits end episodes" if by_limit else "episodes have real ends")
        yield Sign("endless_values", value, 0.92 if by_limit else 0.62)
        return
    sees = 1.0 / (1.0 - gamma)
    if length > 5 and sees < min(8.0, length / 2):
        value = f"{sees:.3g} steps, random episodes have {length:.0f}"
        yield Sign("short_horizon", value, 0.95 if sees < 2 else 0.7)
