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
    nsteps: int = 5,
    total_timesteps: float = 80000000.0,
    vf_coef: float | str | Callable[[float], float] = 0.5,
    ent_coef: float | str | Callable[[float], float] = 0.01,
    max_grad_norm: float | None = 0.5,
    lr: float | str | Callable[[float], float] = 0.0007,
    lrschedule: str | Callable[[float], float] = "linear",
    epsilon: float = 1e-05,
    alpha: float = 0.99,
    gamma: float | str | Callable[[float], float] = 0.99,
    log_interval: int = 100,
    load_path: str | None = None,
    save_interval: int = 0,
    value_network: str | Callable[..., Any] | None = None,
    normalize_observations: bool = False,
    normalize_advantages: bool = False,
    max_total_reward: float | None = None,
    eval_env: Any = None,
    comm: Any = None,
    run: RunOptions | None = None,
    reward_signals: str | dict[str, Any] | None = None,
    reward_signal_num_update: int | None = None,
    **network_kwargs: Any,
) -> PolicyModel:
    """Train a policy with A2C."""

def __getattr__(name: str) -> Any: ...
