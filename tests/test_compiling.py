"""Compiled functions of tensors."""

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import tfbaselines
from tfbaselines.compiling import compiled, rows_of


@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize("jit", [False, True])
def test_rows_are_computed_one_after_the_other(jit, count):
    total = tf.Variable(0.0)

    def row(k):
        total.assign_add(tf.cast(k, tf.float32))
        return tf.stack([total, tf.cast(k * k, tf.float32)])

    rows = compiled(lambda: rows_of(count, row), jit)()
    np.testing.assert_array_equal(rows, [[0, 0], [1, 1], [3, 4], [6, 9]][:count])


def test_one_row_needs_no_loop():
    nodes = compiled(lambda: rows_of(1, lambda k: tf.ones(2))).get_concrete_function().graph.as_graph_def().node
    assert not [node.op for node in nodes if "While" in node.op or "TensorList" in node.op]


def test_sources_are_not_rewritten():
    """Rewritten ones would take the condition."""
    with pytest.raises(tf.errors.OperatorNotAllowedInGraphError):
        compiled(lambda x: x if tf.reduce_sum(x) > 0 else -x)(tf.ones(2))


def test_a_signature_serves_various_shapes():
    function = compiled(lambda x: 2 * x, signature=[tf.TensorSpec([None], tf.float32)])
    function(tf.ones(2))
    function(tf.ones(3))
    assert function.experimental_get_tracing_count() == 1


def test_nothing_else_is_compiled_by_hand():
    package = Path(tfbaselines.__file__).parent
    by_hand = [path.name for path in package.rglob("*.py") if "tf.function(" in path.read_text(encoding="utf-8")]
    assert by_hand == ["compiling.py"]
