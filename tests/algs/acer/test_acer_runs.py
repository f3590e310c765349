"""ACER's runs: resumed, saved, as processes, and learning."""

import gymnasium
import numpy as np
import pytest
import tensorflow as tf
from acer_small import (
    FLAGS,
    NSTEPS,
    box,
    constant,
    counting,
    learn,
    recorded_updates,
    rows,
    stop_after,
    train,
)
from commands import interrupt, run, start
from helpers import mean_return, vec
from small_runs import damage, keep, remove
from trace_replays import restore, saved_and_loaded

from tfbaselines.algs import acer
from tfbaselines.algs.acer.traces import TraceReplay
from tfbaselines.config.options import RunOptions
from tfbaselines.envs import tiny
from tfbaselines.parallel import mpi
from tfbaselines.training.callbacks import StopAt

# Resuming.


@pytest.fixture
def seen(monkeypatch):
    return recorded_updates(monkeypatch)


@pytest.mark.parametrize(
    ("length", "network"), [(NSTEPS, None), (5, None), pytest.param(5, "lstm", marks=pytest.mark.slow)]
)
def test_a_resumed_run_with_traces_equals_an_uninterrupted_one(length, network, tmp_path, eager):
    """Eight updates, and eight with a stop after four, when episodes have ended or are under way."""
    directory, kwargs = tmp_path, {"lr": 0.05, "network": network}
    kwargs |= {"buffer_len": 5, "batch_size": 2, "trace_length": 4}
    whole = train(directory / "whole", constant(length), 8, **kwargs)
    train(directory / "half", constant(length), 8, run=stop_after(4), **kwargs)
    assert len(rows(directory / "half")) == 4
    assert (directory / "half/replay/000/00004").is_file()
    resume = RunOptions(resume=str(directory / "half"))
    resumed = train(directory / "half", constant(length), 8, **kwargs | {"run": resume, "seed": 99})
    np.testing.assert_equal(resumed.state(), whole.state())
    assert rows(directory / "half").equals(rows(directory / "whole"))


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
    model = learn(counting(), 10, normalize_observations=True)
    assert model.policy.normalizer.mean == pytest.approx(39.5, rel=0.01)
    assert model.averaged.policy.normalizer is model.policy.normalizer


def test_a_continuous_model_is_exported(tmp_path, eager):
    model, obs = learn(box(), 3, value_network="copy"), box(5).reset()
    model.export(tmp_path / "served")
    answers = tf.saved_model.load(str(tmp_path / "served")).signatures["serving_default"](observations=obs)
    np.testing.assert_allclose(answers["actions"], model.act(obs, deterministic=True)[0], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(answers["values"], model.value(obs), rtol=1e-4, atol=1e-6)


TRACES = {"buffer_len": 5, "trace_length": 4}


@pytest.mark.parametrize("continues", [True, False])
def test_a_replay_goes_on_with_episodes_if_the_environments_do(continues, tmp_path):
    def replay_of(pieces):
        replay = TraceReplay(counting(), 5, 2)
        replay._open = [pieces]
        return replay

    steps = dict.fromkeys(("actions", "rewards", "terminated", "truncated"), np.zeros(3, np.int64))
    piece = steps | {"obs": np.zeros((4, 1)), "episode_start": np.zeros(4), "mus": np.zeros((3, 2))}
    workers = [replay_of([]), replay_of([])]
    for replay, kept in zip(workers, [replay_of([piece]), replay_of([piece, piece])], strict=True):
        restore(replay, saved_and_loaded(kept, tmp_path / "replay"), continues)
    counts = [replay.state()["open"]["counts"].tolist() for replay in workers]
    assert counts == ([[1], [2]] if continues else [[0], [0]])


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


# Processes.


@pytest.mark.slow
def test_ctrl_c_stops_workers_with_a_checkpoint_from_which_they_go_on(tmp_path):
    flags = [*FLAGS, "--num_workers=2", "--num_timesteps=1e7", "--log_path=log"]
    # Nobody reads the tables, which would fill the pipe.
    process = start("tfbaselines.run", *flags, cwd=tmp_path, OPENAI_LOG_FORMAT="log,csv")
    interrupt(process, tmp_path / "log", 20)
    before = rows(tmp_path / "log")
    total = NSTEPS * (len(before) + 20)
    status, _, err = run("tfbaselines.run", "--resume=log", f"--num_timesteps={total}", cwd=tmp_path)
    assert status == 0, err
    after = rows(tmp_path / "log")
    assert after["total_timesteps"].tolist() == list(range(NSTEPS, total + 1, NSTEPS))
    assert after[: len(before)].equals(before)
    assert np.isfinite(after.iloc[-1]).all()
    assert all(any((tmp_path / "log/replay" / name).iterdir()) for name in ("000", "000.1"))
    assert "starts empty" not in (tmp_path / "log/log.txt").read_text()
    for worker in (0, 1):
        assert (tmp_path / f"log/{worker}.0.monitor.csv").read_text().count("t_start") == 1


def test_workers_do_not_go_with_ranks():
    comm = mpi.Communicator()
    comm.size = 2
    with pytest.raises(ValueError, match="num_workers=2 is not valid"):
        acer.learn("mlp", "CartPole-v1", total_timesteps=32, num_workers=2, comm=comm)


# Learning.


@pytest.mark.slow
@pytest.mark.parametrize(
    "kwargs",
    [{}, {"buffer_len": 200, "batch_size": 4, "replay_start": 1000, "trace_length": 20}, {"num_workers": 2}],
    ids=["rollouts", "traces", "workers"],
)
def test_cartpole(kwargs):
    """The original's test and bar."""

    def cartpole(worker=0):
        return vec(lambda: gymnasium.make("CartPole-v1", disable_env_checker=True), seed=10_000 * worker)

    options = RunOptions(make_env=cartpole, callback=StopAt(130.0))
    own = {"total_timesteps": 30_000, "gamma": 1.0, "value_network": "copy"}
    learnt = acer.learn("mlp", cartpole(), seed=0, run=options, **own, **kwargs)
    assert mean_return(learnt, cartpole()) >= 100


@pytest.mark.slow
def test_a_cue_shown_in_the_first_step_is_remembered():
    """tests/algs/sac shows that it is not without a memory."""
    last = []

    def go_on(run):
        last.append(run.episodes.mean_reward)
        return not last[-1] > 0.95

    env = vec(lambda: tiny.CueMemoryEnv(), 8)
    own = {"nsteps": 10, "replay_start": 200, "gamma": 0.9, "lr": 5e-3, "lrschedule": "constant"}
    acer.learn("lstm", env, seed=0, total_timesteps=35_000, run=RunOptions(callback=go_on), nlstm=32, **own)
    assert last[-1] > 0.9
