"""Answers of a model on the probe environments (envs/probing.py), judged while it learns."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from tfbaselines.envs.probing import (
    ENVIRONMENTS,
    ProbeActionEnv,
    ProbeActionFromObservationEnv,
    ProbeConstantEnv,
    ProbeEnv,
    ProbeLaterRewardEnv,
    ProbeMemoryEnv,
    ProbeObservationEnv,
)

# Sampled actions at an observation, and the share of them that must be right.
SAMPLES, RIGHT = 512, 0.7
# Least distance between the continuous actions for two cues; 1 is best.
APART = 0.4
# Largest distance of a continuous action from the best one.
OFF = 0.35
# Values above this have no bound.
UNBOUNDED = 5.0


class Answer(NamedTuple):
    """A model's answer: right or wrong, in words, and its nearness to the right one, which is 1."""

    right: bool
    words: str
    score: float


def values_of(model: Any, obs: np.ndarray) -> np.ndarray:
    """Return the values [B] of first observations [B, ...]; of a model with a value for each action the largest."""
    memory = model.initial_states(len(obs))
    first = None if memory is None else np.ones(len(obs), bool)
    return np.reshape(model.value(obs, memory, first), (len(obs), -1)).max(1)


def _values(model: Any, env: ProbeEnv, *numbers: float) -> list[float]:
    return [float(value) for value in values_of(model, np.stack([env.show(number) for number in numbers]))]


def _actions(model: Any, env: ProbeEnv, numbers: tuple[float, ...]) -> np.ndarray:
    """Return the actions [SAMPLES] in the last of some steps that show numbers; the most likely one for a Box."""
    likely = isinstance(env.action_space, spaces.Box)
    memory, first = model.initial_states(SAMPLES), np.ones(SAMPLES, bool)
    actions = np.zeros(0)
    for number in numbers:
        obs = np.stack([env.show(number)] * SAMPLES)
        actions, memory = model.act(obs, memory, likely, first)
        first = np.zeros(SAMPLES, bool)
    return np.asarray(actions, float).reshape(SAMPLES, -1)[:, 0]


def constant(model: Any, env: ProbeEnv) -> Answer:
    """Judge the value of a constant reward of 1."""
    (value,) = _values(model, env, 0.0)
    return Answer(abs(value - 1.0) < 0.4, f"value {value:.2f}, the answer is 1", 1.0 - abs(value - 1.0))


def observation(model: Any, env: ProbeEnv) -> Answer:
    """Judge the values of two observations, -1 and 1."""
    low, high = _values(model, env, -1.0, 1.0)
    return Answer(high - low > 1.0, f"values {low:.2f} and {high:.2f}, the answers are -1 and 1", (high - low) / 2)


def later(model: Any, env: ProbeEnv) -> Answer:
    """Judge the value of a reward that comes two steps later."""
    first, last = _values(model, env, -1.0, 1.0)
    words = f"values {first:.2f} of the first and {last:.2f} of the last step, the answers are gamma squared and 1"
    return Answer(0.45 < first < UNBOUNDED and last > 0.45, words, first)


def action(model: Any, env: ProbeEnv) -> Answer:
    """Judge the action when one is always best."""
    return _judged(env, [(_actions(model, env, (0.0,)), 1.0)])


def action_from_observation(model: Any, env: ProbeEnv) -> Answer:
    """Judge the actions when the observation shows the best one."""
    return _judged(env, [(_actions(model, env, (cue,)), cue) for cue in (-1.0, 1.0)])


def memory(model: Any, env: ProbeEnv) -> Answer:
    """Judge the actions when an earlier observation showed the best one."""
    return _judged(env, [(_actions(model, env, (cue, 0.0)), cue) for cue in (-1.0, 1.0)])


def _judged(env: ProbeEnv, found: list[tuple[np.ndarray, float]]) -> Answer:
    if isinstance(env.action_space, spaces.Box):
        means = [float(actions.mean()) for actions, _ in found]
        words = f"actions {', '.join(f'{mean:.2f}' for mean in means)}, the answers are "
        words += ", ".join(f"{cue / 2:g}" for _, cue in found)
        if len(means) == 1:
            return Answer(abs(means[0] - 0.5) < OFF, words, 1.0 - abs(means[0] - 0.5))
        return Answer(means[1] - means[0] > APART, words, means[1] - means[0])
    shares = [float(np.mean([env.right(one, cue) for one in actions])) for actions, cue in found]
    return Answer(min(shares) >= RIGHT, f"{min(shares):.0%} of the sampled actions are right", min(shares))


class Question(NamedTuple):
    """A probe environment, the judge of its answer, and the rule of those who fail it."""

    env: type[ProbeEnv]
    judge: Callable[[Any, ProbeEnv], Answer]
    rule: str


CONSTANT = Question(ProbeConstantEnv, constant, "probe_constant")
OBSERVATION = Question(ProbeObservationEnv, observation, "probe_observation")
LATER = Question(ProbeLaterRewardEnv, later, "probe_later_reward")
ACTION = Question(ProbeActionEnv, action, "probe_action")
FROM_OBSERVATION = Question(ProbeActionFromObservationEnv, action_from_observation, "probe_action_from_observation")
MEMORY = Question(ProbeMemoryEnv, memory, "probe_memory")

# A harder question, and the simpler ones that a right answer implies.
VALUES, ACTIONS, MEMORIES = (LATER, (CONSTANT, OBSERVATION)), (FROM_OBSERVATION, (ACTION,)), (MEMORY, ())
NAMES = {kind: name for name, kind in ENVIRONMENTS.items()}


def exploration(env: ProbeEnv) -> float | None:
    """Return how much the actions for one observation varied in the first half of a training; None for few steps.

    For a Box this is the deviation of the difference between two actions, as a share of half the range; for others the
    share of actions that differ from the one before.
    """
    taken = np.array(env.taken[: max(1, len(env.taken) // 2)])
    found = []
    for number in np.unique(taken[:, 0]) if len(taken) > 1 else ():
        actions = taken[taken[:, 0] == number, 1]
        if len(actions) < 50:
            continue
        steps = np.diff(actions)
        found.append(float(steps.std()) if isinstance(env.action_space, spaces.Box) else float((steps != 0).mean()))
    return max(found) if found else None
