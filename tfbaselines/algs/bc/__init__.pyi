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
    demo_path: str | None = None,
    traj_limitation: int | None = None,
    subsample: int = 1,
    num_iterations: int = 500,
    lr: float | str | Callable[[float], float] = 0.001,
    batch_size: int = 128,
    held_out: float = 0.1,
    patience: int = 20,
    weight_decay: float = 0.0,
    normalize_observations: bool = False,
    seed: int | None = None,
    total_timesteps: float | None = None,
    load_path: str | None = None,
    comm: Any = None,
    run: RunOptions | None = None,
    eval_env: Any = None,
    test_every: int = 50,
    num_test_episodes: int = 10,
    stop_max_score: float | None = None,
    max_ep_len: int | None = None,
    log_interval: int = 1,
    save_interval: int = 0,
    sequence_length: int = 64,
    **network_kwargs: Any,
) -> PolicyModel:
    """Train a policy by behavior cloning; the environments are for tests only."""

def __getattr__(name: str) -> Any: ...
