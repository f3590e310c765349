"""How a Q-network represents the return of an action: by its expectation, a histogram, or quantiles.

Each kind turns the network's outputs [..., atoms] for one action into that action's value.
"""

from typing import Any

import numpy as np
import tensorflow as tf

from tfbaselines.errors import bad_argument


class ExpectedReturn:
    """One output: the value itself."""

    atoms = 1

    def mean(self, outputs: tf.Tensor) -> tf.Tensor:
        """Values [...] of outputs [..., 1]."""
        return outputs[..., 0]

    def mean_numpy(self, outputs: np.ndarray) -> np.ndarray:
        """The same in numpy."""
        return outputs[..., 0]


class CategoricalReturn:
    """Logits of the return's place on a fixed support (C51, Bellemare et al. 2017, arXiv:1707.06887).

    Args:
        atoms: points of the support, at least two.
        v_min: the first one.
        v_max: the last one.
    """

    def __init__(self, atoms: int, v_min: float, v_max: float) -> None:
        if atoms < 2:
            raise bad_argument("num_atoms", atoms, "at least 2 for distributional='categorical'")
        if not v_min < v_max:
            raise bad_argument("v_min", v_min, f"below v_max={v_max}")
        self.atoms = atoms
        self.support = np.linspace(v_min, v_max, atoms, dtype=np.float32)

    def mean(self, outputs: tf.Tensor) -> tf.Tensor:
        """Values [...] of logits [..., atoms]."""
        return tf.reduce_sum(tf.nn.softmax(outputs) * self.support, axis=-1)

    def mean_numpy(self, outputs: np.ndarray) -> np.ndarray:
        """The same in numpy."""
        weights = np.exp(outputs - outputs.max(axis=-1, keepdims=True))
        return weights @ self.support / weights.sum(axis=-1)


class QuantileReturn:
    """The return's quantiles at (i + 1/2) / atoms (QR-DQN, Dabney et al. 2018, arXiv:1710.10044).

    Args:
        atoms: how many.
    """

    def __init__(self, atoms: int) -> None:
        self.atoms = atoms

    def mean(self, outputs: tf.Tensor) -> tf.Tensor:
        """Values [...] of quantiles [..., atoms]."""
        return tf.reduce_mean(outputs, axis=-1)

    def mean_numpy(self, outputs: np.ndarray) -> np.ndarray:
        """The same in numpy."""
        return outputs.mean(axis=-1)


ReturnDistribution = ExpectedReturn | CategoricalReturn | QuantileReturn

# Atoms by the names of `distributional`, as in the papers.
ATOMS = {"categorical": 51, "quantile": 200}


def make_returns(kind: str | None, atoms: int | None, v_min: float, v_max: float) -> ReturnDistribution:
    """The representation of some name.

    Args:
        kind: None for expectations, 'categorical' or 'quantile'.
        atoms: None for the papers' numbers.
        v_min: see CategoricalReturn.
        v_max: see CategoricalReturn.
    """
    if kind is None:
        return ExpectedReturn()
    makers: dict[str, Any] = {"categorical": lambda n: CategoricalReturn(n, v_min, v_max), "quantile": QuantileReturn}
    return makers[kind](ATOMS[kind] if atoms is None else atoms)
