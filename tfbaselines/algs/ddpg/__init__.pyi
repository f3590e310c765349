"""Written by `python tests/support/stubs.py`."""

# ruff: noqa
# fmt: off
from typing import Any
import collections.abc, gymnasium, gymnasium.vector, tfbaselines.algs.ddpg.ddpg, tfbaselines.config.algorithm, tfbaselines.config.options, tfbaselines.envs.vec

ALGORITHM: tfbaselines.config.algorithm.Algorithm

def learn(network: str | collections.abc.Callable[..., Any], env: tfbaselines.envs.vec.VecEnv | gymnasium.Env[Any, Any] | gymnasium.vector.VectorEnv[Any, Any, Any] | str | collections.abc.Callable[..., Any] | collections.abc.Sequence[Any], seed: int | None = None, total_timesteps: float | None = None, nb_epochs: int | None = None, nb_epoch_cycles: int = 20, nb_rollout_steps: int = 100, reward_scale: float = 1.0, render: bool = False, render_eval: bool = False, noise_type: str | None = 'adaptive-param_0.2', normalize_returns: bool = False, normalize_observations: bool = True, critic_l2_reg: float = 0.01, actor_lr: float | str | collections.abc.Callable[[float], float] = 0.0001, critic_lr: float | str | collections.abc.Callable[[float], float] = 0.001, popart: bool = False, gamma: float = 0.99, clip_norm: float | None = None, nb_train_steps: int = 50, nb_eval_steps: int = 100, batch_size: int = 64, tau: float = 0.01, eval_env: Any = None, param_noise_adaption_interval: int = 50, return_range: tuple[float, float] | None = None, replay_size: float = 1000000.0, act_noise: float | None = None, polyak: float | None = None, start_steps: int = 0, update_after: int = 0, update_every: int | None = None, num_test_episodes: int = 0, max_ep_len: int | None = None, save_interval: int = 0, twin_q: bool = False, delay_policy_update: int = 1, target_noise: float | str | collections.abc.Callable[[float], float] = 0.0, noise_clip: float | str | collections.abc.Callable[[float], float] = 0.5, n_step: int = 1, save_replay_buffer: bool = True, load_path: str | None = None, comm: Any = None, run: tfbaselines.config.options.RunOptions | None = None, critic_layer_norm: bool = False, max_ep_reward: float | None = None, **network_kwargs: Any) -> tfbaselines.algs.ddpg.ddpg.Model:
    """Train a policy with DDPG."""

def __getattr__(name: str) -> Any: ...
