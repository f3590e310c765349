"""Compiled functions of tensors."""

import gc
import weakref
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import tfbaselines
from tfbaselines import compiling
from tfbaselines.compiling import Reading, compiled, prompt, rows_of


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


def test_several_runs_in_a_program_are_not_warned_of(caplog, monkeypatch):
    """TensorFlow takes them for one function that is traced again and again; one that is, it still names."""
    monkeypatch.setattr(tf.get_logger(), "propagate", True)
    for factor in range(8):
        assert compiled(lambda x, factor=factor: factor * x)(tf.constant(1.0)) == factor
    assert not caplog.records
    again = compiled(lambda x: 2 * x)
    for size in range(8):
        again(tf.ones(size))
    assert "retracing" in caplog.text


def test_a_signature_serves_various_shapes():
    function = compiled(lambda x: 2 * x, signature=[tf.TensorSpec([None], tf.float32)])
    function(tf.ones(2))
    function(tf.ones(3))
    assert function.experimental_get_tracing_count() == 1


def test_nothing_else_is_compiled_by_hand():
    package = Path(tfbaselines.__file__).parent
    by_hand = [path.name for path in package.rglob("*.py") if "tf.function(" in path.read_text(encoding="utf-8")]
    assert by_hand == ["compiling.py"]


def without_short_way(function):
    """What a TensorFlow without it gives."""

    class Concrete:
        pass

    function.get_concrete_function = lambda *arguments: Concrete()
    return function


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("way", [lambda function: function, without_short_way])
def test_a_prompt_function_computes_with_the_variables_present_numbers(way, jit):
    scale = tf.Variable(2.0)
    function = prompt(way(compiled(lambda parts, y: {"sum": scale * (parts["x"] + y), "b": parts["b"]}, jit)))
    parts = {"x": np.array([1.0, 2.0], np.float32), "b": np.array([7, 8], np.int32)}
    for factor in (3.0, 5.0):
        scale.assign(factor)
        found = function(parts, tf.constant([10.0, 20.0]))
        np.testing.assert_array_equal(found["sum"], [factor * 11, factor * 22])
        np.testing.assert_array_equal(found["b"], [7, 8])


def test_a_prompt_function_with_a_signature_takes_what_the_signature_allows():
    traces = []
    function = prompt(compiled(lambda x: traces.append(0) or 2 * x, signature=[tf.TensorSpec([None], tf.float32)]))
    for rows in (2, 3):
        np.testing.assert_array_equal(function(np.ones(rows)), np.full(rows, 2, np.float32))
    assert len(traces) == 1


def test_a_prompt_function_takes_the_short_way_around_the_search_for_a_trace():
    """As long as this TensorFlow has it: an upgrade that loses the speed fails here."""
    found = compiled(lambda x: x + 1).get_concrete_function(tf.ones(2))
    assert callable(found._call_flat)


def test_eager_functions_stay_eager():
    tf.config.run_functions_eagerly(True)
    try:
        assert prompt(lambda x: x.numpy())(tf.ones(2)).tolist() == [1, 1]
    finally:
        tf.config.run_functions_eagerly(False)


@pytest.mark.parametrize("at_once", [True, False])
def test_a_reading_has_the_present_numbers(monkeypatch, at_once):
    if not at_once:
        monkeypatch.setattr(compiling, "execute", None)
    variables = [tf.Variable(tf.zeros((2, 3))), tf.Variable(1.0)]
    reading = Reading(variables)
    variables[0].assign_add(tf.ones((2, 3)))
    matrix, number = reading()
    np.testing.assert_array_equal(matrix, np.ones((2, 3)))
    assert number.numpy() == 1.0
    assert Reading([])() == []


def test_what_was_read_does_not_follow_the_variable():
    variable = tf.Variable([1.0])
    (before,) = Reading([variable])()
    variable.assign([2.0])
    assert before.numpy() == 1.0


def test_one_operation_reads_all():
    """As long as this TensorFlow has it."""
    reading = Reading([tf.Variable(1.0), tf.Variable(2.0)])
    reading()
    assert reading.at_once


def test_without_that_operation_each_is_read(monkeypatch):
    def missing(*arguments):
        raise tf.errors.NotFoundError(None, None, "Op type not registered")

    reading = Reading([tf.Variable(1.0), tf.Variable(2.0)])
    monkeypatch.setattr(compiling.execute, "quick_execute", missing)
    assert [float(x) for x in reading()] == [1.0, 2.0]
    assert not reading.at_once


def test_graphs_with_custom_gradients_are_freed():
    """TensorFlow keeps the gradient function of every use, and with it the graph."""
    variable = tf.Variable([1.0, 2.0])

    def loss(x):
        with tf.GradientTape() as tape:
            y = tf.reduce_sum(tf.custom_gradient(lambda x: (x * x, lambda up: 3.0 * up * x))(variable * x))
        return tape.gradient(y, variable)

    function = compiled(loss)
    np.testing.assert_array_equal(function(tf.constant(2.0)), [12.0, 24.0])
    graph = weakref.ref(function.get_concrete_function(tf.constant(2.0)).graph)
    del function
    gc.collect()
    assert graph() is None


def test_equal_functions_share_a_program_of_xla_with_their_own_variables(monkeypatch):
    monkeypatch.setattr(compiling, "_programs", OrderedDict())

    def function(start, factor=2.0):
        variable = tf.Variable([start, start])

        def step(x):
            rows = rows_of(3, lambda k: variable * tf.cast(k, tf.float32) + x)
            variable.assign_add(factor * rows[1])
            return {"rows": rows, "sum": tf.reduce_sum(rows)}

        return prompt(compiled(step, jit=True)), variable

    (one, first), (two, second) = function(1.0), function(5.0)
    x = tf.constant([1.0, 0.0])
    for _ in range(2):
        one(x)
        found = two(x)
    np.testing.assert_array_equal(first, [17.0, 9.0])
    np.testing.assert_array_equal(second, [53.0, 45.0])
    np.testing.assert_array_equal(found["rows"][2], [35.0, 30.0])
    assert len(compiling._programs) == 1
    # Another constant, name of a result, or shape is another program.
    function(1.0, factor=3.0)[0](x)
    prompt(compiled(lambda x: {"a": x + 1.0}, jit=True))(x)
    prompt(compiled(lambda x: {"b": x + 1.0}, jit=True))(x)
    prompt(compiled(lambda x: {"b": x + 1.0}, jit=True))(tf.ones(3))
    assert len(compiling._programs) == 5
