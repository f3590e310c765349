import numpy as np
import pytest

from tfbaselines.envs.monitor import load_results
from tfbaselines.envs.tiny import ConstantRewardEnv
from tfbaselines.envs.vec import DummyVecEnv, VecMonitor


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
