"""Signs in environments: each fault inside a toy is seen, and a healthy toy shows none."""

import shlex

import gymnasium
import numpy as np

from tests.probes.toys import Mass
from tfbaselines.algs import NAMES, get
from tfbaselines.cli.command_line import parse_value
from tfbaselines.config.groups import parse_signals
from tfbaselines.doctor.rules import OF_COMMAND
from tfbaselines.probes import environment, vectors, wrappers
from tfbaselines.probes.prediction import dependence, explained
from tfbaselines.probes.rules import RULES, finding
from tfbaselines.probes.signs import Sign
from tfbaselines.probes.walks import Walk, at_random, walk


def config(fault="", **more):
    """Description of a run's environments with a fault."""
    env = {"env": "tests.probes.toys:tests/Mass-v0", "env_kwargs": {"fault": fault}, "normalize": False}
    return {"env": env | more}


def signs_of(fault, **kwargs):
    env = Mass(fault, **kwargs)
    random = walk(env, at_random(env.action_space), 900)
    yield from environment.observation_signs(random)
    yield from environment.repeated_start(random)
    yield from environment.reward_signs(random, None, 1000)
    yield from environment.end_signs(random, kwargs.get("length") or None)
    yield from environment.size_signs(random.obs, random.rewards)
    effects, equal = environment.experiments(env)
    yield from environment.effect_signs(effects, equal)
    yield from environment.bounds_signs(env)
    if fault in FITTED:
        yield from environment.prediction_signs(dependence(random), [one for some in effects for one in some])


# Fits take most of the time.
FITTED = ("", "late_observations", "no_velocity")
EXPECTED = {
    "late_observations": "observation_delay",
    "late_rewards": "reward_delay",
    "no_velocity": "hidden_velocity",
    "constant": "constant_observation",
    "ignored": "actions_ignored",
    "random_actions": "actions_ignored",
    "wide": "action_bounds",
    "large_observations": "observation_size",
    "large_rewards": "reward_large",
    "small_rewards": "reward_small",
    "negative": "reward_sign",
    "choices": "equal_actions",
}


def test_each_fault_inside_of_an_environment_is_the_surest_sign():
    for fault, rule in EXPECTED.items():
        found = sorted(signs_of(fault), key=lambda sign: -sign.certainty)
        assert found[0].rule == rule, (fault, found)
    assert not [sign for sign in signs_of("") if sign.certainty > 0.5]


def test_ends():
    for fault, rule in (("limit_as_end", "limit_as_end"), ("no_end", "no_ends")):
        env = Mass(fault, length=10)
        random = walk(env, at_random(env.action_space), 300)
        assert [sign.rule for sign in environment.end_signs(random, 10)] == [rule]
    healthy = walk(Mass(length=10), at_random(Mass().action_space), 300)
    assert not list(environment.end_signs(healthy, 10))
    assert healthy.lengths.max() == 10
    np.testing.assert_allclose(healthy.returns.sum(), healthy.rewards[: healthy.lengths.sum()].sum())


class AsEnd(gymnasium.Wrapper):
    def step(self, action):
        obs, reward, terminated, truncated, info = self.env.step(action)
        return obs, reward, terminated or truncated, False, info


class Never(gymnasium.Wrapper):
    def step(self, action):
        obs, reward, _, _, info = self.env.step(action)
        return obs, reward, False, False, info


def test_wrappers():
    def rewards(factor):
        return lambda: gymnasium.wrappers.TransformReward(Mass(), lambda reward: factor * reward)

    def observations(function):
        space = Mass().observation_space
        return lambda: gymnasium.wrappers.TransformObservation(Mass(), function, space)

    class Late(gymnasium.Wrapper):
        def reset(self, **kwargs):
            self.before = 0.0
            self.obs, info = self.env.reset(**kwargs)
            return self.obs, info

        def step(self, action):
            obs, reward, *ends = self.env.step(action)
            (self.before, reward), (self.obs, obs) = (reward, self.before), (obs, self.obs)
            return obs, reward, *ends

    class Hidden(gymnasium.Wrapper):
        def step(self, action):
            obs, reward, _, _, info = self.env.step(action)
            return obs, reward, False, False, info

    def narrow():
        space = gymnasium.spaces.Box(-0.05, 0.05, (1,), np.float32)
        return gymnasium.wrappers.TransformAction(Mass(), lambda action: action, space)

    faults = {
        "reward_sign": rewards(-1.0),
        "reward_large": rewards(1e4),
        "reward_small": rewards(1e-4),
        "constant_observation": observations(lambda obs: obs * np.float32([1, 0, 1])),
        "observation_size": observations(lambda obs: obs * 1e5),
        "no_ends": lambda: Hidden(Mass(length=10)),
    }
    for rule, make in faults.items():
        assert rule in {sign.rule for sign in wrappers.wrapper_signs(wrappers.pairs(make))}
    late = {sign.rule for sign in wrappers.wrapper_signs(wrappers.pairs(lambda: Late(Mass())))}
    assert late == {"reward_delay", "observation_delay"}
    assert [sign.rule for sign in wrappers.reach_signs(narrow)] == ["action_bounds"]
    for make in (Mass, rewards(0.1), observations(lambda obs: obs / 2)):
        assert not list(wrappers.wrapper_signs(wrappers.pairs(make)))
    assert not list(wrappers.reach_signs(Mass))


class OneState(gymnasium.Wrapper):
    """Copies are one object."""

    first = None

    def __init__(self, env):
        OneState.first = OneState.first or env
        super().__init__(OneState.first)


def test_copies_that_share_a_state():
    assert not list(vectors.shared_signs(Mass))
    assert [sign.rule for sign in vectors.shared_signs(lambda: OneState(Mass()))] == ["shared_copies"]


class Resumed(gymnasium.Wrapper):
    """reset() resets nothing."""

    last = None

    def reset(self, **kwargs):
        obs, info = self.env.reset(**kwargs) if self.last is None else (self.last, {})
        self.env.unwrapped.time = 0
        return obs, info

    def step(self, action):
        self.last, *rest = self.env.step(action)
        return self.last, *rest


def test_episodes_that_begin_where_the_last_one_ended():
    for make, rules in ((Mass, []), (lambda length: Resumed(Mass(length=length)), ["no_resets"])):
        random = walk(make(length=5), at_random(Mass().action_space), 100)
        assert [sign.rule for sign in environment.reset_signs(random)] == rules


class Changed(gymnasium.Wrapper):
    """Rewards and observations with a fault."""

    def __init__(self, env, fault=""):
        super().__init__(env)
        self.fault = fault
        self.rng = np.random.default_rng(0)

    def seen(self, obs):
        if self.fault == "noisy_observations":
            obs = obs + self.rng.normal(size=3)
        if self.fault == "observation_spread":
            obs = (obs - 100) / 1000
        return obs.astype(np.float32)

    def reset(self, **kwargs):
        obs, info = self.env.reset(**kwargs)
        return self.seen(obs), info

    def step(self, action):
        obs, reward, terminated, truncated, info = self.env.step(action)
        over = terminated or truncated
        changes = {
            "reward_noise": reward + 30 * self.rng.normal(),
            "constant_reward": -1.0,
            "reward_at_end": float(over),
        }
        return self.seen(obs), changes.get(self.fault, reward), terminated, truncated, info


def test_rewards_and_observations_that_show_nothing():
    for fault in ("", "reward_noise", "constant_reward", "reward_at_end", "noisy_observations", "observation_spread"):
        random = walk(Changed(Mass(length=30), fault), at_random(Mass().action_space), 900)
        signs = [
            *environment.reward_signs(random._replace(terminated=np.zeros(900, bool)), None, 30),
            *environment.prediction_signs(dependence(random), []),
            *environment.size_signs(random.obs, random.rewards),
        ]
        found = {sign.rule for sign in signs} - {"no_reward", "actions_ignored", "hidden_velocity"}
        assert found == {fault} - {""}, fault
    for fault, rule in (("noisy_observations", "lost_observation"), ("constant_reward", "constant_reward")):
        found = wrappers.pairs(lambda fault=fault: Changed(Mass(), fault))
        assert rule in {sign.rule for sign in wrappers.wrapper_signs(found)}, fault
    found = wrappers.pairs(lambda: Changed(Mass(), "observation_spread"))
    assert [sign.rule for sign in wrappers.wrapper_signs(found)] == ["observation_spread"]


def test_short_rollouts():
    assert [sign.rule for sign in environment.rollout_signs(1, 200.0)] == ["short_rollout"]
    assert not list(environment.rollout_signs(64, 200.0)) and not list(environment.rollout_signs(None, 200.0))


def test_copies_and_time_limits():
    for fault, rules in (("one_seed", {"equal_copies"}), ("", set())):
        env = vectors.copies_of(config(fault), 3)
        obs, _ = vectors.seen(env, 60)
        starts = walk(Mass(fault), at_random(Mass().action_space), 500)
        assert {sign.rule for sign in environment.copies_signs(obs, starts.obs[starts.first])} == rules
        env.close()
    limited = vectors.copies_of(config(), 4, max_episode_steps=5)
    assert not list(vectors.limit_signs(limited))
    for wrapper, rule in (("AsEnd", "limit_as_end"), ("Never", "no_ends")):
        env = vectors.copies_of(config(wrapper=f"tests.probes.test_environment:{wrapper}"), 4, max_episode_steps=5)
        assert [sign.rule for sign in vectors.limit_signs(env)] == [rule]


def test_fits_explain_what_they_can():
    rng = np.random.default_rng(1)
    inputs = rng.normal(size=(1200, 3))
    assert explained(inputs, np.sin(inputs[:, :1])) > 0.9
    assert explained(inputs, rng.normal(size=(1200, 1))) < 0.1
    assert np.isnan(explained(inputs, np.ones((1200, 1))))
    few = Walk(*(np.zeros((10, 1)) for _ in range(3)), *(np.zeros(10) for _ in range(3)), np.zeros(10, bool))
    assert dependence(few) is None


def test_horizons():
    random = walk(Mass(length=50), at_random(Mass().action_space), 400)
    for gamma, rule in ((0.0, "short_horizon"), (1.0, "endless_values"), (0.99, None)):
        assert [sign.rule for sign in environment.horizon_signs(gamma, 50.0, random, 50)] == [rule] * (rule is not None)
    assert next(environment.horizon_signs(0.0, 50.0, random, 50)).certainty > 0.9


def test_rules_become_findings_that_any_algorithm_can_follow():
    for name in RULES:
        for alg in NAMES:
            own = get(alg).config.arguments()
            found = finding(Sign(name, "1", 0.5), "logs/x", "CartPole-v1", own)
            assert found.rule == name and "{run}" not in found.check + found.remedy
            words = shlex.split(found.remedy)
            assert not words or words[:4] == shlex.split("tfbaselines run --config=logs/x --log_path=logs/x-mended")
            for flag in words[4:]:
                argument, value = flag.removeprefix("--").split("=", 1)
                assert argument in own or argument in OF_COMMAND
                parsed = parse_value(own[argument], value) if argument in own else value
                assert argument != "reward_signals" or parse_signals(parsed)


def test_rewards_that_come_with_ends_are_neither_late_nor_turned():
    """As those of InvertedPendulum, 1 until an end, and MountainCarContinuous, costs until the goal is found."""
    ends = [[environment.Effect(0.0, np.inf), environment.Effect(0.0, 3.0), environment.Effect(0.0, 1.0)]]
    assert not list(environment.effect_signs(ends, []))
    late = [[environment.Effect(0.0, 1.0)] * 3]
    assert [sign.rule for sign in environment.effect_signs(late, [])] == ["reward_delay"]
    costs = walk(Mass("negative", length=20), at_random(Mass("negative").action_space), 300)
    assert [sign.rule for sign in environment.reward_signs(costs, 90.0, 20)] == ["constant_reward"]
