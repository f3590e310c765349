"""Runs of whole episodes: their length in iterations or steps, tests, and the score at which they stop."""

import numpy as np
import pytest
from helpers import vec
from small_runs import table

from tfbaselines.algs import get
from tfbaselines.config.bases import SearchConfig
from tfbaselines.config.options import RunOptions
from tfbaselines.envs import tiny
from tfbaselines.logs import logger
from tfbaselines.parallel.mpi import Communicator
from tfbaselines.training.model import PolicyModel
from tfbaselines.training.on_policy import SearchRun

EPISODE = 5


def environment(count=1):
    return vec(lambda: tiny.DiscreteIdentityEnv(3, episode_len=EPISODE), count)


def model():
    from gymnasium import spaces

    from tfbaselines.algs.qlearning.table import Cells, TablePolicy

    return PolicyModel(TablePolicy(spaces.Discrete(3), spaces.Discrete(3), Cells(spaces.Discrete(3))))


def go(directory=None, score=1.0, episodes=1, of_episodes=False, seen=None, **kwargs):
    """A run whose updates have so many episodes with that score."""
    if directory is not None:
        logger.configure(str(directory), ["csv"], resume="run" in kwargs and bool(kwargs["run"].resume))
    with SearchRun(get("qlearning"), environment(), SearchConfig.of(kwargs), of_episodes) as run:
        for update in run.search(model()):
            if seen is not None:
                seen.append((update, run.iterations, run.timesteps, run.fraction_left))
            run.learned(EPISODE * episodes, [{"r": score, "l": EPISODE}] * episodes, {"extra": 7.0})
    return run


def test_it_ends_after_its_iterations():
    seen = []
    run = go(num_iterations=4, seen=seen)
    assert seen == [(1, 0, 0, 1.0), (2, 1, 5, 0.75), (3, 2, 10, 0.5), (4, 3, 15, 0.25)]
    assert (run.iterations, run.timesteps, run.update) == (4, 20, 4)


def test_it_ends_with_the_iteration_that_reaches_the_steps():
    run = go(total_timesteps=12, num_iterations=1)
    assert (run.iterations, run.timesteps) == (3, 15)
    assert go(total_timesteps=0).update == 0


def test_iterations_may_be_episodes_of_which_an_update_has_several():
    run = go(num_iterations=7, episodes=3, of_episodes=True)
    assert (run.iterations, run.update) == (9, 3)


@pytest.mark.parametrize("of_episodes", [False, True])
@pytest.mark.parametrize("length", [{"num_iterations": 8}, {"total_timesteps": 40}])
def test_a_resumed_run_counts_on(length, of_episodes, tmp_path):
    go(tmp_path, of_episodes=of_episodes, run=RunOptions(callback=lambda run: run.update < 3), **length)
    seen = []
    run = go(tmp_path, of_episodes=of_episodes, run=RunOptions(resume=str(tmp_path)), seen=seen, **length)
    assert seen[0] == (4, 3, 15, 0.625) and (run.iterations, run.timesteps, run.update) == (8, 40, 8)
    assert table(tmp_path)["iterations"].tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    assert table(tmp_path)["total_timesteps"].tolist() == [5, 10, 15, 20, 25, 30, 35, 40]


def test_rows_have_counters_episodes_and_what_was_learnt(tmp_path):
    go(tmp_path, num_iterations=2, score=3.0)
    row = table(tmp_path).iloc[-1]
    assert (row["eprewmean"], row["eplenmean"], row["extra"], row["fps"] > 0) == (3.0, EPISODE, 7.0, True)
    assert "test_reward" not in row


def test_tests_come_at_their_interval_and_at_the_end(tmp_path):
    go(tmp_path, num_iterations=7, test_every=3, num_test_episodes=2, eval_env=environment(2))
    lengths = table(tmp_path)["test_length"]
    assert np.isnan(lengths[:2]).all() and (lengths[2:] == EPISODE).all()
    tested = []
    run = RunOptions(callback=lambda run: tested.append(run.eval_episodes.count))
    go(num_iterations=7, test_every=3, num_test_episodes=2, eval_env=environment(2), run=run)
    assert tested == [0, 0, 2, 2, 2, 4, 6]


def test_it_stops_at_the_score_of_a_test():
    """The table's action is right where nothing is to be told apart: at the first of three kinds."""
    env = vec(lambda: tiny.DiscreteIdentityEnv(1, episode_len=EPISODE), 1)
    common = {"num_iterations": 9, "test_every": 4, "num_test_episodes": 2, "eval_env": env}
    assert go(stop_max_score=float(EPISODE), **common).update == 4
    assert go(stop_max_score=EPISODE + 0.1, **common).update == 9


def test_without_tests_the_latest_hundred_episodes_decide():
    assert go(num_iterations=200, stop_max_score=2.0, score=2.0).update == 100
    assert go(num_iterations=200, stop_max_score=2.0, score=1.9).update == 200


class Behind(Communicator):
    """Of two ranks the second, whose first takes longer episodes and is over with its third."""

    rank, size, updates = 1, 2, 0

    def gather(self, own):
        # Of all that ranks tell each other: whether they are over, and what is left.
        if not (isinstance(own, tuple) and isinstance(own[0], bool)):
            return [own, own]
        self.updates += 1
        return [(self.updates == 3, 1.0 - self.updates / 3), own]


def test_every_rank_has_the_progress_of_the_first_and_tests_when_any_is_over():
    seen, tested = [], []
    run = RunOptions(callback=lambda run: tested.append(run.eval_episodes.count))
    own = {"test_every": 50, "num_test_episodes": 2, "eval_env": environment(2)}
    ended = go(total_timesteps=100, comm=Behind(), seen=seen, run=run, **own)
    assert [left for *_, left in seen] == [1.0, 1.0 - 1 / 3, 1.0 - 2 / 3]
    assert (ended.update, tested) == (3, [0, 0, 2])


def test_progress_is_shown_in_what_ends_the_run(capsys):
    go(num_iterations=3, run=RunOptions(progress=True))
    assert "3 of 3 iterations (100%)" in capsys.readouterr().err
    go(total_timesteps=10, run=RunOptions(progress=True))
    assert "10 of 10 steps (100%)" in capsys.readouterr().err
