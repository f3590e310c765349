"""Written by `python tests/support/stubs.py`."""

# ruff: noqa
# fmt: off
from typing import Any
import collections.abc, gymnasium, gymnasium.vector, tfbaselines.config.algorithm, tfbaselines.config.options, tfbaselines.envs.vec, tfbaselines.training.off_policy

ALGORITHM: tfbaselines.config.algorithm.Algorithm

def learn(network: str | collections.abc.Callable[..., Any], env: tfbaselines.envs.vec.VecEnv | gymnasium.Env[Any, Any] | gymnasium.vector.VectorEnv[Any, Any, Any] | str | collections.abc.Callable[..., Any] | collections.abc.Sequence[Any], seed: int | None = 0, total_timesteps: float | None = None, eval_env: Any = None, steps_per_epoch: int = 4000, epochs: int = 100, replay_size: float = 1000000.0, gamma: float = 0.99, polyak: float = 0.995, pi_lr: float | str | collections.abc.Callable[[float], float] = 0.001, q_lr: float | str | collections.abc.Callable[[float], float] = 0.001, batch_size: int = 100, start_steps: int = 10000, update_after: int = 1000, update_every: int = 50, act_noise: float | str | collections.abc.Callable[[float], float] = 0.1, target_noise: float | str | collections.abc.Callable[[float], float] = 0.2, noise_clip: float | str | collections.abc.Callable[[float], float] = 0.5, policy_delay: int = 2, num_test_episodes: int = 10, max_ep_len: int | None = 1000, logger_kwargs: dict[str, Any] | None = None, save_freq: int = 1, num_update: int | None = None, n_step: int = 1, memory_size: int | None = None, sequence_length: int = 64, vis_encode_type: str = 'simple', normalize_observations: bool | None = None, save_replay_buffer: bool = True, load_path: str | None = None, comm: Any = None, run: tfbaselines.config.options.RunOptions | None = None, replay: str = 'uniform', replay_k: float | None = None, offline: str | None = None, bc_alpha: float | None = None, critics: int = 2, critic_layer_norm: bool = False, max_ep_reward: float | None = None, prev_action: bool = False, noise_correlation: float = 0.0, critic: str = 'plain', reward_clip: float | None = None, **network_kwargs: Any) -> tfbaselines.training.off_policy.OffPolicyModel:
    """Train a policy with TD3."""

def __getattr__(name: str) -> Any: ...
