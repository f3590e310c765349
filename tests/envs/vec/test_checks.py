"""Numbers that are not finite, and observations that do not fit their space, are named before they are learned from."""

import sys

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from tfbaselines.envs.check import MISTAKE, check
from tfbaselines.envs.make import make_vec_env
from tfbaselines.envs.tiny import ConstantRewardEnv
from tfbaselines.envs.vec import DummyVecEnv, SubprocVecEnv
from tfbaselines.envs.vec.worker import EnvironmentFault
from tfbaselines.errors import NotFiniteError, ObservationError, WorkerError

BOX_OF_ONE = spaces.Box(-1, 1, (1,), np.float32)
KINDS = [DummyVecEnv, SubprocVecEnv]


def scripted(reset=0.0, later_reset=0.0, final=0.0, reward=1.0, step=0.0):
    """A function that makes environments with two steps in an episode, some of whose numbers are given."""

    def make():
        class Scripted(ConstantRewardEnv):
            resets = 0

            def _begin(self):
                self.resets += 1
                return np.full(1, reset if self.resets == 1 else later_reset, np.float32)

            def _react(self, action):
                return np.full(1, step if self._time == 0 else final, np.float32), reward

        return Scripted(episode_len=2)

    return make


def play(env):
    env.reset()
    for _ in range(3):
        env.step(np.zeros(env.num_envs, np.int64))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("reset", "observation after reset at step 0"),
        ("step", "observation at step 1"),
        ("final", "final observation at step 2"),
        ("later_reset", "observation after reset at step 2"),
        ("reward", "reward at step 1"),
    ],
)
def test_a_number_that_is_not_finite_is_named(where, words, bad):
    env = DummyVecEnv([scripted(), scripted(**{where: bad})])
    with pytest.raises(NotFiniteError, match=rf"^environment 1 \(Scripted\): {words} is not a finite number$"):
        play(env)


@pytest.mark.parametrize("kind", [SubprocVecEnv])
@pytest.mark.parametrize("where", ["reset", "final", "reward"])
def test_in_processes_too(kind, where):
    env = kind([scripted(), scripted(**{where: np.nan})])
    with pytest.raises(NotFiniteError, match=r"^environment 1 \(Scripted\): .* is not a finite number$"):
        play(env)
    env.close()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("reward", [3e38, -3e38, 1e100])
def test_a_reward_whose_square_overflows_is_refused(reward):
    env = DummyVecEnv([scripted(), scripted(reward=reward)])
    with pytest.raises(NotFiniteError, match=r"^environment 1 \(Scripted\): reward -?[0-9]e\+[0-9]+ at step 1 is"):
        play(env)


def test_rewards_that_are_large_together_are_fine():
    env = DummyVecEnv([scripted(reward=1.5e19)] * 4)
    play(env)


WRONG = [
    (np.zeros(1, np.float32), r"shape \(1,\), its space has shape \(4,\)"),
    (np.float32(0), r"shape \(\), its space has shape \(4,\)"),
    (np.zeros((1, 4), np.float32), r"shape \(1, 4\), its space has shape \(4,\)"),
    (np.array(["a"] * 4), r"dtype <U1, its space has dtype float32"),
]


def showing(obs, space):
    def make():
        env = gymnasium.make("CartPole-v1", disable_env_checker=True).unwrapped
        env.observation_space = space
        env.reset = lambda **_: (obs, {})
        return env

    return make


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("obs", "words"), WRONG)
def test_an_observation_of_another_shape_or_dtype_is_refused(kind, obs, words):
    space = spaces.Box(-9, 9, (4,), np.float32)
    env = kind([showing(np.zeros(4), space), showing(obs, space)])
    with pytest.raises(ObservationError, match=rf"^environment 1 \(CartPole-v1\): .* after reset has {words}$"):
        env.reset()
    env.close()


@pytest.mark.parametrize(
    ("space", "obs"),
    [
        (spaces.Box(0, 255, (2,), np.uint8), np.zeros(2, np.int64)),
        (spaces.Box(0, 1, (2,), np.float32), np.zeros(2, np.float64)),
        (spaces.Box(0, 1, (2,), np.float32), [0, 1]),
        (spaces.Discrete(3), 2),
        (spaces.MultiBinary(2), np.zeros(2, bool)),
        (spaces.Dict(a=spaces.Discrete(2)), {"a": 1, "more": None}),
    ],
)
def test_what_can_be_cast_is_taken(space, obs):
    DummyVecEnv([showing(obs, space)]).reset()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("space", "obs", "words"),
    [
        (
            spaces.Box(0, 255, (2, 2), np.uint8),
            np.array([[0, 1], [300, -1]]),
            "the entry 300, its space has dtype uint8",
        ),
        (spaces.Dict(a=spaces.Box(-9, 9, (1,), np.int8)), {"a": [-129]}, "the entry -129, its space has dtype int8"),
    ],
)
def test_integers_that_would_wrap_are_refused(kind, space, obs, words):
    env = kind([showing(obs, space)])
    with pytest.raises(ObservationError, match=rf"^environment 0 \(CartPole-v1\): .* has {words} of -?\d+ to \d+$"):
        env.reset()
    env.close()


class Odd(BaseException):
    """No Exception, and without a text."""

    def __str__(self):
        raise ValueError


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("where", ["reset", "step"])
def test_an_environment_that_exits_has_failed(kind, where):
    errors = [
        (SystemExit(0), "SystemExit: 0"),
        (GeneratorExit("g"), "GeneratorExit: g"),
        (Odd(), "Odd: its text cannot be"),
    ]
    for error, words in errors if kind is DummyVecEnv else errors[:1]:
        env = kind([ConstantRewardEnv, failing_in(where, error)])
        with pytest.raises(WorkerError, match=rf"^environment 1 \(ConstantRewardEnv\) failed: {words}.*\(.*:\d+\)$"):
            play(env)
        env.close()


@pytest.mark.parametrize("kind", KINDS)
def test_an_environment_that_exits_while_it_is_made_has_failed(kind):
    with pytest.raises(WorkerError, match=r"^environment 0 failed: SystemExit: 0 \(.*:\d+\)$"):
        kind([lambda: sys.exit(0)])


def test_a_registered_environment_that_exits_has_failed_for_run_and_check_env():
    class InReset(ConstantRewardEnv):
        def reset(self, **_):
            sys.exit(0)

    for number, (make, words) in enumerate([(lambda: sys.exit(0), "cannot be made"), (InReset, "environment 0")]):
        gymnasium.register(f"Exiting-v{number}", entry_point=make)
        with pytest.raises(EnvironmentFault, match=f"{words}.*SystemExit: 0"):
            make_vec_env(f"Exiting-v{number}", seed=0)
    assert [finding.kind for finding in check(InReset, 3)] == [MISTAKE]


@pytest.mark.parametrize("kind", KINDS)
def test_an_environment_that_fails_to_close_is_a_warning(kind, capfd):
    errors = [OSError("no server"), SystemExit(3)]
    env = kind([failing_in("close", error) for error in errors])
    play(env)
    env.close()
    lines = sorted(line for line in capfd.readouterr().err.splitlines() if "warning" in line)
    assert len(lines) == 2 and "Traceback" not in "".join(lines)
    for i, (line, error) in enumerate(zip(lines, errors, strict=True)):
        assert f"environment {i} (ConstantRewardEnv) failed to close: {type(error).__name__}: {error}" in line


def failing_in(method, error):
    """A function that makes environments of which a method raises."""

    def make():
        def fail(*_, **__):
            raise error

        env = ConstantRewardEnv(episode_len=2)
        setattr(env, method, fail)
        return env

    return make


@pytest.mark.parametrize("space", [spaces.MultiDiscrete([3, 3]), spaces.MultiBinary(2), spaces.Box(-1, 1, (2,))])
def test_an_environment_that_changes_its_action_changes_a_copy(space):
    class Changing(ConstantRewardEnv):
        def step(self, action):
            action[...] = 0
            return super().step(0)

    env = DummyVecEnv([Changing])
    env.reset()
    actions = np.ones((1, 2), space.dtype)
    env.step(actions)
    assert actions.tolist() == [[1, 1]]


def test_the_wrong_part_of_a_dictionary_is_named():
    space = spaces.Dict(a=spaces.Discrete(2), b=spaces.Box(0, 1, (2,), np.float32))
    for obs, words in (({"a": 1}, "part 'b', is missing"), ({"a": 1, "b": [0.0]}, r"part 'b', has shape \(1,\)")):
        with pytest.raises(ObservationError, match=words):
            DummyVecEnv([showing(obs, space)]).reset()
    with pytest.raises(ObservationError, match="dtype float64, its space has dtype int64"):
        DummyVecEnv([showing(1.5, spaces.Discrete(3))]).reset()


def one_wrong(where, obs, space):
    """A function that makes environments of two steps an episode, with one observation that is wrong."""

    class OneWrong(gymnasium.Env):
        observation_space, action_space = space, spaces.Discrete(2)
        resets = steps = 0

        def _shown(self, place):
            return obs if place == where else space.sample()

        def reset(self, **_):
            self.resets, self.steps = self.resets + 1, 0
            return self._shown("reset" if self.resets == 1 else "later reset"), {}

        def step(self, action):
            self.steps += 1
            return self._shown("step" if self.steps == 1 else "end"), 0.0, self.steps == 2, False, {}

    return OneWrong


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("where", "what"),
    [("later reset", "observation after reset"), ("step", "observation"), ("end", "final observation")],
)
def test_every_observation_has_to_fit(kind, where, what):
    space = spaces.Box(-9, 9, (4,), np.float32)
    env = kind([one_wrong("", None, space), one_wrong(where, 0.5, space)])
    with pytest.raises(ObservationError, match=rf"^environment 1 \(OneWrong\): {what} has shape \(\), its space has"):
        play(env)
    env.close()


@pytest.mark.parametrize(
    ("space", "obs", "words"),
    [
        (spaces.Discrete(4), -1, r" is -1: its space is Discrete\(4\)"),
        (spaces.Discrete(4, start=1), 5, r" is 5: its space is Discrete\(4, start=1\)"),
        (spaces.MultiDiscrete([2, 3]), np.array([1, 3]), r" is \[1 3\]: its space is MultiDiscrete\(\[2 3\]\)"),
        (spaces.Dict(a=spaces.Discrete(2)), {"a": 2}, r", part 'a', is 2: its space is Discrete\(2\)"),
        (
            spaces.Box(0, 255, (2, 2, 1), np.uint8),
            np.full((2, 2, 1), 0.7),
            " has dtype float64, its space has dtype uint8",
        ),
    ],
)
def test_numbers_that_an_array_would_take_for_others_are_refused(space, obs, words):
    with pytest.raises(ObservationError, match=rf"^environment 0 \(OneWrong\): observation{words}$"):
        play(DummyVecEnv([one_wrong("step", obs, space)]))
