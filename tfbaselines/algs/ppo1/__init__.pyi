"""Written by `python tests/support/stubs.py`."""

# ruff: noqa
# fmt: off
from typing import Any
import collections.abc, gymnasium, gymnasium.vector, tfbaselines.config.algorithm, tfbaselines.config.options, tfbaselines.envs.vec, tfbaselines.training.model

ALGORITHM: tfbaselines.config.algorithm.Algorithm

def learn(network: str | collections.abc.Callable[..., Any], env: tfbaselines.envs.vec.VecEnv | gymnasium.Env[Any, Any] | gymnasium.vector.VectorEnv[Any, Any, Any] | str | collections.abc.Callable[..., Any] | collections.abc.Sequence[Any], timesteps_per_actorbatch: int = 2048, clip_param: float = 0.2, entcoeff: float | str | collections.abc.Callable[[float], float] = 0.0, optim_epochs: int = 10, optim_stepsize: float = 0.0003, optim_batchsize: int = 64, gamma: float | str | collections.abc.Callable[[float], float] = 0.99, lam: float | str | collections.abc.Callable[[float], float] = 0.95, max_timesteps: float = 0, max_episodes: int = 0, max_iters: int = 0, max_seconds: float = 0.0, callback: collections.abc.Callable[[dict[str, Any], dict[str, Any]], Any] | None = None, adam_epsilon: float = 1e-05, schedule: str = 'linear', total_timesteps: float | None = None, seed: int | None = None, load_path: str | None = None, save_interval: int = 0, value_network: str | collections.abc.Callable[..., Any] | None = 'copy', normalize_observations: bool = False, comm: Any = None, run: tfbaselines.config.options.RunOptions | None = None, init_logstd: float = 0.0, ortho_init: bool = True, max_ep_reward: float | None = None, max_ep_len: int | None = None, **network_kwargs: Any) -> tfbaselines.training.model.PolicyModel:
    """Train a policy with PPO1."""

def __getattr__(name: str) -> Any: ...
