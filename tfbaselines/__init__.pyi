"""Written by `python tests/support/stubs.py`."""

from typing import Any

from tfbaselines.algs import a2c as a2c
from tfbaselines.algs import acer as acer
from tfbaselines.algs import acktr as acktr
from tfbaselines.algs import bc as bc
from tfbaselines.algs import ddpg as ddpg
from tfbaselines.algs import deepq as deepq
from tfbaselines.algs import es as es
from tfbaselines.algs import gail as gail
from tfbaselines.algs import her as her
from tfbaselines.algs import ppo as ppo
from tfbaselines.algs import ppo1 as ppo1
from tfbaselines.algs import ppo2 as ppo2
from tfbaselines.algs import qlearning as qlearning
from tfbaselines.algs import sac as sac
from tfbaselines.algs import td3 as td3
from tfbaselines.algs import trpo as trpo
from tfbaselines.algs import trpo_mpi as trpo_mpi
from tfbaselines.algs import vpg as vpg
from tfbaselines.logs import logger as logger
from tfbaselines.training import callbacks as callbacks
from tfbaselines.training.model import PolicyModel

__version__: str
ALGORITHMS: tuple[str, ...]
LEFT_OUT: list[str]

def load(path: str, env: Any = None, checkpoint: str = "last", trust: bool = False) -> PolicyModel:
    """Load the trained model of a run, ready to act: ``tfbaselines.load("logs/pong").act(obs)``."""

def __getattr__(name: str) -> Any: ...
