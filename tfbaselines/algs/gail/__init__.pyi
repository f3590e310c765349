"""Written by `python tests/support/stubs.py`."""

# ruff: noqa
# fmt: off
from typing import Any
import collections.abc, gymnasium, gymnasium.vector, tfbaselines.config.algorithm, tfbaselines.config.options, tfbaselines.envs.vec, tfbaselines.training.model

ALGORITHM: tfbaselines.config.algorithm.Algorithm

def learn(network: str | collections.abc.Callable[..., Any], env: tfbaselines.envs.vec.VecEnv | gymnasium.Env[Any, Any] | gymnasium.vector.VectorEnv[Any, Any, Any] | str | collections.abc.Callable[..., Any] | collections.abc.Sequence[Any], demo_path: str | None = None, g_step: int = 3, d_step: int = 1, entcoeff: float | str | collections.abc.Callable[[float], float] = 0.0, adversary_entcoeff: float = 0.001, adversary_hidden_size: int = 100, timesteps_per_batch: int = 1024, max_kl: float | str | collections.abc.Callable[[float], float] = 0.01, cg_iters: int = 10, cg_damping: float = 0.1, gamma: float | str | collections.abc.Callable[[float], float] = 0.995, lam: float | str | collections.abc.Callable[[float], float] = 0.97, vf_iters: int = 5, vf_stepsize: float | str | collections.abc.Callable[[float], float] = 0.001, d_stepsize: float = 0.0003, pretrained: bool = False, BC_max_iter: int = 10000, traj_limitation: int | None = None, subsample: int = 1, total_timesteps: float | None = None, max_episodes: int = 0, max_iters: int = 0, seed: int | None = None, callback: collections.abc.Callable[[dict[str, Any], dict[str, Any]], Any] | None = None, load_path: str | None = None, save_interval: int = 0, value_network: str | collections.abc.Callable[..., Any] | None = 'copy', normalize_observations: bool = False, comm: Any = None, run: tfbaselines.config.options.RunOptions | None = None, init_logstd: float = 0.0, ortho_init: bool = True, max_ep_reward: float | None = None, max_ep_len: int | None = None, **network_kwargs: Any) -> tfbaselines.training.model.PolicyModel:
    """Train a policy with GAIL."""

def __getattr__(name: str) -> Any: ...
