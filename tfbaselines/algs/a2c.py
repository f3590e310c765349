"""A2C: advantage actor-critic (Mnih et al. 2016, arXiv:1602.01783), all environments in step.

Each update collects nsteps from every environment with the current policy and takes one step of RMSProp down

    L = E[-A log pi(a|s)] + vf_coef * E[(V(s) - R)^2] - ent_coef * H[pi],   A = R - V_old(s)

where R is the discounted return to the episode's end, or to the value of the observation after the last step.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf

from tfbaselines.envs.vec import VecEnv
from tfbaselines.experience.returns import explained_variance
from tfbaselines.experience.rollout import Rollout
from tfbaselines.losses.policy_gradient import evaluated, standardized
from tfbaselines.optim.optimizers import RMSProp
from tfbaselines.optim.update import Batch
from tfbaselines.policy.policy import Policy
from tfbaselines.running.model import PolicyModel
from tfbaselines.running.on_policy import OnPolicyRun
from tfbaselines.running.value_streams import value_streams
from tfbaselines.settings.bases import OnPolicyConfig
from tfbaselines.settings.config import Coefficient, NetworkSpec, Schedule, arg
from tfbaselines.settings.reward_signals import SignalsConfig
from tfbaselines.settings.schedules import FRACTION_SCHEDULES
from tfbaselines.settings.takes import takes


@dataclass(frozen=True, kw_only=True)
class Config(SignalsConfig, OnPolicyConfig):
    """Arguments of A2C."""

    nsteps: int = arg(5, "steps of each environment in an update", at_least=1)
    total_timesteps: float = arg(80e6, "environment steps of this rank; whole updates only", at_least=0)
    vf_coef: Coefficient = arg(0.5, "weight of the value loss", at_least=0)
    ent_coef: Coefficient = arg(0.01, "weight of the policy's entropy in the loss")
    max_grad_norm: float | None = arg(0.5, "bound of the gradient's global norm; None for none", above=0)
    lr: Schedule = arg(7e-4, "learning rate", at_least=0)
    lrschedule: str | Callable[[float], float] = arg(
        "linear",
        "shape of the learning rate over training, unless lr is a schedule itself",
        choices=tuple(FRACTION_SCHEDULES),
    )
    epsilon: float = arg(1e-5, "RMSProp's epsilon, inside the square root", at_least=0)
    alpha: float = arg(0.99, "decay of RMSProp's mean square", at_least=0, at_most=1)
    log_interval: int = arg(100, "updates between rows of the logs", at_least=1)
    normalize_advantages: bool = arg(False, "standardise the advantages of each update")

    order: ClassVar = """
        seed nsteps total_timesteps vf_coef ent_coef max_grad_norm lr lrschedule epsilon alpha gamma log_interval
        load_path save_interval value_network normalize_observations normalize_advantages max_total_reward eval_env
        comm run reward_signals reward_signal_num_update
    """


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

    def loss_of(batch: Batch, rates: dict[str, tf.Tensor]) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        return loss(policy, batch, config.at(rates))

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
