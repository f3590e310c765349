"""VPG: vanilla policy gradient with GAE, as in Spinning Up (Schulman et al. 2016, arXiv:1506.02438).

Each epoch collects steps_per_epoch with the current policy, estimates advantages A with GAE, normalized over all
ranks, and takes one step of Adam on the policy and train_v_iters steps of another on the value function, down

    LossPi = -E[A log pi(a|s)],   LossV = E[(V(s) - R)^2]

where R is the discounted return to the episode's end, or to the value of the observation after the last step.
"""

from typing import Any

import tensorflow as tf

from tfbaselines.algs.vpg import ALGORITHM, Config
from tfbaselines.config.algorithm import takes
from tfbaselines.config.config import NetworkSpec
from tfbaselines.envs.vec import VecEnv
from tfbaselines.learn.engine import Batch, Statistics
from tfbaselines.learn.losses import evaluated
from tfbaselines.policy.policy import Policy
from tfbaselines.training.epochs import EpochRun
from tfbaselines.training.model import PolicyModel

STATISTICS = ("LossPi", "LossV", "DeltaLossPi", "DeltaLossV", "Entropy", "KL")


def loss(policy: Policy, batch: Batch) -> tuple[tf.Tensor, Statistics]:
    """Return the loss of the policy and its statistics.

    The batch has obs, actions, advantages, neglogpacs [B, ...]; for recurrent policies the same as [n, T, ...] with
    episode_start [n, T] and states [n, S].
    """
    batch, outputs = evaluated(policy, batch)
    neglogp = policy.head.distribution(outputs.flat).neglogp(batch["actions"])
    policy_loss = tf.reduce_mean(neglogp * batch["advantages"])
    return policy_loss, {
        "LossPi": policy_loss,
        "Entropy": tf.reduce_mean(neglogp),
        "KL": tf.reduce_mean(neglogp - batch["neglogpacs"]),
    }


@takes(ALGORITHM)
def learn(network: NetworkSpec, env: VecEnv, **kwargs: Any) -> PolicyModel:
    """Train a policy with Spinning Up's vanilla policy gradient."""
    with EpochRun(ALGORITHM, network, env, Config.of(kwargs), STATISTICS) as run:
        learn_from, optimizers = run.policy_then_value(lambda batch: loss(run.policy, batch))
        model = PolicyModel(run.policy, optimizers=optimizers)
        for rollout in run.rollouts(model):
            learn_from(rollout)
    return model
