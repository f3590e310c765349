"""Written by `python tests/support/stubs.py`."""

# ruff: noqa
# fmt: off
from typing import Any
import collections.abc, gymnasium, gymnasium.vector, tfbaselines.config.algorithm, tfbaselines.config.options, tfbaselines.envs.vec, tfbaselines.training.model

ALGORITHM: tfbaselines.config.algorithm.Algorithm

def learn(network: str | collections.abc.Callable[..., Any], env: tfbaselines.envs.vec.VecEnv | gymnasium.Env[Any, Any] | gymnasium.vector.VectorEnv[Any, Any, Any] | str | collections.abc.Callable[..., Any] | collections.abc.Sequence[Any], total_timesteps: float | None = None, timesteps_per_batch: int = 1024, max_kl: float | str | collections.abc.Callable[[float], float] = 0.001, cg_iters: int = 10, gamma: float | str | collections.abc.Callable[[float], float] = 0.99, lam: float | str | collections.abc.Callable[[float], float] = 1.0, seed: int | None = None, ent_coef: float | str | collections.abc.Callable[[float], float] = 0.0, cg_damping: float = 0.01, vf_stepsize: float | str | collections.abc.Callable[[float], float] = 0.0003, vf_iters: int = 3, max_episodes: int = 0, max_iters: int = 0, callback: collections.abc.Callable[[dict[str, Any], dict[str, Any]], Any] | None = None, load_path: str | None = None, save_interval: int = 0, value_network: str | collections.abc.Callable[..., Any] | None = 'copy', normalize_observations: bool = False, comm: Any = None, run: tfbaselines.config.options.RunOptions | None = None, init_logstd: float = 0.0, ortho_init: bool = True, max_ep_reward: float | None = None, max_ep_len: int | None = None, **network_kwargs: Any) -> tfbaselines.training.model.PolicyModel:
    """Train a policy with TRPO."""

def __getattr__(name: str) -> Any: ...
