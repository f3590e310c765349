"""What OpenAI baselines published of its algorithms: means over the last 100 episodes, of several seeds."""

from typing import NamedTuple


class Suite(NamedTuple):
    """Environments on which algorithms are compared.

    Attributes:
        steps: environment steps of a run.
        envs: their ids.
        published: scores by algorithm and environment.
    """

    steps: float
    envs: tuple[str, ...]
    published: dict[str, dict[str, float]]


def _suite(steps: float, envs: tuple[str, ...], scores: dict[str, tuple[float, ...]]) -> Suite:
    return Suite(steps, envs, {alg: dict(zip(envs, of_alg, strict=True)) for alg, of_alg in scores.items()})


_TASKS = ("HalfCheetah", "Hopper", "InvertedDoublePendulum", "InvertedPendulum", "Reacher", "Swimmer", "Walker2d")
_GAMES = ("BeamRider", "Breakout", "Enduro", "Pong", "Qbert", "Seaquest", "SpaceInvaders")

SUITES = {
    # Published of the tasks' second version.
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
