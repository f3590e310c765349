"""A policy whose weights are the exponential moving average of another's."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfbaselines.policy.policy import Policy


class AveragedPolicy:
    """Follows a policy at a distance: w_avg <- alpha w_avg + (1 - alpha) w after each update.

    Args:
        policy: the policy that is followed.
        copy: another of the same kind, whose weights become the average.
        alpha: how much of the average is kept.
    """

    def __init__(self, policy: Policy, copy: Policy, alpha: float) -> None:
        self.policy = copy
        self._pairs = list(zip(copy.trainable_variables, policy.trainable_variables, strict=True))
        self._alpha = alpha
        self.reset()

    def reset(self) -> None:
        """Start again from the weights that the policy has now."""
        for average, followed in self._pairs:
            average.assign(followed.value)

    def step(self) -> None:
        """Take in the policy's weights; runs inside compiled functions."""
        for average, followed in self._pairs:
            average.assign(average.value * self._alpha + (1.0 - self._alpha) * followed.value)

    def forward(self, *inputs: tf.Tensor) -> tf.Tensor:
        """Parameters of the averaged policy's distributions, cut off from gradients."""
        return tf.stop_gradient(self.policy.forward(*inputs).flat)


def with_targets(make: Callable[[], Any], alpha: float) -> tuple[Any, AveragedPolicy]:
    """A policy, and the average that follows it; they share the statistics of observations and of returns.

    Args:
        make: makes a policy.
        alpha: see AveragedPolicy.
    """
    policy, copy = make(), make()
    copy.normalizer = policy.normalizer
    if hasattr(policy, "returns"):
        copy.returns = policy.returns
    return policy, AveragedPolicy(policy, copy, alpha)
