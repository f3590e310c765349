"""PPO as in Spinning Up: clipped ratios, stopped early by the KL divergence (Schulman et al. 2017, arXiv:1707.06347).

Each epoch collects steps_per_epoch with the current policy, estimates advantages A with GAE, normalized over all
ranks, and takes up to train_pi_iters steps of Adam on the policy, each on all rows, down

    LossPi = -E[min(A * ratio, A * clip(ratio, 1 - clip_ratio, 1 + clip_ratio))],   ratio = pi(a|s) / pi_old(a|s)

until E[log pi_old(a|s) - log pi(a|s)] passes 1.5 target_kl, then train_v_iters steps of another on the value function,
down LossV = E[(V(s) - R)^2], where R is the discounted return to the episode's end, or to the value of the observation
after the last step.
"""

from typing import Any

import tensorflow as tf

from tfbaselines.algs.ppo import ALGORITHM, Config
from tfbaselines.config.algorithm import takes
from tfbaselines.config.config import NetworkSpec
from tfbaselines.envs.vec import VecEnv
from tfbaselines.learn.engine import Batch, Statistics
from tfbaselines.learn.losses import clipped_policy_loss, evaluated
from tfbaselines.policy.policy import Policy
from tfbaselines.training.epochs import EpochRun
from tfbaselines.training.model import PolicyModel

STATISTICS = ("LossPi", "LossV", "DeltaLossPi", "DeltaLossV", "Entropy", "KL", "ClipFrac", "StopIter")

# The steps of the policy end at a KL divergence above this times target_kl.
TOLERANCE = 1.5


def loss(policy: Policy, batch: Batch, clip_ratio: float) -> tuple[tf.Tensor, Statistics]:
    """Return the loss of the policy and its statistics.

    The batch has obs, actions, advantages, neglogpacs [B, ...]; for recurrent policies the same as [n, T, ...] with
    episode_start [n, T] and states [n, S].
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


@takes(ALGORITHM)
def learn(network: NetworkSpec, env: VecEnv, **kwargs: Any) -> PolicyModel:
    """Train a policy with Spinning Up's PPO."""
    with EpochRun(ALGORITHM, network, env, Config.of(kwargs), STATISTICS) as run:
        config = run.config
        learn_from, optimizers = run.policy_then_value(
            lambda batch: loss(run.policy, batch, config.at(batch).clip_ratio),
            config.train_pi_iters,
            TOLERANCE * config.target_kl,
        )
        model = PolicyModel(run.policy, optimizers=optimizers)
        for rollout in run.rollouts(model):
            learn_from(rollout)
    return model
