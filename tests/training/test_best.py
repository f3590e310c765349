"""The best parameters of a run are its result."""

import itertools
import shutil

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from helpers import vec
from small_runs import learn, train, weights

from tfbaselines.config.options import RunOptions
from tfbaselines.envs import tiny
from tfbaselines.training.checkpoint import load_tree


class Fading(gymnasium.Env):
    """Episodes of one step, the first hundred and fifty of which pay; the later ones cost."""

    observation_space, action_space = spaces.Box(-1, 1, (2,), np.float32), spaces.Discrete(3)

    def __init__(self):
        self.count = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.count += 1
        return np.zeros(2, np.float32), 1.0 if self.count <= 150 else -1.0, True, False, {}


def fading(tmp_path, **own):
    """What the parameters were after each cycle, and the model that is returned."""
    seen = {}

    def watch(run):
        seen[run.timesteps] = weights(run.model.policy)

    own = {"checkpoint_freq": 50, "learning_starts": 20, "batch_size": 4} | own
    return seen, train(tmp_path / "log", "deepq", vec(Fading), 30, run=RunOptions(callback=watch), **own)


def test_the_best_parameters_are_the_result(eager, tmp_path):
    seen, model = fading(tmp_path, checkpoint_path=str(tmp_path / "best"))
    np.testing.assert_array_equal(weights(model.policy), seen[100])
    assert not np.array_equal(seen[100], seen[300])
    obs = np.zeros((1, 2), np.float32)
    assert model.value(obs)[0] == pytest.approx(float(model.policy.forward(obs).value[0]))
    # The log's last checkpoint goes on where training ended.
    last = load_tree(tmp_path / "log/checkpoints/00030")["model"]["policy"]["weights"]
    np.testing.assert_array_equal(np.concatenate([next(iter(w.values())).ravel() for w in last.values()]), seen[300])
    # A run with the same checkpoint_path starts from the best.
    again = learn("deepq", vec(Fading), 0, seed=5, checkpoint_path=str(tmp_path / "best"))
    np.testing.assert_array_equal(weights(again.policy), seen[100])


def test_the_best_of_an_earlier_run_is_none_of_this_one(eager, tmp_path):
    _, model = fading(tmp_path)
    model.save(tmp_path / "model")
    seen = {}

    def watch(run):
        seen[run.timesteps] = weights(run.model.policy)

    own = {"load_path": tmp_path / "model", "run": RunOptions(callback=watch), "checkpoint_freq": None}
    model = learn("deepq", vec(Fading), 3, batch_size=4, **own)
    np.testing.assert_array_equal(weights(model.policy), seen[30])


@pytest.mark.parametrize("own", [{"checkpoint_freq": None}, {"checkpoint_freq": 400}])
def test_without_looking_the_last_ones_are(own, eager, tmp_path):
    seen, model = fading(tmp_path, **own)
    np.testing.assert_array_equal(weights(model.policy), seen[300])


def test_the_best_checkpoint_comes_back_after_the_directory_of_checkpoints_was_removed(eager, tmp_path):
    """Though no later update is as good: rewards fall with each step."""
    rewards = itertools.count(0, -1)

    def remove(run):
        if run.update == 3:
            shutil.rmtree(tmp_path / "checkpoints")
        return True

    env = tiny.DiscreteIdentityEnv(4, episode_len=10)
    env = vec(lambda: gymnasium.wrappers.TransformReward(env, lambda reward: next(rewards)))
    train(tmp_path, "ppo2", env, 6, run=RunOptions(callback=remove), save_interval=1)
    assert (tmp_path / "checkpoints/best").exists()
