import keras
import numpy as np
import pytest
import tensorflow as tf

from tfbaselines.policy.recurrent import LAYER_NORM_EPSILON, MaskedLSTM

WIDTH, INPUTS = 3, 4
both_kinds = pytest.mark.parametrize("layer_norm", [False, True], ids=["plain", "layer_norm"])


def make(layer_norm):
    """A layer none of whose weights is at its first value."""
    keras.utils.set_random_seed(0)
    layer, rng = MaskedLSTM(WIDTH, layer_norm), np.random.default_rng(0)
    layer.build([(None, INPUTS), (None,), (None, 2 * WIDTH)])
    for variable in layer.trainable_variables:
        variable.assign(variable.numpy() + rng.normal(scale=0.3, size=variable.shape))
    return layer


def sequences(envs=2, steps=5, seed=1):
    rng = np.random.default_rng(seed)
    x, states = rng.normal(size=(envs * steps, INPUTS)), rng.normal(size=(envs, 2 * WIDTH))
    return x.astype(np.float32), np.zeros(envs * steps, np.float32), states.astype(np.float32)


def run(layer, x, episode_start, states):
    return [output.numpy() for output in layer([tf.constant(array) for array in (x, episode_start, states)])]


def close(actual, expected):
    for one, other in zip(actual, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def normalized(x, gain, bias):
    x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + LAYER_NORM_EPSILON)
    return x * gain + bias


def by_hand(layer, x, episode_start, states):
    """The layer's formulas, step by step."""
    w = {variable.name: variable.numpy().astype(np.float64) for variable in layer.trainable_variables}
    norm = layer.layer_norm

    def sigmoid(x):
        return 1 / (1 + np.exp(-x))

    envs = len(states)
    (c, h), rows = np.split(states.astype(np.float64), 2, axis=-1), []
    for x_t, start in zip(x.reshape(envs, -1, INPUTS).swapaxes(0, 1), episode_start.reshape(envs, -1).T, strict=True):
        c, h = c * (1 - start[:, None]), h * (1 - start[:, None])
        zx, zh = x_t @ w["wx"], h @ w["wh"]
        z = normalized(zx, w["gx"], w["bx"]) + normalized(zh, w["gh"], w["bh"]) if norm else zx + zh
        i, f, o, u = np.split(z + w["b"], 4, axis=-1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(u)
        h = sigmoid(o) * np.tanh(normalized(c, w["gc"], w["bc"]) if norm else c)
        rows.append(h)
    return np.stack(rows, axis=1).reshape(-1, WIDTH), np.concatenate([c, h], axis=-1)


@both_kinds
@pytest.mark.parametrize("steps", [1, 5])
def test_the_formulas(layer_norm, steps):
    layer, (x, episode_start, states) = make(layer_norm), sequences(steps=steps)
    episode_start[::3] = 1.0
    close(run(layer, x, episode_start, states), by_hand(layer, x, episode_start, states))


@both_kinds
def test_a_mask_clears_the_state(layer_norm):
    """A sequence with an episode start in its middle is two sequences, the second from zero states."""
    layer, (x, episode_start, states) = make(layer_norm), sequences(envs=1, steps=7)
    episode_start[4] = 1.0
    whole, last = run(layer, x, episode_start, states)
    before, _ = run(layer, x[:4], episode_start[:4], states)
    after, last_after = run(layer, x[4:], np.zeros(3, np.float32), np.zeros_like(states))
    close([whole, last], [np.concatenate([before, after]), last_after])
    uncleared, _ = run(layer, x, np.zeros_like(episode_start), states)
    assert np.abs(uncleared[4:] - whole[4:]).max() > 1e-3


@both_kinds
def test_a_mask_clears_its_own_environment_only(layer_norm):
    layer, (x, episode_start, states) = make(layer_norm), sequences(envs=2, steps=5)
    plain, _ = run(layer, x, episode_start, states)
    episode_start[2] = 1.0
    cleared, _ = run(layer, x, episode_start, states)
    changed = np.abs(cleared - plain).max(-1) > 1e-4
    assert changed.tolist() == [False] * 2 + [True] * 3 + [False] * 5


@both_kinds
def test_sequences_go_on_from_the_state_given(layer_norm):
    layer, (x, episode_start, states) = make(layer_norm), sequences(envs=1, steps=6)
    whole = run(layer, x, episode_start, states)
    first, middle = run(layer, x[:2], episode_start[:2], states)
    second, last = run(layer, x[2:], episode_start[2:], middle)
    close(whole, [np.concatenate([first, second]), last])


@both_kinds
def test_environments_do_not_touch_each_other(layer_norm):
    layer, (x, episode_start, states) = make(layer_norm), sequences(envs=3, steps=4)
    rows, last = run(layer, x, episode_start, states)
    for env in range(3):
        own = slice(4 * env, 4 * env + 4)
        close(run(layer, x[own], episode_start[own], states[env : env + 1]), [rows[own], last[env : env + 1]])


def test_the_last_row_is_the_second_half_of_the_state():
    rows, last = run(make(False), *sequences(envs=2, steps=4))
    np.testing.assert_array_equal(rows[3::4], last[:, WIDTH:])


@both_kinds
@pytest.mark.parametrize("steps", [1, 4])
@pytest.mark.parametrize("jit", [False, True], ids=["graph", "jit"])
def test_compiled_shapes_known_or_not_give_the_same(layer_norm, steps, jit):
    layer, inputs = make(layer_norm), sequences(steps=steps)
    fixed = [tf.TensorSpec(array.shape, tf.float32) for array in inputs]
    loose = [tf.TensorSpec((None, *array.shape[1:]), tf.float32) for array in inputs]
    for signature in (fixed, loose):
        compiled = tf.function(lambda *given: layer(list(given)), input_signature=signature, jit_compile=jit)
        close(compiled(*inputs), by_hand(layer, *inputs))


@both_kinds
def test_gradients_are_those_of_small_differences(layer_norm):
    layer, inputs = make(layer_norm), sequences(envs=1, steps=3)
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(layer([tf.constant(array) for array in inputs])[0])
    values = [variable.value for variable in layer.trainable_variables]
    for variable, gradient in zip(layer.trainable_variables, tape.gradient(total, values), strict=True):
        start, step = variable.numpy(), np.zeros(variable.shape, np.float32)
        step.flat[0] = 1e-2
        sums = []
        for sign in (1, -1):
            variable.assign(start + sign * step)
            sums.append(by_hand(layer, *inputs)[0].sum())
        variable.assign(start)
        difference = (sums[0] - sums[1]) / 2e-2
        np.testing.assert_allclose(gradient.numpy().flat[0], difference, rtol=1e-2, atol=1e-3, err_msg=variable.name)


@pytest.mark.parametrize(("layer_norm", "jit"), [(False, False), (False, True), (True, False)])
def test_gradients_of_a_sequence_are_those_of_its_steps(layer_norm, jit):
    """Of everything that goes in, where episodes start within it; the loss weighs all that comes out."""
    layer, (x, episode_start, states) = make(layer_norm), sequences(envs=2, steps=5)
    episode_start[[2, 5, 9]] = 1.0
    variables = [variable.value for variable in layer.trainable_variables]
    weights = np.random.default_rng(5).normal(size=(10, WIDTH)), np.random.default_rng(6).normal(size=(2, 2 * WIDTH))
    of_rows, of_states = (tf.constant(weight, tf.float32) for weight in weights)

    def sequence(x, states):
        return layer([x, tf.constant(episode_start), states])

    def one_by_one(x, states):
        rows = []
        for t in range(5):
            h, states = layer([x[t::5], tf.constant(episode_start[t::5]), states])
            rows.append(h)
        return tf.reshape(tf.stack(rows, 1), (10, WIDTH)), states

    def gradients(outputs_of, x, states):
        with tf.GradientTape() as tape:
            tape.watch([x, states])
            rows, last = outputs_of(x, states)
            total = tf.reduce_sum(rows * of_rows) + tf.reduce_sum(last * of_states)
        return tape.gradient(total, [x, states, *variables])

    inputs = tf.constant(x), tf.constant(states)
    found = tf.function(lambda *inputs: gradients(sequence, *inputs), jit_compile=jit, autograph=False)(*inputs)
    close(found, gradients(one_by_one, *inputs))


@both_kinds
def test_weights_come_in_the_originals_order(layer_norm):
    names = [variable.name for variable in make(layer_norm).trainable_variables]
    expected = "wx gx bx wh gh bh b gc bc" if layer_norm else "wx wh b"
    assert names == expected.split()
