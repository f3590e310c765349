"""HER: hindsight experience replay (Andrychowicz et al. 2017, arXiv:1707.01495) with DDPG, as in baselines.

A step's goal g is replaced by one that its episode achieves later, with the reward that this goal would have earned.
The critic descends (q(s, g, a) - y)^2 towards

    y = clip(r + gamma (1 - d) q'(s', g, pi'(s', g)), -1 / (1 - gamma), 0)

the actor ascends q(s, g, pi(s, g)) - action_l2 |pi(s, g)|^2, actions in units of their bounds, and the targets (')
follow at a cycle's end. With bc_loss a part of every batch is of demonstrations, and the actor also descends
|pi(s, g) - a|^2 over those rows, with q_filter only where the critic prefers a (Nair et al. 2018, arXiv:1709.10089).
"""

import dataclasses
from typing import Any

import numpy as np
import tensorflow as tf

from tfbaselines.algs.her import Config
from tfbaselines.algs.her.demonstrations import replay_of_demonstrations
from tfbaselines.algs.her.goal import GoalActorCritic
from tfbaselines.algs.her.rows import HerRows
from tfbaselines.compiling import compiled
from tfbaselines.config.config import NetworkSpec
from tfbaselines.config.takes import takes
from tfbaselines.envs.vec import VecEnv
from tfbaselines.envs.wrappers import check_goals, episode_limit, goal_reward
from tfbaselines.errors import bad_argument
from tfbaselines.learn.average import AveragedPolicy, with_targets
from tfbaselines.learn.blocks import Batch, BlockUpdate, Phase, Statistics
from tfbaselines.learn.losses import target_actions, targets, views
from tfbaselines.learn.optimizers import Adam
from tfbaselines.policy.bounded import BoundedHead
from tfbaselines.policy.networks import get_network_builder
from tfbaselines.policy.precision import compile_with_xla
from tfbaselines.replay.hindsight import HindsightReplay
from tfbaselines.training.build import check_network
from tfbaselines.training.model import PolicyModel
from tfbaselines.training.off_policy import Course, OffPolicyModel, OffPolicyRun

ADAM_EPSILON = 1e-8

# Cycles in an epoch: of environments whose ids begin so, and of all others.
CYCLES = {"FetchReach": 10}
USUAL_CYCLES = 50


def make_update(
    policy: GoalActorCritic, averaged: AveragedPolicy, config: Config, least_return: float, comm: Any = None
) -> BlockUpdate:
    """The gradient steps.

    Args:
        policy: the actor with its critic.
        averaged: its targets, which do not move here.
        config: the arguments.
        least_return: bound of the critic's targets from below.
        comm: the ranks that train together.
    """
    most_return = 0.0 if config.clip_pos_returns else np.inf
    mean, square = tf.reduce_mean, tf.square

    def prepare(batch: Batch) -> Batch:
        batch = batch | views(policy, batch)
        (value,) = averaged.policy.q(batch["next"], target_actions(averaged.policy, batch["next"], None))
        return batch | {"targets": tf.clip_by_value(targets(batch, value), least_return, most_return)}

    def critic_loss(batch: Batch) -> tuple[tf.Tensor, Statistics]:
        (q,) = policy.q(batch["now"], batch["actions"])
        loss = mean(square(batch["targets"] - q))
        return loss, {"Q_loss": loss}

    def actor_loss(batch: Batch) -> tuple[tf.Tensor, Statistics]:
        actions = policy.head.mode(policy.act(batch["now"]))
        (q_pi,) = policy.q(batch["now"], actions)
        loss = -mean(q_pi) + config.action_l2 * mean(square(policy.head.unit(actions)))
        if not config.bc_loss:
            return loss, {"pi_loss": loss}
        cloning = cloning_loss(batch, actions, q_pi)
        loss = config.prm_loss_weight * loss + config.aux_loss_weight * cloning
        return loss, {"pi_loss": loss, "cloning_loss": cloning}

    def cloning_loss(batch: Batch, actions: tf.Tensor, q_pi: tf.Tensor) -> tf.Tensor:
        """Sum of squared distances to the demonstrations' actions, which are a batch's last rows."""
        distances = tf.reshape(square(actions - batch["actions"]), (-1, policy.head.width))
        counts = tf.ones_like(q_pi)
        if config.q_filter:
            (q,) = policy.q(batch["now"], batch["actions"])
            counts = tf.cast(q > q_pi, tf.float32)
        rows = tf.reduce_sum(distances, axis=-1) * tf.stop_gradient(counts)
        return tf.reduce_sum(rows[-config.demo_batch_size :])

    phases = [
        Phase(critic_loss, policy.critic_variables, Adam(epsilon=ADAM_EPSILON), "Q_lr"),
        Phase(actor_loss, policy.acting_variables, Adam(epsilon=ADAM_EPSILON), "pi_lr"),
    ]
    # Both gradients are of the same weights.
    return BlockUpdate(
        phases, prepare=prepare, together=True, jit=compile_with_xla(policy, config.batch_size), comm=comm
    )


def explored(
    actions: np.ndarray, head: BoundedHead, rng: np.random.Generator, noise_eps: float, random_eps: float
) -> np.ndarray:
    """Actions with Gaussian noise, some of which are replaced by random ones.

    Args:
        actions: [N, ...].
        head: has their bounds.
        rng: draws the noise, which actions are replaced, and by what.
        noise_eps: standard deviation of the noise, in units of the bounds.
        random_eps: the share that is replaced.
    """
    count, low, high = len(actions), head.centre - head.limit, head.centre + head.limit
    noisy = head.noisy(actions, noise_eps * head.limit * rng.standard_normal((count, head.width)))
    replaced = rng.binomial(1, random_eps, count).astype(bool)
    random = rng.uniform(low, high, (count, head.width)).reshape(actions.shape)
    chosen = np.where(replaced.reshape(count, *[1] * (actions.ndim - 1)), random, noisy)
    return chosen.astype(actions.dtype)


@takes(Config, flatten=False)
def learn(network: NetworkSpec, env: VecEnv, **kwargs: Any) -> OffPolicyModel:
    """Train a policy that reaches goals; observations are Dicts of observation, achieved_goal and desired_goal."""
    config, episode_steps = _of_environments(Config.of(kwargs), env)
    with OffPolicyRun("her", env, config, _course(config, episode_steps), config.eval_env) as run:
        policy, averaged = with_targets(lambda: make_policy(network, env, config, run.comm), config.polyak)
        least_return = -1.0 / (1.0 - config.gamma) if config.clip_return and config.gamma < 1 else -np.inf
        update = make_update(policy, averaged, config, least_return, run.comm)
        model, follow = OffPolicyModel(policy, averaged, update, rng=run.rng), compiled(averaged.step)
        replay, demonstrations = _replays(config, env)
        if demonstrations is not None:
            shown = demonstrations.sample_latest(run.rng, demonstrations.steps)["obs"]
            policy.normalizer.update(policy.inputs_numpy(shown))

        def explore(obs: Any, states: Any, episode_start: np.ndarray) -> tuple[np.ndarray, None]:
            now, (actions, _) = run.config, model.actor.choose(obs, states, episode_start, None)
            return explored(actions, policy.head, run.rng, now.noise_eps, now.random_eps), None

        def observed() -> dict[str, np.ndarray]:
            return policy.inputs_numpy(replay.sample_latest(run.rng, episode_steps)["obs"])

        rows = HerRows(run, PolicyModel(averaged.policy) if config.test_with_polyak else model)
        model.parts = [rows]
        for gradient_steps in run.cycles(model, explore, rows, replay=replay, observed=observed):
            for block in run.blocks(gradient_steps):
                if config.clip_pos_returns:
                    rows.warn_of_rewards(block["rewards"])
                if demonstrations is not None:
                    block = _with_demonstrations(block, demonstrations, run.rng, config.demo_batch_size)
                rows.learnt(run.train(block))
            follow()
    return model


def make_policy(network: NetworkSpec, env: Any, config: Config, comm: Any = None) -> GoalActorCritic:
    """A deterministic actor with its critic."""
    check_goals(env)
    check_network(network, config)
    sizes = {
        "dense": {"hidden_sizes": [config.hidden] * config.layers},
        "mlp": {"num_layers": config.layers, "num_hidden": config.hidden, "activation": "relu"},
    }
    if network not in sizes and (config.layers, config.hidden) != (Config.layers, Config.hidden):
        raise bad_argument("network", network, "'dense' and 'mlp' have layers and hidden, others their own arguments")
    network_fn = get_network_builder(network)(**sizes.get(network, {}) | config.network_kwargs)
    if getattr(network_fn((1,)), "state_size", None):
        raise bad_argument("network", network, "her trains no recurrent policies, take a network without memory")
    return GoalActorCritic(
        env.observation_space,
        env.action_space,
        network_fn,
        clip_inputs=config.clip_obs,
        clip_normalized=config.norm_clip,
        least_std=config.norm_eps,
        relative=config.relative_goals,
        comm=comm,
    )


def _of_environments(config: Config, env: VecEnv) -> tuple[Config, int]:
    """The arguments that depend on the environments filled in, and the steps of an episode."""
    check_goals(env)
    if config.rollout_batch_size not in (None, env.num_envs):
        raise bad_argument("rollout_batch_size", config.rollout_batch_size, f"there are {env.num_envs} environments")
    if config.bc_loss != (config.demo_file is not None):
        raise bad_argument("bc_loss", config.bc_loss, "True with a demo_file, False without one")
    limits = [limit for limit in (config.max_ep_len, episode_limit(env)) if limit is not None]
    if not limits:
        raise bad_argument("max_ep_len", None, "a number of steps: the environment has no time limit of its own")
    spec = env.unwrapped.example().spec
    cycles = [CYCLES[name] for name in CYCLES if spec is not None and spec.id.startswith(name)] or [USUAL_CYCLES]
    filled = {
        "rollout_batch_size": env.num_envs,
        "n_cycles": config.n_cycles or cycles[0],
        "gamma": 1.0 - 1.0 / min(limits) if config.gamma is None else config.gamma,
    }
    return dataclasses.replace(config, **filled), min(limits)


def _course(config: Config, episode_steps: int) -> Course:
    """A cycle is an episode of every environment."""
    return Course(
        steps=int(config.total_timesteps),
        collected=episode_steps,
        gradient_steps=config.n_batches,
        cycles_per_epoch=config.n_cycles,
        save_freq=config.policy_save_interval,
    )


def _replays(config: Config, env: VecEnv) -> tuple[HindsightReplay, HindsightReplay | None]:
    """That of experience, and that of demonstrations if there are any."""
    new_goals = {
        "compute_reward": goal_reward(env),
        "replay_k": config.replay_k if config.replay_strategy == "future" else 0,
    }
    replay = HindsightReplay(env, int(config.buffer_size), config.gamma, **new_goals)
    if not config.bc_loss:
        return replay, None
    return replay, replay_of_demonstrations(config.demo_file, config.num_demo, env, config.gamma, **new_goals)


def _with_demonstrations(
    block: dict[str, Any], demonstrations: HindsightReplay, rng: np.random.Generator, count: int
) -> dict[str, Any]:
    """Batches [K, B, ...] whose last rows are demonstrations."""
    own = demonstrations.sample(rng, len(block["rewards"]), count)
    return tf.nest.map_structure(lambda all_, last: np.concatenate([all_[:, :-count], last], axis=1), block, own)
