"""What off-policy algorithms do at the end of an epoch: tests, rows, checkpoints."""

import json
import os
import signal

import numpy as np
import pytest
from helpers import vec
from small_environments import CYCLE, Counting, counting, still, taken
from small_runs import learn, own_identity, rows, train

from tfbaselines.config.options import RunOptions
from tfbaselines.envs.normalize import VecNormalize
from tfbaselines.training import kept_replay, off_policy
from tfbaselines.training.checkpoint import Checkpoints
from tfbaselines.training.guards import Interrupted

ALGORITHMS = pytest.mark.parametrize("alg", ["td3", "sac", "ddpg"])


class Paying(Counting):
    """Pays the first number of the action, so that returns differ with what was done."""

    def step(self, action):
        obs, _, *rest = super().step(action)
        return obs, float(action[0]), *rest


@ALGORITHMS
def test_the_deterministic_policy_is_tested_at_an_epochs_end(alg, seen, tmp_path):
    tests = vec(Paying, 3)
    own = {"normalize_observations": False} if alg == "ddpg" else {}
    model = train(tmp_path, alg, counting(), 4, eval_env=tests, num_test_episodes=4, **own)
    log = rows(tmp_path)
    lengths = [len(taken(tests, i)) for i in range(3)]
    # Two episodes in each of two epochs in the first environment, at the end of which all stop.
    assert lengths == [20, 20, 20]
    counts = np.arange(20)
    obs = np.where(counts % 5 == 0, -counts, counts).astype(np.float32)[:, None]
    np.testing.assert_allclose(taken(tests), model.act(obs, deterministic=True)[0], rtol=1e-4, atol=1e-5)
    returns = np.array([taken(tests, i)[:, 0].reshape(2, 2, 5).sum(-1) for i in range(3)])
    for epoch, row in log.iterrows():
        played = [*returns[0, epoch], returns[1, epoch, 0], returns[2, epoch, 0]]
        told = row["eval/return" if alg == "ddpg" else "AverageTestEpRet"]
        assert told == pytest.approx(np.mean(played), rel=1e-4)
    if alg != "ddpg":
        assert log["TestEpLen"].tolist() == [5, 5]


@ALGORITHMS
def test_environments_for_tests_are_made_and_closed(alg, seen, tmp_path):
    made = []

    def make_eval_env(count):
        made.append(counting(count))
        return made[-1]

    run = RunOptions(make_eval_env=make_eval_env)
    train(tmp_path, alg, counting(), num_test_episodes=3, run=run)
    assert [(env.num_envs, env.closed) for env in made] == [(3, True)]
    assert "eval/return" in rows(tmp_path) or "AverageTestEpRet" in rows(tmp_path)
    learn(alg, counting(), num_test_episodes=0, run=run)
    assert len(made) == 1


@ALGORITHMS
def test_without_tests_there_are_no_columns_of_them(alg, seen, tmp_path):
    train(tmp_path, alg, counting(), eval_env=None if alg == "ddpg" else counting(), num_test_episodes=0)
    assert not [name for name in rows(tmp_path) if "Test" in name or "eval" in name]


@ALGORITHMS
def test_tests_are_cut_off_too(alg, seen, tmp_path):
    tests = counting(length=None)
    train(tmp_path, alg, counting(), eval_env=tests, num_test_episodes=2, max_ep_len=7)
    assert len(taken(tests)) == 2 * 2 * 7


def test_tests_see_observations_as_the_run_does(seen):
    tests = VecNormalize(counting(), training=False)
    env = VecNormalize(counting())
    learn("td3", env, eval_env=tests, num_test_episodes=1)
    np.testing.assert_equal(tests.normalization()["ob"], env.normalization()["ob"])


@ALGORITHMS
@pytest.mark.parametrize(("every", "numbers"), [(1, [1, 2, 4, 6, 7]), (2, [1, 4, 7]), (0, [7])])
def test_checkpoints_are_epochs_apart(alg, every, numbers, seen, tmp_path):
    name = "save_interval" if alg == "ddpg" else "save_freq"
    train(tmp_path, alg, counting(), 7, **{name: every})
    saved = [path.name for path in (tmp_path / "checkpoints").iterdir() if path.name != "best"]
    assert sorted(map(int, saved)) == numbers


@ALGORITHMS
def test_the_replay_can_be_left_out(alg, seen, tmp_path):
    train(tmp_path, alg, counting(), save_replay_buffer=False)
    assert Checkpoints(tmp_path / "checkpoints").latest() is not None
    assert not (tmp_path / "replay").exists()


@ALGORITHMS
def test_a_saved_replay_is_mapped_into_memory_without_pickle(alg, seen, tmp_path):
    learn(alg, counting(length=7)).save_replay_buffer(tmp_path / "replay")
    parts = list((tmp_path / "replay").glob("*.npy"))
    arrays = {path.stem: np.load(path, mmap_mode="r", allow_pickle=False) for path in parts}
    assert all(isinstance(array, np.memmap) for array in arrays.values() if array.size)
    assert json.loads((tmp_path / "replay/replay.json").read_text())["steps"] == 40
    np.testing.assert_array_equal(arrays["rewards"][:40, 0], np.arange(40))
    np.testing.assert_array_equal(np.abs(arrays["obs.all"][:, 0, 0]), np.arange(41))


@ALGORITHMS
def test_the_model_saves_its_replay(alg, seen, tmp_path):
    model = learn(alg, counting())
    model.save_replay_buffer(tmp_path / "replay")
    other = learn(alg, counting(first=1000), 1)
    other.load_replay_buffer(tmp_path / "replay")
    assert len(other.replay) == 40
    drawn = other.replay.sample(np.random.default_rng(0), 1, 300)["rewards"]
    assert set(drawn.ravel()) == set(range(40))


def test_each_checkpoint_adds_the_new_rows_to_the_replay(seen, tmp_path, monkeypatch):
    written = []
    items = off_policy.Replay.items
    monkeypatch.setattr(off_policy.Replay, "items", lambda replay, *span: written.append(span) or items(replay, *span))
    monkeypatch.setattr(kept_replay, "SMALL", 0)
    train(tmp_path, "td3", counting(), 6, update_every=CYCLE, steps_per_epoch=CYCLE)
    assert written == [(CYCLE * k, CYCLE * (k + 1)) for k in range(6)]


@pytest.mark.parametrize("alg", ["ddpg", "td3"])
def test_a_row_has_what_came_before_a_checkpoint_in_its_epoch(alg, eager, tmp_path):
    """An epoch has two cycles; the run is stopped after the first one of its third epoch."""

    def interrupt(run):
        if run.update == 5:
            os.kill(os.getpid(), signal.SIGINT)

    train(tmp_path / "whole", alg, still(), 8)
    with pytest.raises(Interrupted):
        train(tmp_path / "parts", alg, still(), 8, run=RunOptions(callback=interrupt))
    train(tmp_path / "parts", alg, still(), 8, run=RunOptions(resume=str(tmp_path / "parts")))
    assert len(rows(tmp_path / "whole")) == 4
    assert rows(tmp_path / "parts").equals(rows(tmp_path / "whole"))


def test_what_counts_is_the_latest_test(eager):
    """The mean return that progress shows, and by which a run is judged."""
    seen = []
    run = RunOptions(callback=lambda run: seen.append((run.mean_reward, list(run.eval_episodes.rewards))))
    learn("sac", own_identity("sac"), 20, eval_env=own_identity("sac", 1, 7), num_test_episodes=2, run=run)
    shown, returns = seen[-1]
    assert len(returns) > 4 and shown == pytest.approx(np.mean(returns[-2:])) != pytest.approx(np.mean(returns))
