"""Critics of sac beyond the paper: truncated quantiles (TQC), batch renormalization (CrossQ), dropout (DroQ)."""

from functools import partial

import keras
import numpy as np
import pytest
import tensorflow as tf
from actor_critics import BOUNDED, BOX, batch, make
from joint_pass import joint_quantiles, joint_values, renormalized
from small_environments import box, identity
from small_runs import learn, rows, train

from tfbaselines.algs.sac import Config
from tfbaselines.algs.sac.crossq import JointLosses, JointQuantileLosses
from tfbaselines.algs.sac.dropout import SEED, DroppedCritic, DroppedLosses, dropped
from tfbaselines.algs.sac.loss import Losses, Temperature
from tfbaselines.algs.sac.tqc import QuantileLosses, truncated
from tfbaselines.config.options import RunOptions
from tfbaselines.errors import UsageError
from tfbaselines.learn import crossq
from tfbaselines.learn.crossq import BatchRenormalization, NormalizedCritic, StatisticsRule

ROWS, QUANTILES = 6, 5
SWITCHES = {
    "tqc": {"critic": "tqc", "critics": 3, "num_quantiles": 6},
    "crossq": {"critic": "crossq", "policy_delay": 2},
    "tqc_crossq": {"critic": "tqc_crossq", "num_quantiles": 6},
    "droq": {"critic_dropout": 0.2, "critic_layer_norm": True, "num_update": 4},
}


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def transitions(rng):
    obs, following = (tf.constant(batch(BOX, ROWS, seed)) for seed in (1, 2))
    numbers = {name: tf.constant(rng.normal(size=ROWS), tf.float32) for name in ("rewards", "discount")}
    noise = {name: tf.constant(rng.normal(size=(ROWS, 2)), tf.float32) for name in ("noise", "noise_next")}
    return {"obs": obs, "next_obs": following, "actions": tf.constant(batch(BOUNDED, ROWS, 3))} | numbers | noise


def quantile_loss_by_a_loop(quantiles, samples):
    losses = []
    for row, targets in zip(quantiles, samples, strict=True):
        for m, quantile in enumerate(row):
            for target in targets:
                gap = target - quantile
                huber = 0.5 * gap**2 if abs(gap) < 1 else abs(gap) - 0.5
                losses.append(abs((m + 0.5) / len(row) - (gap < 0)) * huber)
    return np.mean(losses)


def test_truncated_quantiles_against_a_loop(rng):
    policy, target = (make(critics=3, kind={"quantiles": QUANTILES}, shaken=seed) for seed in (True, False))
    losses = QuantileLosses(policy, target, Temperature(0.3), dropped=2)
    prepared = losses.prepare(transitions(rng))
    actions, logp = policy.head.sample(policy.act(prepared["next"]), prepared["noise_next"])
    every = np.concatenate([q.numpy() for q in target.quantiles(prepared["next"], actions)], axis=1)
    expected = []
    for row in range(ROWS):
        kept = np.sort(every[row])[: 3 * QUANTILES - 3 * 2]
        soft = kept - 0.3 * float(logp[row])
        expected.append(float(prepared["rewards"][row]) + float(prepared["discount"][row]) * soft)
    np.testing.assert_allclose(prepared["targets"], expected, rtol=1e-4, atol=1e-5)
    now = [q.numpy() for q in policy.quantiles(prepared["now"], prepared["actions"])]
    each = [quantile_loss_by_a_loop(q, expected) for q in now]
    loss, statistics = losses.critic_loss(prepared)
    np.testing.assert_allclose([loss, statistics["LossQ3"]], [np.mean(each), each[2]], rtol=1e-4)
    np.testing.assert_allclose(statistics["Q2Vals"], np.mean(now[1]), rtol=1e-4)
    actions, logp = policy.head.sample(policy.act(prepared["now"]), prepared["noise"])
    values = np.mean([q.numpy().mean(axis=1) for q in policy.quantiles(prepared["now"], actions)], axis=0)
    np.testing.assert_allclose(losses.actor_loss(prepared)[0], np.mean(0.3 * logp.numpy() - values), rtol=1e-4)


def test_the_largest_quantiles_of_all_critics_are_dropped():
    critics = [tf.constant([[1.0, 9.0], [2.0, 3.0]]), tf.constant([[8.0, 7.0], [0.0, 1.0]])]
    np.testing.assert_array_equal(truncated(critics, 1), [[1.0, 7.0], [0.0, 1.0]])
    np.testing.assert_array_equal(truncated(critics, 0), [[1.0, 7.0, 8.0, 9.0], [0.0, 1.0, 2.0, 3.0]])


def test_batch_renormalization_against_a_loop(rng):
    norm = BatchRenormalization()
    norm.build((None, 3))
    mean, variance = np.float32([0.1, -40.0, 2.0]), np.float32([1.5, 0.01, 4.0])
    norm.set_weights([np.float32([1, 2, 3]), np.float32([0, 0, 1]), mean, variance])
    x = rng.normal(1.0, 2.0, (8, 3)).astype(np.float32)
    rule = StatisticsRule()
    rule.build(norm.trainable_variables)
    for warm in (0.0, 1.0):
        with tf.GradientTape() as tape:
            scale, shift, penalty = norm.by_batch(tf.constant(x), tf.constant(warm))
        found = x * scale + shift
        expected = renormalized(x, mean, variance, warm)
        np.testing.assert_allclose(found, expected * [1, 2, 3] + [0, 0, 1], rtol=1e-4, atol=1e-4)
    gradients = tape.gradient(penalty, [one.value for one in norm.trainable_variables], unconnected_gradients="zero")
    rule.apply(gradients, tf.constant(0.0))
    np.testing.assert_allclose(norm.mean.numpy(), 0.99 * mean + 0.01 * x.mean(0), rtol=1e-5)
    np.testing.assert_allclose(norm.variance.numpy(), 0.99 * variance + 0.01 * x.var(0), rtol=1e-5)
    expected = (x - norm.mean.numpy()) / np.sqrt(norm.variance.numpy() + 1e-3) * [1, 2, 3] + [0, 0, 1]
    np.testing.assert_allclose(norm(x), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("warm", [False, True])
def test_the_joint_pass_against_a_loop(warm, rng, monkeypatch):
    policy = make(kind={"make_critic": NormalizedCritic}, activation="tanh")
    losses = JointLosses(policy, policy, Temperature(0.3))
    losses.critic_rule.build(policy.critic_variables)
    monkeypatch.setattr(crossq, "WARM_UP", 0 if warm else 10**9)
    for critic in policy.critics:
        for norm in critic._norms:
            norm.variance.assign(tf.abs(norm.variance.value))
    prepared = losses.prepare(transitions(rng))
    actions, logp = policy.head.sample(policy.act(prepared["next"]), prepared["noise_next"])
    values = joint_values(policy, prepared, actions, warm)
    following = np.min([value[ROWS:] for value in values], axis=0) - 0.3 * logp.numpy()
    goal = prepared["rewards"].numpy() + prepared["discount"].numpy() * following
    expected = [0.5 * np.mean((value[:ROWS] - goal) ** 2) for value in values]
    _, statistics = losses.critic_loss(prepared)
    np.testing.assert_allclose([statistics["LossQ1"], statistics["LossQ2"]], expected, rtol=1e-3)


def test_the_joint_pass_of_quantiles_against_a_loop(rng):
    policy = make(kind={"make_critic": NormalizedCritic, "quantiles": QUANTILES}, activation="tanh")
    losses = JointQuantileLosses(policy, policy, Temperature(0.3), dropped=1)
    losses.critic_rule.build(policy.critic_variables)
    prepared = losses.prepare(transitions(rng))
    actions, logp = policy.head.sample(policy.act(prepared["next"]), prepared["noise_next"])
    values = joint_quantiles(policy, prepared, actions, warm=False)
    kept = np.sort(np.concatenate([value[ROWS:] for value in values], axis=1))[:, : 2 * QUANTILES - 2]
    rewards, discount = (prepared[name].numpy()[:, None] for name in ("rewards", "discount"))
    goal = rewards + discount * (kept - 0.3 * logp.numpy()[:, None])
    expected = [quantile_loss_by_a_loop(value[:ROWS], goal) for value in values]
    _, statistics = losses.critic_loss(prepared)
    np.testing.assert_allclose([statistics["LossQ1"], statistics["LossQ2"]], expected, rtol=1e-3)


def test_masks_of_dropout():
    keras.utils.set_random_seed(0)
    policy = make(kind={"make_critic": partial(DroppedCritic, rate=0.25)}, critic_layer_norm=True)
    losses = DroppedLosses(Losses(policy, policy, Temperature(0.3)))
    given = transitions(np.random.default_rng(0))
    seeds = losses.noise(np.random.default_rng(0), (2, ROWS))[SEED]
    found = {}
    for name, seed in {"one": seeds[0], "again": seeds[0], "other": seeds[1]}.items():
        prepared = losses.prepare(given | {SEED: tf.constant(seed)})
        found[name] = [
            np.mean(prepared["targets"]),
            *(float(f(prepared)[0]) for f in (losses.critic_loss, losses.actor_loss)),
        ]
    assert found["one"] == found["again"]
    assert all(a != b for a, b in zip(found["one"], found["other"], strict=True))
    zeros = []
    for seed in ([0, 0], [0, 1], [1, 0]):
        rows = dropped(tf.ones((200, 100)), 0.25, tf.constant(seed, tf.int32)).numpy()
        assert set(rows.ravel()) == {np.float32(0.0), np.float32(1.0 / 0.75)}
        zeros.append(rows.ravel() == 0)
    # Shares along both axes, and no correlation between masks.
    assert np.abs(np.mean(zeros, axis=1) - 0.25).max() < 0.02
    columns = np.reshape(zeros[0], (200, 100))
    assert np.abs(columns.mean(0) - 0.25).max() < 0.15 and np.abs(columns.mean(1) - 0.25).max() < 0.2
    assert np.abs(np.corrcoef(zeros) - np.eye(3)).max() < 0.05
    # Without a context, as for acting, nothing is dropped.
    plain = make(critic_layer_norm=True)
    for variable, value in zip(plain.trainable_variables, policy.trainable_variables, strict=True):
        variable.assign(value)
    view = policy.view(given["obs"])
    np.testing.assert_array_equal(policy.q(view, given["actions"])[0], plain.q(view, given["actions"])[0])


@pytest.mark.parametrize("switch", SWITCHES)
def test_a_resumed_run_goes_on_as_if_nothing_had_happened(switch, eager, tmp_path):
    own = SWITCHES[switch] | {"alpha": "auto"}
    whole = train(tmp_path / "whole", "sac", box(2), 4, **own)
    train(tmp_path / "half", "sac", box(2), 2, **own)
    resumed = train(tmp_path / "half", "sac", box(2), 4, run=RunOptions(resume=str(tmp_path / "half")), **own)
    np.testing.assert_equal(resumed.state(), whole.state())
    assert rows(tmp_path / "half").equals(rows(tmp_path / "whole"))
    assert rows(tmp_path / "whole").iloc[-1][["LossQ1", "LossPi", "LossAlpha", "AverageQ2Vals"]].notna().all()


def test_mistakes():
    for given, message in (
        ({"num_quantiles": 7}, "num_quantiles=7 is not valid: needs critic='tqc' or 'tqc_crossq'"),
        ({"critic": "tqc", "num_quantiles": 4, "drop_quantiles": 4}, "drop_quantiles=4 is not valid: below"),
        ({"critic": "crossq", "memory_size": 4}, "critic='crossq' is not valid: 'plain' or 'tqc' with memory_size"),
        ({"critic": "crossq", "critic_dropout": 0.1}, "critic_dropout=0.1 is not valid: needs critic='plain' or 'tqc'"),
        ({"critic": "tqc", "offline": "x.npz"}, "critic='tqc' is not valid: needs neither reward_signals nor offline"),
    ):
        with pytest.raises(UsageError) as error:
            Config.of(given)
        assert str(error.value).startswith(message), error
    with pytest.raises(UsageError, match="critic='tqc' is not valid: 'plain' with Discrete"):
        learn("sac", identity(), critic="tqc")
    with pytest.raises(UsageError, match="critic='crossq' is not valid: needs a network of dense layers alone"):
        learn("sac", box(), critic="crossq", network="mlp", layer_norm=True, num_hidden=8)
