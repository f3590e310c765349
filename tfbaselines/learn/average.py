"""Exponential moving average of a policy's weights, such as target networks."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfbaselines.policy.policy import Policy


class AveragedPolicy:
    """The average of a policy's weights: w_avg <- alpha w_avg + (1 - alpha) w after each update.

    Attributes:
        policy: the policy with the averaged weights.

    Args:
        policy: the policy to follow.
        copy: a policy of the same kind; its weights become the average.
        alpha: share of the old average in the new one.
    """

    def __init__(self, policy: Policy, copy: Policy, alpha: float) -> None:
        self.policy = copy
        self._pairs = list(zip(copy.trainable_variables, policy.trainable_variables, strict=True))
        self._alpha = alpha
        self.reset()

    def reset(self) -> None:
        """Start again from the policy's present weights."""
        for average, followed in self._pairs:
            average.assign(followed.value)

    def step(self) -> None:
        """Update the average with the policy's weights, inside compiled functions."""
        for average, followed in self._pairs:
            average.assign(average.value * self._alpha + (1.0 - self._alpha) * followed.value)

    def forward(self, *inputs: tf.Tensor) -> tf.Tensor:
        """Return the parameters of the averaged policy's distributions, cut off from gradients."""
        return tf.stop_gradient(self.policy.forward(*inputs).flat)


def with_targets(make: Callable[[], Any], alpha: float) -> tuple[Any, AveragedPolicy]:
    """Make a policy and its average, which share the statistics of observations and returns.

    Args:
        make: makes a policy.
        alpha: see AveragedPolicy.
    """
    policy, copy = make(), make()
    copy.normalizer = policy.normalizer
    if hasattr(policy, "returns"):
        copy.returns = policy.returns
    return policy, AveragedPolicy(policy, copy, alpha)
