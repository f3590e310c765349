"""ACER: what it learns from and when, its coefficients, its logs."""

import numpy as np
import pytest
import tensorflow as tf
from acer_small import (
    BOUNDED,
    NSTEPS,
    ORIGINAL_COLUMNS,
    box,
    constant,
    counting,
    identity,
    learn,
    recorded_updates,
    rows,
    table,
    train,
    turns,
    weights,
)
from helpers import vec

from tfbaselines.algs import acer
from tfbaselines.algs.acer.replay import TrajectoryRunner
from tfbaselines.envs import tiny


@pytest.fixture
def seen(monkeypatch):
    return recorded_updates(monkeypatch)


# What is learnt from, and when.


def test_without_replay_each_step_is_learnt_from_once(seen):
    learn(counting(2), 5, replay_ratio=0)
    assert len(seen) == 5
    for update, (_, batch) in enumerate(seen):
        steps = np.arange(update * NSTEPS, (update + 1) * NSTEPS + 1)
        np.testing.assert_array_equal(batch["obs"][..., 0], [steps, steps])
        np.testing.assert_array_equal(batch["rewards"], [steps[:-1]] * 2)
        np.testing.assert_array_equal(batch["terminated"], [steps[1:] % 5 == 0] * 2)
        assert not batch["truncated"].any()


def test_a_time_limit_cuts_and_does_not_end(seen):
    learn(counting(timeout=True), 1)
    assert not seen[0][1]["terminated"].any()
    np.testing.assert_array_equal(seen[0][1]["truncated"][0], [0, 0, 0, 0, 1, 0, 0, 0])


@pytest.mark.parametrize("ratio", [1, 4])
def test_replayed_batches_are_as_many_as_asked_for_on_average(seen, ratio):
    learn(counting(), 400, nsteps=2, replay_ratio=ratio)
    counts = [len(turn) - 1 for turn in turns(seen)]
    assert len(counts) == 400
    # replay_start=16 steps are there after eight turns.
    assert counts[:7] == [0] * 7
    # Poisson: the variance is the mean, which is off by more than this once in ten thousand runs.
    assert np.mean(counts[7:]) == pytest.approx(ratio, abs=4 * (ratio / 393) ** 0.5)
    assert np.var(counts[7:]) == pytest.approx(ratio, rel=0.4)


def test_the_replay_keeps_the_latest_rollouts_of_each_environment(seen):
    learn(counting(2), 60, nsteps=4, buffer_size=12, replay_start=0)
    ages, apart = set(), 0
    for turn, (_, *replayed) in enumerate(turns(seen)):
        for batch in replayed:
            first = batch["obs"][:, 0, 0]
            np.testing.assert_array_equal(batch["obs"][..., 0], first[:, None] + np.arange(5))
            np.testing.assert_array_equal(batch["rewards"], batch["obs"][:, :-1, 0])
            ages |= {turn - step / 4 for step in first}
            apart += first[0] != first[1]
    assert ages == {0, 1, 2}
    # Each environment's is drawn for itself.
    assert apart > 20


@pytest.mark.parametrize("mode", [{}, {"buffer_len": 9, "trace_length": 4}], ids=["rollouts", "traces"])
@pytest.mark.parametrize("start", [16, 40])
def test_the_replay_is_used_from_its_start_on(seen, start, mode):
    learn(counting(2), 20, replay_start=start, replay_ratio=20, **mode)
    used = [len(turn) > 1 for turn in turns(seen)]
    assert used == [turn * NSTEPS >= start for turn in range(1, 21)]


@pytest.mark.parametrize("clip", [None, 0, 10.5])
def test_rewards_are_clipped_before_learning(seen, clip, tmp_path):
    train(tmp_path, counting(), 6, reward_clip=clip)
    assert any(len(turn) > 1 for turn in turns(seen))
    for _, batch in seen:
        steps = batch["obs"][:, :-1, 0]
        np.testing.assert_array_equal(batch["rewards"], steps if clip is None else np.minimum(steps, clip))
    # The logs tell the environment's own: the mean of 0 + ... + 4 = 10, 35, 60 and so on.
    assert rows(tmp_path)["mean_episode_reward"].iloc[-1] == np.mean(range(10, 235, 25))


def test_negative_rewards_are_clipped_too(seen):
    learn(counting(first=-100), 1, reward_clip=3)
    np.testing.assert_array_equal(seen[0][1]["rewards"], np.full((1, NSTEPS), -3))


@pytest.mark.parametrize(
    ("kwargs", "expected"),
    [
        ({"lr": 0.1}, [0.1, 0.075, 0.05, 0.025]),
        ({"lr": 0.1, "lrschedule": "constant"}, [0.1] * 4),
        ({"lr": "0.1", "lrschedule": "double_linear_con"}, [0.1, 0.05, 0.0125, 0.0125]),
    ],
)
def test_the_rate_follows_its_schedule(seen, kwargs, expected):
    """In new and in replayed batches."""
    learn(counting(), 4, replay_start=0, replay_ratio=20, **kwargs)
    rates = [rate for rate, _ in seen]
    for turn, rate in zip(turns(seen), expected, strict=True):
        own = [rates.pop(0) for _ in turn]
        assert len(own) > 1
        np.testing.assert_allclose(own, rate)


def test_rows_of_the_logs_are_an_interval_apart_and_the_last_update_has_one(seen, tmp_path):
    train(tmp_path, counting(), 10, log_interval=4)
    assert rows(tmp_path)["total_timesteps"].tolist() == [1 * NSTEPS, 4 * NSTEPS, 8 * NSTEPS, 10 * NSTEPS]


# Replay of whole episodes.


@pytest.mark.parametrize("timeout", [False, True])
@pytest.mark.parametrize("length", [2, 3, 5])
def test_traces_are_cut_from_one_episode(seen, length, timeout):
    """Episodes of 11 steps lie in two or three rollouts of 8."""
    learn(counting(2, length=11, timeout=timeout), 60, buffer_len=6, batch_size=3, trace_length=length, replay_start=0)
    starts, ages = set(), set()
    for turn, (_, *replayed) in enumerate(turns(seen)):
        for batch in replayed:
            steps = batch["obs"][..., 0]
            assert steps.shape == (3, length + 1)
            np.testing.assert_array_equal(steps, steps[:, :1] + np.arange(length + 1))
            np.testing.assert_array_equal(batch["rewards"], steps[:, :-1])
            at = steps[:, :-1] % 11
            assert (np.diff(at) == 1).all()
            np.testing.assert_array_equal(batch["truncated" if timeout else "terminated"], at == 10)
            assert not batch["terminated" if timeout else "truncated"].any()
            starts |= set(at[:, 0])
            done = (turn + 1) * NSTEPS // 11
            ages |= set(done - 1 - steps[:, 0] // 11)
    assert starts == set(range(12 - length))
    # Of the latest six episodes three are each environment's.
    assert ages == {0, 1, 2}


def test_whole_episodes_are_padded_to_few_lengths(seen):
    learn(counting(length=11), 60, buffer_len=5, batch_size=2, replay_start=0)
    replayed = [batch for turn in turns(seen) for batch in turn[1:]]
    assert replayed
    for batch in replayed:
        assert batch["rewards"].shape == (2, 16)
        first = batch["obs"][:, 0, 0]
        assert (first % 11 == 0).all()
        np.testing.assert_array_equal(batch["obs"][:, :12, 0], first[:, None] + np.arange(12))
        np.testing.assert_array_equal(batch["truncated"], [[0] * 11 + [1] * 5] * 2)
        assert (batch["obs"][:, 12:, 0] == batch["obs"][:, 11:12, 0]).all()


def test_traces_wait_for_the_first_episode(seen):
    learn(counting(length=30), 8, buffer_len=5, replay_start=0, replay_ratio=20)
    assert [len(turn) > 1 for turn in turns(seen)] == [False] * 3 + [True] * 5


# Coefficients.


def two_updates(**kwargs):
    return learn(identity(), 2, nsteps=4, replay_ratio=0, **kwargs)


@pytest.fixture(scope="module")
def default():
    """Two updates with the defaults."""
    tf.config.run_functions_eagerly(True)
    model = two_updates()
    tf.config.run_functions_eagerly(False)
    return model


def test_the_other_spellings_mean_the_same(default, eager):
    for same in ({"trust_region": "efficient"}, {"value_network": "shared"}, {"c": 10}, {"max_grad_norm": None}):
        assert weights(two_updates(**same).policy).tolist() == weights(default.policy).tolist()


@pytest.mark.parametrize("trust_region", [True, "exact"])
def test_the_average_keeps_alpha_of_itself(trust_region, eager):
    start = weights(learn(identity(), 0).policy)
    for alpha in (0.0, 0.9, 1.0):
        model = learn(identity(), 1, alpha=alpha, lr=0.1, trust_region=trust_region)
        expected = alpha * start + (1 - alpha) * weights(model.policy)
        np.testing.assert_allclose(weights(model.averaged.policy), expected, rtol=1e-5, atol=1e-7)


def test_without_a_rate_nothing_moves(eager):
    assert weights(learn(identity(), 2, lr=0).policy).tolist() == weights(learn(identity(), 0).policy).tolist()


def test_the_exact_trust_region_bounds_the_divergence(tmp_path, eager):
    for name, delta in (("tight", 1e-3), ("wide", 1e9)):
        train(tmp_path / name, constant(), 8, trust_region="exact", delta=delta, lr=0.1, replay_ratio=0.5)
    tight, wide = rows(tmp_path / "tight"), rows(tmp_path / "wide")
    assert not set(BOUNDED) & set(tight)
    assert (wide["step_taken"] == 1).all() and wide["kl"].max() > 1e-2
    assert tight["kl"].max() <= 1e-3
    # It is a bound that is used, not a standstill.
    assert tight["kl"].max() > 1e-4
    parts = set(tight["step_taken"])
    assert 0 < min(parts) < 1 and parts <= {0.5**halvings for halvings in range(10)}


def test_the_exact_trust_region_bounds_gaussians_too(tmp_path, eager):
    env = vec(lambda: tiny.BoxIdentityEnv((1,), episode_len=NSTEPS))
    train(tmp_path, env, 3, trust_region="exact", delta=1e-4, lr=0.1, replay_ratio=0)
    log = rows(tmp_path)
    assert log["kl"].iloc[0] <= 1e-4
    assert log["step_taken"].iloc[0] < 1


# Logs.


@pytest.mark.parametrize("make_env", [identity, box])
def test_the_log_has_the_originals_columns(make_env, eager, tmp_path):
    train(tmp_path, make_env(), 1)
    header = (tmp_path / "progress.csv").read_text().splitlines()[0]
    assert header == ",".join(sorted([*ORIGINAL_COLUMNS.split(","), "explained_variance_v"]))


def test_the_log_tells_of_learning_from_what_was_collected(seen, tmp_path):
    """As the original's does, replay or not."""
    train(tmp_path, identity(), 8, replay_start=0)
    assert len(seen) > 16
    assert not rows(tmp_path)[["loss", "norm_grads", "avg_norm_g"]].any(axis=None)


def test_images_are_learnt_from_in_the_same_way_whether_replayed_or_not():
    """One backward pass or two."""
    env = vec(lambda: tiny.ImageClassificationEnv(episode_len=10, n_classes=3), 2)
    batch, learnt = None, []
    for replayed in (False, True):
        tf.keras.utils.set_random_seed(0)
        model = acer.Model("cnn_small", env, acer.Config())
        batch = batch or TrajectoryRunner(env, model.policy, model.actor, NSTEPS, np.random.default_rng(0)).run()
        statistics = [model.train(1e-3, batch, replayed=replayed) for _ in range(2)]
        assert set(BOUNDED) & set(statistics[0]) == (set() if replayed else set(BOUNDED))
        learnt.append((weights(model.policy), weights(model.averaged.policy), statistics[1]["loss"]))
    for one, other in zip(*learnt, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-6)


def test_what_the_trust_region_measures_is_logged_when_it_is_on(eager, tmp_path):
    train(tmp_path, identity(), 1, trust_region=False)
    assert set(ORIGINAL_COLUMNS.split(",")) - set(table(tmp_path)) == set(BOUNDED)


def test_one_seed_gives_one_curve_of_traces_too(tmp_path, eager):
    own = {"nsteps": 4, "replay_start": 0, "replay_ratio": 1, "buffer_len": 3, "trace_length": 4}
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        train(tmp_path / name, identity(), 4, seed=seed, **own)
    assert len(rows(tmp_path / "a")) == 4
    assert rows(tmp_path / "a").equals(rows(tmp_path / "b"))
    assert not rows(tmp_path / "a").equals(rows(tmp_path / "c"))
