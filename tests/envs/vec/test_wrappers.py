import numpy as np
import pytest
from gymnasium import spaces

from tfbaselines.envs.monitor import load_results
from tfbaselines.envs.tiny import ConstantRewardEnv, DiscreteIdentityEnv
from tfbaselines.envs.vec import DummyVecEnv, VecExtractDictObs, VecFrameStack, VecMonitor


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


class Parts(ConstantRewardEnv):
    """Shows the time as a point and as a number; episodes of two steps."""

    def __init__(self):
        super().__init__(2)
        self.observation_space = spaces.Dict(point=spaces.Box(-9, 9, (1,), np.float32), number=spaces.Discrete(9))

    def _begin(self):
        return {"point": np.zeros(1, np.float32), "number": 0}

    def _react(self, action):
        return {"point": np.full(1, -self._time - 1, np.float32), "number": self._time + 1}, 1.0


@pytest.mark.parametrize(("key", "sign", "shape"), [("point", -1, (1,)), ("number", 1, ())])
def test_one_entry_is_shown(key, sign, shape):
    env = VecExtractDictObs(DummyVecEnv([Parts] * 2), key)
    assert env.observation_space is env.unwrapped.observation_space[key] and env.reset().shape == (2, *shape)
    assert (env.step([0, 0])[0] == sign).all()
    obs, _, dones, infos = env.step([0, 0])
    assert dones.all() and not obs.any()
    assert infos[1]["final_observation"] == 2 * sign and np.shape(infos[1]["final_observation"]) == shape


def test_what_is_not_there_is_refused():
    with pytest.raises(ValueError, match="unknown key 'numbers': did you mean 'number'"):
        VecExtractDictObs(DummyVecEnv([Parts]), "numbers")
    with pytest.raises(ValueError, match="needs Dict observations, not Box"):
        VecExtractDictObs(DummyVecEnv([ConstantRewardEnv]), "number")


class Paying(ConstantRewardEnv):
    """Pays `reward`, and tells it in the info."""

    def __init__(self, reward, episode_len):
        super().__init__(episode_len)
        self._reward = reward

    def step(self, action):
        obs, _, *ends, _ = super().step(action)
        return obs, self._reward, *ends, {"paid": self._reward}


def two_envs(**kwargs):
    """Episodes of 2 steps with 0.1 each, and of 3 with -1."""
    return VecMonitor(DummyVecEnv([lambda: Paying(0.1, 2), lambda: Paying(-1.0, 3)]), **kwargs)


def play(env, steps):
    """The episodes that ended, by environment."""
    env.reset()
    results = [env.step(np.zeros(2, np.int64))[-1] for _ in range(steps)]
    return [[infos[i]["episode"] for infos in results if "episode" in infos[i]] for i in range(2)]


def test_every_episode_is_told_when_it_ends(tmp_path):
    env = two_envs(filename=str(tmp_path / "0"), info_keywords=("paid",))
    first, second = play(env, 7)
    assert [(e["r"], e["l"], e["paid"]) for e in first] == [(0.2, 2, 0.1)] * 3
    assert [(e["r"], e["l"], e["paid"]) for e in second] == [(-3.0, 3, -1.0)] * 2
    assert [e["t"] for e in first] == sorted(e["t"] for e in first) and 0 <= first[0]["t"] < 60
    assert env.epcount == 5
    env.close()
    assert load_results(tmp_path)["r"].tolist() == [0.2, -3.0, 0.2, 0.2, -3.0]
    assert (tmp_path / "0.monitor.csv").read_text().splitlines()[1] == "r,l,t,paid"


def test_a_reset_forgets_the_episodes_that_had_begun():
    env = two_envs()
    play(env, 1)
    assert [[(e["r"], e["l"]) for e in episodes] for episodes in play(env, 2)] == [[(0.2, 2)], []]


@pytest.mark.parametrize("keep", [0, 2])
def test_the_latest_episodes_are_kept(keep):
    env = two_envs(keep_buf=keep)
    play(env, 7)
    assert (list(env.epret_buf), list(env.eplen_buf)) == (([0.2, -3.0], [2, 3]) if keep else ([], []))


def test_close_closes_the_file_and_the_environments(tmp_path):
    env = two_envs(filename=str(tmp_path / "0"))
    env.close(), env.close()
    assert env.results_writer._file.closed and env.unwrapped.closed
