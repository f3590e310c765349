"""Results of reset and step, and spaces, that no environment may have: one line names them."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from tfbaselines.envs.adapt import as_vec_env
from tfbaselines.envs.tiny import ConstantRewardEnv
from tfbaselines.envs.vec import DummyVecEnv, SubprocVecEnv
from tfbaselines.envs.vec.worker import EnvironmentFault, begin
from tfbaselines.errors import WorkerError

BOX_OF_ONE = spaces.Box(-1, 1, (1,), np.float32)


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
    with pytest.raises(WorkerError, match=r"failed: RuntimeError: boom \(.*test_checked_results\.py:\d+\)$"):
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


@pytest.mark.parametrize(
    ("result", "words"),
    [
        ((np.zeros(1, np.float32), 0.0, False, False, None), r"\(its info is no dict\)"),
        ((np.zeros(1, np.float32), 0.0, True, False, None), r"\(its info is no dict\)"),
        ((np.zeros(1, np.float32), 0.0, False, False, "none"), r"\(its info is no dict\)"),
        ((np.zeros(1, np.float32), 0.0, "False", False, {}), r"\('False' is neither True nor False\)"),
        ((np.zeros(1, np.float32), 0.0, False, "no", {}), r"\('no' is neither True nor False\)"),
    ],
)
@pytest.mark.parametrize("adapted", [DummyVecEnv, as_vec_env])
def test_values_of_a_step_that_are_of_another_kind_are_named(result, words, adapted):
    class Stepping(ConstantRewardEnv):
        def step(self, action):
            return result

    env = adapted([Stepping])
    env.reset()
    with pytest.raises(WorkerError, match=rf"^environment 0 \(Stepping\) failed: step must return .* {words}: python"):
        env.step(np.zeros(1, np.int64))


def box(low, high):
    """A Box whose bounds were changed after Gymnasium had checked them."""
    space = spaces.Box(-1, 1, (1,), np.float32)
    space.low, space.high = np.full(1, low, np.float32), np.full(1, high, np.float32)
    return space


@pytest.mark.parametrize("name", ["observation_space", "action_space"])
@pytest.mark.parametrize(
    ("space", "words"),
    [
        (spaces.Box(-1, 1, (0, 3), np.float32), "it has no elements"),
        (box(np.nan, 1), "it has NaN as a bound"),
        (box(1, -1), "it has a low above its high"),
        (spaces.Dict(a=BOX_OF_ONE, b=box(1, -1)), "its part 'b' has a low above its high"),
    ],
)
@pytest.mark.parametrize("adapted", [DummyVecEnv, as_vec_env])
def test_spaces_without_elements_or_with_impossible_bounds_are_named(name, space, words, adapted):
    class Bounded(ConstantRewardEnv):
        def __init__(self):
            super().__init__()
            setattr(self, name, space)

    with pytest.raises(EnvironmentFault, match=rf"^{name} .* is not valid: {words}: python -m tfbaselines.check_env"):
        adapted([Bounded])
