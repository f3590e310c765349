"""Published scores: rl-baselines3-zoo's benchmark page and OpenAI baselines' benchmarks."""

import csv
import functools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tfbaselines.cli.sections import OF_SET

PUBLISHED = Path(__file__).parents[1] / "bench" / "zoo.csv"
# A score reaches a published one from this share of its size below it.
MARGIN = 0.03
MILLION = 1e6


class Suite(NamedTuple):
    """Steps of a run, environments on which algorithms are compared, and published scores by algorithm and env."""

    steps: float
    envs: tuple[str, ...]
    published: dict[str, dict[str, float]]


def _suite(steps: float, envs: tuple[str, ...], scores: dict[str, tuple[float, ...]]) -> Suite:
    return Suite(steps, envs, {alg: dict(zip(envs, of_alg, strict=True)) for alg, of_alg in scores.items()})


_TASKS = ("HalfCheetah", "Hopper", "InvertedDoublePendulum", "InvertedPendulum", "Reacher", "Swimmer", "Walker2d")
_GAMES = ("BeamRider", "Breakout", "Enduro", "Pong", "Qbert", "Seaquest", "SpaceInvaders")

SUITES = {
    # Scores of the second version of the tasks.
    "mujoco1m": _suite(
        1e6,
        tuple(f"{task}-v5" for task in _TASKS),
        {
            "ppo2": (1668.58, 2316.16, 7102.91, 809.43, -6.71, 111.19, 3424.95),
            "trpo_mpi": (1289.7, 1912.9, 6731.63, 905.1, -4.82, 94.96, 2342.63),
        },
    ),
    "atari10m": _suite(
        1e7,
        tuple(f"{game}NoFrameskip-v4" for game in _GAMES),
        {
            "ppo2": (1299.25, 114.26, 350.22, 13.68, 7012.06, 1218.87, 557.28),
            "deepq": (1582.34, 131.46, 479.75, 16.49, 3254.83, 1164.08, 459.86),
            "acktr": (2171.19, 113.58, 0.0, 9.56, 4429.3, 1201.16, 557.19),
            "acer": (1959.22, 82.94, 0.0, 3.11, 6433.38, 1065.98, 656.91),
            "a2c": (1302.61, 59.72, 0.0, 1.0, 2047.07, 1150.66, 463.06),
            "trpo_mpi": (683.11, 14.98, 24.83, 2.82, 2486.18, 710.07, 457.7),
        },
    ),
}


class Row(NamedTuple):
    """A published score, and the run to set beside it.

    Attributes:
        peer, peer_env: algorithm and environment of the published score.
        alg, tuned, env: our algorithm, its settings as --tuned takes them, and environment.
        published: mean return.
        steps: environment steps of the published run.
    """

    peer: str
    peer_env: str
    alg: str
    tuned: bool | str
    env: str
    published: float
    steps: float

    @property
    def section(self) -> str:
        """Name of the section of the tuned settings."""
        return self.env if self.tuned is True else f"{self.tuned}{OF_SET}{self.env}"

    def reached(self, score: float) -> bool:
        """Check whether a score is at most MARGIN below the published one."""
        return score >= self.published - MARGIN * abs(self.published)


@functools.cache
def published_rows() -> list[Row]:
    """Read the published scores."""
    with open(PUBLISHED, encoding="utf-8") as file:
        return [
            Row(*names, tuned == "True" or tuned, env, float(score), float(steps))
            for *names, tuned, env, score, steps in list(csv.reader(file))[1:]
        ]


def published_for(config: Mapping[str, Any], env: str) -> Iterator[tuple[str, float]]:
    """Yield published scores of a run's algorithm on its environment, each after the words that describe it."""
    alg, arguments = config.get("alg"), config.get("arguments")
    tuned = arguments.get("tuned") if isinstance(arguments, dict) else None
    # A named set of settings, such as qrdqn, is an algorithm of its own there.
    wanted = tuned if isinstance(tuned, str) else True
    for row in published_rows():
        if (row.alg, row.tuned, row.env) == (alg, wanted, env):
            version = "" if row.peer_env == env else f", {row.peer_env}"
            yield f"{row.peer} of rl-baselines3-zoo{version}, {_steps(row.steps)}", row.published
    for suite in SUITES.values():
        score = suite.published.get(str(alg), {}).get(env)
        if score is not None:
            yield f"OpenAI baselines, {_steps(suite.steps)}", score


def _steps(count: float) -> str:
    return f"{count / 1e6:g}M steps" if count >= MILLION else f"{count / 1e3:g}k steps"
