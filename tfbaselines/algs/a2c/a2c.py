"""A2C: advantage actor-critic (Mnih et al. 2016, arXiv:1602.01783), all environments in step.

Each update collects nsteps from every environment with the current policy and takes one step of RMSProp down

    L = E[-A log pi(a|s)] + vf_coef * E[(V(s) - R)^2] - ent_coef * H[pi],   A = R - V_old(s)

where R is the discounted return to the episode's end, or to the value of the observation after the last step.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

from tfbaselines.algs.a2c import Config
from tfbaselines.config.config import NetworkSpec
from tfbaselines.config.takes import takes
from tfbaselines.envs.vec import VecEnv
from tfbaselines.learn.engine import Batch
from tfbaselines.learn.losses import evaluated, standardized
from tfbaselines.learn.optimizers import RMSProp
from tfbaselines.policy.policy import Policy
from tfbaselines.rewards.streams import value_streams
from tfbaselines.rollout.returns import explained_variance
from tfbaselines.rollout.rollout import Rollout
from tfbaselines.training.model import PolicyModel
from tfbaselines.training.on_policy import OnPolicyRun


def loss(policy: Policy, batch: Batch, config: Config) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
    """The objective of one rollout and its statistics.

    Args:
        policy: gives the current distribution and values.
        batch: obs, actions, returns, values [B, ...]; recurrent policies: the same as [n, T, ...] with episode_start
            [n, T] and states [n, S]. With reward signals returns and values have a column for each, and advantages [B]
            are given.
        config: the weights.
    """
    batch, outputs = evaluated(policy, batch)
    distribution = policy.head.distribution(outputs.flat)
    advantages = batch["advantages"] if "advantages" in batch else batch["returns"] - batch["values"]
    if config.normalize_advantages:
        advantages = standardized(advantages)
    policy_loss = tf.reduce_mean(advantages * distribution.neglogp(batch["actions"]))
    value_loss = tf.reduce_mean(tf.square(outputs.value - batch["returns"]))
    entropy = tf.reduce_mean(distribution.entropy())
    return policy_loss - config.ent_coef * entropy + config.vf_coef * value_loss, {
        "policy_loss": policy_loss,
        "value_loss": value_loss,
        "policy_entropy": entropy,
    }


def make_step(run: OnPolicyRun) -> Callable[..., dict[str, float]]:
    """The gradient step on one rollout; see OnPolicyRun.gradient_steps."""
    config, policy = run.config, run.policy
    optimizer = RMSProp(config.alpha, config.epsilon)

    def loss_of(batch: Batch) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        return loss(policy, batch, config.at(batch))

    return run.gradient_steps(loss_of, optimizer, config.max_grad_norm)


@takes(Config)
def learn(network: NetworkSpec, env: VecEnv, **kwargs: Any) -> PolicyModel:
    """Train a policy with A2C."""
    with OnPolicyRun("a2c", network, env, Config.of(kwargs)) as run:
        step, streams = make_step(run), value_streams(run)
        run.keep_neglogps = False
        for rollout in run.rollouts():
            estimates = streams.estimates(rollout, Rollout.n_step_returns)
            batch = rollout.batch(run.policy.recurrent, **estimates)
            statistics = step(batch, **run.rates(run.fraction_after_update))
            of_signals = streams.learn(parts=1, epochs=1)
            # Computed only for the rows that are written, one update in many.
            run.log(partial(_row, statistics, rollout.values, estimates["returns"], of_signals))
    return run.model


def _row(
    statistics: dict[str, float], values: np.ndarray, returns: np.ndarray, of_signals: dict[str, float]
) -> dict[str, float]:
    return {
        "policy_entropy": statistics["policy_entropy"],
        "value_loss": statistics["value_loss"],
        "explained_variance": explained_variance(values, returns),
    } | of_signals
