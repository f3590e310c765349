"""ACER's losses, their gradients and the divergence equal plain numpy, whatever the policy, the padding and the bound.

The loops by hand read the policy's outputs and repeat the formulas of the paper, one step at a time.
"""

import numpy as np
import pytest
import tensorflow as tf
from acer_by_hand import (
    LOSS_NAMES,
    TRUST_REGION_NAMES,
    batch_of,
    continuous_by_hand,
    discrete_by_hand,
    make,
    outputs_of,
    softmax,
    tensors,
)

from tfbaselines.algs.acer.acer import divergence
from tfbaselines.algs.acer.loss import (
    EPSILON,
    SAMPLED_ACTIONS,
    Coefficients,
    continuous_terms,
    discrete_terms,
    gradients,
)
from tfbaselines.algs.acer.replay import part_of, stack
from tfbaselines.algs.acer.traces import between, padded
from tfbaselines.learn.optimizers import AveragedPolicy

COEFFICIENTS = Coefficients(q_coef=0.5, ent_coef=0.1, gamma=0.9, c=1.2, delta=0.1, trust_region=True)
FREE = COEFFICIENTS._replace(trust_region=False)

CASES = [(kind, network) for kind in ("discrete", "continuous") for network in ("mlp", "lstm")]
every_policy = pytest.mark.parametrize(("kind", "network"), CASES, ids=[" ".join(case) for case in CASES])


def with_mus_of(policy, batch):
    """The batch as if the policy itself had acted."""
    return batch | {"mus": outputs_of(policy, batch).flat[:, :-1].astype(np.float32)}


BY_HAND = {discrete_terms: discrete_by_hand, continuous_terms: continuous_by_hand}


@pytest.mark.parametrize("c", [0.8, 1e9])
@pytest.mark.parametrize(("kind", "network"), [*CASES, ("started", "mlp")])
def test_losses_and_the_outputs_gradient_are_those_computed_by_hand(kind, network, c):
    policy, terms_of = make(kind, network)
    batch, k = batch_of(policy), COEFFICIENTS._replace(c=c)
    with tf.GradientTape(persistent=True) as tape:
        terms = terms_of(policy, tensors(batch), k)
    statistics, slope, _ = BY_HAND[terms_of](policy, batch, k)
    assert_statistics(terms.statistics, statistics, rtol=2e-3, atol=1e-4)
    assert statistics["loss"] == pytest.approx(float(terms.objective + terms.critic), rel=2e-3, abs=1e-4)
    assert float(terms.total) == 9.0
    own = tape.gradient(terms.objective, terms.phi)
    np.testing.assert_allclose(own, slope.reshape(own.shape), rtol=2e-3, atol=1e-4)
    # Q learns nothing about how to act.
    assert tape.gradient(terms.critic, terms.phi) is None
    # Truncation and its correction must both be seen, and the cut step must not.
    assert (abs(statistics["loss_bc"]) > 1e-3) == (c < 1e9)
    assert np.abs(slope).sum(-1).astype(bool).sum() == 9


@every_policy
def test_the_critics_gradient_moves_q_and_v_towards_their_targets(kind, network):
    policy, terms_of = make(kind, network)
    batch = batch_of(policy)
    _, _, slopes = BY_HAND[terms_of](policy, batch, COEFFICIENTS)
    of_q, of_v = (tf.constant(slope.ravel(), tf.float32) for slope in slopes)
    with tf.GradientTape(persistent=True) as tape:
        critic = terms_of(policy, tensors(batch), COEFFICIENTS).critic
        inputs = [batch["obs"], batch["episode_start"]] if policy.recurrent else [batch["obs"]]
        rows = [tf.constant(array.reshape(-1, *array.shape[2:])) for array in inputs]
        outputs = policy.forward(*rows, *([batch["states"][:, 0]] if policy.recurrent else []))
        known = tf.constant([t for t in range(12) if t % 6 != 5])
        value, features = (tf.gather(x, known) for x in (outputs.value, outputs.features))
        actions = tf.constant(batch["actions"].reshape(10, *policy.head.action_shape))
        if kind == "continuous":
            flat, noise = tf.stop_gradient(tf.gather(outputs.flat, known)), batch["noise"].reshape(10, -1, 2)
            centre = [policy.head.distribution(flat).sample(noise[:, k]) for k in range(1, 1 + SAMPLED_ACTIONS)]
            (q,) = policy.q_of(features, value, [actions], centre)
            surrogate = tf.reduce_sum(of_q * q + of_v * value)
        else:
            surrogate = tf.reduce_sum(of_q * tf.gather(value, actions, batch_dims=1))
    variables = [variable.value for variable in policy.trainable_variables]
    one, other = (tape.gradient(loss, variables, unconnected_gradients="zero") for loss in (critic, surrogate))
    assert_gradients(one, other)
    assert float(tf.linalg.global_norm(one)) > 0.1


@every_policy
def test_weights_of_one_correct_nothing(kind, network):
    """Acted in by the policy itself, every ratio is one: c from one up has nothing to cut off."""
    policy, terms_of = make(kind, network)
    batch = tensors(with_mus_of(policy, batch_of(policy)))
    at_one, large = (terms_of(policy, batch, COEFFICIENTS._replace(c=c)).statistics for c in (1.0, 1e6))
    assert_statistics(at_one, large, rtol=1e-3, atol=1e-4)
    assert abs(float(at_one["loss_bc"])) < 1e-4
    halved = terms_of(policy, batch, COEFFICIENTS._replace(c=0.5)).statistics
    np.testing.assert_allclose(halved["loss_f"], 0.5 * at_one["loss_f"], rtol=1e-3, atol=1e-5)


def test_an_action_that_was_all_but_impossible_gives_finite_numbers():
    for kind in ("discrete", "continuous"):
        policy, terms_of = make(kind)
        batch = batch_of(policy)
        batch["mus"] = 100.0 * np.sign(batch["mus"])
        if kind == "continuous":
            batch["mus"][..., 2:] = -5.0
        averaged = AveragedPolicy(policy, make(kind)[0], 0.9)
        for k in (COEFFICIENTS, FREE):
            whole, statistics = gradients(terms_of, policy, averaged.forward, tensors(batch), k)
            assert np.isfinite(list(statistics.values())).all() and all(
                np.isfinite(gradient).all() for gradient in whole
            ), kind


def averaged_of(kind, network, policy):
    """An average that differs from the policy."""
    averaged = AveragedPolicy(policy, make(kind, network)[0], 0.9)
    rng = np.random.default_rng(7)
    for variable in averaged.policy.trainable_variables:
        variable.assign(variable.numpy() + rng.normal(scale=0.2, size=variable.shape))
    return averaged


def assert_statistics(one, other, rtol, atol):
    """The same names in the same order, and equal numbers."""
    assert list(one) == list(other)
    for name, value in one.items():
        np.testing.assert_allclose(value, other[name], rtol=rtol, atol=atol, err_msg=name)


def assert_gradients(one, other, rtol=1e-3):
    for a, b in zip(one, other, strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-5)


@every_policy
def test_without_a_trust_region_the_gradient_is_the_losss(kind, network):
    policy, terms_of = make(kind, network)
    batch, averaged = tensors(batch_of(policy)), averaged_of(kind, network, policy)
    variables = [variable.value for variable in policy.trainable_variables]
    with tf.GradientTape() as tape:
        loss = terms_of(policy, batch, FREE).statistics["loss"]
    expected = tape.gradient(loss, variables, unconnected_gradients="zero")
    for trust_region in (False, "exact"):
        whole, statistics = gradients(
            terms_of, policy, averaged.forward, batch, FREE._replace(trust_region=trust_region)
        )
        assert_gradients(whole, expected)
        assert list(statistics) == [*LOSS_NAMES, "norm_grads"]
        assert float(statistics["norm_grads"]) == pytest.approx(float(tf.linalg.global_norm(expected)), rel=1e-4)


@every_policy
def test_a_wide_trust_region_changes_nothing_and_a_narrow_one_does(kind, network):
    policy, terms_of = make(kind, network)
    batch, averaged = tensors(batch_of(policy)), averaged_of(kind, network, policy)
    free, of_free = gradients(terms_of, policy, averaged.forward, batch, FREE)
    wide, of_wide = gradients(terms_of, policy, averaged.forward, batch, COEFFICIENTS._replace(delta=1e9))
    narrow, of_narrow = gradients(terms_of, policy, averaged.forward, batch, COEFFICIENTS._replace(delta=0.0))
    assert_gradients(wide, free)
    assert list(of_wide) == [*LOSS_NAMES, "norm_grads", *TRUST_REGION_NAMES]
    assert_statistics({name: of_wide[name] for name in of_free}, of_free, rtol=1e-4, atol=1e-6)
    assert max(np.abs(a - b).max() for a, b in zip(narrow, free, strict=True)) > 1e-3
    assert float(of_wide["avg_norm_adj"]) == 0.0 < float(of_narrow["avg_norm_adj"])
    # Of Q and of the policy apart, they add up to the whole gradient's.
    for of_bound, whole in ((of_wide, wide), (of_narrow, narrow)):
        norm, of_q, of_policy = (float(of_bound[f"norm_grads{part}"]) for part in ("", "_q", "_policy"))
        assert norm == pytest.approx(float(tf.linalg.global_norm(whole)), rel=1e-5)
        assert abs(of_q - of_policy) <= norm * 1.0001 and norm <= (of_q + of_policy) * 1.0001


def kl_slope(kind, average, now):
    """Of KL(average || now), with respect to what the trust region bounds: probabilities, or Gaussian parameters."""
    if kind == "discrete":
        return -softmax(average) / (softmax(now) + EPSILON)
    (mean_0, logstd_0), (mean, logstd) = np.split(average, 2), np.split(now, 2)
    variance, variance_0 = np.exp(2 * logstd), np.exp(2 * logstd_0)
    return np.concatenate([(mean - mean_0) / variance, 1 - (variance_0 + (mean - mean_0) ** 2) / variance])


@every_policy
def test_each_steps_ascent_is_bounded_by_itself(kind, network):
    policy, terms_of = make(kind, network)
    batch, averaged, k = batch_of(policy), averaged_of(kind, network, policy), COEFFICIENTS
    _, slope, _ = BY_HAND[terms_of](policy, batch, k)
    now, average = (outputs_of(one, batch).flat for one in (policy, averaged.policy))
    shortened, allowed = 0, np.zeros(slope.shape)
    for i, t in np.argwhere(batch["truncated"] == 0):
        ascent, direction = -9.0 * slope[i, t], kl_slope(kind, average[i, t], now[i, t])
        excess = max(0.0, ascent @ direction - k.delta) / (direction @ direction)
        allowed[i, t] = ascent - excess * direction
        shortened += excess > 0
    assert 0 < shortened < 9
    with tf.GradientTape() as tape:
        terms = terms_of(policy, tensors(batch), k)
        bounded = tf.constant(allowed.reshape(terms.phi.shape), tf.float32)
        surrogate = terms.critic - tf.reduce_sum(bounded * terms.phi) / 9.0
    variables = [variable.value for variable in policy.trainable_variables]
    expected = tape.gradient(surrogate, variables, unconnected_gradients="zero")
    whole, statistics = gradients(terms_of, policy, averaged.forward, tensors(batch), k)
    for one, other in zip(whole, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=5e-3, atol=2e-4)
    assert float(statistics["avg_norm_grads_f"]) == pytest.approx(np.linalg.norm(allowed, axis=-1).sum() / 9, rel=1e-3)
    assert float(statistics["avg_norm_g"]) == pytest.approx(np.linalg.norm(9 * slope, axis=-1).sum() / 9, rel=1e-3)


@every_policy
def test_one_backward_pass_gives_what_two_give(kind, network):
    """With a trust region so narrow that it shortens."""
    policy, terms_of = make(kind, network)
    batch, averaged = tensors(batch_of(policy)), averaged_of(kind, network, policy)
    narrow = COEFFICIENTS._replace(delta=0.0)
    two, of_two = gradients(terms_of, policy, averaged.forward, batch, narrow)
    one, of_one = gradients(terms_of, policy, averaged.forward, batch, narrow, apart=False)
    for a, b in zip(one, two, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
    assert list(of_one) == [*LOSS_NAMES, "norm_grads"]
    assert_statistics(of_one, {name: of_two[name] for name in of_one}, rtol=1e-5, atol=1e-6)


def longer(batch, more):
    """The batch with steps added as the replay pads."""
    return stack([padded(part_of(batch, i), batch["rewards"].shape[1] + more) for i in range(len(batch["rewards"]))])


@pytest.mark.parametrize(
    ("kind", "network"),
    [*CASES, ("started", "mlp")],
)
def test_padding_changes_neither_losses_nor_gradients(kind, network):
    policy, terms_of = make(kind, network)
    averaged, batch = averaged_of(kind, network, policy), batch_of(policy)
    plain, of_plain = gradients(terms_of, policy, averaged.forward, tensors(batch), COEFFICIENTS)
    more, of_more = gradients(terms_of, policy, averaged.forward, tensors(longer(batch, 3)), COEFFICIENTS)
    assert_statistics(of_more, of_plain, rtol=1e-4, atol=1e-6)
    assert_gradients(more, plain)


@every_policy
def test_every_step_of_a_padded_batch_counts_the_same(kind, network):
    """Sequences of unlike lengths, padded to one, against each by itself."""
    policy, terms_of = make(kind, network)
    lengths, sequences = (5, 2), [part_of(batch_of(policy), i) for i in range(2)]
    sequences = [between(sequence, 0, length) for sequence, length in zip(sequences, lengths, strict=True)]
    together = terms_of(policy, tensors(stack([padded(sequence, 8) for sequence in sequences])), COEFFICIENTS)
    alone = [terms_of(policy, tensors(stack([sequence])), COEFFICIENTS) for sequence in sequences]
    counts = [float(terms.total) for terms in alone]
    assert float(together.total) == sum(counts) == 7.0
    for name in ("objective", "critic"):
        expected = sum(n * float(getattr(terms, name)) for n, terms in zip(counts, alone, strict=True)) / sum(counts)
        assert float(getattr(together, name)) == pytest.approx(expected, rel=1e-4), name


@pytest.mark.parametrize("kind", ["discrete", "continuous"])
def test_a_batch_without_one_step_that_counts_has_no_gradient(kind):
    policy, terms_of = make(kind)
    batch = batch_of(policy)
    batch |= {"truncated": np.ones_like(batch["truncated"]), "terminated": np.zeros_like(batch["terminated"])}
    for k in (COEFFICIENTS, FREE):
        whole, _ = gradients(terms_of, policy, averaged_of(kind, "mlp", policy).forward, tensors(batch), k)
        for gradient in whole:
            np.testing.assert_array_equal(gradient, tf.zeros_like(gradient))


@pytest.mark.parametrize("kind", ["discrete", "continuous"])
def test_of_the_states_only_the_first_counts(kind):
    policy, terms_of = make(kind, "lstm")
    batch = batch_of(policy)
    whole = terms_of(policy, tensors(batch), COEFFICIENTS).statistics
    first = terms_of(policy, tensors(batch | {"states": batch["states"][:, :1]}), COEFFICIENTS).statistics
    other = terms_of(policy, tensors(batch | {"states": batch["states"][:, 1:]}), COEFFICIENTS).statistics
    assert_statistics(whole, first, rtol=0, atol=0)
    assert max(abs(float(whole[name] - other[name])) for name in whole) > 1e-3


@every_policy
def test_the_divergence_is_the_mean_over_the_steps_that_count(kind, network):
    policy, _ = make(kind, network)
    batch, averaged = batch_of(policy), averaged_of(kind, network, policy)
    now, average = (outputs_of(one, batch).flat for one in (policy, averaged.policy))
    total = 0.0
    for i, t in np.argwhere(batch["truncated"] == 0):
        if kind == "discrete":
            p, q = softmax(average[i, t]), softmax(now[i, t])
            total += np.sum(p * np.log(p / q))
        else:
            (mean_0, logstd_0), (mean, logstd) = np.split(average[i, t], 2), np.split(now[i, t], 2)
            spread = np.exp(2 * logstd_0) + (mean_0 - mean) ** 2
            total += np.sum(logstd - logstd_0 + 0.5 * spread / np.exp(2 * logstd) - 0.5)
    assert total > 0.1
    for one in (batch, longer(batch, 3)):
        assert float(divergence(policy, averaged.forward, tensors(one))) == pytest.approx(total / 9, rel=1e-3)
    averaged.reset()
    assert float(divergence(policy, averaged.forward, tensors(batch))) == pytest.approx(0.0, abs=1e-6)
