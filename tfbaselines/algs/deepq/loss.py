"""Representations of returns, each with its values, its targets and its loss.

    expectation   huber(q - y),                          y = r + discount q'
    categorical   KL(y || p),                            y = projection of r + discount z onto the support z
    quantiles     sum_i mean_j rho_i(y_j - theta_i),     y = r + discount theta'

rho is the quantile Huber loss. Priorities are computed from the errors q - y, or from the losses of distributions.
"""

from typing import Any

import numpy as np
import tensorflow as tf

from tfbaselines.errors import bad_argument
from tfbaselines.learn.losses import huber, quantile_huber

Batch = dict[str, Any]


def projection(places: tf.Tensor, probabilities: tf.Tensor, support: tf.Tensor) -> tf.Tensor:
    """Project probability mass onto a support of equal steps: each place shares its mass with its two neighbors.

    Args:
        places: [B, M] places of the mass; mass beyond an end of the support goes to that end.
        probabilities: [B, M] the mass.
        support: [N] points in ascending order.

    Returns:
        Probabilities [B, N] of the support's points.
    """
    step = support[1] - support[0]
    places = tf.clip_by_value(places, support[0], support[-1])
    distance = tf.abs(places[:, None, :] - support[None, :, None]) / step
    return tf.reduce_sum(tf.maximum(1.0 - distance, 0.0) * probabilities[:, None, :], axis=-1)


def kl_from_logits(targets: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """Compute KL(targets || softmax(logits)) [B] of probabilities and logits [B, N]."""
    return tf.reduce_sum(tf.math.xlogy(targets, targets) - targets * tf.nn.log_softmax(logits), axis=-1)


class ExpectedReturn:
    """One output for each action, the value itself."""

    atoms = 1

    def mean(self, outputs: tf.Tensor) -> tf.Tensor:
        """Compute the values [...] of outputs [..., atoms]."""
        return outputs[..., 0]

    def mean_numpy(self, outputs: np.ndarray) -> np.ndarray:
        """Compute the values in numpy."""
        return outputs[..., 0]

    def targets(self, batch: Batch, outputs: tf.Tensor) -> tf.Tensor:
        """Compute targets [B, atoms] from the target network's outputs [B, atoms] for the next action."""
        return batch["rewards"][:, None] + batch["discount"][:, None] * outputs

    def loss(self, outputs: tf.Tensor, targets: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Compute the loss [B] and the error [B] of the outputs [B, atoms] for the actions that were taken."""
        errors = (outputs - targets)[:, 0]
        return huber(errors), errors


class CategoricalReturn(ExpectedReturn):
    """Logits of a histogram of the return on a fixed support (C51, Bellemare et al. 2017, arXiv:1707.06887).

    Args:
        atoms: number of points of the support, at least two.
        v_min: the first point.
        v_max: the last point.
    """

    def __init__(self, atoms: int, v_min: float, v_max: float) -> None:
        if atoms < 2:
            raise bad_argument("num_atoms", atoms, "at least 2 for distributional='categorical'")
        if not v_min < v_max:
            raise bad_argument("v_min", v_min, f"below v_max={v_max}")
        self.atoms = atoms
        self.support = np.linspace(v_min, v_max, atoms, dtype=np.float32)

    def mean(self, outputs: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(tf.nn.softmax(outputs) * self.support, axis=-1)

    def mean_numpy(self, outputs: np.ndarray) -> np.ndarray:
        weights = np.exp(outputs - outputs.max(axis=-1, keepdims=True))
        return weights @ self.support / weights.sum(axis=-1)

    def targets(self, batch: Batch, outputs: tf.Tensor) -> tf.Tensor:
        support = tf.constant(self.support)
        return projection(super().targets(batch, support[None, :]), tf.nn.softmax(outputs), support)

    def loss(self, outputs: tf.Tensor, targets: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        loss = kl_from_logits(targets, outputs)
        return loss, loss


class QuantileReturn(ExpectedReturn):
    """Quantiles of the return at (i + 1/2) / atoms (QR-DQN, Dabney et al. 2018, arXiv:1710.10044)."""

    def __init__(self, atoms: int) -> None:
        self.atoms = atoms

    def mean(self, outputs: tf.Tensor) -> tf.Tensor:
        return tf.reduce_mean(outputs, axis=-1)

    def mean_numpy(self, outputs: np.ndarray) -> np.ndarray:
        return outputs.mean(axis=-1)

    def loss(self, outputs: tf.Tensor, targets: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        loss = quantile_huber(outputs, targets)
        return loss, loss


# Number of atoms by the name of `distributional`, as in the papers.
ATOMS = {"categorical": 51, "quantile": 200}


def make_returns(kind: str | None, atoms: int | None, v_min: float, v_max: float) -> ExpectedReturn:
    """Make the representation that `distributional` names; atoms is None for the papers' numbers."""
    if kind is None:
        return ExpectedReturn()
    count = ATOMS[kind] if atoms is None else atoms
    return CategoricalReturn(count, v_min, v_max) if kind == "categorical" else QuantileReturn(count)
