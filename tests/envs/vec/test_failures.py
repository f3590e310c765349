"""What is said of environments that do not do what Gymnasium asks of them."""

import gymnasium
import numpy as np
import pytest

from tfbaselines.envs.adapt import as_vec_env
from tfbaselines.envs.tiny import ConstantRewardEnv
from tfbaselines.envs.vec import DummyVecEnv, SubprocVecEnv
from tfbaselines.envs.vec.checks import EnvironmentFault, begin
from tfbaselines.errors import WorkerError


class OldReset(ConstantRewardEnv):
    def reset(self):
        return super().reset()


def resetting(result):
    env = ConstantRewardEnv()
    env.reset = lambda **_: result
    return env


def stepping(result):
    """An environment whose steps return the same, or raise it."""

    class Stepping(ConstantRewardEnv):
        def step(self, action):
            if isinstance(result, Exception):
                raise result
            return result

    return Stepping


def test_a_reset_without_seed_is_named():
    with pytest.raises(
        ValueError, match=r"^environment 0 \(OldReset\) failed: reset must be Gymnasium's.*check_env ID"
    ):
        as_vec_env([OldReset], seed=1)


@pytest.mark.parametrize("result", [np.zeros(2), None, (0, 1), (np.zeros(1), {}, 1)])
def test_a_reset_that_returns_something_else_is_named(result):
    with pytest.raises(EnvironmentFault, match=r"and return \(obs, info\)"):
        begin(resetting(result), seed=1)
    env = DummyVecEnv([lambda: resetting(result)])
    with pytest.raises(WorkerError, match=r"^environment 0 \(ConstantRewardEnv\) failed: reset must be Gymnasium's"):
        env.reset()


@pytest.mark.parametrize("result", [None, (np.zeros(1), 0.0, False, {}), (np.zeros(1), 0.0, False, False, {}, 1)])
@pytest.mark.parametrize("monitored", [False, True])
def test_a_step_that_returns_something_else_is_named(result, monitored):
    env = (as_vec_env if monitored else DummyVecEnv)([stepping(result)])
    env.reset()
    with pytest.raises(WorkerError, match=r"^environment 0 .* failed: step must return Gymnasium's five values"):
        env.step([0])


@pytest.mark.parametrize(
    ("reward", "make"),
    [(None, as_vec_env), ("1", as_vec_env), (np.ones(2), as_vec_env), (np.ones(2), DummyVecEnv)],
)
def test_a_reward_that_is_no_number_is_named(reward, make):
    env = make([stepping((np.zeros(1), reward, False, False, {}))])
    env.reset()
    with pytest.raises(WorkerError, match=r"^environment 0 .* failed: the reward .* is not a number$"):
        env.step([0])


def test_an_exception_of_the_environments_own_has_its_place():
    env = DummyVecEnv([stepping(RuntimeError("boom"))])
    env.reset()
    with pytest.raises(WorkerError, match=r"failed: RuntimeError: boom \(.*test_failures\.py:\d+\)$"):
        env.step([0])


def test_workers_name_it_too():
    results = [RuntimeError("boom"), (np.zeros(1), 0.0, False, {}), (np.zeros(1), np.ones(2), False, False, {})]
    expected = [
        # Cloudpickle may have left out the file of a class that is no module's.
        r"RuntimeError: boom \(.*(test_failures\.py|dynamic-code>):\d+\)",
        "step must return Gymnasium's five values",
        r"the reward array.* is not a number",
    ]
    for result, words in zip(results, expected, strict=True):
        env = SubprocVecEnv([stepping(result)])
        env.reset()
        with pytest.raises(WorkerError, match=f"^environment 0 .* failed: {words}"):
            env.step([0])
    env = SubprocVecEnv([lambda: resetting(None)])
    with pytest.raises(WorkerError, match="failed: reset must be Gymnasium's"):
        env.reset()


def test_a_type_error_of_the_environments_own_stays_its_own():
    env = DummyVecEnv([stepping(ValueError("not enough values to unpack"))])
    env.reset()
    with pytest.raises(WorkerError, match=r"failed: ValueError: not enough values to unpack \(.*\.py:\d+\)$"):
        env.step([0])


def test_an_environment_without_spaces_is_named():
    class Spaceless(gymnasium.Env):
        pass

    for make in (DummyVecEnv, as_vec_env):
        with pytest.raises(ValueError, match="environment Spaceless has no observation_space"):
            make([Spaceless])


def test_one_environment_given_twice_is_refused():
    env = ConstantRewardEnv()
    for make in (DummyVecEnv, as_vec_env):
        with pytest.raises(ValueError, match="several functions return the same environment"):
            make([lambda: env] * 4)
