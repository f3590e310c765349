"""Written by `python tests/support/stubs.py`."""

# ruff: noqa
# fmt: off
from typing import Any
import collections.abc, gymnasium, gymnasium.vector, tfbaselines.config.algorithm, tfbaselines.config.options, tfbaselines.envs.vec, tfbaselines.training.model

ALGORITHM: tfbaselines.config.algorithm.Algorithm

def learn(network: str | collections.abc.Callable[..., Any], env: tfbaselines.envs.vec.VecEnv | gymnasium.Env[Any, Any] | gymnasium.vector.VectorEnv[Any, Any, Any] | str | collections.abc.Callable[..., Any] | collections.abc.Sequence[Any], num_iterations: int = 1000, lr: float | str | collections.abc.Callable[[float], float] = 0.03, discount: float = 0.99, epsilon_greedy: float = 0.9, epsilon_decay: float = 0.9999, epsilon_min: float = 0.01, grid_size: int | list = 20, test_every: int = 10, num_test_episodes: int = 5, max_ep_len: int | None = None, stop_max_score: float | None = None, seed: int | None = None, total_timesteps: float | None = None, load_path: str | None = None, comm: Any = None, run: tfbaselines.config.options.RunOptions | None = None, eval_env: Any = None, log_interval: int = 10, save_interval: int = 0, low: float | list | None = None, high: float | list | None = None, bounds_steps: int = 1000, initial_value: float = 0.0, max_ep_reward: float | None = None, **network_kwargs: Any) -> tfbaselines.training.model.PolicyModel:
    """Learn a table with Q-learning; the only network is 'table'."""

def __getattr__(name: str) -> Any: ...
