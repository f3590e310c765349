"""Recorded steps of one environment, and experiments in which only one action differs."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces

from tfbaselines.envs import env_type_of, layers_of
from tfbaselines.envs.make import make_env
from tfbaselines.envs.parameters import read_parameters
from tfbaselines.envs.vec.observations import is_image

# Pictures are thinned out to about this many rows and columns.
THINNED = 8
# Steps of the experiments: before the action that differs, and from it on.
BEFORE, AFTER = 3, 6
# Steps for which an action is repeated in a persistent walk.
PERSISTENCE = 10

Choose = Callable[[np.random.Generator, int], Any]


class Walk(NamedTuple):
    """Steps in their order.

    Attributes:
        obs, next_obs: [T, n] observations before and after the steps, in one row each.
        actions: [T, k] actions in one row each; discrete ones are one-hot.
        rewards: [T].
        terminated, truncated, first: [T] ends of episodes, and whether a step is an episode's first.
    """

    obs: np.ndarray
    next_obs: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    first: np.ndarray

    @property
    def over(self) -> np.ndarray:
        """True where a step ends its episode [T]."""
        return self.terminated | self.truncated

    @property
    def lengths(self) -> np.ndarray:
        """Lengths of the episodes that ended."""
        return np.diff(np.concatenate([[-1], np.flatnonzero(self.over)]))

    @property
    def returns(self) -> np.ndarray:
        """Returns of the episodes that ended."""
        ends = np.flatnonzero(self.over)
        return np.diff(np.concatenate([[0.0], np.cumsum(self.rewards)[ends]]))


def maker(config: dict[str, Any]) -> Callable[..., gymnasium.Env]:
    """Return a function that makes one environment of a run, with the run's wrappers but without VecNormalize."""
    own = config["env"]
    env_type, env_id = env_type_of(own["env"], own.get("env_type"))
    parameters = read_parameters(own.get("env_parameters"))
    scale = own.get("reward_scale")

    def make(**further: Any) -> gymnasium.Env:
        return make_env(
            env_id,
            env_type,
            reward_scale=1.0 if scale is None else scale,
            gamestate=own.get("gamestate"),
            env_kwargs={**(own.get("env_kwargs") or {}), **further},
            wrapper=own.get("wrapper"),
            parameters=None if parameters is None else parameters.of_last_lesson(),
        )

    return make


def row_of(space: spaces.Space, sample: Any) -> np.ndarray:
    """Return an observation or action as one row of numbers."""
    if is_image(space):
        height, width, _ = space.shape
        sample = np.asarray(sample)[:: max(1, height // THINNED), :: max(1, width // THINNED)]
        return np.asarray(sample, np.float64).ravel()
    return np.asarray(spaces.flatten(space, sample), np.float64).ravel()


def walk(env: gymnasium.Env, choose: Choose, steps: int, seed: int = 0, until: Callable[[], bool] = bool) -> Walk:
    """Take steps through as many episodes as it takes; `until` returns whether to end sooner."""
    rng = np.random.default_rng(seed)
    rows: list[tuple] = []
    obs = row_of(env.observation_space, env.reset(seed=seed)[0])
    first = True
    for time in range(steps):
        action = choose(rng, time)
        seen, reward, terminated, truncated, _ = env.step(action)
        after = row_of(env.observation_space, seen)
        taken = row_of(env.action_space, action)
        rows.append((obs, after, taken, float(reward), bool(terminated), bool(truncated), first))
        first = bool(terminated or truncated)
        obs = row_of(env.observation_space, env.reset()[0]) if first else after
        if until():
            break
    return Walk(*(np.array(column) for column in zip(*rows, strict=True)))


def random_action(space: spaces.Space, rng: np.random.Generator) -> Any:
    """Draw an action; from -1 to 1 where a Box has no bounds."""
    if isinstance(space, spaces.Box):
        low, high = bounds_of(space)
        return rng.uniform(low, high).astype(space.dtype)
    space.seed(int(rng.integers(2**31)))
    return space.sample()


def bounds_of(space: spaces.Box) -> tuple[np.ndarray, np.ndarray]:
    """Return the bounds of a Box; -1 and 1 where it has none."""
    low = np.where(np.isfinite(space.low), space.low, -1.0)
    return low.astype(np.float64), np.where(np.isfinite(space.high), space.high, 1.0).astype(np.float64)


def at_random(space: spaces.Space) -> Choose:
    """Choose every action at random."""
    return lambda rng, time: random_action(space, rng)


def persistent(space: spaces.Space) -> Choose:
    """Choose actions at random, and keep each for PERSISTENCE steps."""
    kept: list[Any] = [None]

    def choose(rng: np.random.Generator, time: int) -> Any:
        if time % PERSISTENCE == 0:
            kept[0] = random_action(space, rng)
        return kept[0]

    return choose


def fixed(action: Any) -> Choose:
    """Choose the same action always."""
    return lambda rng, time: action


def different_actions(space: spaces.Space, most: int = 6) -> list[Any]:
    """Return actions that differ as much as they can: every choice, or the ends and the middle of each number."""
    if isinstance(space, spaces.Discrete):
        return [space.start + space.dtype.type(i) for i in range(min(int(space.n), most))]
    if isinstance(space, spaces.Box):
        low, high = bounds_of(space)
        return [end.astype(space.dtype) for end in ((low + high) / 2, low, high)]
    if isinstance(space, spaces.MultiBinary):
        return [np.zeros(space.shape, space.dtype), np.ones(space.shape, space.dtype)]
    return [space.start + np.zeros_like(space.nvec), space.start + space.nvec - 1]


class Course(NamedTuple):
    """Observations [L, n] and rewards [L] from a step on, and whether the episode ended in each."""

    obs: np.ndarray
    rewards: np.ndarray
    over: np.ndarray


def course(env: gymnasium.Env, seed: int, actions: Sequence[Any]) -> Course:
    """Take given actions from a seeded reset until they or the episode end; spaces are seeded as well."""
    for layer in layers_of(env):
        layer.action_space.seed(seed)
    env.reset(seed=seed)
    rows = []
    for action in actions:
        seen, reward, terminated, truncated, _ = env.step(action)
        rows.append((row_of(env.observation_space, seen), float(reward), bool(terminated or truncated)))
        if terminated or truncated:
            break
    return Course(*(np.array(column) for column in zip(*rows, strict=True)))


class Effect(NamedTuple):
    """First steps with another observation and with another reward in two courses; inf where none differs."""

    obs: float
    reward: float

    @property
    def same(self) -> bool:
        """True if nothing differs."""
        return not np.isfinite(min(self.obs, self.reward))


def effect(one: Course, other: Course, begin: int = 0) -> Effect:
    """Compare two courses; steps count from `begin`, that of the action that differs."""
    length = min(len(one.rewards), len(other.rewards))
    obs = [not np.allclose(one.obs[t], other.obs[t], rtol=1e-6, atol=1e-9) for t in range(begin, length)]
    rewards = [not np.isclose(one.rewards[t], other.rewards[t], rtol=1e-6, atol=1e-12) for t in range(begin, length)]
    ended = [] if len(one.rewards) == len(other.rewards) else [length - begin]
    return Effect(
        *(min([t for t, differs in enumerate(found) if differs] + ended, default=np.inf) for found in (obs, rewards))
    )


def with_action(action: Any, before: Sequence[Any], after: Sequence[Any]) -> list[Any]:
    """Return the actions of an experiment: the same before and after, and one that differs."""
    return [*before, action, *after]
