"""ACER: what it learns from and when, every argument's effect, its logs, resuming, workers, ranks, the command line."""

import json
import signal
import threading
import time

import gymnasium
import numpy as np
import pytest
import tensorflow as tf
from commands import finish, run, start
from gymnasium import spaces
from helpers import vec

from tfbaselines.algs import acer, ppo2
from tfbaselines.envs import tiny
from tfbaselines.envs.normalize import VecNormalize
from tfbaselines.evaluate import evaluate
from tfbaselines.parallel.mpi import Communicator
from tfbaselines.run import main
from tfbaselines.running import logger
from tfbaselines.running.checkpoint import Checkpoints, load_tree
from tfbaselines.running.logger import read_csv
from tfbaselines.running.options import RunOptions

NSTEPS = 8
SMALL = {"nsteps": NSTEPS, "buffer_size": 64, "replay_start": 16, "replay_ratio": 2, "log_interval": 1, "seed": 0}
MLP = {"num_layers": 1, "num_hidden": 8}
# The same on the command line.
FLAGS = ["--alg=acer", "--env=CartPole-v1", "--num_layers=1", "--num_hidden=8"]
FLAGS += [f"--{name}={value}" for name, value in SMALL.items()]
TINY_ENV = "--env=tfbaselines.envs.tiny:tfbaselines/"
TWO_RANKS = ("mpirun", "-np", "2")

ORIGINAL_COLUMNS = (
    "avg_norm_adj,avg_norm_g,avg_norm_grads_f,avg_norm_k,avg_norm_k_dot_g,entropy,explained_variance,fps,loss,loss_bc,"
    "loss_f,loss_policy,loss_q,mean_episode_length,mean_episode_reward,norm_grads,norm_grads_policy,norm_grads_q,"
    "total_timesteps"
)
BOUNDED = ["avg_norm_adj", "avg_norm_g", "avg_norm_grads_f", "avg_norm_k", "avg_norm_k_dot_g"]
BOUNDED += ["norm_grads_policy", "norm_grads_q"]


class Counting(gymnasium.Env):
    """Shows how many steps were taken since it was made, and pays as much; episodes of a fixed length.

    Args:
        length: steps in an episode.
        first: where counting begins.
        timeout: a time limit ends the episodes.
    """

    observation_space, action_space = spaces.Box(-np.inf, np.inf, (1,), np.float32), spaces.Discrete(2)

    def __init__(self, length=5, first=0, timeout=False):
        self.length, self.first, self.count, self.timeout = length, first, first, timeout

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self._shown(), {}

    def step(self, action):
        self.count += 1
        over = (self.count - self.first) % self.length == 0
        return self._shown(), float(self.count - 1), over and not self.timeout, over and self.timeout, {}

    def _shown(self):
        return np.array([self.count], np.float32)


def identity(count=1, seed=0):
    return vec(lambda: tiny.DiscreteIdentityEnv(4, episode_len=10), count, seed)


def box(count=1):
    return vec(lambda: tiny.BoxIdentityEnv((2,), episode_len=10), count)


def counting(count=1, **kwargs):
    return vec(lambda: Counting(**kwargs), count)


def learn(env, updates=4, network="mlp", **kwargs):
    """A small run of so many updates."""
    own = MLP if network == "mlp" else {}
    steps = {**SMALL, **kwargs}["nsteps"]
    count = (env[0] if isinstance(env, list) else env).num_envs
    return acer.learn(network, env, total_timesteps=updates * steps * count, **{**SMALL, **own, **kwargs})


def train(directory, env, *args, **kwargs):
    """The same with its files in a directory."""
    resume = bool(kwargs.get("run") and kwargs["run"].resume)
    logger.configure(str(directory), ["csv", "log"], resume=resume)
    return learn(env, *args, **kwargs)


def table(directory):
    return read_csv(directory / "progress.csv")


def rows(directory):
    return table(directory).drop(columns="fps")


def weights(policy):
    return np.concatenate([variable.numpy().ravel() for variable in policy.trainable_variables])


def stop_after(updates):
    return RunOptions(callback=lambda training: training.update < updates)


def wait_for(condition, seconds=120):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


@pytest.fixture
def eager():
    """Operations one by one: where there are few updates, compiling would take most of the time."""
    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


@pytest.fixture
def seen(monkeypatch):
    """The rate and the batch of every update, in place of learning."""
    seen = []

    class Recording(acer.Model):
        def train(self, lr, batch, rng=None):
            seen.append((lr, batch))
            return dict.fromkeys(self.statistic_names, 0.0)

    monkeypatch.setattr(acer, "Model", Recording)
    return seen


def turns(seen):
    """[[new batch, replayed batch, ...], ...]: a batch is new when it begins where the last new one ended."""
    turns, next_step = [], 0
    for _, batch in seen:
        if batch["obs"][0, 0, 0] == next_step:
            next_step += batch["rewards"].shape[1]
            turns.append([])
        turns[-1].append(batch)
    return turns


# Every kind of actions and networks, compiled as users run it.


@pytest.mark.parametrize(
    ("network", "maker", "kwargs"),
    [
        ("mlp", lambda: tiny.DiscreteIdentityEnv(4, episode_len=10), {}),
        ("cnn_small", lambda: tiny.ImageClassificationEnv(episode_len=10, n_classes=3), {}),
        pytest.param(
            "mlp", lambda: tiny.BoxIdentityEnv((2,), episode_len=10), {"value_network": "copy"}, marks=pytest.mark.slow
        ),
        pytest.param("lstm", lambda: tiny.CueMemoryEnv(2, 5), {"nlstm": 4}, marks=pytest.mark.slow),
    ],
    ids=["discrete", "images", "continuous", "memory"],
)
def test_every_kind_learns_from_batches_of_one_shape(network, maker, kwargs, tmp_path):
    fresh = learn(vec(maker, 2), 0, network, **kwargs)
    model = train(tmp_path, vec(maker, 2), 6, network, **kwargs)
    log = rows(tmp_path)
    assert log["total_timesteps"].tolist() == [2 * NSTEPS * update for update in range(1, 7)]
    assert np.isfinite(log.drop(columns=["mean_episode_length", "mean_episode_reward"])).all(axis=None)
    assert np.isfinite(log["mean_episode_reward"].iloc[-1])
    # The average has followed the policy a little.
    start, now, average = weights(fresh.policy), weights(model.policy), weights(model.averaged.policy)
    assert 0 < np.linalg.norm(average - start) < 0.3 * np.linalg.norm(now - start)
    # The memory before every step of a rollout is of another shape than what the replay keeps: the first.
    assert model._update.traces() == (2 if network == "lstm" else 1)


# What is learnt from, and when.


def test_without_replay_each_step_is_learnt_from_once(seen):
    learn(counting(2), 5, replay_ratio=0)
    assert len(seen) == 5
    for update, (_, batch) in enumerate(seen):
        steps = np.arange(update * NSTEPS, (update + 1) * NSTEPS + 1)
        np.testing.assert_array_equal(batch["obs"][..., 0], [steps, steps])
        np.testing.assert_array_equal(batch["rewards"], [steps[:-1]] * 2)
        np.testing.assert_array_equal(batch["ended"], [steps[1:] % 5 == 0] * 2)
        assert not batch["cut"].any()


def test_a_time_limit_cuts_and_does_not_end(seen):
    learn(counting(timeout=True), 1)
    assert not seen[0][1]["ended"].any()
    np.testing.assert_array_equal(seen[0][1]["cut"][0], [0, 0, 0, 0, 1, 0, 0, 0])


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


def test_rows_of_the_logs_are_an_interval_apart(seen, tmp_path):
    train(tmp_path, counting(), 10, log_interval=4)
    assert rows(tmp_path)["total_timesteps"].tolist() == [1 * NSTEPS, 4 * NSTEPS, 8 * NSTEPS]


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
            np.testing.assert_array_equal(batch["cut" if timeout else "ended"], at == 10)
            assert not batch["ended" if timeout else "cut"].any()
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
        np.testing.assert_array_equal(batch["cut"], [[0] * 11 + [1] * 5] * 2)
        assert (batch["obs"][:, 12:, 0] == batch["obs"][:, 11:12, 0]).all()


def test_traces_wait_for_the_first_episode(seen):
    learn(counting(length=30), 8, buffer_len=5, replay_start=0, replay_ratio=20)
    assert [len(turn) > 1 for turn in turns(seen)] == [False] * 3 + [True] * 5


# Coefficients.


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("q_coef", 5.0),
        ("ent_coef", 1.0),
        ("max_grad_norm", 0.1),
        ("rprop_epsilon", 1.0),
        ("rprop_alpha", 0.5),
        ("gamma", 0.5),
        ("c", 0.5),
        ("delta", 0.0),
        ("alpha", 0.0),
        ("trust_region", False),
        ("trust_region", "exact"),
        ("value_network", "copy"),
    ],
)
def test_every_coefficient_makes_a_difference(name, value, default, eager):
    model = two_updates(**{name: value})
    assert weights(model.policy).tolist() != weights(default.policy).tolist()


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


def constant(length=NSTEPS):
    """Always the same is shown, so that the divergence is of one distribution from another."""
    return vec(lambda: tiny.FixedSequenceEnv(4, episode_len=length))


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
def test_the_log_has_the_originals_columns(make_env, seen, tmp_path):
    train(tmp_path, make_env(), 1)
    header = (tmp_path / "progress.csv").read_text().splitlines()[0]
    assert header == ",".join(sorted([*ORIGINAL_COLUMNS.split(","), "explained_variance_v"]))


def test_what_the_trust_region_measures_is_logged_when_it_is_on(seen, tmp_path):
    train(tmp_path, identity(), 1, trust_region=False)
    assert set(ORIGINAL_COLUMNS.split(",")) - set(table(tmp_path)) == set(BOUNDED)


@pytest.mark.parametrize(("make_env", "kwargs"), [(identity, {"buffer_len": 3, "trace_length": 4}), (box, {})])
def test_one_seed_gives_one_curve(make_env, kwargs, tmp_path, eager):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        train(tmp_path / name, make_env(), 4, seed=seed, nsteps=4, replay_start=0, replay_ratio=1, **kwargs)
    assert len(rows(tmp_path / "a")) == 4
    assert rows(tmp_path / "a").equals(rows(tmp_path / "b"))
    assert not rows(tmp_path / "a").equals(rows(tmp_path / "c"))


# Resuming.

MODES = pytest.mark.parametrize(
    "mode", [{}, {"buffer_len": 5, "batch_size": 2, "trace_length": 4}], ids=["rollouts", "traces"]
)


def assert_as_uninterrupted(directory, **kwargs):
    """Eight updates, and eight with a stop after four. Episodes end with the rollouts."""
    kwargs = {"lr": 0.05, "buffer_size": 32} | kwargs
    whole = train(directory / "whole", constant(), 8, **kwargs)
    train(directory / "half", constant(), 8, run=stop_after(4), **kwargs)
    assert len(rows(directory / "half")) == 4
    assert (directory / "half/replay/000").is_file()
    resume = RunOptions(resume=str(directory / "half"))
    resumed = train(directory / "half", constant(), 8, **kwargs | {"run": resume, "seed": 99})
    np.testing.assert_equal(resumed.state(), whole.state())
    assert rows(directory / "half").equals(rows(directory / "whole"))


@MODES
def test_a_resumed_run_equals_an_uninterrupted_one(mode, tmp_path, eager):
    assert_as_uninterrupted(tmp_path, **mode)


@pytest.mark.slow
@MODES
def test_a_resumed_run_with_memory_equals_an_uninterrupted_one(mode, tmp_path, eager):
    assert_as_uninterrupted(tmp_path, network="lstm", nlstm=4, **mode)


def keep(path):
    return None


def remove(path):
    path.unlink()
    return "there is no file"


def damage(path):
    path.write_bytes(path.read_bytes()[:200])
    return "cannot be read"


@pytest.mark.parametrize("lose", [keep, remove, damage])
def test_a_lost_replay_is_said_and_costs_experience_alone(lose, seen, tmp_path):
    train(tmp_path, counting(), 4, replay_start=0)
    words = lose(tmp_path / "replay/000")
    seen.clear()
    run = RunOptions(resume=str(tmp_path))
    train(tmp_path, counting(first=1000), 6, replay_start=0, replay_ratio=30, run=run)
    log = (tmp_path / "log.txt").read_text()
    starts = {batch["obs"][0, 0, 0] for _, batch in seen}
    if words is None:
        assert starts == {0, 8, 16, 24, 1000, 1008}
        assert "starts empty" not in log
    else:
        assert starts == {1000, 1008}
        assert log.count("the replay starts empty") == 1 and words in log
    assert rows(tmp_path)["total_timesteps"].tolist() == [NSTEPS * update for update in range(1, 7)]


def test_observations_are_normalised_by_what_was_seen(tmp_path):
    model = acer.learn("mlp", counting(), **SMALL, total_timesteps=80, normalize_observations=True, **MLP)
    assert model.policy.normalizer.mean == pytest.approx(39.5, rel=0.01)
    assert model.averaged.policy.normalizer is model.policy.normalizer
    model.save(tmp_path / "model")
    other = acer.build_model("mlp", counting(), {"normalize_observations": True, **MLP})
    other.load(tmp_path / "model")
    assert other.policy.normalizer.mean == model.policy.normalizer.mean


TRACES = {"buffer_len": 5, "trace_length": 4}


@pytest.mark.parametrize(
    ("before", "now"), [({}, TRACES), (TRACES, {}), ({}, {"nsteps": 4})], ids=["traces", "rollouts", "shorter"]
)
def test_a_replay_of_another_kind_is_left_and_said(before, now, seen, tmp_path):
    train(tmp_path, counting(), 4, replay_start=0, **before)
    seen.clear()
    run = RunOptions(resume=str(tmp_path))
    train(tmp_path, counting(first=1000), 12, replay_start=0, replay_ratio=30, run=run, **now)
    assert min(batch["obs"].min() for _, batch in seen) == 1000
    assert (tmp_path / "log.txt").read_text().count("the replay starts empty") == 1


def test_without_replay_none_is_saved(seen, tmp_path):
    train(tmp_path, counting(), 2, replay_ratio=0)
    assert not (tmp_path / "replay").exists()
    train(tmp_path, counting(), 4, replay_ratio=0, run=RunOptions(resume=str(tmp_path)))
    assert "starts empty" not in (tmp_path / "log.txt").read_text()


def test_save_and_load_give_the_same_model(tmp_path, eager):
    model = learn(box(), 3, lr=0.1)
    model.save(tmp_path / "model")
    loaded = learn(box(), 0, load_path=tmp_path / "model", seed=5)
    np.testing.assert_equal(loaded.state(), model.state())
    obs = box().reset()
    np.testing.assert_array_equal(loaded.act(obs, deterministic=True)[0], model.act(obs, deterministic=True)[0])
    assert weights(model.averaged.policy).tolist() != weights(model.policy).tolist()


# Workers in threads.


@pytest.fixture(autouse=True)
def _no_thread_is_left():
    def ours():
        return {thread for thread in threading.enumerate() if "_work" in thread.name}

    before = ours()
    yield
    assert ours() == before


@pytest.mark.parametrize(("listed", "lock"), [(True, True), (False, False)])
def test_workers_learn_side_by_side(listed, lock, tmp_path):
    if listed:
        model = train(tmp_path, [identity(2), identity(2, seed=10)], 30, lock=lock)
    else:
        options = RunOptions(make_env=lambda worker: identity(2, seed=10 * worker))
        model = train(tmp_path, identity(2), 30, lock=lock, num_workers=2, run=options)
    log = rows(tmp_path)
    assert log["total_timesteps"].tolist() == [2 * NSTEPS * update for update in range(1, 31)]
    own = [name for name in log if not name.startswith("worker") and name != "total_timesteps"]
    assert {f"worker{number}/{name}" for number in (0, 1) for name in own} == set(log) - {*own, "total_timesteps"}
    assert np.isfinite(log.iloc[-1]).all()
    assert np.isfinite(weights(model.policy)).all()
    # What one of them did last stays in its columns until its next turn, and is the row's own when it has had one.
    for name in ("loss_q", "entropy"):
        latest = log[[f"worker0/{name}", f"worker1/{name}"]].iloc[1:]
        assert latest.eq(log[name].iloc[1:], axis=0).any(axis=1).all()
        assert log[f"worker0/{name}"].iloc[-1] != log[f"worker1/{name}"].iloc[-1]


def test_each_worker_has_a_replay_and_a_random_stream_of_its_own(seen, tmp_path):
    envs = [counting(), counting(first=1000), counting(first=2000)]
    train(tmp_path, envs, 60, save_interval=7)
    starts = [batch["obs"][0, 0, 0] for _, batch in seen]
    for number, env in enumerate(envs):
        own = [start for start in starts if start // 1000 == number]
        # Its new batches, and old ones among them.
        assert set(own) == set(range(number * 1000, env.envs[0].unwrapped.count, NSTEPS))
        assert len(own) > len(set(own))
    tree = load_tree(tmp_path / "replay/000")
    for number in range(3):
        kept = tree[str(number)]["arrays"]["rewards"]
        assert set(kept // 1000) == {number} and len(kept) % NSTEPS == 0
    first = [next(batch for _, batch in seen if batch["obs"][0, 0, 0] == 1000 * number) for number in range(3)]
    assert len({tuple(batch["actions"][0]) for batch in first}) == 3


@pytest.mark.parametrize(("lock", "most"), [(True, 1), (False, 2)])
def test_the_lock_lets_one_worker_learn_at_a_time(lock, most, monkeypatch):
    inside, largest = [], []

    class Slow(acer.Model):
        def train(self, lr, batch, rng=None):
            inside.append(1)
            time.sleep(0.005)
            largest.append(len(inside))
            inside.pop()
            return dict.fromkeys(self.statistic_names, 0.0)

    monkeypatch.setattr(acer, "Model", Slow)
    learn([counting(), counting()], 20, lock=lock)
    assert max(largest) == most


def test_workers_stand_still_while_a_checkpoint_is_written(tmp_path, monkeypatch):
    """Otherwise parameters and replay would be of different times."""
    moved, saving = [], []
    step, save = Counting.step, Checkpoints.save

    def watched_step(env, action):
        moved.extend(saving)
        time.sleep(0.0005)
        return step(env, action)

    def slow_save(checkpoints, number, tree):
        saving.append(number)
        time.sleep(0.02)
        saving.clear()
        return save(checkpoints, number, tree)

    class Idle(acer.Model):
        def train(self, lr, batch, rng=None):
            return dict.fromkeys(self.statistic_names, 0.0)

    monkeypatch.setattr(acer, "Model", Idle)
    monkeypatch.setattr(Counting, "step", watched_step)
    monkeypatch.setattr(Checkpoints, "save", slow_save)
    train(tmp_path, [counting(), counting()], 12, save_interval=2)
    assert moved == []


def test_an_error_in_a_worker_ends_the_run_and_closes_what_it_made(seen):
    made = []

    def make_env(worker):
        made.append(vec(lambda: tiny.CrashingEnv(after=20)))
        return made[-1]

    given = vec(lambda: tiny.ConstantRewardEnv())
    with pytest.raises(RuntimeError, match="the simulator gave up"):
        learn(given, 10**5, num_workers=2, run=RunOptions(make_env=make_env))
    assert [env.closed for env in made] == [True] and not given.closed


# Ranks, as one of two sees them.


class Second(Communicator):
    """The second of two ranks, the first of which says the same of gradients, and 0.5, 3 or 7 of all else."""

    rank, size = 1, 2

    def average(self, flat, weight=1.0):
        return flat if len(flat) > 1 else np.full(1, 7.0, np.float32)

    def broadcast(self, array, root=0):
        return np.full_like(array, 0.5)

    def broadcast_object(self, obj, root=0):
        return 3

    def gather(self, obj):
        return [obj, obj]


def test_the_first_ranks_weights_are_every_ranks_and_its_averages():
    model = learn(identity(), 0, comm=Second())
    assert set(weights(model.policy)) == set(weights(model.averaged.policy)) == {0.5}


def test_the_first_rank_says_how_often_to_replay(seen):
    learn(counting(), 4, comm=Second(), replay_start=0)
    assert [len(turn) for turn in turns(seen)] == [1 + 3] * 4


def test_no_rank_replays_before_every_rank_can(seen):
    class Waiting(Second):
        def gather(self, obj):
            return [obj, False] if isinstance(obj, bool) else [obj, obj]

    learn(counting(), 4, comm=Waiting(), replay_start=0)
    assert [len(turn) for turn in turns(seen)] == [1] * 4


def test_the_exact_trust_region_is_of_all_ranks_batches(tmp_path, eager):
    train(tmp_path, identity(), 1, comm=Second(), trust_region="exact")
    assert rows(tmp_path)[["kl", "step_taken"]].values.tolist() == [[7, 1]]


# Bad arguments.


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("nsteps", 0),
        ("total_timesteps", -1),
        ("log_interval", 0),
        ("buffer_size", 0),
        ("replay_ratio", -1),
        ("replay_start", -1),
        ("replay_start", 65),
        ("c", -1),
        ("c", float("nan")),
        ("delta", -0.1),
        ("alpha", 1.5),
        ("gamma", -0.1),
        ("rprop_alpha", 2),
        ("reward_clip", -1),
        ("buffer_len", 0),
        ("batch_size", 0),
        ("trace_length", 0),
        ("save_interval", -1),
        ("num_workers", 0),
        ("num_workers", 2),
        ("trust_region", "foo"),
        ("trust_region", [1]),
        ("max_grad_norm", 0),
        ("rprop_epsilon", -1),
        ("trust_region", "Exact"),
        ("lr", "quick"),
        ("lrschedule", "quick"),
        ("network", "mpl"),
        ("value_network", "cpoy"),
    ],
)
def test_bad_arguments_are_named_in_one_line(argument, value):
    arguments = {"network": "mlp", "env": identity(), "total_timesteps": 32, **SMALL, argument: value}
    with pytest.raises(ValueError, match=r"valid|unknown") as error:
        acer.learn(**arguments)
    assert "\n" not in str(error.value)
    assert str(value) in str(error.value)


@pytest.mark.parametrize("argument", ["batch_size", "trace_length"])
def test_arguments_of_traces_need_traces(argument):
    with pytest.raises(ValueError, match="give buffer_len"):
        acer.learn("mlp", identity(), **SMALL, total_timesteps=32, **{argument: 8})


def test_more_or_fewer_workers_resume_a_run(tmp_path, eager):
    def some(count):
        return [VecNormalize(box()) for _ in range(count)]

    for count, steps in ((2, 64), (1, 96), (2, 128)):
        with logger.scoped_configure(str(tmp_path), ["csv"], resume=steps > 64):
            run_options = RunOptions(resume=str(tmp_path) if steps > 64 else None)
            acer.learn("mlp", some(count), total_timesteps=steps, run=run_options, **SMALL, **MLP)
            assert Checkpoints(tmp_path / "checkpoints").latest().name == f"{steps // NSTEPS:05d}"


def test_a_start_that_is_never_reached_matters_only_with_replay(seen):
    learn(identity(), 2, replay_start=65, replay_ratio=0)
    learn(identity(), 2, replay_start=65, buffer_len=2)


@pytest.mark.parametrize("space", [spaces.MultiDiscrete([2, 3]), spaces.MultiBinary(2)])
def test_other_actions_are_refused(space):
    class Any(tiny.ConstantRewardEnv):
        def __init__(self):
            super().__init__()
            self.action_space = space

    with pytest.raises(ValueError, match="acer needs Discrete or Box actions, not Multi"):
        learn(vec(Any))


def test_a_replay_larger_than_the_memory_is_refused(seen):
    with pytest.raises(ValueError, match=r"the replay would take .* GiB"):
        learn(counting(), 2, buffer_size=10**14, replay_start=0)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--replay_start=100", "--buffer_size=50"], "replay_start=100 is not valid: at most buffer_size=50"),
        (["--trust_region=foo"], "trust_region='foo' is not valid: True, False, 'efficient' or 'exact'"),
        (["--batch_size=0"], "batch_size=0 is not valid: at least 1"),
        (["--trace_length=0"], "trace_length=0 is not valid: at least 1"),
        (["--c=-1"], "c=-1.0 is not valid: at least 0"),
        (["--replay_ratio=many"], "replay_ratio='many' is not valid: a number"),
        (["--buffer_len=1.5"], "buffer_len='1.5' is not valid"),
        (["--num_workers=0"], "num_workers=0 is not valid: at least 1"),
        (["--lock=perhaps"], "lock='perhaps' is not valid: True or False"),
        (["--lrschedule=lineer"], "linear"),
        (["--reward_clp=1"], "did you mean --reward_clip?"),
        (["--noptepochs=3"], "--noptepochs"),
        ([f"{TINY_ENV}MultiDiscreteIdentity-v0"], "acer needs Discrete or Box actions, not MultiDiscrete"),
        (["--normalise_observations=True"], "did you mean --normalize_observations?"),
    ],
)
def test_a_mistake_on_the_command_line_is_one_line(arguments, words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    capsys.readouterr()
    assert main([*FLAGS, "--num_timesteps=8", "--log_path=log", *arguments]) == 2
    err = capsys.readouterr().err
    assert err.startswith("tfbaselines: error: ") and err.count("\n") == 1
    assert words in err


def test_another_algorithms_model_is_refused(tmp_path):
    ppo2.learn("mlp", identity(), 0, nsteps=8, **MLP).save(tmp_path / "model")
    with pytest.raises(ValueError, match="another network"):
        learn(identity(), 1, load_path=tmp_path / "model")


# Saved runs.


@pytest.fixture(scope="module", params=["CartPole-v1", "Pendulum-v1"])
def saved(request, tmp_path_factory):
    """The directory of a run, with log and model in it."""
    directory = tmp_path_factory.mktemp("saved")
    flags = [f"--env={request.param}", "--value_network=copy", "--num_timesteps=32"]
    tf.config.run_functions_eagerly(True)
    assert main([*FLAGS, *flags, f"--log_path={directory / 'log'}", f"--save_path={directory / 'model'}"]) == 0
    tf.config.run_functions_eagerly(False)
    return directory


def test_a_saved_run_is_evaluated(saved):
    first, again, other = (evaluate(str(saved / "log"), 2, seed=seed)["returns"] for seed in (1, 1, 2))
    assert first == again != other


def test_a_saved_model_is_played(saved, capsys, monkeypatch, tmp_path):
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    config = json.loads((saved / "log/config.json").read_text())
    flags = [f"--env={config['env']['env']}", "--value_network=copy", "--num_timesteps=0"]
    assert main([*FLAGS, *flags, f"--load_path={saved / 'model'}", "--play", f"--log_path={tmp_path}"]) == 0
    assert capsys.readouterr().out.count("episode_rew=") == 10


def test_a_saved_model_is_exported(saved, tmp_path):
    make = {"CartPole-v1": lambda: gymnasium.make("CartPole-v1"), "Pendulum-v1": lambda: gymnasium.make("Pendulum-v1")}
    env = vec(make[json.loads((saved / "log/config.json").read_text())["env"]["env"]])
    model = learn(env, 0, load_path=saved / "model", value_network="copy")
    model.export(tmp_path / "served")
    obs = np.random.default_rng(0).normal(size=(5, *env.observation_space.shape)).astype(np.float32)
    answers = tf.saved_model.load(str(tmp_path / "served")).signatures["serving_default"](observations=obs)
    np.testing.assert_allclose(answers["actions"], model.act(obs, deterministic=True)[0], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(answers["values"], model.value(obs), rtol=1e-4, atol=1e-6)


def test_help_tells_every_argument(capsys):
    assert main(["--alg=acer", "--help"]) == 0
    out = capsys.readouterr().out
    for name in ("trust_region", "reward_clip", "buffer_len", "trace_length", "num_workers", "lock", "replay_ratio"):
        assert f"--{name}" in out


# Processes.


@pytest.mark.slow
def test_ctrl_c_stops_workers_with_a_checkpoint_from_which_they_go_on(tmp_path):
    flags = [*FLAGS, "--num_workers=2", "--num_timesteps=1e7", "--log_path=log"]
    # Nobody reads the tables, which would fill the pipe.
    process = start("tfbaselines.run", *flags, cwd=tmp_path, OPENAI_LOG_FORMAT="log,csv")
    progress = tmp_path / "log/progress.csv"
    try:
        wait_for(lambda: progress.exists() and progress.read_text().count("\n") > 20)
        process.send_signal(signal.SIGINT)
        status, out, err = finish(process)
    finally:
        process.kill()
    assert status == 130, err
    assert "checkpoint saved in" in out and f"--resume={tmp_path / 'log'}" in out
    before = rows(tmp_path / "log")
    total = NSTEPS * (len(before) + 20)
    status, _, err = run("tfbaselines.run", "--resume=log", f"--num_timesteps={total}", cwd=tmp_path)
    assert status == 0, err
    after = rows(tmp_path / "log")
    assert after["total_timesteps"].tolist() == list(range(NSTEPS, total + 1, NSTEPS))
    assert after[: len(before)].equals(before)
    assert np.isfinite(after.iloc[-1]).all()
    assert load_tree(tmp_path / "log/replay/000").keys() >= {"0", "1"}
    assert "starts empty" not in (tmp_path / "log/log.txt").read_text()
    for worker in (0, 1):
        assert (tmp_path / f"log/{worker}.0.monitor.csv").read_text().count("t_start") == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "own", [["--trust_region=True"], ["--trust_region=exact"], ["--buffer_len=5", "--trace_length=8"]]
)
def test_two_ranks_train_one_model(own, tmp_path):
    """They are compared bit by bit at every hundredth update and at the end."""
    flags = [*FLAGS, *own, "--delta=1e-4", "--lr=0.01", "--log_path=log"]
    status, _, err = ranks(*flags, "--num_timesteps=880", cwd=tmp_path)
    assert status == 0, err
    log = rows(tmp_path / "log")
    assert log["total_timesteps"].tolist() == list(range(NSTEPS, 881, NSTEPS))
    assert ("step_taken" in log and log["step_taken"].min() < 1) == ("exact" in own[0])
    kept = [load_tree(tmp_path / f"log/replay/{rank:03d}")["0"]["arrays"]["obs"] for rank in (0, 1)]
    assert not np.array_equal(*kept)
    status, _, err = ranks("--resume=log", "--num_timesteps=960", cwd=tmp_path)
    assert status == 0, err
    assert rows(tmp_path / "log")["total_timesteps"].iloc[-1] == 960
    for name in ("log.txt", "log-rank001.txt"):
        assert "starts empty" not in (tmp_path / "log" / name).read_text()


def ranks(*flags, cwd, module="tfbaselines.run"):
    process = start(module, *flags, cwd=cwd, launcher=TWO_RANKS)
    try:
        return finish(process, timeout=300)
    finally:
        process.terminate()


@pytest.mark.slow
def test_ranks_that_part_are_noticed(tmp_path):
    """The check that the other tests rely on: one rank starts with weights of its own."""
    (tmp_path / "parted.py").write_text(
        "from tfbaselines.running.training import Training\n"
        "Training._share_parameters = lambda self: None\n"
        "from tfbaselines.run import console\n"
        "console()\n"
    )
    status, _, err = ranks(*FLAGS, "--num_timesteps=32", cwd=tmp_path, module="parted")
    assert status != 0
    assert "parameters differ from rank 0's on ranks 1" in err


@pytest.mark.slow
def test_workers_do_not_go_with_ranks(tmp_path):
    status, _, err = ranks(*FLAGS, "--num_workers=2", "--num_timesteps=32", cwd=tmp_path)
    assert status == 2
    assert "num_workers=2 is not valid" in err


# Learning.


@pytest.mark.slow
@pytest.mark.parametrize(
    "kwargs",
    [{}, {"buffer_len": 200, "batch_size": 8, "replay_start": 1000, "trace_length": 50}, {"num_workers": 2}],
    ids=["rollouts", "traces", "workers"],
)
def test_cartpole(kwargs):
    """The original's test and bar."""

    def cartpole(worker=0):
        return vec(lambda: gymnasium.make("CartPole-v1", disable_env_checker=True), seed=10_000 * worker)

    last = []
    options = RunOptions(make_env=cartpole, callback=lambda training: last.append(training.episodes.mean_reward))
    acer.learn(
        "mlp", cartpole(), seed=0, total_timesteps=30_000, gamma=1.0, value_network="copy", run=options, **kwargs
    )
    assert last[-1] >= 100


@pytest.mark.slow
@pytest.mark.parametrize(("network", "solved"), [("lstm", True), ("mlp", False)])
def test_a_cue_shown_in_the_first_step_is_remembered(network, solved):
    """Only with a memory: without one, one answer in two is right."""
    last, kwargs = [], {"nlstm": 32} if network == "lstm" else {}
    options = RunOptions(callback=lambda training: last.append(training.episodes.mean_reward))
    env = vec(lambda: tiny.CueMemoryEnv(), 8)
    replay = {"nsteps": 10, "replay_start": 200}
    acer.learn(
        network,
        env,
        seed=0,
        total_timesteps=35_000,
        gamma=0.9,
        lr=5e-3,
        lrschedule="constant",
        run=options,
        **replay,
        **kwargs,
    )
    assert last[-1] > 0.9 if solved else last[-1] < 0.7
