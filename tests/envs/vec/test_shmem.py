import numpy as np
import pytest
from gymnasium import spaces
from worker_processes import KINDS

from tfbaselines.envs.tiny import ConstantRewardEnv
from tfbaselines.envs.vec import DummyVecEnv, ShmemVecEnv


def picture(number):
    """A function that makes an environment whose large pictures are full of number + time."""

    def make():
        class Picture(ConstantRewardEnv):
            def __init__(self):
                super().__init__(episode_len=3)
                self.observation_space = spaces.Box(0, 255, (210, 160, 3), np.uint8)

            def _begin(self):
                return np.full((210, 160, 3), number, np.uint8)

            def _react(self, action):
                return self._begin() + self._time + 1, 1.0

        return Picture()

    return make


def every_space(space):
    """A function that makes an environment that shows seeded samples of a space."""

    def make():
        class Showing(ConstantRewardEnv):
            def __init__(self):
                super().__init__(episode_len=3)
                self.observation_space = space
                space.seed(0)

            def _begin(self):
                return self.observation_space.sample()

            def _react(self, action):
                return self._begin(), 1.0

        return Showing()

    return make


def test_each_environment_has_its_place_and_batches_are_copies():
    env = ShmemVecEnv([picture(10 * i) for i in range(4)], in_series=2)
    first = env.reset()
    second, _, _, _ = env.step(np.zeros(4, np.int64))
    env.step(np.zeros(4, np.int64))
    infos = env.step(np.zeros(4, np.int64))[3]
    env.close()
    assert first.shape == (4, 210, 160, 3) and [np.unique(obs).tolist() for obs in first] == [[0], [10], [20], [30]]
    assert [np.unique(obs).tolist() for obs in second] == [[1], [11], [21], [31]]
    assert [np.unique(info["final_observation"]).tolist() for info in infos] == [[3], [13], [23], [33]]


@pytest.mark.parametrize(
    "space",
    [
        spaces.Discrete(9),
        spaces.MultiBinary(5),
        spaces.Box(-1, 1, (2, 3), np.float64),
        spaces.Dict(a=spaces.Box(0, 255, (3, 1), np.uint8), b=spaces.MultiDiscrete([4, 5])),
        spaces.Tuple((spaces.Discrete(9), spaces.Dict(c=spaces.Box(-1, 1, (2,))))),
    ],
)
def test_every_space_fits_in_shared_memory(space):
    results = []
    for env in (ShmemVecEnv([every_space(space)] * 2), DummyVecEnv([every_space(space)])):
        shown = [env.reset(), *(env.step(np.zeros(env.num_envs, np.int64))[0] for _ in range(4))]
        env.close()
        pick = lambda obs: {key: value[-1] for key, value in obs.items()} if isinstance(obs, dict) else obs[-1]
        results.append([pick(obs) for obs in shown])
    np.testing.assert_equal(*results)


def test_no_environment_is_made_in_the_parent():
    made = []

    def make():
        made.append(ConstantRewardEnv())
        return made[-1]

    ShmemVecEnv([make], context="fork").close()
    assert not made


@pytest.mark.parametrize("kind", KINDS)
def test_pipes_carry_observations_where_memory_cannot_be_shared(kind, monkeypatch):
    monkeypatch.setattr("tfbaselines.envs.vec.processes.shared_file", lambda _: None)
    env = kind([picture(10 * i) for i in range(2)])
    env.reset()
    obs = env.step(np.zeros(2, np.int64))[0]
    env._workers.send(0, "step", [0])
    ((sent, *_),) = env._workers.receive(0)
    env.close()
    assert [np.unique(one).tolist() for one in obs] == [[1], [11]] and np.unique(sent).tolist() == [2]


def test_spaces_may_be_given_as_the_environments_have_them():
    space = spaces.Tuple((spaces.Discrete(9), spaces.MultiBinary(3)))
    env = ShmemVecEnv([every_space(space)], (space, spaces.Discrete(2)))
    obs = env.reset()
    env.close()
    assert {name: part.shape for name, part in obs.items()} == {"0": (1,), "1": (1, 3)}


@pytest.mark.parametrize("kind", KINDS)
def test_the_pipe_carries_no_observations(kind):
    env = kind([picture(0)])
    env.reset()
    env._workers.send(0, "step", [0])
    ((obs, reward, done, info),) = env._workers.receive(0)
    env.close()
    assert (obs, reward, done, info) == (None, 1.0, False, {})
