"""TD3: twin delayed deep deterministic policy gradient (Fujimoto et al. 2018, arXiv:1802.09477).

The critics q1, q2 minimize (q_i(s, a) - y)^2 with

    y = r + gamma (1 - d) min_i q_i'(s', a'),   a' = clip(pi'(s') + clip(noise, -noise_clip, noise_clip), bounds)

and in every policy_delay-th step the actor maximizes q1(s, pi(s)) and the targets (') follow by polyak averaging.
With critic='crossq' there are no targets: a' is the actor's, and one pass through the critics computes both values, as
learn/crossq.py explains. Learning from a data set alone, the actor also stays near the data's actions: TD3+BC (Fujimoto
and Gu 2021, arXiv:2106.06860).
"""

from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

from tfbaselines.algs.td3 import ALGORITHM, Config
from tfbaselines.config.algorithm import takes
from tfbaselines.config.config import NetworkSpec
from tfbaselines.envs.vec import VecEnv
from tfbaselines.learn.crossq import NormalizedCritic, StatisticsRule, joint_rule, joint_values
from tfbaselines.learn.engine import Engine, Phase
from tfbaselines.learn.losses import (
    Batch,
    Statistics,
    mean,
    spreads,
    target_actions,
    targets,
    td_errors,
    views,
    weighted_mean,
)
from tfbaselines.learn.optimizers import Adam, AveragedPolicy, with_targets
from tfbaselines.policy.actor_critic import ActorCritic
from tfbaselines.policy.bounded import DeterministicHead
from tfbaselines.policy.layers import compile_with_xla
from tfbaselines.policy.noise import CorrelatedNoise
from tfbaselines.training.build import make_actor_critic
from tfbaselines.training.off_policy import Course, OffPolicyModel, OffPolicyRun, epoch_row

ADAM_EPSILON = 1e-8
BC_ALPHA = 2.5


def make_update(policy: ActorCritic, averaged: AveragedPolicy, config: Config, comm: Any = None) -> Engine:
    """Make the gradient steps of an actor and its critics, with the target networks."""
    joint = config.critic == "crossq"
    target, delay = policy if joint else averaged.policy, config.policy_delay
    rule, critic_rule = (joint_rule(), StatisticsRule()) if joint else (Adam(epsilon=ADAM_EPSILON) for _ in range(2))

    def prepare(batch: Batch) -> Batch:
        batch = batch | views(policy, batch)
        actions = target_actions(target, batch["next"], batch["noise"])
        if joint:
            return batch | {"next_actions": actions}
        return batch | {"targets": targets(batch, policy.least(target.q(batch["next"], actions)))}

    def critic_loss(batch: Batch) -> tuple[tf.Tensor, Statistics]:
        if not joint:
            return squared_errors(batch, policy.q(batch["now"], batch["actions"]))
        values, following, penalty = joint_values(policy, batch, critic_rule.warm)
        batch = batch | {"targets": tf.stop_gradient(targets(batch, policy.least(following)))}
        loss, statistics = squared_errors(batch, values)
        return loss + penalty, statistics

    def actor_loss(batch: Batch) -> tuple[tf.Tensor, Statistics]:
        actions = policy.head.mode(policy.act(batch["now"]))
        q1, *_ = policy.q(batch["now"], actions)
        if config.offline is None:
            loss = -mean(batch, q1)
            return loss, {"LossPi": loss}
        alpha = BC_ALPHA if config.bc_alpha is None else config.bc_alpha
        loss, distance = behavior_regularized(policy, batch, q1, actions, alpha)
        return loss, {"LossPi": loss, "LossBC": distance}

    phases = [
        Phase("critic", critic_loss, policy.critic_variables, critic_rule, "q_lr"),
        Phase("actor", actor_loss, policy.acting_variables, rule, "pi_lr", delay),
    ]
    jit = compile_with_xla(policy, config.batch_size)
    after = None if joint else averaged.step
    return Engine(phases, prepare=prepare, after=after, after_every=delay, jit=jit, comm=comm)


def squared_errors(batch: Batch, values: list[tf.Tensor]) -> tuple[tf.Tensor, Statistics]:
    """Return sum_i E[(q_i - y)^2] of critics' values [B], and their statistics."""
    loss = tf.add_n([weighted_mean(batch, tf.square(q - batch["targets"])) for q in values])
    return loss, {"LossQ": loss} | spreads(batch, values) | td_errors(batch, values[0])


@takes(ALGORITHM)
def learn(network: NetworkSpec, env: VecEnv, **kwargs: Any) -> OffPolicyModel:
    """Train a policy with TD3."""
    config = Config.of(kwargs)
    with OffPolicyRun(ALGORITHM, env, config, Course.of(config, env.num_envs)) as run:
        policy, averaged = with_targets(lambda: make_policy(network, env, config, run.comm), config.polyak)
        update = make_update(policy, averaged, config, run.comm)
        model = OffPolicyModel(policy, averaged, update, replay=run.make_replay(policy))
        head = policy.head
        exploration = CorrelatedNoise(head, config.noise_correlation, run.rng)
        if config.noise_correlation:
            model.add_parts(exploration)

        def explore(obs: Any, states: Any, episode_start: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
            actions, states = model.actor.choose(obs, states, episode_start, None)
            actions = head.noisy(actions, run.config.act_noise * exploration(episode_start))
            return actions, None if states is None else policy.after_other_action(states, actions)

        losses = ("LossPi", "LossQ") if config.offline is None else ("LossPi", "LossQ", "LossBC")
        row = partial(epoch_row, run, [f"Q{i}Vals" for i in range(1, config.critics + 1)], losses)
        for gradient_steps in run.cycles(model, explore, row):
            size, most = run.config.target_noise, run.config.noise_clip
            for block in run.blocks(gradient_steps):
                noise = size * head.draw_noise(run.rng, block["rewards"].shape)
                block["noise"] = np.clip(noise, -most, most)
                run.table.store(**run.train(block))
    return model


def make_policy(network: NetworkSpec, env: Any, config: Config, comm: Any = None) -> ActorCritic:
    """Make a deterministic actor with critics."""
    kind = {"make_critic": NormalizedCritic} if config.critic == "crossq" else {}
    return make_actor_critic(network, env, config, comm, head=DeterministicHead, kind=kind)


def behavior_regularized(
    policy: ActorCritic, batch: Batch, q: tf.Tensor, actions: tf.Tensor, alpha: float
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the loss and its second term, with actions in units of their bounds.

    The loss is

        -lambda E[Q(s, pi(s))] + E[(pi(s) - a)^2],   lambda = alpha / E|Q(s, pi(s))|

    Args:
        policy: the actor; its head scales actions.
        batch: the data's actions a [B, ...].
        q: Q(s, pi(s)) [B].
        actions: pi(s) [B, ...].
        alpha: weight of the values.
    """
    # If all values are zero, lambda is 0.
    weight = tf.math.divide_no_nan(tf.cast(alpha, q.dtype), tf.stop_gradient(mean(batch, tf.abs(q))))
    squared = tf.square(policy.head.unit(actions) - policy.head.unit(batch["actions"]))
    distance = mean(batch, tf.reduce_mean(squared, axis=-1))
    return distance - weight * mean(batch, q), distance
