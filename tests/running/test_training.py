"""The training object: checkpoints, the best one, callbacks, warnings, and ranks that stop together."""

import os
import signal

import numpy as np
import pytest
from helpers import vec
from tfbaselines.running.training import Episodes, Interrupted, seed_everything

from tfbaselines.algs import ppo2
from tfbaselines.envs import tiny
from tfbaselines.envs.normalize import VecNormalize
from tfbaselines.logs import logger
from tfbaselines.running.checkpoint import load_tree
from tfbaselines.settings.options import RunOptions

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

    def callback(training):
        seen.append((training.update, training.timesteps))
        return training.update < 3

    train(tmp_path, run=RunOptions(callback=callback))
    assert seen == [(1, 16), (2, 32), (3, 48)]
    assert "00003" in names(tmp_path)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_run_after_its_update_with_a_checkpoint(number, tmp_path):
    def send(training):
        if training.update == 2:
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
    train(tmp_path, run=RunOptions(resume=str(tmp_path), callback=lambda t: updates.append(t.update)))
    assert updates == [6]


def test_statistics_of_the_environment_are_resumed(tmp_path):
    def normalized():
        return VecNormalize(vec(lambda: tiny.BoxIdentityEnv((2,), episode_len=8)))

    train(tmp_path, env=normalized())
    saved = load_tree(tmp_path / "checkpoints/00006")["normalization"]["ob"]["count"]
    env = normalized()
    train(tmp_path, 112, env=env, run=RunOptions(resume=str(tmp_path)))
    assert env.ob_rms.count == pytest.approx(saved + 1 + 16)


def test_nothing_to_do_is_said(tmp_path):
    train(tmp_path / "short", 10)
    assert "less than one update" in (tmp_path / "short/log.txt").read_text()
    train(tmp_path / "done")
    train(tmp_path / "done", run=RunOptions(resume=str(tmp_path / "done")))
    assert "nothing left to train" in (tmp_path / "done/log.txt").read_text()


def test_resuming_without_a_checkpoint_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="no readable checkpoint"):
        train(tmp_path, run=RunOptions(resume=str(tmp_path)))


def test_means_are_of_the_last_hundred_episodes():
    episodes = Episodes()
    assert np.isnan(episodes.mean_reward)
    episodes.extend([{"r": float(k), "l": 1} for k in range(150)])
    assert episodes.mean_reward == pytest.approx(np.mean(np.arange(50, 150)))
    copy = Episodes()
    copy.restore(episodes.state())
    assert copy.mean_reward == episodes.mean_reward


def test_ranks_get_streams_of_their_own():
    class Rank:
        def __init__(self, rank):
            self.rank = rank

    draws = [seed_everything(5, Rank(rank)).random() for rank in (0, 1, 0)]
    assert draws[0] == draws[2] != draws[1]
    assert np.random.default_rng(10_005).random() == draws[1]
