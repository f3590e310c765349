"""Written by `python tests/support/stubs.py`."""

# ruff: noqa
# fmt: off
from typing import Any
import collections.abc, gymnasium, gymnasium.vector, tfbaselines.config.algorithm, tfbaselines.config.options, tfbaselines.envs.vec, tfbaselines.training.model

ALGORITHM: tfbaselines.config.algorithm.Algorithm

def learn(network: str | collections.abc.Callable[..., Any], env: tfbaselines.envs.vec.VecEnv | gymnasium.Env[Any, Any] | gymnasium.vector.VectorEnv[Any, Any, Any] | str | collections.abc.Callable[..., Any] | collections.abc.Sequence[Any], num_agents: int = 30, num_iterations: int = 300, lr: float | str | collections.abc.Callable[[float], float] = 0.03, sigma: float | str | collections.abc.Callable[[float], float] = 0.1, test_every: int = 50, num_test_episodes: int = 5, max_ep_len: int | None = None, stop_max_score: float | None = None, normalize_observations: bool = False, seed: int | None = None, total_timesteps: float | None = None, load_path: str | None = None, comm: Any = None, run: tfbaselines.config.options.RunOptions | None = None, eval_env: Any = None, log_interval: int = 1, save_interval: int = 0, mirrored: bool = True, returns: str = 'standardised', optimizer: str = 'sgd', weight_decay: float = 0.0, max_ep_reward: float | None = None, **network_kwargs: Any) -> tfbaselines.training.model.PolicyModel:
    """Train a policy with evolution strategies."""

def __getattr__(name: str) -> Any: ...
