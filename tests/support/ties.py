"""First sums of a convolutional network that are zero but for rounding.

The order of summation, which differs from processor to processor, decides whether ReLU lets such a unit pass. A unit
that passes adds its own part to the gradient of its first kernel and bias, and changes nothing else.
"""

from collections.abc import Callable, Sequence

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfbaselines.policy.layers import layers_of

# The largest magnitude of a tied sum in float64; rounding in float32 is some 1e-8, and no other sum is below 1e-5.
TIE = 1e-6


def settle_ties(
    monkeypatch: pytest.MonkeyPatch,
    network: keras.Model,
    pixels: np.ndarray,
    gradients: Callable[[], Sequence[np.ndarray]],
    golden: np.ndarray,
) -> None:
    """Put the tied units of the first convolution, if there are any, on the side that the golden gradients took.

    Args:
        monkeypatch: replaces the layer's activation for those units alone.
        network: the network, with golden weights.
        pixels: the images of the golden batch.
        gradients: computes the network's gradients, in the order of the golden ones.
        golden: the golden gradients, joined.
    """
    layer = next((one for one in layers_of(network) if isinstance(one, keras.layers.Conv2D)), None)
    ties = np.argwhere(np.abs(_sums(layer, pixels)) < TIE) if layer else []
    if not len(ties):
        return
    activation = layer.activation

    def with_passing(passing: np.ndarray) -> np.ndarray:
        """Compute the gradients with these of the tied units passing."""
        monkeypatch.setattr(layer, "activation", lambda sums: _on_sides(activation, sums, ties, passing))
        return np.concatenate([np.ravel(gradient) for gradient in gradients()]).astype(np.float64)

    none = with_passing(np.zeros(len(ties), bool))
    parts = [with_passing(one) - none for one in np.eye(len(ties), dtype=bool)]
    shares = np.linalg.lstsq(np.transpose(parts), golden - none)[0]
    with_passing(shares > 0.5)


def _sums(layer: keras.layers.Conv2D, pixels: np.ndarray) -> np.ndarray:
    """Compute in float64 the sums before the activation."""
    kernel, bias = (tf.cast(variable.value, tf.float64) for variable in (layer.kernel, layer.bias))
    images = tf.cast(pixels, tf.float64) / 255.0
    return (tf.nn.conv2d(images, kernel, layer.strides, layer.padding.upper()) + bias).numpy()


def _on_sides(activation: Callable, sums: tf.Tensor, ties: np.ndarray, passing: np.ndarray) -> tf.Tensor:
    """Apply the activation, but to tied units only where their sums are not near zero."""
    tied, passes = np.zeros((2, *sums.shape), bool)
    tied[tuple(ties.T)] = True
    passes[tuple(ties[passing].T)] = True
    return tf.where(tied & (tf.abs(sums) < TIE), tf.where(passes, sums, 0.0), activation(sums))
