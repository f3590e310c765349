"""SAC: soft actor-critic (Haarnoja et al. 2018, arXiv:1801.01290, arXiv:1812.05905).

Critics q1, q2 descend 0.5 (q_i(s, a) - y)^2 towards

    y = r + gamma (1 - d) (min_i q_i'(s', a') - alpha log pi(a'|s')),   a' ~ pi(s')

the actor ascends min_i q_i(s, a) - alpha log pi(a|s) with a ~ pi(s), and the targets (') follow by polyak averaging.
With alpha='auto' the temperature descends -log alpha (log pi(a|s) + target_entropy). Of several reward signals each has
critics of its own: algs/sac/signals.py. Offline, from a data set alone, the critics also descend CQL(H)'s penalty:
learn/losses.py.
"""

from typing import Any

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.algs.sac import Config
from tfbaselines.algs.sac.loss import SoftCritics, Temperature, allowed_share, default_target_entropy, expectation
from tfbaselines.algs.sac.signals import make_critics
from tfbaselines.config.config import NetworkSpec
from tfbaselines.config.takes import takes
from tfbaselines.envs.vec import VecEnv
from tfbaselines.envs.vec.packed import with_action_masks
from tfbaselines.errors import UsageError
from tfbaselines.learn.average import AveragedPolicy, with_targets
from tfbaselines.learn.blocks import Batch, BlockUpdate, Phase, Statistics
from tfbaselines.learn.losses import mean, spread, views
from tfbaselines.learn.optimizers import Adam
from tfbaselines.logs.rows import EpochRows
from tfbaselines.policy.actor_critic import ActorCritic
from tfbaselines.policy.bounded import SquashedGaussianHead
from tfbaselines.policy.distributions import make_pdtype
from tfbaselines.policy.precision import compile_with_xla
from tfbaselines.training.build import make_actor_critic
from tfbaselines.training.off_policy import Course, OffPolicyModel, OffPolicyRun
from tfbaselines.training.pretraining import cloning_beside

ADAM_EPSILON = 1e-8


def make_update(
    policy: ActorCritic,
    averaged: AveragedPolicy,
    temperature: Temperature,
    batch_size: int = 100,
    comm: Any = None,
    critics: SoftCritics | None = None,
) -> BlockUpdate:
    """The gradient steps.

    Args:
        policy: an actor with two critics.
        averaged: its targets, of which the critics are used.
        temperature: alpha.
        batch_size: rows of a batch.
        comm: the ranks that train together.
        critics: what the critics learn; None for SoftCritics.
    """
    critics = critics or SoftCritics(policy, averaged.policy)

    def prepare(batch: Batch) -> Batch:
        batch = batch | views(policy, batch)
        return batch | critics.prepared(batch, temperature())

    def actor_loss(batch: Batch) -> tuple[tf.Tensor, Statistics]:
        value, logp = critics.value(batch["now"], batch.get("noise"))
        loss = mean(batch, temperature() * logp - value)
        return loss, {"LossPi": loss} | spread("LogPi", batch, logp)

    def temperature_loss(batch: Batch) -> tuple[tf.Tensor, Statistics]:
        _, logp = expectation(policy, policy, batch["now"], batch.get("noise"))
        aim = temperature.target_entropy * allowed_share(policy, batch["now"])
        loss = temperature.loss(mean(batch, logp + aim))
        return loss, {"Alpha": temperature(), "LossAlpha": loss}

    phases = [
        Phase(actor_loss, policy.acting_variables, Adam(epsilon=ADAM_EPSILON)),
        Phase(critics.loss, policy.critic_variables + critics.variables, Adam(epsilon=ADAM_EPSILON)),
    ]
    if temperature.learnt:
        phases.insert(0, Phase(temperature_loss, temperature.variables, Adam(epsilon=ADAM_EPSILON)))
    jit = compile_with_xla(policy, batch_size)
    # No phase depends on what another one changes, so that over ranks their gradients are one message.
    return BlockUpdate(phases, prepare=prepare, together=True, after=averaged.step, jit=jit, comm=comm)


@takes(Config, flatten=False)
def learn(network: NetworkSpec, env: VecEnv, **kwargs: Any) -> OffPolicyModel:
    """Train a policy with SAC; of discrete actions, only those that an 'action_mask' in the infos allows."""
    config = Config.of(kwargs)
    env, eval_env = with_action_masks(env), config.eval_env and with_action_masks(config.eval_env)
    course = Course.of(config, env.num_envs)
    with OffPolicyRun("sac", env, config, course, eval_env, with_action_masks) as run:
        policy, averaged = with_targets(lambda: make_policy(network, env, config, run.comm), config.polyak)
        aim = default_target_entropy(env.action_space) if config.target_entropy is None else config.target_entropy
        temperature = Temperature(config.first_alpha, aim if config.learns_alpha else None)
        critics = make_critics(run, policy, averaged.policy, env)
        update = make_update(policy, averaged, temperature, config.batch_size, run.comm, critics)
        others = temperature.variables + critics.variables
        model, head = OffPolicyModel(policy, averaged, update, others, run.rng), policy.head
        cloning = cloning_beside(run, model, env)

        def explore(obs: Any, states: Any, episode_start: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
            noise = head.draw_noise(run.rng, (len(episode_start),))
            return model.actor.choose(obs, states, episode_start, noise)

        losses = ("LossPi", "LossQ1", "LossQ2") + (("Alpha", "LossAlpha") if temperature.learnt else ())
        losses += (*critics.columns, *(() if run.signals is None else run.signals.columns))
        rows = EpochRows(run, ("Q1Vals", "Q2Vals", "LogPi"), losses, config.logger_kwargs)
        for gradient_steps in run.cycles(model, explore, rows):
            temperature.follow(run.config.first_alpha)
            for block in run.blocks(gradient_steps):
                count, size = block["rewards"].shape[:2]
                rows.learnt(run.train(block | critics.draw(run.rng, (count, size))))
                cloning.learn(count)
    return model


def make_policy(network: NetworkSpec, env: Any, config: Config, comm: Any = None) -> ActorCritic:
    """A policy for continuous or discrete actions with two critics."""
    space = env.action_space
    if not isinstance(space, spaces.Box | spaces.Discrete | spaces.MultiDiscrete):
        raise UsageError(f"sac needs bounded Box, Discrete or MultiDiscrete actions, not {space}")
    head = SquashedGaussianHead if isinstance(space, spaces.Box) else make_pdtype
    return make_actor_critic(network, env, config, comm, head=head, critics=2)
