"""ACER's workers in threads, and its ranks."""

import threading
import time

import numpy as np
import pytest
from acer_small import NSTEPS, Counting, counting, identity, learn, recorded_updates, rows, train, turns, weights
from helpers import vec

from tfbaselines.algs import acer
from tfbaselines.algs.acer import workers
from tfbaselines.config.options import RunOptions
from tfbaselines.envs import tiny
from tfbaselines.parallel.mpi import Communicator
from tfbaselines.training.checkpoint import Checkpoints, load_tree


@pytest.fixture
def seen(monkeypatch):
    return recorded_updates(monkeypatch)


# Workers in threads.


@pytest.fixture(autouse=True)
def _no_thread_is_left():
    def ours():
        return {thread for thread in threading.enumerate() if "_work" in thread.name}

    before = ours()
    yield
    assert ours() == before


@pytest.mark.parametrize(("listed", "lock"), [(True, True), (False, False)])
def test_workers_learn_side_by_side(listed, lock, eager, tmp_path):
    """Operations one by one: while XLA compiled for one worker, the other would take all turns."""
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
    both = log.dropna()
    assert len(both) > 1
    for name in ("loss_q", "entropy"):
        latest = both[[f"worker0/{name}", f"worker1/{name}"]]
        assert latest.eq(both[name], axis=0).any(axis=1).all()
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
    for number, name in enumerate(("000", "000.1", "000.2")):
        files = [path for path in (tmp_path / "replay" / name).iterdir() if "." in path.name]
        kept = np.concatenate([load_tree(path)["arrays"]["rewards"] for path in files])
        assert set(kept // 1000) == {number} and len(kept) % NSTEPS == 0
    first = [next(batch for _, batch in seen if batch["obs"][0, 0, 0] == 1000 * number) for number in range(3)]
    assert len({tuple(batch["actions"][0]) for batch in first}) == 3


@pytest.mark.parametrize(("lock", "most"), [(True, 1), (False, 2)])
def test_the_lock_lets_one_worker_learn_at_a_time(lock, most, monkeypatch):
    inside, largest = [], []

    class Slow(acer.Model):
        def train(self, lr, batch, rng=None, replayed=False):
            inside.append(1)
            time.sleep(0.005)
            largest.append(len(inside))
            inside.pop()
            return {}

    monkeypatch.setattr(workers, "Model", Slow)
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
        def train(self, lr, batch, rng=None, replayed=False):
            return {}

    monkeypatch.setattr(workers, "Model", Idle)
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
