import gc
import os
import time

import numpy as np
import pytest
from gymnasium import spaces

from tfbaselines.envs.tiny import ConstantRewardEnv, CueMemoryEnv
from tfbaselines.envs.vec import SubprocVecEnv


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
