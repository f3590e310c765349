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
    seed: int | None = 0,
    steps_per_epoch: int = 4000,
    epochs: int = 50,
    gamma: float | str | Callable[[float], float] = 0.99,
    delta: float = 0.01,
    vf_lr: float | str | Callable[[float], float] = 0.001,
    train_v_iters: int = 80,
    damping_coeff: float = 0.1,
    cg_iters: int = 10,
    backtrack_iters: int = 10,
    backtrack_coeff: float = 0.8,
    lam: float | str | Callable[[float], float] = 0.97,
    max_ep_len: int | None = 1000,
    logger_kwargs: dict[str, Any] | None = None,
    save_freq: int = 10,
    algo: str = "trpo",
    total_timesteps: float | None = None,
    value_network: str | Callable[..., Any] | None = "copy",
    normalize_observations: bool = False,
    load_path: str | None = None,
    comm: Any = None,
    run: RunOptions | None = None,
    eval_env: Any = None,
    num_test_episodes: int = 10,
    **network_kwargs: Any,
) -> PolicyModel:
    """Train a policy with Spinning Up's TRPO or natural policy gradient."""

def __getattr__(name: str) -> Any: ...
