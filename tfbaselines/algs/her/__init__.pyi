"""Written by `python tests/support/stubs.py`."""

# ruff: noqa
# fmt: off
from typing import Any
import collections.abc, gymnasium, gymnasium.vector, tfbaselines.config.algorithm, tfbaselines.config.options, tfbaselines.envs.vec, tfbaselines.training.off_policy

ALGORITHM: tfbaselines.config.algorithm.Algorithm

def learn(network: str | collections.abc.Callable[..., Any], env: tfbaselines.envs.vec.VecEnv | gymnasium.Env[Any, Any] | gymnasium.vector.VectorEnv[Any, Any, Any] | str | collections.abc.Callable[..., Any] | collections.abc.Sequence[Any], total_timesteps: float = 1000000.0, seed: int | None = None, eval_env: Any = None, replay_strategy: str = 'future', policy_save_interval: int = 5, clip_return: bool = True, demo_file: str | None = None, override_params: dict[str, Any] | None = None, load_path: str | None = None, save_path: str | None = None, comm: Any = None, run: tfbaselines.config.options.RunOptions | None = None, gamma: float | None = None, batch_size: int = 256, max_ep_len: int | None = None, save_replay_buffer: bool = True, layers: int = 3, hidden: int = 256, Q_lr: float | str | collections.abc.Callable[[float], float] = 0.001, pi_lr: float | str | collections.abc.Callable[[float], float] = 0.001, buffer_size: float = 1000000.0, polyak: float = 0.95, action_l2: float = 1.0, clip_obs: float = 200.0, relative_goals: bool = False, n_cycles: int | None = None, rollout_batch_size: int | None = None, n_batches: int = 40, n_test_rollouts: int = 10, test_with_polyak: bool = False, random_eps: float | str | collections.abc.Callable[[float], float] = 0.3, noise_eps: float | str | collections.abc.Callable[[float], float] = 0.2, replay_k: float = 4, norm_eps: float = 0.01, norm_clip: float = 5.0, bc_loss: bool = False, q_filter: bool = False, num_demo: int = 100, demo_batch_size: int = 128, prm_loss_weight: float = 0.001, aux_loss_weight: float = 0.0078, clip_pos_returns: bool = True, **network_kwargs: Any) -> tfbaselines.training.off_policy.OffPolicyModel:
    """Train a policy that reaches goals; observations are Dicts of observation, achieved_goal and desired_goal."""

def __getattr__(name: str) -> Any: ...
