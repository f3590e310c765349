"""Written by `python tests/support/stubs.py`."""

# ruff: noqa
# fmt: off
from typing import Any
import collections.abc, gymnasium, gymnasium.vector, tfbaselines.config.algorithm, tfbaselines.config.options, tfbaselines.envs.vec, tfbaselines.training.model

ALGORITHM: tfbaselines.config.algorithm.Algorithm

def learn(network: str | collections.abc.Callable[..., Any], env: tfbaselines.envs.vec.VecEnv | gymnasium.Env[Any, Any] | gymnasium.vector.VectorEnv[Any, Any, Any] | str | collections.abc.Callable[..., Any] | collections.abc.Sequence[Any], demo_path: str | None = None, traj_limitation: int | None = None, subsample: int = 1, num_iterations: int = 500, lr: float | str | collections.abc.Callable[[float], float] = 0.001, batch_size: int = 128, held_out: float = 0.1, patience: int = 20, weight_decay: float = 0.0, normalize_observations: bool = False, seed: int | None = None, total_timesteps: float | None = None, load_path: str | None = None, comm: Any = None, run: tfbaselines.config.options.RunOptions | None = None, eval_env: Any = None, test_every: int = 50, num_test_episodes: int = 10, stop_max_score: float | None = None, max_ep_len: int | None = None, log_interval: int = 1, save_interval: int = 0, sequence_length: int = 64, **network_kwargs: Any) -> tfbaselines.training.model.PolicyModel:
    """Train a policy by behavior cloning; the environments are for tests only."""

def __getattr__(name: str) -> Any: ...
