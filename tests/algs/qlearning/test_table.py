"""A table is a policy: it acts, is saved and exported, and too large a one is refused."""

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.algs.qlearning.table import Cells, TableActor, TablePolicy
from tfbaselines.policy.actor import make_actor
from tfbaselines.policy.base import BasePolicy, Head, SamplingActor
from tfbaselines.training.model import PolicyModel

BOX = spaces.Box(-1.0, 1.0, (2,), np.float32)
ACTIONS = spaces.Discrete(3, start=5)


def make(seed=0, grid_size=4, space=BOX):
    policy = TablePolicy(space, ACTIONS, Cells(space, grid_size))
    policy.table.assign(np.random.default_rng(seed).normal(size=policy.table.shape))
    return policy


def observations(count=50):
    return np.random.default_rng(1).uniform(-1, 1, (count, 2)).astype(np.float32)


def test_a_table_satisfies_the_protocols():
    policy = make()
    assert isinstance(policy, BasePolicy) and isinstance(policy.head, Head)
    assert isinstance(make_actor(policy), TableActor) and isinstance(make_actor(policy), SamplingActor)


def test_the_largest_value_is_chosen_whether_deterministic_or_not():
    policy, obs = make(), observations()
    values = policy.table.array[policy.cells.of(obs)]
    model = PolicyModel(policy)
    for deterministic in (True, False):
        np.testing.assert_array_equal(model.act(obs, deterministic=deterministic)[0], values.argmax(1) + 5)
    np.testing.assert_array_equal(model.value(obs), values.max(1))
    actions, best, states, neglogps = model.step(obs)
    assert states is None and not neglogps.any()
    np.testing.assert_array_equal(best, values.max(1))
    np.testing.assert_array_equal(actions, values.argmax(1) + 5)


def test_what_is_learnt_later_counts_everywhere(tmp_path):
    model, obs = PolicyModel(make()), observations()
    model.policy.forward(obs)
    model.policy.table.array[...] = [[0.0, 0.0, 7.0]]
    assert model.act(obs)[0].tolist() == [7] * 50
    outputs = model.policy.forward(tf.constant(obs))
    assert outputs.value.numpy().tolist() == [7.0] * 50
    model.save(tmp_path / "model")
    other = PolicyModel(make(3))
    other.load(tmp_path / "model")
    assert other.value(obs).tolist() == [7.0] * 50


def test_an_exported_table_gives_the_same_answers(tmp_path):
    model, obs = PolicyModel(make()), observations()
    model.export(tmp_path / "served")
    answers = tf.saved_model.load(str(tmp_path / "served")).signatures["serving_default"](observations=obs)
    np.testing.assert_array_equal(answers["actions"], model.act(obs)[0])
    np.testing.assert_array_equal(answers["values"], model.value(obs))


def test_tables_of_other_grids_are_refused(tmp_path):
    PolicyModel(make()).save(tmp_path / "model")
    for other in (make(grid_size=5), make(grid_size=[2, 8])):
        with pytest.raises(ValueError, match="cannot load"):
            PolicyModel(other).load(tmp_path / "model")


def test_a_table_that_does_not_fit_names_the_argument_to_lower():
    image = spaces.Box(0, 255, (36, 36, 1), np.uint8)
    with pytest.raises(ValueError, match="lower grid_size") as error:
        TablePolicy(image, ACTIONS, Cells(image))
    assert "\n" not in str(error.value)
