"""SAC: soft actor-critic (Haarnoja et al. 2018, arXiv:1801.01290, arXiv:1812.05905).

The critics q1, q2 minimize 0.5 (q_i(s, a) - y)^2 with

    y = r + gamma (1 - d) (min_i q_i'(s', a') - alpha log pi(a'|s')),   a' ~ pi(s')

the actor maximizes min_i q_i(s, a) - alpha log pi(a|s) with a ~ pi(s), and the targets (') follow by polyak averaging.
With alpha='auto' the temperature minimizes -log alpha (log pi(a|s) + target_entropy). loss.py has these formulas.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from gymnasium import spaces

from tfbaselines.algs.sac import ALGORITHM, Config
from tfbaselines.algs.sac.crossq import JointLosses, JointQuantileLosses
from tfbaselines.algs.sac.dropout import DroppedCritic, DroppedLosses
from tfbaselines.algs.sac.loss import Choices, Losses, SampledActions, Temperature
from tfbaselines.algs.sac.offline import ConservativeLosses
from tfbaselines.algs.sac.plasticity import Decayed, Resets
from tfbaselines.algs.sac.signals import ReplaySignals, SignalLosses
from tfbaselines.algs.sac.tqc import QuantileLosses
from tfbaselines.config.algorithm import takes
from tfbaselines.config.config import NetworkSpec
from tfbaselines.envs.vec import VecEnv
from tfbaselines.errors import UsageError, bad_argument, given
from tfbaselines.learn.crossq import NormalizedCritic
from tfbaselines.learn.engine import Engine, Phase
from tfbaselines.learn.optimizers import AveragedPolicy, with_targets
from tfbaselines.policy.actor_critic import ActorCritic
from tfbaselines.policy.bounded import SquashedGaussianHead
from tfbaselines.policy.distributions import make_pdtype
from tfbaselines.policy.layers import compile_with_xla
from tfbaselines.policy.noise import CorrelatedNoise
from tfbaselines.training.build import cloning_beside, make_actor_critic
from tfbaselines.training.off_policy import Course, OffPolicyModel, OffPolicyRun, epoch_row


def make_update(
    policy: ActorCritic,
    averaged: AveragedPolicy,
    temperature: Temperature,
    batch_size: int = 100,
    comm: Any = None,
    losses: Losses | None = None,
    policy_delay: int = 1,
    weight_decay: float = 0.0,
) -> Engine:
    """Make the gradient steps of an actor and its critics; losses=None is the plain losses of loss.py."""
    losses = losses or Losses(policy, averaged.policy, temperature)
    rules = losses.rule(), losses.critic_rule
    actor_rule, critic_rule = [Decayed(rule, weight_decay) for rule in rules] if weight_decay else rules
    actor = Phase("actor", losses.actor_loss, policy.acting_variables, actor_rule, every=policy_delay)
    critic = Phase("critic", losses.critic_loss, policy.critic_variables + losses.variables, critic_rule)
    phases = [actor, critic] if policy_delay == 1 else [critic, actor]
    if temperature.learned:
        loss = losses.temperature_loss
        alpha = Phase("temperature", loss, temperature.variables, losses.rule(), every=policy_delay)
        phases.insert(0 if policy_delay == 1 else 2, alpha)
    jit = compile_with_xla(policy, batch_size)
    after = averaged.step if losses.has_targets else None
    # Without delay no phase depends on the result of another, so ranks exchange all gradients in one message.
    return Engine(phases, prepare=losses.prepare, together=policy_delay == 1, after=after, jit=jit, comm=comm)


@takes(ALGORITHM)
def learn(network: NetworkSpec, env: VecEnv, **kwargs: Any) -> OffPolicyModel:
    """Train a policy with SAC; discrete actions are limited to those that an 'action_mask' in the infos allows."""
    config = Config.of(kwargs)
    with OffPolicyRun(ALGORITHM, env, config, Course.of(config, env.num_envs)) as run:
        make = partial(make_policy, network, run.env, config, run.comm)
        policy, averaged = with_targets(make, config.polyak)
        rewards = EnvironmentRewards(run) if config.signals is None else ReplaySignals(run, policy, run.env)
        losses = make_losses(policy, averaged.policy, config, rewards)
        temperature = losses.temperature
        how = {"policy_delay": config.policy_delay, "weight_decay": config.weight_decay}
        update = make_update(policy, averaged, temperature, config.batch_size, run.comm, losses, **how)
        cloning = cloning_beside(run, policy)
        saved = {"replay": run.make_replay(policy), "parts": [*cloning.parts, *rewards.learned]}
        model = OffPolicyModel(policy, averaged, update, temperature.variables + losses.variables, **saved)
        resets = Resets(run, config.reset_interval, make, model, temperature)
        if policy.discrete and config.noise_correlation:
            raise bad_argument("noise_correlation", config.noise_correlation, "0 with discrete actions")
        exploration = CorrelatedNoise(policy.head, config.noise_correlation, run.rng)
        if config.noise_correlation:
            model.add_parts(exploration)

        def explore(obs: Any, states: Any, episode_start: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
            return model.actor.choose(obs, states, episode_start, exploration(episode_start))

        critics = range(1, config.critics + 1)
        columns = ["LossPi", *(f"LossQ{i}" for i in critics)]
        columns += ["Alpha", "LossAlpha"] if temperature.learned else []
        columns += [*losses.columns, *rewards.columns]
        row = partial(epoch_row, run, (*(f"Q{i}Vals" for i in critics), "LogPi"), columns)
        for gradient_steps in run.cycles(model, explore, row, on_cycle=rewards.collected):
            resets.take()
            temperature.follow(run.config.first_alpha)
            rewards.learn(gradient_steps)
            for block in run.blocks(gradient_steps, rewards.draw):
                count, size = block["rewards"].shape[:2]
                statistics = run.train(block | losses.noise(run.rng, (count, size)))
                run.table.store(**statistics | rewards.row())
                cloning.learn(model, count)
    return model


class EnvironmentRewards:
    """The rewards of the environment alone; signals.py has an object with the same methods for several signals.

    Attributes:
        draw: function that draws a block of batches.
        learned: signals that are trained and saved with the model.
        columns: names of statistics for the logs.
    """

    def __init__(self, run: OffPolicyRun) -> None:
        self.draw = run.draw
        self.learned: list[Any] = []
        self.columns: list[str] = []

    def collected(self, episodes: list[dict[str, Any]]) -> None:
        """Take in the steps that were just collected."""

    def learn(self, gradient_steps: int) -> None:
        """Train the signals before a cycle's gradient steps."""

    def row(self) -> dict[str, float]:
        """Return the latest statistics."""
        return {}


def make_losses(
    policy: ActorCritic, target: ActorCritic, config: Config, rewards: EnvironmentRewards | ReplaySignals
) -> Losses:
    """Choose the losses for the given arguments and reward signals."""
    actions = Choices(policy) if policy.discrete else SampledActions(policy)
    target_entropy = actions.default_target_entropy if config.target_entropy is None else config.target_entropy
    temperature = Temperature(config.first_alpha, target_entropy if config.learns_alpha else None)
    parts = (policy, target, temperature, actions)
    if config.signals is not None:
        return SignalLosses(*parts, strengths=rewards.strengths, goes_on=rewards.goes_on)
    if config.offline is not None:
        chosen = given(weight=config.cql_weight, threshold=config.cql_threshold, samples=config.cql_actions)
        return ConservativeLosses(*parts, **chosen)
    losses = _LOSSES[config.critic](parts, config)
    return DroppedLosses(losses) if config.critic_dropout else losses


_LOSSES: dict[str, Callable[[tuple, Config], Losses]] = {
    "plain": lambda parts, config: Losses(*parts),
    "tqc": lambda parts, config: QuantileLosses(*parts, dropped=config.drop_quantiles),
    "crossq": lambda parts, config: JointLosses(*parts),
    "tqc_crossq": lambda parts, config: JointQuantileLosses(*parts, dropped=config.drop_quantiles),
}


def make_policy(network: NetworkSpec, env: Any, config: Config, comm: Any = None) -> ActorCritic:
    """Make an actor for continuous or discrete actions, with critics."""
    space = env.action_space
    if not isinstance(space, spaces.Box | spaces.Discrete | spaces.MultiDiscrete):
        raise UsageError(f"sac needs bounded Box, Discrete or MultiDiscrete actions, not {space}")
    head = SquashedGaussianHead if isinstance(space, spaces.Box) else make_pdtype
    kind: dict[str, Any] = {"quantiles": config.num_quantiles} if config.quantiles else {}
    if config.joint:
        kind["make_critic"] = NormalizedCritic
    elif config.critic_dropout:
        kind["make_critic"] = partial(DroppedCritic, rate=config.critic_dropout)
    if config.critic != "plain" and not isinstance(space, spaces.Box):
        raise bad_argument("critic", config.critic, f"'plain' with {space}: the others take continuous actions")
    return make_actor_critic(network, env, config, comm, head=head, kind=kind)
