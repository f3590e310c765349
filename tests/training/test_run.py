"""A run: its phases, checkpoints, the best one, callbacks, warnings, and ranks that start and stay alike."""

import os
import signal
import time

import numpy as np
import pytest
from helpers import vec
from remembering import ALGORITHM, Place, Remembering, SecondOfTwo, go, make_run

from tfbaselines.algs import ppo2
from tfbaselines.config.config import Config
from tfbaselines.config.options import RunOptions
from tfbaselines.envs import tiny
from tfbaselines.envs.normalize import VecNormalize
from tfbaselines.logs import logger
from tfbaselines.logs.directory import LOCK_NAME
from tfbaselines.parallel import mpi
from tfbaselines.training.checkpoint import load_tree
from tfbaselines.training.clock import Plan, Rates
from tfbaselines.training.guards import Interrupted, seed_everything
from tfbaselines.training.run import Run

# Updates are few, and are not what is tested.
pytestmark = pytest.mark.usefixtures("eager")
SMALL = {"nsteps": 16, "nminibatches": 1, "noptepochs": 1, "num_hidden": 4, "seed": 0, "log_interval": 1}


def train(directory, total_timesteps=96, env=None, **kwargs):
    resume = "run" in kwargs and kwargs["run"].resume
    logger.configure(str(directory), ["csv", "log"], resume=bool(resume))
    env = env or vec(lambda: tiny.DiscreteIdentityEnv(3, episode_len=8))
    return ppo2.learn("mlp", env, total_timesteps, **{**SMALL, **kwargs})


def names(directory):
    return sorted(path.name for path in (directory / "checkpoints").iterdir())


def test_the_last_checkpoints_and_the_best_are_kept(tmp_path):
    train(tmp_path, save_interval=2, run=RunOptions(keep_checkpoints=2))
    assert names(tmp_path) == ["00004", "00006", "best"]


def test_without_an_interval_the_end_is_kept(tmp_path):
    train(tmp_path)
    assert names(tmp_path)[0] == "00006"


def test_without_a_log_directory_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_LOG_FORMAT", "")
    ppo2.learn("mlp", vec(lambda: tiny.DiscreteIdentityEnv(3)), 32, **SMALL)
    assert list(tmp_path.iterdir()) == []


def test_a_callback_sees_every_update_and_may_end_the_run(tmp_path):
    seen = []

    def callback(run):
        seen.append((run.update, run.timesteps))
        return run.update < 3

    train(tmp_path, run=RunOptions(callback=callback))
    assert seen == [(1, 16), (2, 32), (3, 48)]
    assert "00003" in names(tmp_path)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_run_after_its_update_with_a_checkpoint(number, tmp_path):
    def send(run):
        if run.update == 2:
            os.kill(os.getpid(), number)

    before = signal.getsignal(number)
    with pytest.raises(Interrupted, match="checkpoint saved") as stop:
        train(tmp_path, run=RunOptions(callback=send))
    assert stop.value.signal == number
    assert os.path.basename(stop.value.checkpoint) == "00002"
    assert signal.getsignal(number) == before


def test_resuming_skips_a_damaged_checkpoint(tmp_path):
    train(tmp_path, save_interval=1)
    newest = tmp_path / "checkpoints/00006"
    newest.write_bytes(newest.read_bytes()[:100])
    updates = []
    train(tmp_path, run=RunOptions(resume=str(tmp_path), callback=lambda run: updates.append(run.update)))
    assert updates == [6]


def test_statistics_of_the_environment_are_resumed(tmp_path):
    def normalized():
        return VecNormalize(vec(lambda: tiny.BoxIdentityEnv((2,), episode_len=8)))

    train(tmp_path, env=normalized())
    saved = load_tree(tmp_path / "checkpoints/00006")["normalization"]["ob"]["count"]
    env = normalized()
    train(tmp_path, 112, env=env, run=RunOptions(resume=str(tmp_path)))
    # The episode under way goes on: no reset shows one more.
    assert env.ob_rms.count == pytest.approx(saved + 16)


def test_nothing_to_do_is_said(tmp_path):
    with pytest.raises(ValueError, match=r"nothing to train: 10 steps are less than one update of 16; .*--nsteps=16"):
        train(tmp_path / "short", 10)
    train(tmp_path / "done")
    # A larger total may be too small for another update.
    for total in (96, 104):
        train(tmp_path / "done", total, run=RunOptions(resume=str(tmp_path / "done")))
        said = f"nothing left to train: 96 of {total} steps are done, and the next update needs a total of at least 112"
        assert said in (tmp_path / "done/log.txt").read_text()


def test_resuming_without_a_checkpoint_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="cannot resume: there is no checkpoint in"):
        train(tmp_path, run=RunOptions(resume=str(tmp_path)))


def test_ranks_get_streams_of_their_own():
    class Rank:
        def __init__(self, rank):
            self.rank = rank

    draws = [seed_everything(5, Rank(rank)).random() for rank in (0, 1, 0)]
    assert draws[0] == draws[2] != draws[1]
    assert np.random.default_rng(10_005).random() == draws[1]


# The phases of a run, with a model that only writes down what is done with it.


def test_a_run_attaches_shares_and_makes_ready_in_this_order():
    events = []
    model, run = Remembering(events), make_run(comm=SecondOfTwo(events))
    with run:
        run.start(model)
    shared = [[101.0, 101.0], [102.0, 102.0], [103.0], [104.0] * 4]
    assert events == [("attach", run.env, {}), *["broadcast"] * 4, ("ready", shared)]


def test_a_saved_model_is_loaded_before_it_is_shared(tmp_path):
    events = []
    run = make_run(comm=SecondOfTwo(events), load_path="somewhere")
    with run:
        run.start(Remembering(events))
    assert [event[0] if isinstance(event, tuple) else event for event in events] == [
        "attach",
        "load",
        *["broadcast"] * 4,
        "ready",
    ]


def test_what_is_resumed_wins_over_what_is_loaded_and_is_shared_too(tmp_path):
    logger.configure(str(tmp_path), ["csv"])
    go(make_run(), Remembering())
    logger.configure(str(tmp_path), ["csv"], resume=True)
    events = []
    options = RunOptions(resume=str(tmp_path))
    run = make_run(5, SecondOfTwo(events), options, load_path="somewhere")
    with run:
        run.start(Remembering(events))
    assert [event if isinstance(event, str) else event[:2] for event in events[1:-1]] == [
        ("load", "somewhere"),
        ("take", "00003"),
        *["broadcast"] * 4,
    ]
    assert events[-1][0] == "ready" and run.update == 3


def test_normalization_of_several_workers_is_that_of_the_first():
    events, first = [], Place()
    with Run(ALGORITHM, [first, Place()], Config(seed=0), Plan(total_timesteps=10, steps_per_update=10)) as run:
        run.start(Remembering(events))
    assert events[0] == ("attach", first, {})


def test_an_array_is_shared_in_place():
    model = Remembering()
    table = model.table
    go(make_run(comm=SecondOfTwo()), model)
    assert model.table is table and (table == 104.0).all()


@pytest.mark.parametrize("which", range(4))
def test_every_variable_is_compared_over_ranks(which):
    theirs, model = Remembering(), Remembering()
    for variable in theirs.variables()[:3]:
        variable.assign(variable + 100)
    theirs.table += 100
    go(make_run(comm=SecondOfTwo(theirs=theirs)), Remembering())

    def drift():
        if which < 3:
            model.variables()[which].assign(model.variables()[which] + 1e-3)
        else:
            model.table[1, 1] += 1e-9
        return {}

    run = make_run(comm=SecondOfTwo(theirs=theirs))
    with pytest.raises(RuntimeError, match="parameters differ from rank 0's on ranks 1"), run:
        run.start(model)
        for _ in run.updates():
            run.finish_update(drift)


def test_ranks_are_compared_now_and_then(monkeypatch):
    compared = []
    monkeypatch.setattr(mpi, "sync_check", lambda parameters, comm: compared.append(len(parameters)))
    go(make_run(250, comm=SecondOfTwo()), Remembering())
    # After 100 updates, after 200, and at the end: every number of every variable.
    assert compared == [9] * 3


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_are_caught_from_the_start_to_the_end(number, tmp_path):
    logger.configure(str(tmp_path), ["csv"])
    before = signal.getsignal(number)
    run = make_run()
    with pytest.raises(Interrupted) as stop, run:
        assert signal.getsignal(number) == before
        run.start(Remembering())
        assert signal.getsignal(number) != before
        # Nothing has happened yet: the first update is still made, and saved.
        os.kill(os.getpid(), number)
        for _ in run.updates():
            run.finish_update(dict)
    assert os.path.basename(stop.value.checkpoint) == "00001" and run.update == 1
    assert signal.getsignal(number) == before


def test_a_signal_before_the_start_is_the_processes_own(tmp_path):
    logger.configure(str(tmp_path), ["csv"])
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), make_run():
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(1)
    assert signal.getsignal(signal.SIGINT) == before
    assert not (tmp_path / "checkpoints").exists()


def test_a_second_signal_does_not_wait():
    run = make_run()
    with pytest.raises(KeyboardInterrupt), run:
        run.start(Remembering())
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.01)


def test_a_signal_during_the_last_save_counts_when_it_is_done(tmp_path):
    class Slow(Remembering):
        def tree(self):
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.01)
            return super().tree()

    logger.configure(str(tmp_path), ["csv"])
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(Interrupted) as stop:
        go(make_run(), Slow())
    assert os.path.basename(stop.value.checkpoint) == "00003" and names(tmp_path) == ["00003"]
    assert signal.getsignal(signal.SIGTERM) == before


def test_callbacks_are_saved_before_they_are_closed(tmp_path):
    events = []

    class Telling:
        def __call__(self, run):
            pass

        def state(self):
            events.append("state")
            return {}

        def close(self):
            events.append("close")

    logger.configure(str(tmp_path), ["csv"])
    go(make_run(options=RunOptions(callback=Telling())), Remembering())
    assert events == ["state", "close"]


def test_a_run_that_cannot_start_leaves_its_directory_to_others(tmp_path):
    class Refusing(Remembering):
        def load(self, path, only_acts=False):
            raise ValueError("not a model")

    logger.configure(str(tmp_path), ["csv"])
    with pytest.raises(ValueError, match="not a model"), make_run(load_path="somewhere") as run:
        run.start(Refusing())
    assert LOCK_NAME not in os.listdir(tmp_path)
    go(make_run(), Remembering())
    assert LOCK_NAME not in os.listdir(tmp_path)


def test_a_run_that_fails_saves_nothing_more(tmp_path):
    logger.configure(str(tmp_path), ["csv"])
    with pytest.raises(ZeroDivisionError), make_run() as run:
        run.start(Remembering())
        for _ in run.updates():
            run.finish_update(lambda: {"x": 1 / 0})
    assert not (tmp_path / "checkpoints").exists()


def test_rates_are_of_the_present_update():
    run = make_run(4)
    run._rates = Rates("ppo2", ppo2.Config(lr=lambda left: 2.0 * left), ends=True)
    with run:
        run.start(Remembering())
        found = []
        for _ in run.updates():
            found.append(run.rates()["lr"])
            run.finish_update(dict)
    assert found == [2.0, 1.5, 1.0, 0.5]
