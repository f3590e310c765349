"""Actors with critics act alike in numpy and in the graph, and as models."""

import numpy as np
import pytest
import tensorflow as tf
from actor_critics import BOX, CAMERA, DISCRETE, KINDS, MULTI, OBSERVATIONS, ROWS, SEVERAL, batch, make, noise_of, shake
from gymnasium import spaces

from tfbaselines.envs.vec.observations import MASK, ONLY
from tfbaselines.policy.actor import GraphActor, NumpyActor, make_actor
from tfbaselines.policy.bounded import DeterministicHead
from tfbaselines.training.model import PolicyModel

# Parts of several kinds, not in the order of their names.
NUMBERS = spaces.Dict([("where", OBSERVATIONS["doubles"]), ("gear", spaces.Discrete(3, start=1)), ("goal", BOX)])
PLAIN = {
    "box": {},
    "deterministic": {"head": DeterministicHead},
    "multidiscrete": {"action": MULTI},
    "mlp": {"network": "mlp", "layer_norm": True},
    "doubles": {"obs": OBSERVATIONS["doubles"]},
    "from choices": {"obs": OBSERVATIONS["discrete"]},
    "clipped": {"kind": {"clip_observations": 0.5}},
    "normalised and clipped": {"normalize_observations": True, "kind": {"clip_observations": 0.5}},
    "units": {"kind": {"unit_actions": True}},
    "parts": {"obs": NUMBERS},
    "parts clipped": {"obs": NUMBERS, "kind": {"clip_observations": 0.5}},
    "parts normalized": {"obs": NUMBERS, "normalize_observations": True},
    "mask": {"obs": OBSERVATIONS["masked"], "action": DISCRETE, "normalize_observations": True},
    "parts with a mask": {"obs": spaces.Dict([*NUMBERS.items(), (MASK, spaces.MultiBinary(5))]), "action": DISCRETE},
}


@pytest.mark.parametrize("kwargs", PLAIN.values(), ids=PLAIN)
def test_plain_ones_act_in_numpy_as_in_the_graph(kwargs):
    policy = make(**kwargs)
    if policy.normalizer:
        rng = np.random.default_rng(0)
        seen = {name: rng.normal(1, 2, (50, *shape)) for name, shape in policy.normalizer.shapes.items()}
        policy.normalizer.update(seen.get(ONLY) if isinstance(policy.observation_space, spaces.Box) else seen)
    ours, graph, obs = make_actor(policy), GraphActor(policy), batch(policy.observation_space)
    assert isinstance(ours, NumpyActor)
    for _ in range(2):
        for noise in (noise_of(policy), None):
            one, other = (actor.step(obs, None, None, noise) for actor in (ours, graph))
            for name in ("actions", "values", "neglogps"):
                a, b = getattr(one, name), getattr(other, name)
                # Densities near the bounds of an action are as exact as its last digits.
                np.testing.assert_allclose(a, b, rtol=1e-4, atol=0.05 if name == "neglogps" else 1e-5, err_msg=name)
            np.testing.assert_array_equal(ours.choose(obs, None, None, noise)[0], one.actions)
        np.testing.assert_allclose(ours.value(obs), policy.forward(obs).value, rtol=1e-4, atol=1e-5)
        # And again with other weights.
        shake(policy, seed=1)
        ours.refresh()


@pytest.mark.parametrize("kwargs", [{"obs": CAMERA}, {"obs": SEVERAL}, {"memory_size": 4}, {"network": "lstm"}])
def test_others_act_in_the_graph(kwargs):
    policy = make(**kwargs)
    actor, obs = make_actor(policy), batch(policy.observation_space)
    assert isinstance(actor, GraphActor)
    states, episode_start = policy.initial_state(ROWS), np.zeros(ROWS, bool)
    memory = (tf.zeros(ROWS), tf.constant(states)) if policy.recurrent else ()
    expected = policy.forward(tf.nest.map_structure(tf.constant, obs), *memory)
    mode = actor.step(obs, states, episode_start, None)
    np.testing.assert_allclose(mode.actions, policy.head.mode_numpy(expected.flat.numpy()), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(mode.values, expected.value, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(actor.value(obs, states, episode_start), expected.value, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kwargs", [{"memory_size": 4}, {"obs": CAMERA}], ids=["memory", "camera"])
def test_a_deterministic_actor_acts_in_the_graph_too(kwargs):
    policy = make(head=DeterministicHead, **kwargs)
    actor, obs = GraphActor(policy), batch(policy.observation_space)
    states, episode_start = policy.initial_state(ROWS), np.zeros(ROWS, bool)
    once, again = (actor.step(obs, states, episode_start, noise) for noise in (noise_of(policy), None))
    np.testing.assert_array_equal(once.actions, again.actions)
    assert not once.neglogps.any() and once.neglogps.shape == (ROWS,)


MODELS = {name: KINDS[name] for name in ("vector", "several", "memory", "masked", "lstm")}
MODELS |= {"deterministic": {"head": DeterministicHead}}


def first_of(obs):
    return {name: part[0] for name, part in obs.items()} if isinstance(obs, dict) else obs[0]


@pytest.mark.parametrize("kwargs", MODELS.values(), ids=MODELS)
def test_a_model_of_any_kind_steps_acts_and_judges(kwargs):
    policy = make(**kwargs)
    model, obs, action = PolicyModel(policy, rng=np.random.default_rng(0)), batch(policy.observation_space), policy.head
    actions, values, states, neglogps = model.step(obs)
    assert actions.shape == (ROWS, *action.action_shape) and values.shape == neglogps.shape == (ROWS,)
    assert all(policy.action_space.contains(one) for one in actions)
    np.testing.assert_allclose(model.value(obs), values, rtol=1e-4, atol=1e-5)
    assert (states is None) == (not policy.recurrent)
    chosen, after = model.act(obs, deterministic=True)
    alone, after_alone = model.act(first_of(obs), deterministic=True)
    assert alone.shape == action.action_shape
    np.testing.assert_allclose(alone, chosen[0], rtol=1e-4, atol=1e-6)
    if policy.recurrent:
        np.testing.assert_allclose(after_alone[0], after[0], rtol=1e-4, atol=1e-6)
        assert model.initial_state.shape == (1, policy.state_size)
        again, _ = model.act(obs, after, deterministic=True, mask=np.ones(ROWS, bool))
        np.testing.assert_allclose(again, chosen, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", ["vector", "memory"])
def test_a_loaded_model_acts_as_the_saved_one(kind, tmp_path):
    kwargs = MODELS[kind]
    policy = make(**kwargs)
    if policy.normalizer:
        policy.normalizer.update(batch(policy.observation_space, 50, seed=3))
    model, other = PolicyModel(policy), PolicyModel(make(shaken=False, **kwargs))
    model.actor.refresh()
    model.save(tmp_path / "model")
    other.load(tmp_path / "model")
    obs = batch(policy.observation_space)
    np.testing.assert_array_equal(*(one.act(obs, deterministic=True)[0] for one in (model, other)))
    np.testing.assert_array_equal(*(one.value(obs) for one in (model, other)))


def test_a_wrong_shape_of_a_part_is_named():
    model = PolicyModel(make(SEVERAL))
    with pytest.raises(ValueError, match=r"obs.shape=\(6, 2\) is not valid: .* has the shape \('N', 3\)"):
        model.act(batch(SEVERAL) | {"speed": np.zeros((6, 2))})
