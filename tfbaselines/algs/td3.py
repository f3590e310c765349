"""TD3: twin delayed deep deterministic policy gradient (Fujimoto et al. 2018, arXiv:1802.09477).

Critics q1, q2 descend (q_i(s, a) - y)^2 towards

    y = r + gamma (1 - d) min_i q_i'(s', a'),   a' = clip(pi'(s') + clip(noise, -noise_clip, noise_clip), bounds)

and in every policy_delay-th step the actor ascends q1(s, pi(s)) and the targets (') follow by polyak averaging.
"""

from typing import Any

import tensorflow as tf

from tfbaselines.optim.average import AveragedPolicy
from tfbaselines.optim.blocks import Batch, BlockUpdate, Phase
from tfbaselines.optim.optimizers import Adam
from tfbaselines.policy.actor_critic import ActorCritic

ADAM_EPSILON = 1e-8


def target_actions(target: ActorCritic, obs: tf.Tensor, noise: tf.Tensor, noise_clip: tf.Tensor) -> tf.Tensor:
    """The target actor's actions [B, n] with clipped noise, inside of the bounds."""
    head = target.head
    actions = tf.reshape(head.mode(target.act(obs)), (-1, head.width))
    smoothed = actions + tf.clip_by_value(noise, -noise_clip, noise_clip)
    return tf.clip_by_value(smoothed, head.centre - head.limit, head.centre + head.limit)


def make_update(policy: ActorCritic, averaged: AveragedPolicy, policy_delay: int, comm: Any = None) -> BlockUpdate:
    """The gradient steps.

    Args:
        policy: an actor with two critics.
        averaged: its targets.
        policy_delay: critic steps for each of the actor and the targets.
        comm: the ranks that train together.
    """
    target = averaged.policy

    def prepare(batch: Batch) -> Batch:
        obs, following = policy.preprocess(batch["obs"]), policy.preprocess(batch["next_obs"])
        actions = target_actions(target, following, batch["noise"], batch["noise_clip"])
        value = tf.reduce_min(tf.stack(target.q(following, actions)), axis=0)
        return batch | {"obs": obs, "targets": batch["rewards"] + batch["discounts"] * value}

    def critic_loss(batch: Batch) -> tuple[tf.Tensor, tf.Tensor]:
        q1, q2 = policy.q(batch["obs"], batch["actions"])
        loss = sum(tf.reduce_mean(tf.square(q - batch["targets"])) for q in (q1, q2))
        return loss, tf.stack([loss, tf.reduce_mean(q1), tf.reduce_mean(q2)])

    def actor_loss(batch: Batch) -> tuple[tf.Tensor, tf.Tensor]:
        q1, *_ = policy.q(batch["obs"], policy.head.mode(policy.act(batch["obs"])))
        loss = -tf.reduce_mean(q1)
        return loss, loss[None]

    phases = [
        Phase(critic_loss, ("LossQ", "Q1Vals", "Q2Vals"), policy.critic_variables, Adam(epsilon=ADAM_EPSILON), "q_lr"),
        Phase(actor_loss, ("LossPi",), policy.acting_variables, Adam(epsilon=ADAM_EPSILON), "pi_lr", policy_delay),
    ]
    jit = not policy.convolutional
    return BlockUpdate(phases, prepare=prepare, after=averaged.step, after_every=policy_delay, jit=jit, comm=comm)
