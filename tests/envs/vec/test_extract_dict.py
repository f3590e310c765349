import numpy as np
import pytest
from gymnasium import spaces

from tfbaselines.envs.tiny import ConstantRewardEnv
from tfbaselines.envs.vec import DummyVecEnv, VecExtractDictObs


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
