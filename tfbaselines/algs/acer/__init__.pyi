"""Written by `python tests/support/stubs.py`."""

# ruff: noqa
# fmt: off
from typing import Any
import collections.abc, gymnasium, gymnasium.vector, tfbaselines.algs.acer.acer, tfbaselines.config.algorithm, tfbaselines.config.options, tfbaselines.envs.vec

ALGORITHM: tfbaselines.config.algorithm.Algorithm

def learn(network: str | collections.abc.Callable[..., Any], env: tfbaselines.envs.vec.VecEnv | gymnasium.Env[Any, Any] | gymnasium.vector.VectorEnv[Any, Any, Any] | str | collections.abc.Callable[..., Any] | collections.abc.Sequence[Any], seed: int | None = None, nsteps: int = 20, total_timesteps: float = 80000000.0, q_coef: float | str | collections.abc.Callable[[float], float] = 0.5, ent_coef: float | str | collections.abc.Callable[[float], float] = 0.01, max_grad_norm: float | None = 10.0, lr: float | str | collections.abc.Callable[[float], float] = 0.0007, lrschedule: str | collections.abc.Callable[[float], float] = 'linear', rprop_epsilon: float = 1e-05, rprop_alpha: float = 0.99, gamma: float | str | collections.abc.Callable[[float], float] = 0.99, log_interval: int = 100, buffer_size: int = 50000, replay_ratio: float = 4, replay_start: int = 10000, c: float | str | collections.abc.Callable[[float], float] = 10.0, trust_region: bool | str = True, alpha: float = 0.99, delta: float = 1.0, load_path: str | None = None, save_interval: int = 0, value_network: str | collections.abc.Callable[..., Any] | None = None, normalize_observations: bool = False, reward_clip: float | None = None, buffer_len: int | None = None, batch_size: int = 32, trace_length: int | None = None, num_workers: int = 1, lock: bool = True, comm: Any = None, run: tfbaselines.config.options.RunOptions | None = None, init_logstd: float = 0.0, ortho_init: bool = True, max_ep_reward: float | None = None, max_ep_len: int | None = None, lock_update: bool | None = None, worker_kind: str = 'threads', random_start: bool = True, prev_action: bool = False, **network_kwargs: Any) -> tfbaselines.algs.acer.acer.Model:
    """Train a policy with ACER; several workers take a list with the environments of each."""

def __getattr__(name: str) -> Any: ...
