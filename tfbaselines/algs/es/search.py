"""Episodes of the members of a population: as many at once as there are environments.

The search of evolution strategies as pure functions: members' noise from seeds, shaped returns, and the ascent.

A member's noise is a function of the iteration's seed and the member's number: ranks that know both rebuild it, so that
they exchange nothing but returns. Of mirrored members, 2 i and 2 i + 1 have the same noise with opposite signs.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from tfbaselines.algs.es.population import Population
from tfbaselines.envs.vec import VecEnv
from tfbaselines.envs.vec.observations import parts_of_obs
from tfbaselines.envs.vec.packed import unpacked
from tfbaselines.envs.wrappers import require_end
from tfbaselines.policy.base import ActingPolicy
from tfbaselines.policy.encoding import observation_dtype


class Sums(NamedTuple):
    """Of observations: their sum and the sum of their squares by part, of the shape of one, and how many they are."""

    total: dict[str, np.ndarray]
    squares: dict[str, np.ndarray]
    count: int


class Trial(NamedTuple):
    """A member's episode: the sum of its rewards, and of its observations where these are normalised."""

    score: float
    sums: Sums | None


class Trials:
    """Runs an episode of each member.

    Args:
        env: the environments.
        policy: what the members are; its normaliser says whether observations are summed up.
        population: as many members as environments.

    Attributes:
        steps: environment steps of the latest run; environments without a member at its end rest, where they can.
        episodes: the infos' 'episode' entries of the latest run's members.
    """

    def __init__(self, env: VecEnv, policy: ActingPolicy, population: Population) -> None:
        self._env, self._policy, self._population = env, policy, population
        self._dtype = observation_dtype(env.observation_space)
        self.steps, self.episodes = 0, []

    def run(self, members: Sequence[int], parameters: Callable[[int], np.ndarray]) -> list[Trial]:
        """Run the members' episodes; an environment whose member is done takes the next one that waits.

        Args:
            members: their numbers.
            parameters: gives those of a member, [P].

        Returns:
            The members' trials, in their order.
        """
        env, population, waiting = self._env, self._population, iter(members)
        rows = env.num_envs
        trials: dict[int, Trial] = {}
        scores, self.episodes, self.steps = np.zeros(rows), [], 0
        observed = _Observed(rows, self._policy)
        # The member that each environment has now, and how many environments are stepped.
        present: list[int | None] = [None] * rows
        stepped = rows

        def place(row: int) -> int:
            """Give an environment the next member; how many environments rest from now on."""
            present[row] = next(waiting, None)
            if present[row] is None:
                return int(env.rest(row))
            population.place(row, parameters(present[row]))
            return 0

        # Nothing of the iteration before is left, so that a resumed run needs nothing of it either.
        obs = env.reset()
        for row in range(rows):
            stepped -= place(row)
        population.ready()
        states, episode_start = self._policy.initial_state(rows), np.ones(rows, bool)
        lengths = np.zeros(rows, int)
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
            # An environment without a member rests for no longer than another's last episode lasts.
            lengths = np.where(episode_start, 0, lengths + 1)
            require_end(int(lengths.max()))
        return [trials[member] for member in members]


class _Observed:
    """Sums of what each environment showed since its member began, where the policy normalises observations."""

    def __init__(self, rows: int, policy: ActingPolicy) -> None:
        self._policy = policy
        self._shapes = {} if policy.normalizer is None else policy.normalizer.shapes
        self._total, self._squares = (
            {name: np.zeros((rows, *shape)) for name, shape in self._shapes.items()} for _ in range(2)
        )
        self._count = np.zeros(rows, int)

    def add(self, obs: np.ndarray) -> None:
        """Take in an observation of each environment, [M, ...]."""
        parts = parts_of_obs(unpacked(obs, self._policy.observation_space)) if self._shapes else {}
        for name in self._shapes:
            numbers = np.asarray(parts[name], np.float64)
            self._total[name] += numbers
            self._squares[name] += np.square(numbers)
        self._count += 1

    def take(self, row: int) -> Sums | None:
        """The sums of one environment, which begin anew; None without a normaliser."""
        if not self._shapes:
            return None
        total, squares = ({name: part[row].copy() for name, part in s.items()} for s in (self._total, self._squares))
        taken = Sums(total, squares, int(self._count[row]))
        for part in (*self._total.values(), *self._squares.values(), self._count):
            part[row] = 0
        return taken


# Returns that differ by less, relative to their deviation from 0, are equal.
SMALLEST_DEVIATION = 1e-6


def noise(seed: int, member: int, size: int, mirrored: bool) -> np.ndarray:
    """A member's direction: standard normal numbers [size].

    Args:
        seed: the iteration's.
        member: its number.
        size: of the parameters.
        mirrored: see the module.
    """
    number, sign = (member // 2, 1 - 2 * (member % 2)) if mirrored else (member, 1)
    drawn = np.random.default_rng([seed, number]).standard_normal(size, np.float32)
    return drawn if sign > 0 else -drawn


def standardised(returns: np.ndarray) -> np.ndarray:
    """Returns [M] with mean 0 and deviation 1; zeros where they are equal."""
    centred = returns - returns.mean()
    deviation = centred.std()
    if deviation <= SMALLEST_DEVIATION:
        return np.zeros_like(centred)
    return centred / deviation


def centred_ranks(returns: np.ndarray) -> np.ndarray:
    """From -1/2 for the smallest of returns [M] to 1/2 for the largest; equal ones share the mean of their ranks."""
    if len(returns) < 2:
        return np.zeros(len(returns))
    _, inverse, counts = np.unique(returns, return_inverse=True, return_counts=True)
    lowest = np.cumsum(counts) - counts
    ranks = lowest + (counts - 1) / 2
    return ranks[inverse.reshape(-1)] / (len(returns) - 1) - 0.5


SHAPES = {"standardised": standardised, "ranks": centred_ranks}


def ascent(weights: np.ndarray, seed: int, size: int, sigma: float, mirrored: bool) -> np.ndarray:
    """The estimated gradient of the mean return, 1 / (M sigma) sum_i w_i noise_i, [size].

    One noise at a time is in memory, and the order of the sum is the members', whichever rank they ran on.

    Args:
        weights: shaped returns [M].
        seed: the iteration's.
        size: of the parameters.
        sigma: deviation of the members' noise.
        mirrored: see the module.
    """
    total = np.zeros(size, np.float32)
    # The noises of two mirrored members differ in their sign only.
    pairs = weights[::2] - weights[1::2] if mirrored else weights
    for number, weight in enumerate(pairs.astype(np.float32)):
        if weight:
            total += weight * noise(seed, 2 * number if mirrored else number, size, mirrored)
    return total / np.float32(len(weights) * sigma)
