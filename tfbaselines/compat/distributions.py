"""baselines' distributions: the action heads of policy/distributions.py with baselines' names and methods."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.errors import UsageError
from tfbaselines.policy import distributions as heads
from tfbaselines.policy.distributions import Distribution


class Pd:
    """A batch of distributions, with logp, neglogp, entropy, mode, mean and std of Distribution.

    Args:
        pdtype: the action head.
        flat: parameters of the distributions [B, ...].
    """

    def __init__(self, pdtype: Any, flat: tf.Tensor) -> None:
        self._pdtype = pdtype
        self._flat = flat
        self._distribution: Distribution = pdtype.distribution(flat)

    def flatparam(self) -> tf.Tensor:
        """Return the parameters."""
        return self._flat

    def kl(self, other: "Pd") -> tf.Tensor:
        """Compute KL(self || other), [B]."""
        return self._distribution.kl(other._distribution)

    def sample(self, noise: Any = None) -> tf.Tensor:
        """Draw actions [B, ...], from noise or from NumPy's global generator, which set_global_seeds seeds."""
        if noise is None:
            if not tf.executing_eagerly():
                raise ValueError("sample() cannot draw in compiled code: give noise: pdtype.draw_noise(rng, (n,))")
            rng = np.random.default_rng(np.random.randint(2**31))
            noise = self._pdtype.draw_noise(rng, (len(self._flat),))
        return self._distribution.sample(noise)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._distribution, name)


class PdType:
    """An action head with the originals' methods."""

    def pdfromflat(self, flat: tf.Tensor) -> Pd:
        """Make distributions from parameters [B, ...]."""
        return Pd(self, flat)

    def pdfromlatent(self, *args: Any, **kwargs: Any) -> None:
        """Raise an error that names the alternative: there are no variable scopes."""
        raise UsageError(
            "pdfromlatent has no counterpart: keep layer = keras.layers.Dense(pdtype.param_shape()[0]) and call "
            "pdtype.pdfromflat(layer(latent))"
        )

    def param_shape(self) -> list[int]:
        """Return the shape of one distribution's parameters."""
        return [self.param_size]

    def sample_shape(self) -> list[int]:
        """Return the shape of one action."""
        return list(self.action_shape)

    def sample_dtype(self) -> tf.DType:
        """Return the type of actions."""
        return tf.as_dtype(self.action_dtype)


class CategoricalPdType(PdType, heads.CategoricalHead):
    """baselines' CategoricalHead.

    Args:
        ncat: number of actions, or their space.
    """

    def __init__(self, ncat: int | spaces.Discrete) -> None:
        super().__init__(ncat if isinstance(ncat, spaces.Space) else spaces.Discrete(ncat))


class MultiCategoricalPdType(PdType, heads.MultiCategoricalHead):
    """baselines' MultiCategoricalHead.

    Args:
        nvec: number of choices of each part, or the space.
    """

    def __init__(self, nvec: Sequence[int] | spaces.MultiDiscrete) -> None:
        super().__init__(nvec if isinstance(nvec, spaces.Space) else spaces.MultiDiscrete(nvec))


class DiagGaussianPdType(PdType, heads.GaussianHead):
    """baselines' GaussianHead.

    Args:
        size: dimensions of an action, or the space.
    """

    def __init__(self, size: int | spaces.Box) -> None:
        super().__init__(size if isinstance(size, spaces.Space) else spaces.Box(-np.inf, np.inf, (size,)))


class BernoulliPdType(PdType, heads.BernoulliHead):
    """baselines' BernoulliHead.

    Args:
        size: dimensions of an action, or the space.
    """

    def __init__(self, size: int | spaces.MultiBinary) -> None:
        super().__init__(size if isinstance(size, spaces.Space) else spaces.MultiBinary(size))


PDTYPES = {kind.__bases__[1]: kind for kind in PdType.__subclasses__()}


def make_pdtype(ac_space: spaces.Space) -> PdType:
    """Return the action head of an action space."""
    return PDTYPES[type(heads.make_pdtype(ac_space))](ac_space)
