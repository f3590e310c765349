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
    clip_ratio: float | str | Callable[[float], float] = 0.2,
    pi_lr: float | str | Callable[[float], float] = 0.0003,
    vf_lr: float | str | Callable[[float], float] = 0.001,
    train_pi_iters: int = 80,
    train_v_iters: int = 80,
    lam: float | str | Callable[[float], float] = 0.97,
    max_ep_len: int | None = 1000,
    target_kl: float = 0.01,
    logger_kwargs: dict[str, Any] | None = None,
    save_freq: int = 10,
    total_timesteps: float | None = None,
    eval_env: Any = None,
    num_test_episodes: int = 10,
    value_network: str | Callable[..., Any] | None = "copy",
    normalize_observations: bool = False,
    load_path: str | None = None,
    comm: Any = None,
    run: RunOptions | None = None,
    **network_kwargs: Any,
) -> PolicyModel:
    """Train a policy with Spinning Up's PPO."""

def __getattr__(name: str) -> Any: ...
