"""VPG: vanilla policy gradient with GAE, as in Spinning Up (Schulman et al. 2016, arXiv:1506.02438).

Each epoch collects steps_per_epoch with the current policy, estimates advantages A with GAE, normalised over all
ranks, and takes one step of Adam on the policy and train_v_iters steps of another on the value function, down

    LossPi = -E[A log pi(a|s)],   LossV = E[(V(s) - R)^2]

where R is the discounted return to the episode's end, or to the value of the observation after the last step.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import tensorflow as tf

from tfbaselines.envs.vec import VecEnv
from tfbaselines.losses.policy_gradient import evaluated
from tfbaselines.optim.update import Batch, Statistics
from tfbaselines.policy.policy import Policy
from tfbaselines.running.epoch_run import EpochRun
from tfbaselines.running.model import PolicyModel
from tfbaselines.settings.bases import EpochConfig
from tfbaselines.settings.config import NetworkSpec, Schedule, arg
from tfbaselines.settings.takes import takes

STATISTICS = ("LossPi", "LossV", "DeltaLossPi", "DeltaLossV", "Entropy", "KL")


@dataclass(frozen=True, kw_only=True)
class Config(EpochConfig):
    """Arguments of Spinning Up's VPG."""

    pi_lr: Schedule = arg(3e-4, "the policy's learning rate", at_least=0)

    order: ClassVar = """
        seed steps_per_epoch epochs gamma pi_lr vf_lr train_v_iters lam max_ep_len logger_kwargs save_freq
        total_timesteps eval_env num_test_episodes value_network normalize_observations load_path comm run
    """
    env_defaults: ClassVar = {
        "all": {"network": "dense", "hidden_sizes": [64, 64], "activation": "tanh"},
        "atari": {"network": "cnn"},
        "retro": {"network": "cnn"},
    }


def loss(policy: Policy, batch: Batch) -> tuple[tf.Tensor, Statistics]:
    """The policy's objective and its statistics.

    Args:
        policy: gives the current distribution.
        batch: obs, actions, advantages, neglogpacs [B, ...]; recurrent policies: the same as [n, T, ...] with
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


@takes(Config)
def learn(network: NetworkSpec, env: VecEnv, **kwargs: Any) -> PolicyModel:
    """Train a policy with Spinning Up's vanilla policy gradient."""
    with EpochRun("vpg", network, env, Config.of(kwargs), STATISTICS) as run:
        learn_from = run.policy_then_value(lambda batch: loss(run.policy, batch))
        for rollout in run.rollouts():
            learn_from(rollout)
    return run.model
