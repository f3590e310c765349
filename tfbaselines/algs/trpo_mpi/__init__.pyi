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
    total_timesteps: float | None = None,
    timesteps_per_batch: int = 1024,
    max_kl: float = 0.001,
    cg_iters: int = 10,
    gamma: float | str | Callable[[float], float] = 0.99,
    lam: float | str | Callable[[float], float] = 1.0,
    seed: int | None = None,
    ent_coef: float | str | Callable[[float], float] = 0.0,
    cg_damping: float = 0.01,
    vf_stepsize: float | str | Callable[[float], float] = 0.0003,
    vf_iters: int = 3,
    max_episodes: int = 0,
    max_iters: int = 0,
    callback: Callable[[dict[str, Any], dict[str, Any]], Any] | None = None,
    load_path: str | None = None,
    save_interval: int = 0,
    value_network: str | Callable[..., Any] | None = "copy",
    normalize_observations: bool = False,
    comm: Any = None,
    run: RunOptions | None = None,
    **network_kwargs: Any,
) -> PolicyModel:
    """Train a policy with TRPO."""

def __getattr__(name: str) -> Any: ...
