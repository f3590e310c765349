"""The registry of algorithms. To add one, write its folder and its name here."""

import importlib

from tfbaselines.config.algorithm import Algorithm, named

NAMES = (
    *("a2c", "acer", "acktr", "bc", "ddpg", "deepq", "es", "her", "gail"),
    *("qlearning", "ppo", "vpg", "ppo2", "sac", "td3", "ppo1", "trpo", "trpo_mpi"),
)

ALGORITHMS: dict[str, Algorithm] = {
    name: importlib.import_module(f"tfbaselines.algs.{name}").ALGORITHM for name in NAMES
}


def get(name: str) -> Algorithm:
    """Return the algorithm of this name; the error for an unknown name suggests the nearest."""
    return named(ALGORITHMS, name)
