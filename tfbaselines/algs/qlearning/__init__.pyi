"""Written by `python tests/support/stubs.py`."""

from collections.abc import Callable, Sequence
from typing import Any

from gymnasium import Env
from gymnasium.vector import VectorEnv

from tfbaselines.config.algorithm import Algorithm
from tfbaselines.config.options import RunOptions
from tfbaselines.envs.vec import VecEnv
from tfbaselines.training.model import PolicyModel

ALGORITHM: Algorithm

def learn(
    network: str | Callable[..., Any],
    env: VecEnv | Env[Any, Any] | VectorEnv[Any, Any, Any] | str | Callable[..., Any] | Sequence[Any],
    num_iterations: int = 1000,
    lr: float | str | Callable[[float], float] = 0.03,
    discount: float = 0.99,
    epsilon_greedy: float = 0.9,
    epsilon_decay: float = 0.9999,
    epsilon_min: float = 0.01,
    grid_size: int | list = 20,
    test_every: int = 10,
    num_test_episodes: int = 5,
    max_ep_len: int | None = None,
    stop_max_score: float | None = None,
    seed: int | None = None,
    total_timesteps: float | None = None,
    load_path: str | None = None,
    comm: Any = None,
    run: RunOptions | None = None,
    eval_env: Any = None,
    log_interval: int = 10,
    save_interval: int = 0,
    low: float | list | None = None,
    high: float | list | None = None,
    bounds_steps: int = 1000,
    initial_value: float = 0.0,
    **network_kwargs: Any,
) -> PolicyModel:
    """Learn a table with Q-learning; the only network is 'table'."""

def __getattr__(name: str) -> Any: ...
