"""Tests see what training sees."""

import numpy as np
import pytest
from gymnasium import spaces
from helpers import vec
from small_runs import rows, train

from tfbaselines.envs.normalize import VecNormalize
from tfbaselines.envs.tiny import ConstantRewardEnv
from tfbaselines.envs.vec import VecFrameStack
from tfbaselines.training.testing import Tester as Judge


class Large(ConstantRewardEnv):
    """Shows numbers around 1000."""

    def __init__(self):
        super().__init__(episode_len=4)
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)

    def _begin(self):
        return self.np_random.normal(1000, 3, 2).astype(np.float32)

    def _react(self, action):
        return self._begin(), 1.0


class Watching:
    """A model that remembers what it acts on."""

    def __init__(self):
        self.seen = []

    def initial_states(self, count):
        return None

    def act(self, obs, state, deterministic, dones):
        self.seen.append(obs)
        return np.zeros(len(obs), np.int64), None


def trained(**kwargs):
    """Environments whose statistics are those of some steps."""
    env = VecNormalize(vec(Large, 2), **kwargs)
    env.reset()
    for _ in range(50):
        env.step(np.zeros(2, np.int64))
    return env


def judge(env, eval_env):
    return Judge(env, eval_env, 2)


@pytest.mark.parametrize("around", [lambda env: env, VecNormalize])
def test_observations_are_scaled_as_in_training(around):
    env, model = trained(clipob=1.5), Watching()
    before = env.ob_rms.mean.copy()
    episodes = judge(env, around(vec(Large, seed=7))).run(model)
    assert [episode["r"] for episode in episodes] == [4.0, 4.0]
    assert np.abs(model.seen).max() <= 10 and np.array_equal(env.ob_rms.mean, before)


def test_the_bound_is_that_of_training():
    env, model = trained(clipob=0.5), Watching()
    judging = judge(env, vec(Large, seed=7))
    # As an older version saved it.
    judging.env.restore(vec(Large).state())
    judging.run(model)
    assert np.abs(model.seen).max() == 0.5


@pytest.mark.parametrize("env", [vec(Large), trained(ob=False)])
def test_observations_that_training_does_not_scale_stay_as_they_are(env):
    given, model = vec(Large, seed=7), Watching()
    judging = judge(env, given)
    judging.run(model)
    assert judging.env is given and np.min(model.seen) > 900


def test_what_cannot_be_scaled_like_that_is_refused():
    with pytest.raises(ValueError, match=r"eval_env.* wrap it in VecNormalize where env is"):
        judge(trained(), VecFrameStack(vec(Large), 3))


@pytest.mark.parametrize(
    ("alg", "length", "tested"),
    [
        ("ppo2", "eplenmean", "eval_eplenmean"),
        ("acer", "mean_episode_length", None),
        ("deepq", None, "mean test reward"),
    ],
)
def test_episodes_of_training_and_of_tests_end_at_a_return(alg, length, tested, tmp_path, eager):
    """Every step pays 1, so a return is a length."""
    own = {"eval_env": vec(ConstantRewardEnv)} if tested else {}
    own |= {"num_test_episodes": 1} if alg == "deepq" else {}
    train(tmp_path, alg, vec(ConstantRewardEnv), max_ep_reward=4.0, max_ep_len=9, **own)
    last = rows(tmp_path).iloc[-1]
    assert [last[name] for name in (length, tested) if name is not None] == [4.0] * (1 + (alg == "ppo2"))
