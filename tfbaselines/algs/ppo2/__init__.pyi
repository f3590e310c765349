"""Written by `python tests/support/stubs.py`."""

from collections.abc import Callable, Sequence
from typing import Any

from gymnasium import Env
from gymnasium.vector import VectorEnv

from tfbaselines.algs.ppo2.ppo2 import Model
from tfbaselines.config.algorithm import Algorithm
from tfbaselines.config.options import RunOptions
from tfbaselines.envs.vec import VecEnv

ALGORITHM: Algorithm

def learn(
    network: str | Callable[..., Any],
    env: VecEnv | Env[Any, Any] | VectorEnv[Any, Any, Any] | str | Callable[..., Any] | Sequence[Any],
    total_timesteps: float = 1000000.0,
    eval_env: Any = None,
    seed: int | None = None,
    nsteps: int = 2048,
    ent_coef: float | str | Callable[[float], float] = 0.0,
    lr: float | str | Callable[[float], float] = 0.0003,
    vf_coef: float | str | Callable[[float], float] = 0.5,
    max_grad_norm: float | None = 0.5,
    gamma: float | str | Callable[[float], float] = 0.99,
    lam: float | str | Callable[[float], float] = 0.95,
    log_interval: int = 10,
    nminibatches: int = 4,
    noptepochs: int = 4,
    cliprange: float | str | Callable[[float], float] = 0.2,
    save_interval: int = 0,
    load_path: str | None = None,
    model_fn: Callable[..., Any] | None = None,
    update_fn: Callable[[int], None] | None = None,
    init_fn: Callable[[], None] | None = None,
    mpi_rank_weight: float = 1.0,
    comm: Any = None,
    value_network: str | Callable[..., Any] | None = None,
    normalize_observations: bool = False,
    use_gae: bool = True,
    cliprange_vf: float | str | Callable[[float], float] | bool = True,
    normalize_advantages: bool = True,
    max_total_reward: float | None = None,
    run: RunOptions | None = None,
    reward_signals: str | dict[str, Any] | None = None,
    reward_signal_num_update: int | None = None,
    pretraining: str | dict[str, Any] | None = None,
    **network_kwargs: Any,
) -> Model:
    """Train a policy with PPO2."""

def __getattr__(name: str) -> Any: ...
