"""What is found in environments of the user's own."""

import copy

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from tfbaselines.check_env import main
from tfbaselines.envs.check import ADVICE, MISTAKE, RIGHT, check


class Fine(gymnasium.Env):
    """Nothing is wrong with it; subclasses and `changes` spoil it.

    Args:
        changes: attributes, and `step` and `reset` results by name.
    """

    observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self, **changes):
        self.changes, self.time = changes, 0
        for name in ("observation_space", "action_space"):
            setattr(self, name, changes.get(name, getattr(self, name)))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return copy.deepcopy(self.changes.get("reset", (self._obs(), {})))

    def _obs(self):
        return self.changes.get("obs", self.np_random.uniform(-1, 1, 2).astype(np.float32))

    def step(self, action):
        self.time += 1
        end = self.changes.get("terminated", self.time == 20)
        reward = self.changes.get("reward", float(self.time % 3))
        result = self._obs(), reward, end, False, self.changes.get("info", {})
        return copy.deepcopy(self.changes.get("step", result))

    def get_state(self):
        return {"time": self.time}

    def set_state(self, state):
        self.time = state["time"]


def found(kind, steps=60, make=Fine, **changes):
    return [finding.text for finding in check(lambda: make(**changes), steps) if finding.kind == kind]


def test_an_environment_may_be_right():
    assert found(MISTAKE) == found(ADVICE) == []
    assert len(found(RIGHT)) == 4


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"observation_space": spaces.Text(3), "obs": "ab"}, "observation_space is Text"),
        ({"action_space": spaces.Dict(a=spaces.Discrete(2))}, "action_space is Dict"),
        ({"action_space": spaces.Dict()}, "An empty Dict action space is not allowed"),
        ({"observation_space": spaces.Dict()}, "An empty Dict observation space is not allowed"),
        (
            {"observation_space": spaces.Tuple((spaces.Sequence(spaces.Discrete(2)),)), "obs": ((1,),)},
            "is not supported: Box, Discrete",
        ),
        ({"action_space": spaces.MultiDiscrete([[2, 3], [4, 2]])}, "nvec must be of rank 1"),
        ({"reset": np.zeros(2)}, "The result returned by `env.reset()` was not a tuple"),
        ({"step": (np.zeros(2), 0.0, False, {})}, "written in old step API"),
        ({"step": (np.zeros(2), 0.0)}, "Expected `Env.step` to return a four or five element tuple"),
        ({"obs": np.zeros(3, np.float32)}, "has shape (3,), its space has shape (2,)"),
        ({"obs": np.array([np.nan, 0.0], np.float32)}, "observation is NaN or infinite"),
        ({"obs": np.array([0.0, 2.0], np.float32)}, "is outside of its space's bounds"),
        ({"obs": np.zeros(2)}, "observation has dtype float64, its space has dtype float32"),
        ({"obs": np.zeros(2, np.complex64)}, "has dtype complex64"),
        ({"reward": float("inf")}, "The reward is an inf value"),
        ({"reward": "1"}, "The reward returned by `step()` must be a float"),
        ({"terminated": None}, "Expects `terminated` signal to be a boolean"),
        ({"info": []}, "The `info` returned by `step()` must be a python dictionary"),
        ({"info": {"success": "no"}}, "step 1: the info's 'success' is 'no': it must be True, False or a number"),
    ],
)
def test_mistakes_are_named(changes, text):
    (mistake,) = found(MISTAKE, **changes)
    assert text in mistake


class Raising(Fine):
    def step(self, action):
        raise KeyError("goal")


class Tiring(Fine):
    """Fails in the 70th step of its life."""

    lives = 0

    def step(self, action):
        self.lives += 1
        if self.lives == 70:
            raise RuntimeError("tired")
        return super().step(action)


class Unclosable(Fine):
    def close(self):
        raise OSError("still in use")


class Unseeded(Fine):
    def _obs(self):
        return np.random.default_rng().uniform(-1, 1, 2).astype(np.float32)


def test_its_own_exceptions_are_named():
    (mistake,) = found(MISTAKE, make=Raising)
    assert mistake.startswith("step 1 with action [") and "failed: KeyError: 'goal' (" in mistake


def test_its_own_exceptions_in_later_episodes_and_at_the_end_are_named():
    (mistake,) = found(MISTAKE, make=Tiring, steps=100)
    assert mistake.startswith("step 6") and "with action [" in mistake and "RuntimeError: tired (" in mistake
    (mistake,) = found(MISTAKE, make=Unclosable)
    assert mistake.startswith("close() failed: OSError: still in use (")


def test_an_environment_that_fails_and_cannot_be_closed_has_two_mistakes():
    failed, unclosed = found(MISTAKE, make=Unclosable, reward="1")
    assert "The reward returned" in failed and "close() failed" in unclosed


class Playing(Fine):
    """Its get_state is not what saves an episode."""

    def get_state(self, player):
        return {"of": player}


class Forgetting(Fine):
    def set_state(self, state):
        raise LookupError("no such state")


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (Playing, "get_state() of Playing failed (TypeError: Playing.get_state() missing 1 required"),
        (Forgetting, "set_state() of Forgetting failed (LookupError: no such state)"),
    ],
)
def test_methods_that_cannot_save_an_episode_are_named(make, text):
    (advice,) = found(ADVICE, make=make)
    assert text in advice and "a resumed run begins another episode" in advice
    assert not found(MISTAKE, make=make)


class Growing(Fine):
    """Its observations leave their space in later steps."""

    def _obs(self):
        return np.full(2, self.time / 10, np.float32)


def test_later_steps_are_checked_too():
    (mistake,) = found(MISTAKE, make=Growing)
    assert mistake.startswith("step 11: ") and "outside of its space's bounds" in mistake


def test_chance_that_no_seed_reaches_is_found():
    (mistake,) = found(MISTAKE, make=Unseeded)
    assert "not equivalent" in mistake and "seed" in mistake


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {"action_space": spaces.Box(-2.0, 2.0, (1,), np.float32)},
            "we recommend using a symmetric and normalized space",
        ),
        ({"action_space": spaces.Box(-np.inf, np.inf, (1,), np.float32)}, "give the Box finite low and high"),
        (
            {"observation_space": spaces.Box(-1e4, 1e4, (2,)), "obs": np.full(2, 900.0, np.float32)},
            "observations reach 900",
        ),
        ({"reward": 500.0, "terminated": False}, "rewards reach 500"),
        ({"reward": 0.0, "terminated": False}, "every random step gave the reward 0"),
        ({"terminated": False}, "no episode ended within 60 steps and there is no time limit"),
        (
            {"observation_space": spaces.Box(0, 1, (3, 8, 8)), "obs": np.zeros((3, 8, 8), np.float32)},
            "are no images to a cnn",
        ),
    ],
)
def test_advice_is_given(changes, text):
    assert any(text in advice for advice in found(ADVICE, **changes))
    assert not found(MISTAKE, **changes)


def test_parts_of_observations_are_named():
    space = spaces.Dict({"a": spaces.Discrete(2), "b": Fine.observation_space})
    obs = {"a": 1, "b": np.full(2, 3.0, np.float32)}
    (mistake,) = found(MISTAKE, observation_space=space, obs=obs)
    assert "observation, part 'b', is outside of its space's bounds" in mistake


def test_the_command_ends_with_what_to_do(capsys):
    assert main(["Pendulum-v1", "--steps=250"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("advice  For Box action spaces")
    assert lines[2] == "right   observations Box (3,) float32, actions Box (1,) float32"
    assert lines[-2].startswith("algorithms that take it: a2c, acer, ") and "deepq" not in lines[-2]
    assert lines[-1] == "Pendulum-v1: 0 to change, 1 to consider"


@pytest.mark.parametrize(
    ("env_id", "takes", "does_not_take"),
    [
        ("Taxi-v4", {"qlearning", "deepq", "es"}, {"bc", "gail", "her"}),
        ("Pendulum-v1", {"sac", "bc", "gail"}, {"her", "deepq"}),
        ("CartPole-v1", {"qlearning", "ppo2"}, {"td3"}),
        ("Plane-v0", {"ppo2", "es"}, {"qlearning"}),
        ("tfbaselines.envs.tiny:tfbaselines/PointReach-v0", {"sac", "her"}, {"deepq"}),
        ("Seen-v0", {"ppo2", "es", "sac"}, {"qlearning", "bc", "gail"}),
    ],
)
def test_algorithms_are_named_that_take_what_is_observed(env_id, takes, does_not_take, capsys):
    picture, speed = np.zeros((8, 8, 1), np.uint8), np.zeros(1, np.float32)
    space = spaces.Dict(picture=spaces.Box(0, 255, (8, 8, 1), np.uint8), speed=spaces.Box(-1, 1, (1,)))
    gymnasium.register("Seen-v0", lambda: Fine(observation_space=space, obs={"picture": picture, "speed": speed}))
    plane = np.zeros((5, 5), np.float32)
    gymnasium.register("Plane-v0", lambda: Fine(observation_space=spaces.Box(-1, 1, (5, 5)), obs=plane))
    try:
        assert main([env_id, "--steps=250"]) == 0
    finally:
        del gymnasium.registry["Seen-v0"], gymnasium.registry["Plane-v0"]
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("algorithms"))
    named = set(line.removeprefix("algorithms that take it: ").split(", "))
    assert takes <= named and not does_not_take & named


def test_the_commands_mistakes_are_one_line(capsys):
    assert main(["Pendlum-v1"]) == 2 and main(["Pendulum-v1", "--steps=0"]) == 2
    assert capsys.readouterr().err.count("\n") == 2
    gymnasium.register("Spoilt-v0", lambda: Fine(reward=float("nan")))
    try:
        assert main(["Spoilt-v0"]) == 1
    finally:
        del gymnasium.registry["Spoilt-v0"]
    assert "change  The reward is a NaN value" in capsys.readouterr().out


class Robot(Fine):
    def __init__(self, arms, hands=2):
        super().__init__()
        if arms > 2:
            raise RuntimeError("too many arms")
        if arms < 0:
            raise ValueError("too few arms")


def test_arguments_of_the_environments_own(capsys):
    gymnasium.register("Robot-v0", Robot)
    try:
        assert main(["Robot-v0", "--steps=20", "--env_kwargs.arms=2"]) == 0
        assert main(["--env_kwargs.arms", "2", "Robot-v0", "--steps", "20", "--env_kwargs.hands", "1"]) == 0
        capsys.readouterr()
        for words, text in (
            ([], "env_kwargs={} is not valid: use arguments of Robot-v0"),
            (["--env_kwargs.arms=3"], "'Robot-v0' cannot be made: RuntimeError: too many arms ("),
            (["--env_kwargs.arms=-1"], "'Robot-v0' cannot be made: ValueError: too few arms ("),
            (["--env_kwargs=3"], "write --env_kwargs.NAME=VALUE"),
            (["--env_kwargs.arms", "-1"], "'Robot-v0' cannot be made: ValueError: too few arms ("),
        ):
            assert main(["Robot-v0", *words]) == 2
            err = capsys.readouterr().err
            assert text in err and err.count("\n") == 1
    finally:
        del gymnasium.registry["Robot-v0"]


class Masked(Fine):
    """Fails when an action is taken that its mask forbids.

    Args:
        actions: the space.
        allowed: the mask, as infos or observations have it, flat.
        told: what stands there.
        in_obs: the mask's space, when it is a part of the observations.
    """

    def __init__(self, actions, allowed, told, in_obs=None):
        super().__init__(action_space=actions)
        self._allowed, self._told, self._in_obs = allowed, told, in_obs
        if in_obs is not None:
            self.observation_space = spaces.Dict(place=Fine.observation_space, action_mask=in_obs)

    def reset(self, *, seed=None, options=None):
        obs, _ = super().reset(seed=seed)
        return obs, self._info()

    def step(self, action):
        starts = np.cumsum([0, *getattr(self.action_space, "nvec", [])])[: np.size(action)]
        assert all(self._allowed[choice] for choice in starts + action - self.action_space.start)
        return *super().step(action)[:4], self._info()

    def _info(self):
        return {} if self._in_obs is not None else {"action_mask": self._told}

    def _obs(self):
        place = super()._obs()
        return place if self._in_obs is None else {"place": place, "action_mask": self._told}


ONE, TWO = spaces.Discrete(4, start=3), spaces.MultiDiscrete([2, 3], start=[1, -1])
OF_ONE, OF_TWO = [0, 1, 0, 1], [0, 1, 1, 0, 0]
PARTS = (np.array([0, 1], np.int8), np.array([1, 0, 0], np.int8))


@pytest.mark.parametrize(
    ("actions", "allowed", "told", "in_obs"),
    [
        (ONE, OF_ONE, np.array(OF_ONE, bool), None),
        (ONE, OF_ONE, OF_ONE, None),
        (ONE, OF_ONE, np.array(OF_ONE, np.int8), spaces.MultiBinary(4)),
        (ONE, OF_ONE, np.array(OF_ONE, np.float32), spaces.Box(0.0, 1.0, (4,))),
        (TWO, OF_TWO, np.array(OF_TWO, np.int8), None),
        (TWO, OF_TWO, PARTS, None),
        (TWO, OF_TWO, list(PARTS), None),
        (TWO, OF_TWO, np.array(OF_TWO, np.int8), spaces.MultiBinary(5)),
        (TWO, OF_TWO, PARTS, spaces.Tuple((spaces.MultiBinary(2), spaces.MultiBinary(3)))),
    ],
)
def test_actions_that_a_mask_forbids_are_not_taken(actions, allowed, told, in_obs):
    assert not found(MISTAKE, make=lambda: Masked(actions, allowed, told, in_obs))


@pytest.mark.parametrize(
    ("told", "text"),
    [
        (np.zeros(4), "after reset: an 'action_mask' allows nothing"),
        (np.ones(3), "after reset: an 'action_mask' has 3 entries, the actions have 4 choices"),
        ([], "after reset: an 'action_mask' has 0 entries"),
        (np.full(4, 0.5), "after reset: an 'action_mask' has the entry 0.5"),
    ],
)
def test_masks_that_training_refuses_are_mistakes(told, text):
    (mistake,) = found(MISTAKE, make=lambda: Masked(ONE, OF_ONE, told))
    assert text in mistake


def test_masks_that_training_does_not_find_are_mistakes():
    class AtTimes(Masked):
        def step(self, action):
            return *super().step(action)[:4], {}

    (mistake,) = found(MISTAKE, make=lambda: AtTimes(ONE, OF_ONE, OF_ONE))
    assert mistake == "after step 1: no 'action_mask', which was there before: it is needed after every step and reset"
    (mistake,) = found(MISTAKE, action_space=ONE, info={"action_mask": OF_ONE})
    assert mistake.startswith("after step 1: an 'action_mask' for the first time")
    (mistake,) = found(MISTAKE, make=lambda: Masked(TWO, OF_TWO, np.ones(4, np.int8), spaces.MultiBinary(4)))
    assert mistake == "after reset: an 'action_mask' has 4 entries, the actions have 5 choices"
    (mistake,) = found(
        MISTAKE, action_space=spaces.MultiBinary(2), reset=(np.zeros(2), {"action_mask": [1, 1]}), terminated=False
    )
    assert mistake == "after reset: an 'action_mask' is for Discrete and MultiDiscrete actions, not MultiBinary(2)"
