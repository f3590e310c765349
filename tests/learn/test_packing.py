"""Whatever is packed comes back row by row with its shapes, types and bits."""

import numpy as np
import pytest
import tensorflow as tf

from tfbaselines.learn.exchange import Packing, leaves_of

RNG = np.random.default_rng(0)
STRUCTURE = (
    {
        "obs": {"pixels": RNG.integers(256, size=(3, 2, 4, 4, 1), dtype=np.uint8), "speed": RNG.random((3, 2, 5))},
        "actions": RNG.integers(-(2**60), 2**60, (3, 2)),
        "turned": RNG.integers(9, size=(2, 3)).T,
        "rewards": np.array([[0.5, -0.0], [np.inf, 1e-40], [np.nan, 3.0]], np.float32),
        "flags": np.array([[True, False]] * 3),
    },
    {"lr": np.full(3, 1e-3, np.float32)},
    np.arange(3, dtype=np.int32),
)


@pytest.mark.parametrize("jit", [True, False])
def test_every_row_comes_back_as_it_was(jit):
    packing = Packing(STRUCTURE)
    arrays = packing.pack(leaves_of(STRUCTURE))
    # Pixels and flags stay as they are; all others are one array.
    assert [array.dtype for array in arrays] == [np.int32, np.bool_, np.uint8]
    row = tf.function(lambda k, *packed: packing.rows(packed)[0](k), jit_compile=jit)
    for k in range(3):
        found = row(tf.constant(k), *map(tf.constant, arrays))
        expected = tf.nest.map_structure(lambda array, k=k: array[k], STRUCTURE)
        tf.nest.assert_same_structure(found, expected)
        for one, other in zip(tf.nest.flatten(found), tf.nest.flatten(expected), strict=True):
            assert one.dtype == other.dtype and one.shape == other.shape
            assert one.numpy().tobytes() == other.tobytes()
