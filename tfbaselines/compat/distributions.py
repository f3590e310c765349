"""baselines' distributions: the action heads of policy/distributions.py under its names, and with its methods."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.errors import UsageError
from tfbaselines.policy import distributions as heads
from tfbaselines.policy.distributions import Distribution


class Pd:
    """A batch of distributions; logp, neglogp, entropy, mode, mean and std are those of Distribution.

    Args:
        pdtype: what makes them of parameters.
        flat: their parameters [B, ...].
    """

    def __init__(self, pdtype: Any, flat: tf.Tensor) -> None:
        self._pdtype, self._flat = pdtype, flat
        self._distribution: Distribution = pdtype.distribution(flat)

    def flatparam(self) -> tf.Tensor:
        """The parameters."""
        return self._flat

    def kl(self, other: "Pd") -> tf.Tensor:
        """KL(self || other), [B]."""
        return self._distribution.kl(other._distribution)

    def sample(self, noise: Any = None) -> tf.Tensor:
        """Actions [B, ...] from noise; without it drawn from NumPy's global generator, which set_global_seeds seeds."""
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
        """The distributions of parameters [B, ...]."""
        return Pd(self, flat)

    def pdfromlatent(self, *args: Any, **kwargs: Any) -> None:
        """Name what takes its place: layers are not made in scopes."""
        raise UsageError(
            "pdfromlatent has no counterpart: keep layer = keras.layers.Dense(pdtype.param_shape()[0]) and call "
            "pdtype.pdfromflat(layer(latent))"
        )

    def param_shape(self) -> list[int]:
        """Of the parameters of one distribution."""
        return [self.param_size]

    def sample_shape(self) -> list[int]:
        """Of one action."""
        return list(self.action_shape)

    def sample_dtype(self) -> tf.DType:
        """Of actions."""
        return tf.as_dtype(self.action_dtype)


class CategoricalPdType(PdType, heads.CategoricalHead):
    """See CategoricalHead.

    Args:
        ncat: how many actions, or their space.
    """

    def __init__(self, ncat: int | spaces.Discrete) -> None:
        super().__init__(ncat if isinstance(ncat, spaces.Space) else spaces.Discrete(ncat))


class MultiCategoricalPdType(PdType, heads.MultiCategoricalHead):
    """See MultiCategoricalHead.

    Args:
        nvec: how many choices each part has, or their space.
    """

    def __init__(self, nvec: Sequence[int] | spaces.MultiDiscrete) -> None:
        super().__init__(nvec if isinstance(nvec, spaces.Space) else spaces.MultiDiscrete(nvec))


class DiagGaussianPdType(PdType, heads.GaussianHead):
    """See GaussianHead.

    Args:
        size: numbers in an action, or their space.
    """

    def __init__(self, size: int | spaces.Box) -> None:
        super().__init__(size if isinstance(size, spaces.Space) else spaces.Box(-np.inf, np.inf, (size,)))


class BernoulliPdType(PdType, heads.BernoulliHead):
    """See BernoulliHead.

    Args:
        size: numbers in an action, or their space.
    """

    def __init__(self, size: int | spaces.MultiBinary) -> None:
        super().__init__(size if isinstance(size, spaces.Space) else spaces.MultiBinary(size))


PDTYPES = {kind.__bases__[1]: kind for kind in PdType.__subclasses__()}


def make_pdtype(ac_space: spaces.Space) -> PdType:
    """The action head of an action space; ValueError for an unsupported space."""
    return PDTYPES[type(heads.make_pdtype(ac_space))](ac_space)
