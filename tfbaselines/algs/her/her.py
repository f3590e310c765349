"""HER: hindsight experience replay (Andrychowicz et al. 2017, arXiv:1707.01495) with DDPG, as in baselines.

The replay exchanges a step's goal g for one that its episode achieves later, with the reward that this goal would have
earned. The critic minimizes (q(s, g, a) - y)^2 with

    y = clip(r + gamma (1 - d) q'(s', g, pi'(s', g)), -1 / (1 - gamma), 0)

the actor maximizes q(s, g, pi(s, g)) - action_l2 |pi(s, g)|^2, actions in units of their bounds, and the targets (')
follow at a cycle's end. With bc_loss a part of every batch is demonstrations, and the actor also minimizes
|pi(s, g) - a|^2 over these rows (Nair et al. 2018, arXiv:1709.10089).
"""

from typing import Any

import numpy as np
import tensorflow as tf

from tfbaselines.algs.her import ALGORITHM, Config
from tfbaselines.algs.her.cycles import BestModel, RewardCheck, completed, course_of, epoch_row, explored, successes
from tfbaselines.algs.her.demonstrations import make_demonstrations
from tfbaselines.algs.her.goal import GoalActorCritic, make_policy
from tfbaselines.compiling import compiled
from tfbaselines.config.algorithm import takes
from tfbaselines.config.config import NetworkSpec
from tfbaselines.envs.vec import VecEnv
from tfbaselines.envs.wrappers import goal_reward
from tfbaselines.learn.engine import Engine, Phase
from tfbaselines.learn.losses import Batch, Statistics, target_actions, targets, views
from tfbaselines.learn.optimizers import Adam, AveragedPolicy, with_targets
from tfbaselines.policy.layers import compile_with_xla
from tfbaselines.replay.hindsight import HindsightReplay
from tfbaselines.training.model import PolicyModel
from tfbaselines.training.off_policy import OffPolicyModel, OffPolicyRun


class Losses:
    """The losses of actor and critic; `least_return` is the lower bound of the critic's targets."""

    def __init__(self, policy: GoalActorCritic, target: GoalActorCritic, config: Config, least_return: float) -> None:
        self._policy = policy
        self._target = target
        self._config = config
        self._least_return = least_return
        self._most_return = 0.0 if config.clip_pos_returns else np.inf

    def prepare(self, batch: Batch) -> Batch:
        """Add the views and the targets y = clip(r + gamma (1 - d) q'(s', g, pi'(s', g)), -1 / (1 - gamma), 0)."""
        batch = batch | views(self._policy, batch)
        (value,) = self._target.q(batch["next"], target_actions(self._target, batch["next"], None))
        return batch | {"targets": tf.clip_by_value(targets(batch, value), self._least_return, self._most_return)}

    def critic_loss(self, batch: Batch) -> tuple[tf.Tensor, Statistics]:
        """Return E[(q(s, g, a) - y)^2]."""
        (q,) = self._policy.q(batch["now"], batch["actions"])
        loss = tf.reduce_mean(tf.square(batch["targets"] - q))
        return loss, {"Q_loss": loss}

    def actor_loss(self, batch: Batch) -> tuple[tf.Tensor, Statistics]:
        """Return -E[q(s, g, pi(s, g))] + action_l2 E[pi(s, g)^2], actions in units of their bounds."""
        loss, _, _ = self._ddpg_loss(batch)
        return loss, {"pi_loss": loss}

    def _ddpg_loss(self, batch: Batch) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Return the actor's loss, pi(s, g) and q(s, g, pi(s, g))."""
        actions = self._policy.head.mode(self._policy.act(batch["now"]))
        (q_pi,) = self._policy.q(batch["now"], actions)
        size = tf.reduce_mean(tf.square(self._policy.head.unit(actions)))
        return -tf.reduce_mean(q_pi) + self._config.action_l2 * size, actions, q_pi


class CloningLosses(Losses):
    """The losses with bc_loss: the last demo_batch_size rows of every batch are demonstrations."""

    def actor_loss(self, batch: Batch) -> tuple[tf.Tensor, Statistics]:
        """Return prm_loss_weight (DDPG's loss) + aux_loss_weight sum |pi(s, g) - a|^2 over the demonstrations."""
        loss, actions, q_pi = self._ddpg_loss(batch)
        cloning = self._cloning_loss(batch, actions, q_pi)
        loss = self._config.prm_loss_weight * loss + self._config.aux_loss_weight * cloning
        return loss, {"pi_loss": loss, "cloning_loss": cloning}

    def _cloning_loss(self, batch: Batch, actions: tf.Tensor, q_pi: tf.Tensor) -> tf.Tensor:
        distances = tf.reshape(tf.square(actions - batch["actions"]), (-1, self._policy.head.width))
        counts = tf.ones_like(q_pi)
        if self._config.q_filter:
            # Only rows where the critic prefers the demonstrated action.
            (q,) = self._policy.q(batch["now"], batch["actions"])
            counts = tf.cast(q > q_pi, tf.float32)
        rows = tf.reduce_sum(distances, axis=-1) * tf.stop_gradient(counts)
        return tf.reduce_sum(rows[-self._config.demo_batch_size :])


ADAM_EPSILON = 1e-8


def make_update(
    policy: GoalActorCritic, averaged: AveragedPolicy, config: Config, least_return: float, comm: Any = None
) -> Engine:
    """Make the gradient steps; the target networks follow at a cycle's end, not here."""
    kind = CloningLosses if config.bc_loss else Losses
    losses = kind(policy, averaged.policy, config, least_return)
    phases = [
        Phase("critic", losses.critic_loss, policy.critic_variables, Adam(epsilon=ADAM_EPSILON), "Q_lr"),
        Phase("actor", losses.actor_loss, policy.acting_variables, Adam(epsilon=ADAM_EPSILON), "pi_lr"),
    ]
    # In baselines, both gradients are taken with the same weights.
    jit = compile_with_xla(policy, config.batch_size)
    return Engine(phases, prepare=losses.prepare, together=True, jit=jit, comm=comm)


@takes(ALGORITHM)
def learn(network: NetworkSpec, env: VecEnv, **kwargs: Any) -> OffPolicyModel:
    """Train a policy that reaches goals; observations are Dicts of observation, achieved_goal and desired_goal."""
    config, episode_steps = completed(Config.of(kwargs), env)
    with OffPolicyRun(ALGORITHM, env, config, course_of(config, episode_steps)) as run:
        policy, averaged = with_targets(lambda: make_policy(network, env, config, run.comm), config.polyak)
        least_return = -1.0 / (1.0 - config.gamma) if config.clip_return and config.gamma < 1 else -np.inf
        update = make_update(policy, averaged, config, least_return, run.comm)
        replay_k = config.replay_k if config.replay_strategy == "future" else 0
        new_goals = {"compute_reward": goal_reward(env), "replay_k": replay_k}
        replay = HindsightReplay(env, int(config.buffer_size), config.gamma, **new_goals)
        best = BestModel(config.save_path)
        check_rewards = RewardCheck(config.clip_pos_returns)
        model = OffPolicyModel(policy, averaged, update, replay=replay, parts=[best])
        demonstrations = make_demonstrations(config, env, run.rng, **new_goals)
        demonstrations.normalize(policy)
        follow = compiled(averaged.step)

        def explore(obs: Any, states: Any, episode_start: np.ndarray) -> tuple[np.ndarray, None]:
            actions, _ = model.actor.choose(obs, states, episode_start, None)
            return explored(actions, policy.head, run.rng, run.config.noise_eps, run.config.random_eps), None

        def observed() -> dict[str, np.ndarray]:
            return policy.inputs_numpy(replay.sample_latest(run.rng, episode_steps)["obs"])

        tested = PolicyModel(averaged.policy) if config.test_with_polyak else model

        def collected(episodes: list[dict[str, Any]]) -> None:
            run.table.store(success=successes(episodes))

        def row() -> dict[str, Any]:
            columns = epoch_row(run, tested)
            best.consider(model, columns.get("test/success_rate", columns["train/success_rate"]), run.is_root)
            return columns

        for gradient_steps in run.cycles(model, explore, row, observed=observed, on_cycle=collected):
            for block in run.blocks(gradient_steps):
                check_rewards(block["rewards"])
                run.table.store(**run.train(demonstrations.added_to(block)))
            follow()
    return model
