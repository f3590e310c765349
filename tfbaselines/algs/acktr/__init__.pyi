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
    seed: int | None = None,
    total_timesteps: float = 40000000.0,
    gamma: float | str | Callable[[float], float] = 0.99,
    log_interval: int = 100,
    nprocs: int = 32,
    nsteps: int = 20,
    ent_coef: float | str | Callable[[float], float] = 0.01,
    vf_coef: float | str | Callable[[float], float] = 0.5,
    vf_fisher_coef: float | str | Callable[[float], float] = 1.0,
    lr: float | str | Callable[[float], float] = 0.25,
    max_grad_norm: float | None = 0.5,
    kfac_clip: float = 0.001,
    save_interval: int | None = None,
    lrschedule: str | Callable[[float], float] = "linear",
    load_path: str | None = None,
    is_async: bool = True,
    stats_update: int = 1,
    kfac_update: int = 1,
    value_network: str | Callable[..., Any] | None = None,
    normalize_observations: bool = False,
    max_total_reward: float | None = None,
    eval_env: Any = None,
    comm: Any = None,
    run: RunOptions | None = None,
    **network_kwargs: Any,
) -> PolicyModel:
    """Train a policy with ACKTR."""

def __getattr__(name: str) -> Any: ...
