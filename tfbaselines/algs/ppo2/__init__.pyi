"""Written by `python tests/support/stubs.py`."""

# ruff: noqa
# fmt: off
from typing import Any
import collections.abc, gymnasium, gymnasium.vector, tfbaselines.algs.ppo2.ppo2, tfbaselines.config.algorithm, tfbaselines.config.options, tfbaselines.envs.vec

ALGORITHM: tfbaselines.config.algorithm.Algorithm

def learn(network: str | collections.abc.Callable[..., Any], env: tfbaselines.envs.vec.VecEnv | gymnasium.Env[Any, Any] | gymnasium.vector.VectorEnv[Any, Any, Any] | str | collections.abc.Callable[..., Any] | collections.abc.Sequence[Any], total_timesteps: float = 1000000.0, eval_env: Any = None, seed: int | None = None, nsteps: int = 2048, ent_coef: float | str | collections.abc.Callable[[float], float] = 0.0, lr: float | str | collections.abc.Callable[[float], float] = 0.0003, vf_coef: float | str | collections.abc.Callable[[float], float] = 0.5, max_grad_norm: float | None = 0.5, gamma: float | str | collections.abc.Callable[[float], float] = 0.99, lam: float | str | collections.abc.Callable[[float], float] = 0.95, log_interval: int = 10, nminibatches: int = 4, noptepochs: int = 4, cliprange: float | str | collections.abc.Callable[[float], float] = 0.2, save_interval: int = 0, load_path: str | None = None, model_fn: collections.abc.Callable[..., Any] | None = None, update_fn: collections.abc.Callable[[int], None] | None = None, init_fn: collections.abc.Callable[[], None] | None = None, mpi_rank_weight: float = 1.0, comm: Any = None, value_network: str | collections.abc.Callable[..., Any] | None = None, normalize_observations: bool = False, use_gae: bool = True, cliprange_vf: float | str | collections.abc.Callable[[float], float] | bool = True, normalize_advantages: bool = True, max_total_reward: float | None = None, run: tfbaselines.config.options.RunOptions | None = None, init_logstd: float = 0.0, ortho_init: bool = True, reward_signals: str | dict[str, Any] | None = None, reward_signal_num_update: int | None = None, pretraining: str | dict[str, Any] | None = None, max_ep_reward: float | None = None, max_ep_len: int | None = None, prev_action: bool = False, **network_kwargs: Any) -> tfbaselines.algs.ppo2.ppo2.Model:
    """Train a policy with PPO2."""

def __getattr__(name: str) -> Any: ...
