"""The formulas of evolution strategies, and the episodes that evaluate members of the population.

A member's noise is a function of the iteration's seed and the member's number. Ranks that have both can rebuild it, so
they exchange only returns. Mirrored members 2 i and 2 i + 1 have the same noise with opposite signs. Members run as
many episodes at once as there are environments.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from tfbaselines.algs.es.population import Population
from tfbaselines.envs.vec import VecEnv
from tfbaselines.envs.vec.observations import parts_of_obs
from tfbaselines.envs.vec.packed import unpacked
from tfbaselines.envs.wrappers import require_end
from tfbaselines.policy.base import BasePolicy
from tfbaselines.policy.encoding import observation_dtype

# Returns with a smaller standard deviation count as equal.
SMALLEST_DEVIATION = 1e-6


def noise(seed: int, member: int, size: int, mirrored: bool) -> np.ndarray:
    """Draw a member's direction: standard normal numbers [size].

    Args:
        seed: seed of the iteration.
        member: number of the member.
        size: number of parameters.
        mirrored: every second member has the negative noise of the member before it.
    """
    number, sign = (member // 2, 1 - 2 * (member % 2)) if mirrored else (member, 1)
    drawn = np.random.default_rng([seed, number]).standard_normal(size, np.float32)
    return drawn if sign > 0 else -drawn


def standardized(returns: np.ndarray) -> np.ndarray:
    """Scale returns [M] to mean 0 and deviation 1; equal returns become zeros."""
    centered = returns - returns.mean()
    deviation = centered.std()
    if deviation <= SMALLEST_DEVIATION:
        return np.zeros_like(centered)
    return centered / deviation


def centered_ranks(returns: np.ndarray) -> np.ndarray:
    """Map returns [M] to ranks from -1/2 (smallest) to 1/2 (largest); equal returns share the mean of their ranks."""
    if len(returns) < 2:
        return np.zeros(len(returns))
    _, inverse, counts = np.unique(returns, return_inverse=True, return_counts=True)
    lowest = np.cumsum(counts) - counts
    ranks = lowest + (counts - 1) / 2
    return ranks[inverse.reshape(-1)] / (len(returns) - 1) - 0.5


SHAPES = {"standardised": standardized, "ranks": centered_ranks}


def ascent(weights: np.ndarray, seed: int, size: int, sigma: float, mirrored: bool) -> np.ndarray:
    """Estimate the gradient of the mean return, 1 / (M sigma) sum_i w_i noise_i, [size].

    One noise at a time is in memory, and the sum goes in the members' order, whichever rank they ran on.

    Args:
        weights: shaped returns [M].
        seed: seed of the iteration.
        size: number of parameters.
        sigma: standard deviation of the members' noise.
        mirrored: every second member has the negative noise of the member before it.
    """
    total = np.zeros(size, np.float32)
    # The noises of two mirrored members differ only in their sign.
    pairs = weights[::2] - weights[1::2] if mirrored else weights
    for number, weight in enumerate(pairs.astype(np.float32)):
        if weight:
            total += weight * noise(seed, 2 * number if mirrored else number, size, mirrored)
    return total / np.float32(len(weights) * sigma)


class Sums(NamedTuple):
    """Sums over observations.

    Attributes:
        total: sum of the observations, by part.
        squares: sum of their squares, by part.
        count: number of observations.
    """

    total: dict[str, np.ndarray]
    squares: dict[str, np.ndarray]
    count: int


class Trial(NamedTuple):
    """A member's episode.

    Attributes:
        score: sum of its rewards.
        sums: sums over its observations; None if the policy does not normalize them.
    """

    score: float
    sums: Sums | None


class Trials:
    """Runs an episode of each member.

    Args:
        env: the environments.
        policy: policy of the members; with a normalizer, observations are summed up.
        population: as many members as environments.

    Attributes:
        steps: environment steps of the latest run; environments without a member rest at its end, if they can.
        episodes: the infos' 'episode' entries of the latest run's members.
    """

    def __init__(self, env: VecEnv, policy: BasePolicy, population: Population) -> None:
        self._env = env
        self._policy = policy
        self._population = population
        self._dtype = observation_dtype(env.observation_space)
        self.steps = 0
        self.episodes = []

    def run(self, members: Sequence[int], parameters: Callable[[int], np.ndarray]) -> list[Trial]:
        """Run the members' episodes; an environment takes the next waiting member when its member is done.

        Args:
            members: numbers of the members.
            parameters: function of a member's number that returns its parameters [P].

        Returns:
            The members' trials, in their order.
        """
        env, population, waiting = self._env, self._population, iter(members)
        rows = env.num_envs
        trials: dict[int, Trial] = {}
        scores, lengths = np.zeros(rows), np.zeros(rows, int)
        self.episodes = []
        self.steps = 0
        observed = _Observed(rows, self._policy)
        # The present member of each environment, and the number of environments that are stepped.
        present: list[int | None] = [None] * rows
        stepped = rows
        place = partial(self._place, present=present, waiting=waiting, parameters=parameters)
        # Every iteration starts with new episodes, so that a resumed run needs nothing of the iteration before.
        obs = env.reset()
        for row in range(rows):
            stepped -= place(row)
        population.ready()
        states, episode_start = self._policy.initial_state(rows), np.ones(rows, bool)
        while len(trials) < len(members):
            obs = np.asarray(obs, self._dtype)
            observed.add(obs)
            actions, states = population.choose(obs, states, episode_start)
            obs, rewards, episode_start, infos = env.step(actions)
            scores += rewards
            self.steps += stepped
            for row in np.flatnonzero(episode_start).tolist() if episode_start.any() else ():
                sums, score = observed.take(row), float(scores[row])
                scores[row] = 0.0
                if present[row] is not None:
                    trials[present[row]] = Trial(score, sums)
                    self.episodes += [infos[row]["episode"]] if "episode" in infos[row] else []
                    stepped -= place(row)
            # An environment without a member rests no longer than the last episode of another.
            lengths = np.where(episode_start, 0, lengths + 1)
            require_end(int(lengths.max()))
        return [trials[member] for member in members]

    def _place(
        self,
        row: int,
        present: list[int | None],
        waiting: Iterator[int],
        parameters: Callable[[int], np.ndarray],
    ) -> int:
        """Give an environment the next member; return the number of environments that rest from now on."""
        present[row] = next(waiting, None)
        if present[row] is None:
            return int(self._env.rest(row))
        self._population.place(row, parameters(present[row]))
        return 0


class _Observed:
    """Sums up the observations of each environment's present member, for policies that normalize observations."""

    def __init__(self, rows: int, policy: BasePolicy) -> None:
        self._policy = policy
        self._shapes = {} if policy.normalizer is None else policy.normalizer.shapes
        self._total = {name: np.zeros((rows, *shape)) for name, shape in self._shapes.items()}
        self._squares = {name: np.zeros((rows, *shape)) for name, shape in self._shapes.items()}
        self._count = np.zeros(rows, int)

    def add(self, obs: np.ndarray) -> None:
        """Include an observation of each environment, [M, ...]."""
        parts = parts_of_obs(unpacked(obs, self._policy.observation_space)) if self._shapes else {}
        for name in self._shapes:
            numbers = np.asarray(parts[name], np.float64)
            self._total[name] += numbers
            self._squares[name] += np.square(numbers)
        self._count += 1

    def take(self, row: int) -> Sums | None:
        """Return the sums of one environment and reset them; None without a normalizer."""
        if not self._shapes:
            return None
        total, squares = ({name: part[row].copy() for name, part in s.items()} for s in (self._total, self._squares))
        taken = Sums(total, squares, int(self._count[row]))
        for part in (*self._total.values(), *self._squares.values(), self._count):
            part[row] = 0
        return taken
