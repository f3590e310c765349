"""Steps of parameters that stay within a trust region: measured, and shortened until the bound holds."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import keras
import tensorflow as tf

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
