"""The exact trust region: a step that is shortened until the measured KL divergence is within its bound.

trust_region='exact' takes it in place of the efficient trust region of loss.py.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import keras
import numpy as np
import tensorflow as tf

from tfbaselines.algs.acer.loss import Batch, inputs_of, mean_of_valid, without_last
from tfbaselines.algs.acer.replay import Trajectory, valid_steps
from tfbaselines.compiling import compiled
from tfbaselines.learn.average import AveragedPolicy
from tfbaselines.parallel import mpi
from tfbaselines.policy.policy import Policy

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
        variables: the variables that the divergence depends on; only these take the shorter step.
        step: changes the variables.
        divergence: returns the divergence, the same number on every rank.
        delta: the bound.

    Returns:
        The result of `step`, the divergence at the end, and the fraction of the step that was taken.
    """
    bound = max(delta, divergence())
    before = [tf.identity(variable.value) for variable in variables]
    result = step()
    after = [tf.identity(variable.value) for variable in variables]
    for fraction in (*(0.5**halvings for halvings in range(MOST_HALVINGS + 1)), 0.0):
        if fraction < 1.0:
            for variable, old, new in zip(variables, before, after, strict=True):
                variable.assign(old + fraction * (new - old))
        reached = divergence()
        if reached <= bound:
            break
    return result, reached, fraction


def divergence(policy: Policy, average: Callable[..., tf.Tensor], batch: Batch) -> tf.Tensor:
    """Compute the mean of KL(averaged policy || policy) over the valid steps of a batch.

    Args:
        policy: the policy that learns.
        average: returns the averaged policy's outputs for observations, episode_start and states.
        batch: the arguments of discrete_terms describe it.
    """
    mean, _ = mean_of_valid(batch)
    inputs, count = inputs_of(batch), batch["actions"].shape[0]
    f_avg, f = (
        policy.head.distribution(without_last(flat, count)) for flat in (average(*inputs), policy.forward(*inputs).flat)
    )
    return mean(f_avg.kl(f))


class ExactTrustRegion:
    """Shortens steps, and moves the averaged policy after each.

    Args:
        policy: the policy that learns.
        averaged: the average of the policy.
        comm: communicator of the ranks that train together.
        jit: compile with XLA.
    """

    def __init__(self, policy: Policy, averaged: AveragedPolicy, comm: Any, jit: bool) -> None:
        self._policy = policy
        self._averaged = averaged
        self._comm = mpi.wrap(comm)
        self._divergence = compiled(lambda batch: divergence(policy, averaged.forward, batch), jit)

    def bounded(
        self, step: Callable[[], dict[str, float]], batch: Trajectory | Iterable[Trajectory], delta: float
    ) -> dict[str, float]:
        """Take a step within the trust region.

        Args:
            step: changes the policy and returns the statistics.
            batch: the steps that the divergence is measured on, or parts of them that can be iterated repeatedly.
            delta: bound of the mean divergence.

        Returns:
            The statistics, with the divergence as 'kl' and the fraction of the step as 'step_taken'.
        """
        parts = [batch] if isinstance(batch, dict) else batch
        variables = self._policy.acting_variables
        statistics, kl, fraction = shortened_step(variables, step, lambda: self._mean_divergence(parts), delta)
        self._averaged.step()
        return statistics | {"kl": kl, "step_taken": fraction}

    def _mean_divergence(self, parts: Iterable[Trajectory]) -> float:
        """Compute the mean divergence over the batches of all ranks, the same number on every rank."""
        measured = []
        for part in parts:
            mean = self._divergence({name: tf.convert_to_tensor(array) for name, array in part.items()})
            measured.append((mean.numpy(), valid_steps(part)))
        means, weights = zip(*measured, strict=True)
        return float(self._comm.average(np.float32(np.average(means, weights=weights)).reshape(1))[0])
