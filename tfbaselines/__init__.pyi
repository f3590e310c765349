"""Written by `python tests/support/stubs.py`."""

# ruff: noqa
# fmt: off
from typing import Any
import tfbaselines.training.model

from tfbaselines.algs import a2c as a2c, acer as acer, acktr as acktr, bc as bc, ddpg as ddpg, deepq as deepq, es as es, gail as gail, her as her, ppo as ppo, ppo1 as ppo1, ppo2 as ppo2, qlearning as qlearning, sac as sac, td3 as td3, trpo as trpo, trpo_mpi as trpo_mpi, vpg as vpg
from tfbaselines.logs import logger as logger
from tfbaselines.training import callbacks as callbacks

__version__: str
ALGORITHMS: tuple[str, ...]
LEFT_OUT: list[str]

def load(path: str, env: Any = None, checkpoint: str = 'last', trust: bool = False) -> tfbaselines.training.model.PolicyModel:
    """Load the trained model of a run, ready to act: ``tfbaselines.load("logs/pong").act(obs)``."""

def __getattr__(name: str) -> Any: ...
