"""The cycles of HER: one episode of every environment, explored with noise and random actions."""

import dataclasses

import numpy as np

from tfbaselines.algs.her import Config
from tfbaselines.envs.vec import VecEnv
from tfbaselines.envs.wrappers import check_goals, episode_limit
from tfbaselines.errors import bad_argument
from tfbaselines.logs import logger
from tfbaselines.policy.bounded import BoundedHead
from tfbaselines.training.off_policy import Course

# Cycles in an epoch, by the beginning of the environment's id.
CYCLES = {"FetchReach": 10}
USUAL_CYCLES = 50


def completed(config: Config, env: VecEnv) -> tuple[Config, int]:
    """Fill in the arguments that depend on the environments; also return the steps of an episode."""
    check_goals(env)
    if config.rollout_batch_size not in (None, env.num_envs):
        raise bad_argument("rollout_batch_size", config.rollout_batch_size, f"there are {env.num_envs} environments")
    if config.bc_loss != (config.demo_file is not None):
        raise bad_argument("bc_loss", config.bc_loss, "True with a demo_file, False without one")
    limits = [limit for limit in (config.max_ep_len, episode_limit(env)) if limit is not None]
    if not limits:
        raise bad_argument("max_ep_len", None, "a number of steps: the environment has no time limit of its own")
    spec = env.unwrapped.example().spec
    cycles = [CYCLES[name] for name in CYCLES if spec is not None and spec.id.startswith(name)] or [USUAL_CYCLES]
    filled = {
        "rollout_batch_size": env.num_envs,
        "n_cycles": config.n_cycles or cycles[0],
        "gamma": 1.0 - 1.0 / min(limits) if config.gamma is None else config.gamma,
    }
    return dataclasses.replace(config, **filled), min(limits)


def course_of(config: Config, episode_steps: int) -> Course:
    """Return when a run collects and learns: a cycle is an episode of every environment."""
    return Course(
        steps=int(config.total_timesteps),
        collected=episode_steps,
        gradient_steps=config.n_batches,
        cycles_per_epoch=config.n_cycles,
        save_freq=config.policy_save_interval,
    )


class RewardCheck:
    """Warn once of rewards above 0 if the critic's targets are at most 0.

    Args:
        clip_pos_returns: the targets are at most 0.
    """

    def __init__(self, clip_pos_returns: bool) -> None:
        self._needed = clip_pos_returns

    def __call__(self, rewards: np.ndarray) -> None:
        """Check the rewards of a block."""
        if self._needed and rewards.max() > 0:
            self._needed = False
            logger.warn("there are rewards above 0, and targets are at most 0: give clip_pos_returns=False")


def explored(
    actions: np.ndarray, head: BoundedHead, rng: np.random.Generator, noise_eps: float, random_eps: float
) -> np.ndarray:
    """Explore: give actions Gaussian noise, and replace some of them by random ones.

    Args:
        actions: actions [N, ...].
        head: the policy's head, with the bounds of actions.
        rng: generator of noise and random actions.
        noise_eps: standard deviation of the noise, in units of the bounds.
        random_eps: share of random actions.
    """
    count, low, high = len(actions), head.center - head.limit, head.center + head.limit
    noisy = head.noisy(actions, noise_eps * head.limit * rng.standard_normal((count, head.width)))
    replaced = rng.binomial(1, random_eps, count).astype(bool)
    random = rng.uniform(low, high, (count, head.width)).reshape(actions.shape)
    chosen = np.where(replaced.reshape(count, *[1] * (actions.ndim - 1)), random, noisy)
    return chosen.astype(actions.dtype)
