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
    timesteps_per_actorbatch: int = 2048,
    clip_param: float = 0.2,
    entcoeff: float | str | Callable[[float], float] = 0.0,
    optim_epochs: int = 10,
    optim_stepsize: float = 0.0003,
    optim_batchsize: int = 64,
    gamma: float | str | Callable[[float], float] = 0.99,
    lam: float | str | Callable[[float], float] = 0.95,
    max_timesteps: float = 0,
    max_episodes: int = 0,
    max_iters: int = 0,
    max_seconds: float = 0.0,
    callback: Callable[[dict[str, Any], dict[str, Any]], Any] | None = None,
    adam_epsilon: float = 1e-05,
    schedule: str = "linear",
    total_timesteps: float | None = None,
    seed: int | None = None,
    load_path: str | None = None,
    save_interval: int = 0,
    value_network: str | Callable[..., Any] | None = "copy",
    normalize_observations: bool = False,
    comm: Any = None,
    run: RunOptions | None = None,
    **network_kwargs: Any,
) -> PolicyModel:
    """Train a policy with PPO1."""

def __getattr__(name: str) -> Any: ...
