"""Written by `python tests/support/stubs.py`."""

from collections.abc import Callable, Sequence
from typing import Any

from gymnasium import Env
from gymnasium.vector import VectorEnv

from tfbaselines.algs.acer.acer import Model
from tfbaselines.config.algorithm import Algorithm
from tfbaselines.config.options import RunOptions
from tfbaselines.envs.vec import VecEnv

ALGORITHM: Algorithm

def learn(
    network: str | Callable[..., Any],
    env: VecEnv | Env[Any, Any] | VectorEnv[Any, Any, Any] | str | Callable[..., Any] | Sequence[Any],
    seed: int | None = None,
    nsteps: int = 20,
    total_timesteps: float = 80000000.0,
    q_coef: float | str | Callable[[float], float] = 0.5,
    ent_coef: float | str | Callable[[float], float] = 0.01,
    max_grad_norm: float | None = 10.0,
    lr: float | str | Callable[[float], float] = 0.0007,
    lrschedule: str | Callable[[float], float] = "linear",
    rprop_epsilon: float = 1e-05,
    rprop_alpha: float = 0.99,
    gamma: float | str | Callable[[float], float] = 0.99,
    log_interval: int = 100,
    buffer_size: int = 50000,
    replay_ratio: float = 4,
    replay_start: int = 10000,
    c: float | str | Callable[[float], float] = 10.0,
    trust_region: bool | str = True,
    alpha: float = 0.99,
    delta: float = 1.0,
    load_path: str | None = None,
    save_interval: int = 0,
    value_network: str | Callable[..., Any] | None = None,
    normalize_observations: bool = False,
    reward_clip: float | None = None,
    buffer_len: int | None = None,
    batch_size: int = 32,
    trace_length: int | None = None,
    num_workers: int = 1,
    lock: bool = True,
    comm: Any = None,
    run: RunOptions | None = None,
    **network_kwargs: Any,
) -> Model:
    """Train a policy with ACER; several workers take a list with the environments of each."""

def __getattr__(name: str) -> Any: ...
