"""SAC: soft actor-critic (Haarnoja et al. 2018, arXiv:1801.01290, arXiv:1812.05905).

Critics q1, q2 descend 0.5 (q_i(s, a) - y)^2 towards

    y = r + gamma (1 - d) (min_i q_i'(s', a') - alpha log pi(a'|s')),   a' ~ pi(s')

the actor ascends min_i q_i(s, a) - alpha log pi(a|s) with a ~ pi(s), and the targets (') follow by polyak averaging.
With alpha='auto' the temperature descends -log alpha (log pi(a|s) + target_entropy).
"""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbaselines.optim.average import AveragedPolicy
from tfbaselines.optim.blocks import Batch, BlockUpdate, Phase
from tfbaselines.optim.optimizers import Adam
from tfbaselines.policy.actor_critic import ActorCritic

ADAM_EPSILON = 1e-8


class Temperature:
    """The weight of the entropy.

    Args:
        alpha: a number, 'auto', or such as 'auto_0.1' to start from.
        target_entropy: what 'auto' aims at.
    """

    def __init__(self, alpha: float | str, target_entropy: float) -> None:
        self.learnt = isinstance(alpha, str)
        first = alpha if not self.learnt else float(alpha.removeprefix("auto").removeprefix("_") or 1.0)
        self.log_alpha = keras.Variable(np.float32(np.log(first)), name="log_alpha")
        self.target_entropy = target_entropy

    def __call__(self) -> tf.Tensor:
        """alpha, cut off from gradients."""
        return tf.stop_gradient(tf.exp(self.log_alpha.value))

    def loss(self, logp: tf.Tensor) -> tf.Tensor:
        """What the temperature descends."""
        return -self.log_alpha.value * tf.reduce_mean(tf.stop_gradient(logp) + self.target_entropy)


def make_update(
    policy: ActorCritic, averaged: AveragedPolicy, temperature: Temperature, comm: Any = None
) -> BlockUpdate:
    """The gradient steps.

    Args:
        policy: an actor with two critics.
        averaged: its targets, of which the critics are used.
        temperature: alpha.
        comm: the ranks that train together.
    """
    target = averaged.policy

    def prepare(batch: Batch) -> Batch:
        obs, following = policy.preprocess(batch["obs"]), policy.preprocess(batch["next_obs"])
        actions, logp = policy.head.sample(policy.act(following), batch["noise_next"])
        value = tf.reduce_min(tf.stack(target.q(following, actions)), axis=0) - temperature() * logp
        return batch | {"obs": obs, "targets": batch["rewards"] + batch["discounts"] * value}

    def actor_loss(batch: Batch) -> tuple[tf.Tensor, tf.Tensor]:
        actions, logp = policy.head.sample(policy.act(batch["obs"]), batch["noise"])
        value = tf.reduce_min(tf.stack(policy.q(batch["obs"], actions)), axis=0)
        loss = tf.reduce_mean(temperature() * logp - value)
        return loss, tf.stack([loss, tf.reduce_mean(logp)])

    def critic_loss(batch: Batch) -> tuple[tf.Tensor, tf.Tensor]:
        qs = policy.q(batch["obs"], batch["actions"])
        losses = [0.5 * tf.reduce_mean(tf.square(q - batch["targets"])) for q in qs]
        return tf.add_n(losses), tf.stack([*losses, *(tf.reduce_mean(q) for q in qs)])

    def temperature_loss(batch: Batch) -> tuple[tf.Tensor, tf.Tensor]:
        _, logp = policy.head.sample(policy.act(batch["obs"]), batch["noise"])
        return temperature.loss(logp), temperature()[None]

    names = ("LossQ1", "LossQ2", "Q1Vals", "Q2Vals")
    phases = [
        Phase(actor_loss, ("LossPi", "LogPi"), policy.acting_variables, Adam(epsilon=ADAM_EPSILON)),
        Phase(critic_loss, names, policy.critic_variables, Adam(epsilon=ADAM_EPSILON)),
    ]
    if temperature.learnt:
        phases.append(Phase(temperature_loss, ("Alpha",), [temperature.log_alpha], Adam(epsilon=ADAM_EPSILON)))
    return BlockUpdate(phases, prepare=prepare, after=averaged.step, jit=not policy.convolutional, comm=comm)
