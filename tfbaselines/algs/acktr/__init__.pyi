"""Written by `python tests/support/stubs.py`."""

# ruff: noqa
# fmt: off
from typing import Any
import collections.abc, gymnasium, gymnasium.vector, tfbaselines.config.algorithm, tfbaselines.config.options, tfbaselines.envs.vec, tfbaselines.training.model

ALGORITHM: tfbaselines.config.algorithm.Algorithm

def learn(network: str | collections.abc.Callable[..., Any], env: tfbaselines.envs.vec.VecEnv | gymnasium.Env[Any, Any] | gymnasium.vector.VectorEnv[Any, Any, Any] | str | collections.abc.Callable[..., Any] | collections.abc.Sequence[Any], seed: int | None = None, total_timesteps: float = 40000000.0, gamma: float | str | collections.abc.Callable[[float], float] = 0.99, log_interval: int = 100, nprocs: int = 32, nsteps: int = 20, ent_coef: float | str | collections.abc.Callable[[float], float] = 0.01, vf_coef: float | str | collections.abc.Callable[[float], float] = 0.5, vf_fisher_coef: float | str | collections.abc.Callable[[float], float] = 1.0, lr: float | str | collections.abc.Callable[[float], float] = 0.25, max_grad_norm: float | None = 0.5, kfac_clip: float = 0.001, save_interval: int | None = None, lrschedule: str | collections.abc.Callable[[float], float] = 'linear', load_path: str | None = None, is_async: bool = True, stats_update: int = 1, kfac_update: int = 1, value_network: str | collections.abc.Callable[..., Any] | None = None, normalize_observations: bool = False, max_total_reward: float | None = None, eval_env: Any = None, comm: Any = None, run: tfbaselines.config.options.RunOptions | None = None, init_logstd: float = 0.0, ortho_init: bool = True, max_ep_reward: float | None = None, max_ep_len: int | None = None, **network_kwargs: Any) -> tfbaselines.training.model.PolicyModel:
    """Train a policy with ACKTR."""

def __getattr__(name: str) -> Any: ...
