"""ACER's model: a policy with a Q of actions, its average, and the gradient step from an older policy's sequences.

Steps of parameters that stay within a trust region: measured, and shortened until the bound holds.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import keras
import numpy as np
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.algs.acer.dueling import DuelingPolicy
from tfbaselines.algs.acer.loss import (
    SAMPLED_ACTIONS,
    Coefficients,
    continuous_terms,
    discrete_terms,
    divergence,
    gradients,
)
from tfbaselines.algs.acer.replay import Parts, valid_steps
from tfbaselines.compiling import compiled
from tfbaselines.config.bases import PolicyConfig
from tfbaselines.config.config import NetworkSpec
from tfbaselines.errors import UsageError
from tfbaselines.learn.average import with_targets
from tfbaselines.learn.optimizers import RMSProp
from tfbaselines.learn.update import Update
from tfbaselines.parallel import mpi
from tfbaselines.policy.policy import Policy
from tfbaselines.policy.precision import compile_with_xla
from tfbaselines.training.build import make_policy as make_any_policy
from tfbaselines.training.model import PolicyModel

# After this many halvings the step is not taken at all.
MOST_HALVINGS = 10

Result = TypeVar("Result")


def shortened_step(
    variables: Sequence[keras.Variable],
    step: Callable[[], Result],
    divergence: Callable[[], float],
    delta: float,
) -> tuple[Result, float, float]:
    """Take a step of the parameters and halve it until a divergence is within its bound, or no larger than before.

    Args:
        variables: those that the divergence depends on; a shorter step is one of these alone.
        step: changes the variables.
        divergence: what is bounded; it is the same number on every rank.
        delta: the bound.

    Returns:
        What `step` returned, the divergence at the end, and which part of the step was taken.
    """
    bound = max(delta, divergence())
    before = [tf.identity(variable.value) for variable in variables]
    result = step()
    after = [tf.identity(variable.value) for variable in variables]
    for part in (*(0.5**halvings for halvings in range(MOST_HALVINGS + 1)), 0.0):
        if part < 1.0:
            for variable, old, new in zip(variables, before, after, strict=True):
                variable.assign(old + part * (new - old))
        reached = divergence()
        if reached <= bound:
            break
    return result, reached, part


def coefficients_of(config: PolicyConfig) -> Coefficients:
    """The numbers of the objective."""
    regions = {"True": True, "efficient": True, "False": False}
    region = regions.get(config.trust_region, config.trust_region)
    return Coefficients(config.q_coef, config.ent_coef, config.gamma, config.c, config.delta, region)


class Model(PolicyModel):
    """A policy with a Q of actions, its average, and the optimiser.

    Args:
        network: as given to learn.
        env: anything with observation_space and action_space.
        config: the arguments.
        comm: communicator of the ranks that train together.
    """

    def __init__(
        self, network: NetworkSpec, env: Any, config: PolicyConfig, comm: mpi.Communicator | None = None
    ) -> None:
        policy, averaged = with_targets(lambda: make_policy(network, env, config, comm), config.alpha)
        super().__init__(policy, RMSProp(config.rprop_alpha, config.rprop_epsilon), averaged=averaged)
        self._comm, jit, trust_region = mpi.wrap(comm), compile_with_xla(policy), coefficients_of(config).trust_region
        self._exact, self._delta = trust_region == "exact", config.delta
        terms = continuous_terms if isinstance(policy, DuelingPolicy) else discrete_terms

        def make_update(apart: bool) -> Update:
            return Update(
                None,
                policy.trainable_variables,
                self.optimizer,
                max_grad_norm=config.max_grad_norm,
                jit=jit,
                comm=comm,
                gradients=lambda batch, now: gradients(
                    terms, policy, averaged.forward, batch, coefficients_of(config.at(now)), apart
                ),
                after_step=None if self._exact else averaged.step,
            )

        self._update = self._replay_update = make_update(apart=True)
        if trust_region is True and policy.convolutional:
            # For small networks, compiling another update takes longer than one backward pass less saves.
            self._replay_update = make_update(apart=False)
        self._divergence = compiled(lambda batch: divergence(policy, averaged.forward, batch), jit)

    def train(
        self,
        lr: float,
        batch: dict[str, np.ndarray] | Parts,
        rng: np.random.Generator | None = None,
        replayed: bool = False,
        **coefficients: float,
    ) -> dict[str, float]:
        """One gradient step on a batch of sequences.

        Args:
            lr: the learning rate.
            batch: see loss.py; one in parts gives the same step to rounding, while norms and explained variances
                in the statistics are means of the parts'.
            rng: draws the noise of continuous actions; None for the model's own.
            replayed: skip the norms of the trust region where that saves a backward pass.
            coefficients: numbers of the objective that follow a schedule, by name.

        Returns:
            The statistics by name.
        """
        update, rng = self._replay_update if replayed else self._update, self.rng if rng is None else rng
        rates = {"lr": lr} | coefficients

        def step() -> dict[str, float]:
            if isinstance(batch, Parts):
                return update.in_parts(((self._with_noise(part, rng), valid_steps(part)) for part in batch), **rates)
            return update(self._with_noise(batch, rng), np.arange(len(batch["actions"]), dtype=np.int32)[None], **rates)

        if self._exact:
            variables = self.policy.acting_variables
            statistics, kl, part = shortened_step(variables, step, lambda: self._mean_divergence(batch), self._delta)
            statistics |= {"kl": kl, "step_taken": part}
            self.averaged.step()
        else:
            statistics = step()
        self.actor.refresh()
        return statistics

    def _with_noise(self, batch: dict[str, np.ndarray], rng: np.random.Generator) -> dict[str, np.ndarray]:
        """The batch with the noise of sampled actions, where these are continuous."""
        if not isinstance(self.policy, DuelingPolicy):
            return batch
        shape = (*batch["rewards"].shape, 1 + SAMPLED_ACTIONS)
        return batch | {"noise": self.policy.head.draw_noise(rng, shape)}

    def _mean_divergence(self, batch: dict[str, np.ndarray] | Parts) -> float:
        """Of all ranks' batches: each finds the same."""
        own = []
        for part in batch if isinstance(batch, Parts) else [batch]:
            mean = self._divergence({name: tf.convert_to_tensor(array) for name, array in part.items()})
            own.append((mean.numpy(), valid_steps(part)))
        means, weights = zip(*own, strict=True)
        return float(self._comm.average(np.float32(np.average(means, weights=weights)).reshape(1))[0])


def make_policy(network: NetworkSpec, env: Any, config: PolicyConfig, comm: Any = None) -> Policy:
    """A policy with a Q of each Discrete action, or with the stochastic duelling network for Box actions."""
    if isinstance(env.action_space, spaces.Discrete):
        return make_any_policy(network, env, config, comm, estimate_q=True)
    if isinstance(env.action_space, spaces.Box):
        return make_any_policy(network, env, config, comm, policy_class=DuelingPolicy)
    raise UsageError(f"acer needs Discrete or Box actions, not {env.action_space}")
