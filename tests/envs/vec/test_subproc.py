import gc
import os
import time

import numpy as np
import pytest
from gymnasium import spaces
from worker_processes import KINDS

from tfbaselines.envs.tiny import ConstantRewardEnv, CueMemoryEnv
from tfbaselines.envs.vec import DummyVecEnv, ShmemVecEnv, SubprocVecEnv


def telling_process():
    """An environment that shows its process's number, and how many actions it has got."""

    class Telling(ConstantRewardEnv):
        def __init__(self):
            super().__init__()
            self.observation_space = spaces.Box(0, np.inf, (2,), np.float64)

        def _begin(self):
            return np.array([os.getpid(), self._time], np.float64)

        def _react(self, action):
            return np.array([os.getpid(), self._time + 1], np.float64), float(action)

    return Telling()


@pytest.mark.parametrize("context", ["spawn", "forkserver"])
def test_environments_run_in_processes_of_their_own(context):
    env = SubprocVecEnv([telling_process] * 4, context=context, in_series=2)
    numbers = env.reset()[:, 0].tolist()
    env.close()
    assert numbers[0] == numbers[1] != numbers[2] == numbers[3] and os.getpid() not in numbers


def test_each_environment_gets_its_own_action():
    env = SubprocVecEnv([telling_process] * 4, in_series=2)
    env.reset()
    assert env.step(np.arange(4))[1].tolist() == [0, 1, 2, 3]
    env.close()


def test_spaces_are_told_by_the_first_worker():
    env = SubprocVecEnv([lambda: CueMemoryEnv(n_cues=3)])
    assert env.observation_space == CueMemoryEnv(3).observation_space and env.action_space == spaces.Discrete(3)
    env.close()


def test_a_step_that_nobody_waited_for_is_not_mixed_up_with_a_reset():
    env = SubprocVecEnv([telling_process] * 2)
    env.reset()
    env.step_async(np.zeros(2, np.int64))
    assert env.reset()[:, 1].tolist() == [0, 0]
    assert env.step(np.zeros(2, np.int64))[0][:, 1].tolist() == [1, 1]
    env.close()


def test_steps_run_at_the_same_time():
    class Sleeping(ConstantRewardEnv):
        def _react(self, action):
            time.sleep(0.3)
            return super()._react(action)

    def sleeping():
        return Sleeping()

    env = SubprocVecEnv([sleeping] * 3)
    env.reset()
    begun = time.monotonic()
    env.step(np.zeros(3, np.int64))
    assert time.monotonic() - begun < 0.6
    env.close()


@pytest.mark.parametrize("series", [0, 3])
def test_processes_have_equal_shares(series):
    with pytest.raises(ValueError, match=f"in_series={series} is not valid: a divisor of the 4 environments"):
        SubprocVecEnv([telling_process] * 4, in_series=series)


def test_forgotten_environments_end_by_themselves():
    env = SubprocVecEnv([telling_process])
    (number,) = env.reset()[:, 0].astype(int)
    os.kill(number, 0)
    del env
    gc.collect()
    with pytest.raises(ProcessLookupError):
        os.kill(number, 0)


class LoggingEnv(ConstantRewardEnv):
    """Asks for the log directory, as scripts that make monitors do."""

    def __init__(self):
        from tfbaselines.logs import logger

        super().__init__()
        logger.get_dir()
        logger.info("said by a worker")


def test_workers_that_touch_the_logger_print_nothing(capfd):
    env = SubprocVecEnv([LoggingEnv] * 2)
    env.reset()
    env.close()
    assert capfd.readouterr().out == ""


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
