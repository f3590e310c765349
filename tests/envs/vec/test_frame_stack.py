import numpy as np
import pytest
from gymnasium import spaces

from tfbaselines.envs.tiny import ConstantRewardEnv, DiscreteIdentityEnv
from tfbaselines.envs.vec import DummyVecEnv, VecFrameStack


class Frames(ConstantRewardEnv):
    """Frames full of the time, counted from `first`."""

    def __init__(self, first=10, channels=1, kind=np.uint8, episode_len=3):
        super().__init__(episode_len)
        self._first, self._channels = first, channels
        self.observation_space = spaces.Box(0, 255, (2, 3, channels), kind)

    def _begin(self):
        return np.full(self.observation_space.shape, self._first, self.observation_space.dtype)

    def _react(self, action):
        return self._begin() + self._time + 1, 1.0


def pixel(stack):
    """The frames as one pixel shows them, after a look whether the others show the same."""
    assert (stack == stack[0, 0]).all()
    return stack[0, 0].tolist()


# One is moved as packed bytes, the other frame by frame.
@pytest.mark.parametrize("kind", [np.uint8, np.float32])
def test_what_is_older_than_the_episode_is_zero(kind):
    env = VecFrameStack(DummyVecEnv([lambda: Frames(10, 1, kind), lambda: Frames(20, 1, kind, 5)]), 4)
    assert env.observation_space == spaces.Box(0, 255, (2, 3, 4), kind)
    shown = [env.reset()]
    for _ in range(4):
        obs, _, _, infos = env.step([0, 0])
        shown.append(obs)
        if len(shown) == 4:
            assert pixel(infos[0]["final_observation"]) == [10, 11, 12, 13] and "final_observation" not in infos[1]
    assert shown[0].shape == (2, 2, 3, 4) and shown[0].dtype == kind
    assert [pixel(obs[0]) for obs in shown] == [
        [0, 0, 0, 10],
        [0, 0, 10, 11],
        [0, 10, 11, 12],
        [0, 0, 0, 10],
        [0, 0, 10, 11],
    ]
    assert [pixel(obs[1]) for obs in shown[3:]] == [[20, 21, 22, 23], [21, 22, 23, 24]]
    assert pixel(env.reset()[1]) == [0, 0, 0, 20]


def test_the_last_observation_has_the_frames_of_its_episode_only():
    env = VecFrameStack(DummyVecEnv([lambda: Frames(episode_len=1)]), 4)
    env.reset()
    for _ in range(2):
        obs, _, dones, infos = env.step([0])
        assert dones.all() and pixel(obs[0]) == [0, 0, 0, 10]
        assert pixel(infos[0]["final_observation"]) == [0, 0, 10, 11]


def test_several_channels_move_by_one_as_in_the_original():
    env = VecFrameStack(DummyVecEnv([lambda: Frames(channels=2)]), 2)
    assert pixel(env.reset()[0]) == [0, 0, 10, 10]
    assert pixel(env.step([0])[0][0]) == [0, 10, 11, 11]


def test_what_cannot_be_stacked_is_refused():
    with pytest.raises(ValueError, match=r"needs Box observations with an axis to stack on, not Discrete"):
        VecFrameStack(DummyVecEnv([DiscreteIdentityEnv]), 4)
    with pytest.raises(ValueError, match="nstack=0 is not valid: at least 1"):
        VecFrameStack(DummyVecEnv([Frames]), 0)
