"""The monitor's files, byte by byte those of the original but for the times."""

import json
import re
from typing import Any

import gymnasium
from cases import GOLDEN

from tfbaselines.envs.monitor import Monitor


class Recorded(gymnasium.Env):
    """Pays the recorded rewards; the last step's info holds the recorded keywords."""

    observation_space = gymnasium.spaces.Discrete(1)
    action_space = gymnasium.spaces.Discrete(1)

    def __init__(self, episodes: list[list[float]], keyword: str, values: list[Any]):
        self.episodes, self.keyword, self.values, self.episode = episodes, keyword, values, -1

    def reset(self, *, seed=None, options=None):
        self.episode, self.t = self.episode + 1, 0
        return 0, {}

    def step(self, action):
        rewards = self.episodes[self.episode]
        self.t += 1
        return 0, rewards[self.t - 1], self.t == len(rewards), False, {self.keyword: self.values[self.episode]}


def without_times(text: bytes) -> bytes:
    text = re.sub(rb'"t_start": [^,]+,', b'"t_start": <TIME>,', text)
    return re.sub(rb"(?m)^([^,#]+,\d+),[\d.e-]+", rb"\1,<TIME>", text)


def test_file_and_infos_equal_the_original_ones(tmp_path):
    given = json.loads((GOLDEN / "monitor_input.json").read_text())
    (keyword,) = given["info_keywords"]
    env = Recorded(given["episode_rewards"], keyword, given["extra_values"])
    env = Monitor(env, str(tmp_path / "0"), info_keywords=(keyword,))
    for rewards, expected in zip(given["episode_rewards"], given["info_episode_without_t"], strict=True):
        env.reset()
        for _ in rewards:
            info = env.step(0)[-1]
        assert {key: value for key, value in info["episode"].items() if key != "t"} == expected
    env.close()
    assert without_times((tmp_path / "0.monitor.csv").read_bytes()) == (GOLDEN / "monitor/0.monitor.csv").read_bytes()
