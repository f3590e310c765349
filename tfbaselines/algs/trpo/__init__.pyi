"""Written by `python tests/support/stubs.py`."""

# ruff: noqa
# fmt: off
from typing import Any
import collections.abc, gymnasium, gymnasium.vector, tfbaselines.config.algorithm, tfbaselines.config.options, tfbaselines.envs.vec, tfbaselines.training.model

ALGORITHM: tfbaselines.config.algorithm.Algorithm

def learn(network: str | collections.abc.Callable[..., Any], env: tfbaselines.envs.vec.VecEnv | gymnasium.Env[Any, Any] | gymnasium.vector.VectorEnv[Any, Any, Any] | str | collections.abc.Callable[..., Any] | collections.abc.Sequence[Any], seed: int | None = 0, steps_per_epoch: int = 4000, epochs: int = 50, gamma: float | str | collections.abc.Callable[[float], float] = 0.99, delta: float | str | collections.abc.Callable[[float], float] = 0.01, vf_lr: float | str | collections.abc.Callable[[float], float] = 0.001, train_v_iters: int = 80, damping_coeff: float = 0.1, cg_iters: int = 10, backtrack_iters: int = 10, backtrack_coeff: float = 0.8, lam: float | str | collections.abc.Callable[[float], float] = 0.97, max_ep_len: int | None = 1000, logger_kwargs: dict[str, Any] | None = None, save_freq: int = 10, algo: str = 'trpo', total_timesteps: float | None = None, value_network: str | collections.abc.Callable[..., Any] | None = 'copy', normalize_observations: bool = False, load_path: str | None = None, comm: Any = None, run: tfbaselines.config.options.RunOptions | None = None, eval_env: Any = None, num_test_episodes: int = 10, init_logstd: float = -0.5, ortho_init: bool = True, max_ep_reward: float | None = None, **network_kwargs: Any) -> tfbaselines.training.model.PolicyModel:
    """Train a policy with Spinning Up's TRPO or natural policy gradient."""

def __getattr__(name: str) -> Any: ...
