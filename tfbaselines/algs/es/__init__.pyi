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
    num_agents: int = 30,
    num_iterations: int = 300,
    lr: float | str | Callable[[float], float] = 0.03,
    sigma: float | str | Callable[[float], float] = 0.1,
    test_every: int = 50,
    num_test_episodes: int = 5,
    max_ep_len: int | None = None,
    stop_max_score: float | None = None,
    normalize_observations: bool = False,
    seed: int | None = None,
    total_timesteps: float | None = None,
    load_path: str | None = None,
    comm: Any = None,
    run: RunOptions | None = None,
    eval_env: Any = None,
    log_interval: int = 1,
    save_interval: int = 0,
    mirrored: bool = True,
    returns: str = "standardised",
    optimizer: str = "sgd",
    weight_decay: float = 0.0,
    **network_kwargs: Any,
) -> PolicyModel:
    """Train a policy with evolution strategies."""

def __getattr__(name: str) -> Any: ...
