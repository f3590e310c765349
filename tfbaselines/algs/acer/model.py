"""ACER's model: a policy with a Q of actions, its average, and the gradient step on sequences of an older policy."""

from functools import partial
from typing import Any

import numpy as np
from gymnasium import spaces

from tfbaselines.algs.acer.continuous import DuelingPolicy, continuous_terms, with_noise
from tfbaselines.algs.acer.exact import ExactTrustRegion
from tfbaselines.algs.acer.loss import Coefficients, discrete_terms, gradients
from tfbaselines.algs.acer.replay import Trajectory
from tfbaselines.algs.acer.traces import Parts
from tfbaselines.config.bases import PolicyConfig
from tfbaselines.config.config import NetworkSpec
from tfbaselines.errors import UsageError
from tfbaselines.learn.average import with_targets
from tfbaselines.learn.engine import Engine, Phase
from tfbaselines.learn.optimizers import RMSProp
from tfbaselines.parallel import mpi
from tfbaselines.policy.policy import Policy
from tfbaselines.policy.precision import compile_with_xla
from tfbaselines.training.build import make_policy as make_any_policy
from tfbaselines.training.model import PolicyModel

TRUST_REGIONS = {"True": True, "efficient": True, "False": False}


class Model(PolicyModel):
    """A policy with a Q of actions, its average, and the optimizer.

    Args:
        network: the network's name or builder.
        env: anything with observation_space and action_space.
        config: the arguments.
        comm: communicator of the ranks that train together.
        rng: generator of actions' noise; None for one with a random seed.
    """

    def __init__(
        self,
        network: NetworkSpec,
        env: Any,
        config: PolicyConfig,
        comm: mpi.Communicator | None = None,
        rng: np.random.Generator | None = None,
    ) -> None:
        policy, averaged = with_targets(lambda: make_policy(network, env, config, comm), config.alpha)
        super().__init__(policy, RMSProp(config.rprop_alpha, config.rprop_epsilon), rng, averaged)
        continuous, jit = isinstance(policy, DuelingPolicy), compile_with_xla(policy)
        trust_region = coefficients_of(config).trust_region
        exact = ExactTrustRegion(policy, averaged, comm, jit) if trust_region == "exact" else None
        self._bounded = None if exact is None else partial(exact.bounded, delta=config.delta)
        self._with_noise = partial(with_noise, policy) if continuous else unchanged
        terms_of = continuous_terms if continuous else discrete_terms

        def make_engine(apart: bool) -> Engine:
            phase = Phase(
                "policy",
                None,
                policy.trainable_variables,
                self.optimizer,
                max_grad_norm=config.max_grad_norm,
                gradients=lambda batch: gradients(
                    terms_of, policy, averaged.forward, batch, coefficients_of(config.at(batch)), apart
                ),
            )
            return Engine([phase], after=averaged.step if exact is None else None, jit=jit, comm=comm)

        self._engine = self._replay_engine = make_engine(apart=True)
        if trust_region is True and policy.convolutional:
            # For small networks, compiling another engine takes longer than one backward pass less saves.
            self._replay_engine = make_engine(apart=False)

    def train(
        self,
        lr: float,
        batch: Trajectory | Parts,
        rng: np.random.Generator | None = None,
        replayed: bool = False,
        **coefficients: float,
    ) -> dict[str, float]:
        """Take one gradient step on a batch of sequences.

        Args:
            lr: the learning rate.
            batch: the arrays that discrete_terms describes, or a batch in parts (traces.py). Parts give the same step
                to rounding; norms and explained variances in the statistics are means over the parts.
            rng: draws the noise of continuous actions; None for the model's own.
            replayed: skip the norms of the trust region where that saves a backward pass.
            coefficients: numbers of the objective that follow a schedule, by name.

        Returns:
            The statistics by name.
        """
        engine = self._replay_engine if replayed else self._engine
        with_noise = partial(self._with_noise, rng=self.rng if rng is None else rng)
        rates = {"lr": lr} | coefficients

        def step() -> dict[str, float]:
            if isinstance(batch, dict):
                return engine.minibatches(with_noise(batch), **rates)
            return engine.in_parts(batch.weighted(with_noise), **rates)

        statistics = step() if self._bounded is None else self._bounded(step, batch)
        self.actor.refresh()
        return statistics


def unchanged(batch: Trajectory, rng: np.random.Generator) -> Trajectory:
    """Return the batch: Discrete actions need no noise."""
    return batch


def coefficients_of(config: PolicyConfig) -> Coefficients:
    """Return the numbers of the objective."""
    trust_region = TRUST_REGIONS.get(config.trust_region, config.trust_region)
    return Coefficients(config.q_coef, config.ent_coef, config.gamma, config.c, config.delta, trust_region)


def make_policy(network: NetworkSpec, env: Any, config: PolicyConfig, comm: Any = None) -> Policy:
    """Make a policy with a Q of each Discrete action, or with the stochastic dueling network for Box actions."""
    if isinstance(env.action_space, spaces.Discrete):
        return make_any_policy(network, env, config, comm, estimate_q=True)
    if isinstance(env.action_space, spaces.Box):
        return make_any_policy(network, env, config, comm, policy_class=DuelingPolicy)
    raise UsageError(f"acer needs Discrete or Box actions, not {env.action_space}")
