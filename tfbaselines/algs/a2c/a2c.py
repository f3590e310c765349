"""A2C: advantage actor-critic (Mnih et al. 2016, arXiv:1602.01783), all environments in step.

Each update collects nsteps from every environment with the current policy and takes one step of RMSProp down

    L = E[-A log pi(a|s)] + vf_coef * E[(V(s) - R)^2] - ent_coef * H[pi],   A = R - V_old(s)

where R is the discounted return to the episode's end, or to the value of the observation after the last step. With lam
below 1, A is the generalized advantage estimate, and R = A + V_old(s).
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

from tfbaselines.algs.a2c import ALGORITHM, Config
from tfbaselines.config.algorithm import takes
from tfbaselines.config.config import NetworkSpec
from tfbaselines.envs.vec import VecEnv
from tfbaselines.learn.engine import Batch
from tfbaselines.learn.losses import evaluated, standardized
from tfbaselines.learn.optimizers import RMSProp
from tfbaselines.policy.policy import Policy
from tfbaselines.rewards import value_streams
from tfbaselines.rollout.rollout import Rollout, explained_variance
from tfbaselines.training.model import PolicyModel
from tfbaselines.training.on_policy import OnPolicyRun


def loss(policy: Policy, batch: Batch, config: Config) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
    """Return the loss of one rollout and its statistics.

    The batch has obs, actions, returns, values [B, ...]; for recurrent policies the same as [n, T, ...] with
    episode_start [n, T] and states [n, S]. With reward signals, returns and values have a column for each signal, and
    the batch includes advantages [B].
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


def make_step(run: OnPolicyRun, optimizer: RMSProp) -> Callable[..., dict[str, float]]:
    """Compile the gradient step on one rollout; see OnPolicyRun.gradient_steps."""
    config = run.config
    return run.gradient_steps(lambda batch: loss(run.policy, batch, config.at(batch)), optimizer, config.max_grad_norm)


@takes(ALGORITHM)
def learn(network: NetworkSpec, env: VecEnv, **kwargs: Any) -> PolicyModel:
    """Train a policy with A2C."""
    with OnPolicyRun(ALGORITHM, network, env, Config.of(kwargs), keep_neglogps=False) as run:
        config, policy = run.config, run.policy
        optimizer = RMSProp(config.alpha, config.epsilon)
        step = make_step(run, optimizer)
        streams = value_streams(run)
        model = PolicyModel(policy, optimizer, parts=streams.parts)

        def returns_of(rollout: Rollout, gamma: float) -> np.ndarray:
            lam = run.config.lam
            return rollout.n_step_returns(gamma) if lam == 1 else rollout.lambda_returns(gamma, lam)

        for rollout in run.rollouts(model):
            estimates = streams.estimates(rollout, returns_of)
            batch = rollout.batch(policy.recurrent, **estimates)
            statistics = step(batch, **run.rates(run.clock.fraction_after_update))
            statistics |= streams.learn(parts=1, epochs=1)
            run.log(partial(row, statistics, rollout.values, estimates["returns"]))
    return model


def row(statistics: dict[str, float], values: np.ndarray, returns: np.ndarray) -> dict[str, float]:
    """Return the columns of an update; called only for the rows that are logged, one update in many."""
    columns = {name: value for name, value in statistics.items() if name != "policy_loss"}
    return columns | {"explained_variance": explained_variance(values, returns)}
