"""ACER's workers in processes, and the numbers that they share."""

import multiprocessing
import os
import signal
import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from acer_small import MLP, rows, stop_after, train, weights
from helpers import vec

from tfbaselines.algs import acer
from tfbaselines.algs.acer.process import _send_error
from tfbaselines.algs.acer.shared import CHANGING, Ledger, RecordLock, SharedNumbers
from tfbaselines.config.options import RunOptions
from tfbaselines.envs.make import make_vec_env
from tfbaselines.envs.normalize import VecNormalize
from tfbaselines.envs.vec.processes import shared_file
from tfbaselines.errors import LostWorkerError, UsageError, WorkerError
from tfbaselines.parallel.mpi import Communicator
from tfbaselines.training.checkpoint import Checkpoints, load_tree

PROCESSES = {"worker_kind": "processes"}


def checkpoint(directory):
    return load_tree(Checkpoints(directory / "checkpoints").latest())


def boxes(worker=0):
    """Numbers to see, and choices."""
    return vec(lambda: gymnasium.make("CartPole-v1"), 1, 10 * worker)


def heavier(worker=0):
    """The same in three lessons, with more and more gravity."""
    end = {"measure": "progress", "min_lesson_length": 0, "thresholds": [0.2, 0.6]}
    lessons = end | {"parameters": {"gravity": [9.8, 30.0, 90.0]}}
    return make_vec_env("CartPole-v1", seed=10 * worker, env_parameters=lessons)


def scaled(worker=0):
    return VecNormalize(boxes(worker))


@pytest.fixture(autouse=True)
def _nothing_is_left():
    def memory():
        return {name for name in os.listdir("/dev/shm") if not name.startswith("mpich")}

    before, children = memory(), set(multiprocessing.active_children())
    yield
    assert set(multiprocessing.active_children()) <= children
    assert memory() <= before


def test_a_process_continues_the_run_of_a_thread(tmp_path):
    """All that a checkpoint holds goes into the process and comes out of it, to the last bit; so do lessons."""
    kwargs = {"normalize_observations": True, "lr": 0.05, "replay_start": 0}
    whole = train(tmp_path / "whole", [heavier()], 8, **kwargs)
    train(tmp_path / "half", [heavier()], 4, **kwargs | {"run": stop_after(4)}, total_timesteps=8 * 8)
    options = RunOptions(resume=str(tmp_path / "half"), make_env=heavier)
    resumed = train(tmp_path / "half", heavier(), 8, **kwargs | {"run": options, "seed": 99} | PROCESSES)
    np.testing.assert_equal(resumed.state(), whole.state())
    assert rows(tmp_path / "half").equals(rows(tmp_path / "whole"))
    assert rows(tmp_path / "half")["lesson"].tolist() == [0, 0, 1, 1, 1, 2, 2, 2]
    for directory in ("half", "whole"):
        assert (tmp_path / directory / "replay/000/00008").is_file()
    np.testing.assert_equal(*(checkpoint(tmp_path / name)["training"]["ranks"] for name in ("half", "whole")))


def test_a_killed_process_ends_the_run_and_the_checkpoint_stands(tmp_path):
    killed = []

    def kill(run):
        if run.update == 12:
            killed.extend(child.pid for child in multiprocessing.active_children() if child.name == "acer-1")
            os.kill(killed[0], signal.SIGKILL)

    options = RunOptions(make_env=scaled, callback=kill)
    kwargs = {"num_workers": 2, "lock": False, "lock_update": True, "save_interval": 2}
    with pytest.raises(LostWorkerError) as error:
        train(tmp_path, scaled(), 10**5, run=options, **kwargs | PROCESSES)
    saved = int(Checkpoints(tmp_path / "checkpoints").latest().name)
    expected = f"worker 1 (process {killed[0]}) was killed by SIGKILL: --resume={tmp_path} goes on from checkpoint "
    assert str(error.value) == f"{expected}{saved:05d}"
    assert saved >= 10
    # Both workers' steps are in the statistics, and the run goes on in threads.
    resumed = RunOptions(resume=str(tmp_path))
    threads = train(tmp_path, [scaled(), scaled(1)], saved + 4, run=resumed)
    assert rows(tmp_path)["total_timesteps"].iloc[-1] == 8 * (saved + 4)
    count = threads.observations.normalization["ob"]["count"]
    assert 8 * (saved + 4) <= count <= 8 * (saved + 8)


def test_an_error_in_a_process_keeps_its_kind_and_is_one_line(capsys):
    ours, theirs = multiprocessing.Pipe()
    for error, kind in ((UsageError("wrong"), "UsageError"), (WorkerError("wrong"), "WorkerError")):
        _send_error(theirs, error)
        assert ours.recv() == (kind, "wrong")
    assert capsys.readouterr().err == ""
    try:
        raise KeyError("wrong")
    except KeyError as error:
        _send_error(theirs, error)
    assert ours.recv() == ("WorkerError", "KeyError: 'wrong'")
    assert "raise KeyError" in capsys.readouterr().err


def test_what_processes_need_is_named(tmp_path):
    class TwoRanks(Communicator):
        size = 2

    wrong = [({}, {}, "make_env="), ({"make_env": boxes}, {"comm": TwoRanks()}, "without mpirun")]
    for options, kwargs, text in wrong:
        with pytest.raises(UsageError, match=text) as error:
            train(tmp_path, boxes(), 4, run=RunOptions(**options), **kwargs | PROCESSES)
        assert "\n" not in str(error.value)
    with pytest.raises(UsageError, match="make_env="):
        train(tmp_path, [boxes(), boxes()], 4, run=RunOptions(make_env=boxes), **PROCESSES)


def model():
    config = acer.Config.of({"normalize_observations": True} | MLP)
    return acer.Model("mlp", boxes(), config)


def test_changes_without_a_lock_add_up():
    first, second = model(), model()
    shared = [SharedNumbers(one, scaled()) for one in (first, second)]
    descriptor = shared_file(shared[0].nbytes)
    for numbers in shared:
        numbers.map(descriptor)
    shared[0].write()
    start = weights(first.policy)
    for numbers in shared:
        numbers.read()
    np.testing.assert_array_equal(weights(second.policy), start)
    np.testing.assert_array_equal(weights(second.averaged.policy), weights(first.averaged.policy))
    np.testing.assert_array_equal(*(one.optimizer.variables[0].numpy() for one in (first, second)))
    for one, numbers, change in ((first, shared[0], 1.0), (second, shared[1], 2.0)):
        one.policy.trainable_variables[0].assign_add(np.full(one.policy.trainable_variables[0].shape, change))
        one.policy.normalizer.update(np.full((3, 4), change))
        numbers.add_change()
    shared[0].read_policy()
    changed = weights(first.policy) - start
    size = first.policy.trainable_variables[0].numpy().size
    np.testing.assert_allclose(changed[:size], 3.0, rtol=1e-5)
    assert (changed[size:] == 0).all()
    np.testing.assert_allclose(first.policy.normalizer.mean, 1.5, rtol=1e-2)
    os.close(descriptor)


def test_the_ledger_gives_each_process_what_all_have_added():
    totals = [np.zeros(2), np.zeros(1)]
    one, other = Ledger(totals), Ledger(totals)
    assert [one.sum(array).tolist() for array in (np.array([1.0, 2.0]), np.array([3.0]))] == [[1, 2], [3]]
    assert [other.sum(array).tolist() for array in (np.array([4.0, 0.0]), np.array([0.0]))] == [[5, 2], [3]]
    assert [one.sum(np.zeros(size)).tolist() for size in (2, 1)] == [[4, 0], [0]]


def test_the_lock_is_one_of_processes_and_ends_with_its_process():
    descriptor = shared_file(8)
    held = "import fcntl, sys; fcntl.lockf(int(sys.argv[1]), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, int(sys.argv[2]))"

    def status(byte, after=""):
        words = [sys.executable, "-c", held + after, str(descriptor), str(byte)]
        return subprocess.run(words, pass_fds=[descriptor], stderr=subprocess.DEVNULL, check=False).returncode

    with RecordLock(descriptor, CHANGING):
        assert status(CHANGING) == 1 and status(CHANGING + 1) == 0
    assert status(CHANGING, "; import os; os.kill(os.getpid(), 9)") == -9
    with RecordLock(descriptor, CHANGING):
        pass
    os.close(descriptor)
