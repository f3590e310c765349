"""Noise around a deterministic actor: on actions within their bounds, in parameters, begun anew, saved and resumed."""

from types import SimpleNamespace

import numpy as np
import pytest
from gymnasium import spaces

from tfbaselines.algs.ddpg.exploration import Exploration
from tfbaselines.policy.actor import make_actor
from tfbaselines.policy.actor_critic import build_actor_critic
from tfbaselines.policy.bounded import DeterministicHead

ENVS = 4
OBS = np.random.default_rng(1).standard_normal((ENVS, 3)).astype(np.float32)
FIRST = np.ones(ENVS, bool)
LOW, HIGH = np.float32([-10.0, 0.0]), np.float32([30.0, 1.0])


def make(noise_type, seed=0):
    env = SimpleNamespace(
        observation_space=spaces.Box(-np.inf, np.inf, (3,), np.float32), action_space=spaces.Box(LOW, HIGH)
    )

    def one(critics):
        return build_actor_critic(env, "mlp", head=DeterministicHead, critics=critics, num_hidden=8)

    policy = one(1)
    for variable in policy.acting_variables:
        variable.assign(np.random.default_rng(7).normal(scale=0.3, size=variable.shape))
    model = SimpleNamespace(policy=policy, actor=make_actor(policy))
    return model, Exploration(model, noise_type, ENVS, lambda: one(0), np.random.default_rng(seed))


def chosen(model):
    return model.actor.choose(OBS, None, FIRST, None)[0]


def actions_of(exploration, steps=1):
    return np.array([exploration(OBS, None, FIRST)[0] for _ in range(steps)])


@pytest.mark.parametrize("noise_type", [None, "none"])
def test_without_noise_the_actor_acts(noise_type):
    model, exploration = make(noise_type)
    np.testing.assert_array_equal(actions_of(exploration)[0], chosen(model))
    assert exploration.perturbed is None
    assert exploration.state() == {"param_noise_stddev": None, "action_noise": {}}


def test_noise_of_actions_is_in_units_of_their_bounds_and_ends_there():
    model, exploration = make("normal_0.1")
    found = actions_of(exploration, 500)
    assert ((found >= LOW) & (found <= HIGH)).all()
    inside = ((found > LOW) & (found < HIGH)).all(0)
    moved = (found - chosen(model))[:, inside]
    assert inside.any()
    units = np.broadcast_to((HIGH - LOW) / 2, found.shape[1:])[inside]
    assert moved.std(0) == pytest.approx(0.1 * units, rel=0.2)
    _, bounded = make("normal_5.0")
    found = actions_of(bounded, 50)
    assert found.min(axis=(0, 1)) == pytest.approx(LOW) and found.max(axis=(0, 1)) == pytest.approx(HIGH)


def test_noise_of_parameters_acts_instead_of_the_actor_and_begins_anew():
    model, exploration = make("adaptive-param_0.3")
    first = actions_of(exploration)[0]
    assert np.abs(first - chosen(model)).max() > 1e-3
    np.testing.assert_array_equal(actions_of(exploration)[0], first)
    exploration.reset()
    second = actions_of(exploration)[0]
    assert np.abs(second - first).max() > 1e-3
    exploration.ready()
    assert np.abs(actions_of(exploration)[0] - second).max() > 1e-3


def test_parameters_that_were_loaded_are_perturbed_once_they_are_ready():
    model, exploration = make("adaptive-param_0.001")
    for variable in model.policy.acting_variables:
        variable.assign(-variable.value)
    model.actor.refresh()
    before = actions_of(exploration)[0]
    exploration.ready()
    after = actions_of(exploration)[0]
    assert np.abs(before - chosen(model)).max() > 10 * np.abs(after - chosen(model)).max() > 0


def test_noise_with_memory_begins_anew_where_an_episode_ended():
    _, exploration = make("ou_0.5")
    actions_of(exploration, 20)
    before = exploration.state()["action_noise"]
    exploration.reset(np.array([True, False, False, True]))
    after = exploration.state()["action_noise"]
    (name,) = (name for name, value in before.items() if np.shape(value) == (ENVS, 2))
    np.testing.assert_array_equal(after[name][[0, 3]], 0.0)
    np.testing.assert_array_equal(after[name][[1, 2]], before[name][[1, 2]])
    assert np.abs(before[name]).min() > 0


@pytest.mark.parametrize("noise_type", ["ou_0.5", "adaptive-param_0.3", "adaptive-param_0.3, ou_0.2"])
def test_noise_goes_on_from_where_it_was_saved(noise_type):
    _, one = make(noise_type)
    actions_of(one, 5)
    if one.perturbed is not None:
        one.perturbed.spec.current_stddev = 0.7
    saved = one.state()
    _, other = make(noise_type, seed=9)
    actions_of(other, 3)
    other.restore(saved)
    for name, value in saved.items():
        np.testing.assert_equal(other.state()[name], value)
    assert saved["param_noise_stddev"] == (0.7 if "param" in noise_type else None)
