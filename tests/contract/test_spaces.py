"""Every algorithm takes the actions that it declares and refuses others; it takes every kind of observations."""

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from helpers import vec
from small_environments import Masked, Seeing
from small_runs import (
    ACTIONS,
    EVERY,
    WITH_MEMORY,
    WITH_NETWORKS,
    first_kind,
    learn,
    rows,
    suited,
    takes,
    train,
    weights,
)

from tfbaselines.algs import ALGORITHMS, get
from tfbaselines.config.options import RunOptions
from tfbaselines.envs.vec.packed import opened
from tfbaselines.policy import layers as precision
from tfbaselines.training.callbacks import EvaluateEvery
from tfbaselines.training.testing import even_episodes

BOX = spaces.Box(-1.0, 1.0, (3,), np.float32)
IMAGE = spaces.Box(0, 255, (36, 36, 1), np.uint8)
SEVERAL = spaces.Dict(image=spaces.Box(0, 255, (12, 12, 1), np.uint8), vector=BOX)
OBSERVATIONS = {
    "Discrete": spaces.Discrete(4, start=-2),
    "MultiDiscrete": spaces.MultiDiscrete([3, 2]),
    "MultiBinary": spaces.MultiBinary(3),
}

# Columns that need the memory of each step, which is not kept.
NOT_WITH_MEMORY = {"rollout/Q_mean"}

DECLARED = [(alg, kind) for alg in ALGORITHMS for kind in get(alg).actions]
# Most refuse some; those that take every kind have nothing to test.
REFUSING = [alg for alg in ALGORITHMS if not all(takes(alg, kind) for kind in ACTIONS)]


def seeing(alg, observations=BOX, kind=None, count=2, env=Seeing):
    return vec(suited(alg, lambda: env(observations, ACTIONS[kind or first_kind(alg)])), count)


def assert_learnt(alg, env, directory, updates=2, **kwargs):
    """A run changes every variable, logs numbers, and its model's actions are the environment's."""
    start = learn(alg, env, 0, **kwargs)
    model = train(directory, alg, env, updates, **kwargs)
    pairs = zip(start.policy.trainable_variables, model.policy.trainable_variables, strict=True)
    same = [one.path for one, other in pairs if np.array_equal(one.numpy(), other.numpy())]
    assert same == []
    assert np.isfinite(weights(model.policy)).all()
    last = rows(directory).iloc[-1]
    missing = NOT_WITH_MEMORY if model.policy.recurrent else set()
    assert set(last[~np.isfinite(last)].index) <= missing
    obs = env.reset()
    for deterministic in (True, False):
        chosen, _ = model.act(obs, deterministic=deterministic)
        assert all(env.action_space.contains(one) for one in chosen)
    assert len(model.step(obs)[1]) == len(model.value(obs)) == env.num_envs
    return model


@pytest.mark.parametrize(("alg", "kind"), DECLARED)
def test_declared_actions(alg, kind, eager, tmp_path):
    """In three environments, whose observations are a Box; those of test_runs.py have one."""
    assert_learnt(alg, seeing(alg, kind=kind, count=3), tmp_path, **with_tests(alg, kind))


def with_tests(alg, kind, env=Seeing):
    """An environment for tests, where the algorithm has them."""
    own = {"eval_env": seeing(alg, kind=kind, env=env), "num_test_episodes": 2, "n_test_rollouts": 2}
    return {name: value for name, value in own.items() if name in get(alg).config.arguments()}


@pytest.mark.parametrize("alg", REFUSING)
def test_other_actions_are_refused(alg):
    for kind in ACTIONS:
        if not takes(alg, kind):
            with pytest.raises(ValueError, match="actions") as error:
                learn(alg, seeing(alg, kind=kind))
            assert "\n" not in str(error.value), kind
            assert str(ACTIONS[kind]) in str(error.value), kind


@EVERY
@pytest.mark.parametrize("kind", OBSERVATIONS)
def test_observations(alg, kind, eager, tmp_path):
    assert_learnt(alg, seeing(alg, OBSERVATIONS[kind]), tmp_path)


@WITH_NETWORKS
def test_images(alg, eager, tmp_path):
    model = assert_learnt(alg, seeing(alg, IMAGE), tmp_path, network=of_images(alg))
    assert model.policy.convolutional


def of_images(alg):
    """A convolutional network, or a dense one above an encoder where observations are a Dict."""
    return None if get(alg).goals else "cnn_small"


@WITH_NETWORKS
def test_narrow_numbers_are_others(alg, eager, tmp_path, monkeypatch):
    env = seeing(alg, IMAGE)
    # Operations one by one stay wide. The steps of bc are compiled, and narrow where the processor has instructions.
    if alg == "bc":
        tf.config.run_functions_eagerly(False)
    else:
        monkeypatch.setattr(precision, "_flags", frozenset)
    wide, narrow = (
        learn(alg, env, 2, network=of_images(alg), run=RunOptions(precision=name)) for name in ("float32", "bfloat16")
    )
    # The others' weights differ anyway, by the images that they are shown.
    differs = alg != "bc" or precision.available("bfloat16", warns=False) == "bfloat16"
    assert np.array_equal(weights(wide.policy), weights(narrow.policy)) != differs
    assert np.isfinite(weights(narrow.policy)).all()
    # Parameters and what is computed from the network's outputs keep their width.
    assert {variable.dtype for variable in narrow.policy.trainable_variables} == {"float32"}
    assert narrow.value(env.reset()).dtype == np.float32


@WITH_MEMORY
@pytest.mark.parametrize("observations", [BOX, OBSERVATIONS["Discrete"]], ids=["Box", "Discrete"])
def test_memory(alg, observations, eager, tmp_path):
    env = seeing(alg, observations)
    model = assert_learnt(alg, env, tmp_path, network="lstm")
    obs, states = env.reset(), model.initial_states(2)
    _, after = model.act(obs, states, True)
    assert after.shape == states.shape and not np.array_equal(after, states)
    # A new episode begins without memory.
    fresh, again = (model.act(obs, state, True, np.ones(2, bool))[1] for state in (states, after))
    np.testing.assert_array_equal(fresh, again)


@pytest.mark.parametrize("alg", [name for name, one in ALGORITHMS.items() if not one.recurrent])
def test_memory_that_is_not_declared_is_refused(alg):
    with pytest.raises(ValueError, match="recurrent") as error:
        learn(alg, seeing(alg), network="lstm")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "alg", [name for name, one in ALGORITHMS.items() if one.several_observations and not one.goals]
)
def test_several_observations_as_they_are(alg, eager, tmp_path):
    model = assert_learnt(alg, seeing(alg, SEVERAL), tmp_path)
    assert set(opened(model.policy.observation_space).spaces) == set(SEVERAL.spaces)


def test_members_take_several_observations_normalised_and_with_masks(eager):
    """Of es, whose members show their observations themselves."""
    env = seeing("es", SEVERAL, kind="Discrete", env=Masked)
    model = learn("es", env, 2, normalize_observations=True)
    assert model.policy.normalizer.state()["vector"]["count"] > 10
    assert 0 < abs(model.policy.normalizer["vector"].mean).max() < 1
    assert len(even_episodes(model, get("es").wrap(env), 4, deterministic=True)) == 4


def masked_kinds():
    """Several choices at once are masked in the same place in all on-policy algorithms."""
    kinds = [one for one in DECLARED if get(one[0]).takes_masks and "Discrete" in one[1]]
    return [(alg, kind) for alg, kind in kinds if kind == "Discrete" or alg in ("ppo2", "sac")]


@pytest.mark.parametrize(("alg", "kind"), masked_kinds())
def test_only_allowed_actions_are_chosen(alg, kind, eager):
    """The environments refuse the others."""
    env = seeing(alg, kind=kind, env=Masked)
    run = RunOptions(callback=EvaluateEvery(1, seeing(alg, kind=kind, env=Masked), 2))
    model = learn(alg, env, 6, run=run, **with_tests(alg, kind, Masked))
    for deterministic in (True, False):
        assert len(even_episodes(model, get(alg).wrap(env), 4, deterministic=deterministic)) == 4


@pytest.mark.parametrize("alg", [name for name in ALGORITHMS if not get(name).takes_masks and takes(name, "Discrete")])
def test_action_masks_are_refused_where_they_would_be_ignored(alg, eager):
    with pytest.raises(ValueError, match=r"takes n.* action masks") as error:
        learn(alg, seeing(alg, kind="Discrete", env=Masked), 2)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "alg", [name for name in ALGORITHMS if "normalize_observations" in get(name).config.arguments()]
)
def test_statistics_of_observations_belong_to_the_model(alg, eager, tmp_path):
    env = vec(lambda: Seeing(spaces.Box(3.0, 5.0, (3,), np.float32), ACTIONS[first_kind(alg)]))
    model = learn(alg, env, 4, normalize_observations=True)
    assert model.policy.normalizer.mean == pytest.approx([4.0] * 3, abs=0.5)
    model.save(tmp_path / "model")
    loaded = learn(alg, env, 0, normalize_observations=True, load_path=tmp_path / "model")
    np.testing.assert_array_equal(loaded.policy.normalizer.mean, model.policy.normalizer.mean)
