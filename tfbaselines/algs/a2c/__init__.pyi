"""Written by `python tests/support/stubs.py`."""

# ruff: noqa
# fmt: off
from typing import Any
import collections.abc, gymnasium, gymnasium.vector, tfbaselines.config.algorithm, tfbaselines.config.options, tfbaselines.envs.vec, tfbaselines.training.model

ALGORITHM: tfbaselines.config.algorithm.Algorithm

def learn(network: str | collections.abc.Callable[..., Any], env: tfbaselines.envs.vec.VecEnv | gymnasium.Env[Any, Any] | gymnasium.vector.VectorEnv[Any, Any, Any] | str | collections.abc.Callable[..., Any] | collections.abc.Sequence[Any], seed: int | None = None, nsteps: int = 5, total_timesteps: float = 80000000.0, vf_coef: float | str | collections.abc.Callable[[float], float] = 0.5, ent_coef: float | str | collections.abc.Callable[[float], float] = 0.01, max_grad_norm: float | None = 0.5, lr: float | str | collections.abc.Callable[[float], float] = 0.0007, lrschedule: str | collections.abc.Callable[[float], float] = 'linear', epsilon: float = 1e-05, alpha: float = 0.99, gamma: float | str | collections.abc.Callable[[float], float] = 0.99, log_interval: int = 100, load_path: str | None = None, save_interval: int = 0, value_network: str | collections.abc.Callable[..., Any] | None = None, normalize_observations: bool = False, normalize_advantages: bool = False, max_total_reward: float | None = None, eval_env: Any = None, comm: Any = None, run: tfbaselines.config.options.RunOptions | None = None, init_logstd: float = 0.0, ortho_init: bool = True, reward_signals: str | dict[str, Any] | None = None, reward_signal_num_update: int | None = None, max_ep_reward: float | None = None, max_ep_len: int | None = None, prev_action: bool = False, lam: float | str | collections.abc.Callable[[float], float] = 1.0, **network_kwargs: Any) -> tfbaselines.training.model.PolicyModel:
    """Train a policy with A2C."""

def __getattr__(name: str) -> Any: ...
