"""Retrace targets are those of a plain loop over the steps, and unknown successors do not leak into known targets."""

import numpy as np
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tfbaselines.algs.acer.loss import retrace

NUMBERS = st.floats(-5, 5, width=32)
FLAGS = st.sampled_from([0.0, 1.0])
NAMES = ("rewards", "terminated", "truncated", "q_taken", "values", "last_values", "weights")

few = settings(max_examples=40)


@st.composite
def sequences(draw, cuts=FLAGS):
    shape = draw(hnp.array_shapes(min_dims=2, max_dims=2, max_side=6))

    def array(elements, shape=shape):
        return draw(hnp.arrays(np.float32, shape, elements=elements))

    kinds = (NUMBERS, FLAGS, cuts, NUMBERS, NUMBERS)
    batch = dict(zip(NAMES, map(array, kinds), strict=False))
    batch |= {"last_values": array(NUMBERS, shape[:1]), "weights": array(st.floats(0, 1, width=32))}
    # A step either ends its episode or is cut off.
    batch["truncated"] *= 1.0 - batch["terminated"]
    return batch


def targets_of(batch, gamma):
    return retrace(**{name: tf.constant(array) for name, array in batch.items()}, gamma=gamma).numpy()


def by_hand(batch, gamma):
    """Each target from the formula of the paper, a sum over the steps that follow."""
    rewards, ended, cut, q, values, last, weights = (batch[name].astype(np.float64) for name in NAMES)
    count, steps = rewards.shape
    targets = np.empty(rewards.shape)
    for i in range(count):
        following = [*values[i, 1:], last[i]]
        for t in range(steps):
            target, trace = q[i, t], 1.0
            for k in range(t, steps):
                trace *= 1.0 if k == t else gamma * weights[i, k] * (1.0 - cut[i, k])
                target += trace * (rewards[i, k] + gamma * (1.0 - ended[i, k]) * following[k] - q[i, k])
                trace *= 1.0 - ended[i, k]
            targets[i, t] = target
    return targets


@few
@given(sequences(), st.floats(0, 1))
def test_targets_are_the_papers_sums(batch, gamma):
    np.testing.assert_allclose(targets_of(batch, gamma), by_hand(batch, gamma), rtol=1e-4, atol=1e-3)


def test_a_sequence_computed_by_hand():
    """Steps: ordinary, ending an episode, ordinary, cut, ordinary."""
    batch = {
        "rewards": [[1.0, 2.0, 3.0, 99.0, 4.0]],
        "terminated": [[0.0, 1.0, 0.0, 0.0, 0.0]],
        "truncated": [[0.0, 0.0, 0.0, 1.0, 0.0]],
        "q_taken": [[10.0, 20.0, 30.0, 99.0, 40.0]],
        "values": [[1.0, 2.0, 3.0, 8.0, 5.0]],
        "last_values": [6.0],
        "weights": [[1.0, 0.5, 1.0, 1.0, 1.0]],
    }
    targets = targets_of({name: np.float32(array) for name, array in batch.items()}, 0.5)
    known = [1 + 0.5 * (0.5 * (2 - 20) + 2), 2, 3 + 0.5 * 8, 4 + 0.5 * 6]
    np.testing.assert_allclose(targets[0, [0, 1, 2, 4]], known)


@few
@given(sequences(cuts=st.just(0.0)))
def test_full_weights_and_an_exact_critic_give_discounted_returns(batch):
    batch |= {"q_taken": batch["values"], "weights": np.ones_like(batch["weights"])}
    expected, following = np.empty(batch["rewards"].shape), batch["last_values"].astype(np.float64)
    for t in reversed(range(expected.shape[1])):
        expected[:, t] = following = batch["rewards"][:, t] + 0.9 * (1 - batch["terminated"][:, t]) * following
    np.testing.assert_allclose(targets_of(batch, 0.9), expected, rtol=1e-4, atol=1e-3)


@few
@given(sequences(), st.integers(0, 10), hnp.arrays(np.float32, 3, elements=NUMBERS))
def test_what_a_cut_step_holds_is_not_used(batch, number, others):
    """But for the value before it, from which the step before bootstraps."""
    cut = np.argwhere(batch["truncated"])
    if len(cut) == 0:
        return
    i, t = cut[number % len(cut)]
    changed = {name: array.copy() for name, array in batch.items()}
    for name, other in zip(("rewards", "q_taken", "weights"), others, strict=True):
        changed[name][i, t] = other
    before, after = targets_of(batch, 0.9), targets_of(changed, 0.9)
    after[i, t] = before[i, t]
    np.testing.assert_array_equal(before, after)


@few
@given(sequences(), NUMBERS)
def test_nothing_after_an_end_or_a_cut_is_used_before_it(batch, other):
    i, t = 0, batch["rewards"].shape[1] // 2
    over = batch["terminated"][i, t] + batch["truncated"][i, t]
    changed = {name: array.copy() for name, array in batch.items()}
    for name in ("rewards", "q_taken", "values"):
        changed[name][i, t + 1 :] = other
    changed["last_values"][i] = other
    # The target of the cut step itself means nothing.
    valid = t + 1 - int(batch["truncated"][i, t])
    before, after = targets_of(batch, 0.9)[i, :valid], targets_of(changed, 0.9)[i, :valid]
    assert not over or np.array_equal(before, after)


@few
@given(sequences(), st.integers(1, 4), NUMBERS, FLAGS)
def test_padding_with_cut_steps_changes_no_target(batch, more, fill, ended):
    count, steps = batch["rewards"].shape
    added = {name: np.full((count, more), fill, np.float32) for name in batch}
    added |= {"terminated": np.full((count, more), ended, np.float32), "truncated": np.ones((count, more), np.float32)}
    # The observation after the last step is the one before the first padded step.
    added["values"][:, 0] = batch["last_values"]
    longer = {name: np.concatenate([batch[name], added[name]], 1) for name in batch if name != "last_values"}
    longer["last_values"] = np.full(count, fill, np.float32)
    np.testing.assert_array_equal(targets_of(longer, 0.9)[:, :steps], targets_of(batch, 0.9))


def test_sequences_do_not_touch_each_other():
    rng = np.random.default_rng(0)
    shape, zeros = (3, 5), np.zeros((3, 5), np.float32)
    batch = {name: rng.normal(size=shape).astype(np.float32) for name in NAMES}
    batch |= {"terminated": zeros, "truncated": zeros, "last_values": rng.normal(size=3).astype(np.float32)}
    together = targets_of(batch, 0.9)
    for i in range(3):
        alone = targets_of({name: array[i : i + 1] for name, array in batch.items()}, 0.9)
        np.testing.assert_allclose(together[i : i + 1], alone, rtol=1e-6)


def test_targets_have_no_gradient_and_compile():
    batch = {name: tf.Variable(tf.random.stateless_uniform((2, 4), (1, 2))) for name in NAMES}
    batch["last_values"] = tf.Variable([1.0, 2.0])
    with tf.GradientTape() as tape:
        targets = tf.function(lambda: retrace(**batch, gamma=0.9), jit_compile=True)()
    np.testing.assert_allclose(targets, retrace(**batch, gamma=0.9), rtol=1e-5)
    assert tape.gradient(targets, list(batch.values())) == [None] * len(batch)
