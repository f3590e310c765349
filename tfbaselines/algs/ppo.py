"""PPO as in Spinning Up: clipped ratios, stopped early by the KL divergence (Schulman et al. 2017, arXiv:1707.06347).

Each epoch collects steps_per_epoch with the current policy, estimates advantages A with GAE, normalised over all
ranks, and takes up to train_pi_iters steps of Adam on the policy, each on all rows, down

    LossPi = -E[min(A * ratio, A * clip(ratio, 1 - clip_ratio, 1 + clip_ratio))],   ratio = pi(a|s) / pi_old(a|s)

until E[log pi_old(a|s) - log pi(a|s)] passes 1.5 target_kl, then train_v_iters steps of another on the value function,
down LossV = E[(V(s) - R)^2], where R is the discounted return to the episode's end, or to the value of the observation
after the last step.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import tensorflow as tf

from tfbaselines.envs.vec import VecEnv
from tfbaselines.losses.policy_gradient import clipped_policy_loss, evaluated
from tfbaselines.optim.update import Batch, Statistics
from tfbaselines.policy.policy import Policy
from tfbaselines.running.epoch_run import EpochRun
from tfbaselines.running.model import PolicyModel
from tfbaselines.settings.bases import EpochConfig
from tfbaselines.settings.config import Coefficient, NetworkSpec, Schedule, arg
from tfbaselines.settings.takes import takes

STATISTICS = ("LossPi", "LossV", "DeltaLossPi", "DeltaLossV", "Entropy", "KL", "ClipFrac", "StopIter")

# The policy's steps end where the KL divergence is above this times target_kl.
TOLERANCE = 1.5


@dataclass(frozen=True, kw_only=True)
class Config(EpochConfig):
    """Arguments of Spinning Up's PPO."""

    clip_ratio: Coefficient = arg(0.2, "how far the probability ratio may go from 1", at_least=0)
    pi_lr: Schedule = arg(3e-4, "the policy's learning rate", at_least=0)
    train_pi_iters: int = arg(80, "gradient steps of the policy in an epoch, at most", at_least=1)
    target_kl: float = arg(0.01, "KL divergence of an update; its steps end where it is 1.5 times this", at_least=0)

    order: ClassVar = """
        seed steps_per_epoch epochs gamma clip_ratio pi_lr vf_lr train_pi_iters train_v_iters lam max_ep_len target_kl
        logger_kwargs save_freq total_timesteps eval_env num_test_episodes value_network normalize_observations
        load_path comm run
    """
    env_defaults: ClassVar = {
        "all": {"network": "dense", "hidden_sizes": [64, 64], "activation": "tanh"},
        "atari": {"network": "cnn"},
        "retro": {"network": "cnn"},
    }


def loss(policy: Policy, batch: Batch, clip_ratio: float) -> tuple[tf.Tensor, Statistics]:
    """The policy's objective and its statistics.

    Args:
        policy: gives the current distribution.
        batch: obs, actions, advantages, neglogpacs [B, ...]; recurrent policies: the same as [n, T, ...] with
            episode_start [n, T] and states [n, S].
        clip_ratio: how far the probability ratio may go from 1.
    """
    batch, outputs = evaluated(policy, batch)
    neglogp = policy.head.distribution(outputs.flat).neglogp(batch["actions"])
    ratio = tf.exp(batch["neglogpacs"] - neglogp)
    policy_loss = clipped_policy_loss(ratio, batch["advantages"], clip_ratio)
    return policy_loss, {
        "LossPi": policy_loss,
        "Entropy": tf.reduce_mean(neglogp),
        "KL": tf.reduce_mean(neglogp - batch["neglogpacs"]),
        "ClipFrac": tf.reduce_mean(tf.cast(tf.abs(ratio - 1.0) > clip_ratio, tf.float32)),
    }


@takes(Config)
def learn(network: NetworkSpec, env: VecEnv, **kwargs: Any) -> PolicyModel:
    """Train a policy with Spinning Up's PPO."""
    with EpochRun("ppo", network, env, Config.of(kwargs), STATISTICS) as run:
        config = run.config
        learn_from = run.policy_then_value(
            lambda batch: loss(run.policy, batch, config.at(batch).clip_ratio),
            config.train_pi_iters,
            TOLERANCE * config.target_kl,
        )
        for rollout in run.rollouts():
            learn_from(rollout)
    return run.model
