"""Written by `python tests/support/stubs.py`."""

# ruff: noqa
# fmt: off
from typing import Any
import collections.abc, gymnasium, gymnasium.vector, tfbaselines.algs.deepq.deepq, tfbaselines.config.algorithm, tfbaselines.config.options, tfbaselines.envs.vec

ALGORITHM: tfbaselines.config.algorithm.Algorithm

def learn(network: str | collections.abc.Callable[..., Any], env: tfbaselines.envs.vec.VecEnv | gymnasium.Env[Any, Any] | gymnasium.vector.VectorEnv[Any, Any, Any] | str | collections.abc.Callable[..., Any] | collections.abc.Sequence[Any], seed: int | None = None, lr: float | str | collections.abc.Callable[[float], float] = 0.0005, total_timesteps: float = 100000.0, buffer_size: float = 50000.0, exploration_fraction: float = 0.1, exploration_final_eps: float = 0.02, train_freq: int = 1, batch_size: int = 32, print_freq: int | None = 100, checkpoint_freq: int | None = 10000, checkpoint_path: str | None = None, learning_starts: int = 1000, gamma: float = 1.0, target_network_update_freq: int = 500, prioritized_replay: bool = False, prioritized_replay_alpha: float = 0.6, prioritized_replay_beta0: float = 0.4, prioritized_replay_beta_iters: int | None = None, prioritized_replay_eps: float = 1e-06, param_noise: bool = False, callback: collections.abc.Callable[[dict[str, Any], dict[str, Any]], Any] | None = None, load_path: str | None = None, hiddens: collections.abc.Sequence[int] = (256,), dueling: bool = True, layer_norm: bool = False, double_q: bool = True, grad_norm_clipping: float | None = 10.0, adam_epsilon: float = 1e-08, n_step: int = 1, distributional: str | None = None, num_atoms: int | None = None, v_min: float = -10.0, v_max: float = 10.0, noisy: bool = False, vis_encode_type: str = 'simple', eval_env: Any = None, num_test_episodes: int = 0, max_ep_len: int | None = None, save_replay_buffer: bool = True, gradient_steps: int = 1, comm: Any = None, run: tfbaselines.config.options.RunOptions | None = None, max_ep_reward: float | None = None, normalize_observations: bool = False, epsilon_start: float = 1.0, epsilon_decay: float | None = None, **network_kwargs: Any) -> tfbaselines.algs.deepq.deepq.ActWrapper:
    """Train a Q-network with DQN; an 'action_mask' in the infos restricts the actions."""

def __getattr__(name: str) -> Any: ...
