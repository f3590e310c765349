"""Policies of every kind as plain operations that numpy computes as the model does."""

import shutil
import subprocess
import sys

import described
import keras
import numpy as np
import pytest
import tensorflow as tf

from tfbaselines.errors import UsageError
from tfbaselines.export import check, export, numpy_policy
from tfbaselines.export.description import describe
from tfbaselines.export.description import described as described_by
from tfbaselines.export.numpy_target import answers
from tfbaselines.export.vectors import compare
from tfbaselines.policy.policy import Policy
from tfbaselines.training.model import PolicyModel


def test_policies_of_every_kind():
    """Most likely actions, and actions sampled from noise."""
    wrong = {}
    for name in described.POLICIES:
        for sampled in (False, True):
            if one := described.exported(name, sampled):
                options, program, weights = one
                difference = compare(answers(numpy_policy.Policy(program, weights), options.inputs), options.outputs)
                if not difference <= 1e-5:
                    wrong[name, sampled] = difference
    assert not wrong
    every, covered = (
        set().union(*map(described.operations, names)) for names in (described.POLICIES, described.COVERING)
    )
    assert covered == every


def exported_twice(to, name, place):
    """Export a policy twice, check it, and return the first export; both have the same bytes."""
    for number in range(2):
        export(described.made(name), place / f"{to}{number}", to, episodes=0)
    first, second = ({path.name: path.read_bytes() for path in (place / f"{to}{n}").iterdir()} for n in range(2))
    assert first == second
    difference, tolerance = check(place / f"{to}0")
    assert difference <= tolerance == 1e-5
    return place / f"{to}0"


ALONE = """
import sys
import numpy as np
from policy import load
policy, vectors = load("policy.npz"), np.load("vectors.npz")
names = {part["part"]: part["name"] for part in policy.program["inputs"]}
observations = {part: vectors[name] for part, name in names.items()}
actions, states = policy.act(observations, vectors["states"], vectors["masks"])
assert (actions == vectors["expected_actions"]).all() and abs(states - vectors["expected_new_states"]).max() < 1e-5
first = {part: rows[0] for part, rows in observations.items()}
action, states = policy.act(first)
again, _ = policy.act(first, np.ones_like(states), [1])
assert action.shape == again.shape == vectors["expected_actions"].shape[1:] and (action == again).all()
assert not {"tfbaselines", "tensorflow", "gymnasium"} & sys.modules.keys()
"""


def test_exports_need_nothing_else(tmp_path):
    exported = exported_twice("numpy", "memory", tmp_path)
    subprocess.run([sys.executable, "-c", ALONE], cwd=exported, check=True)
    if shutil.which("gcc"):
        assert (exported_twice("c", "masked", tmp_path) / "policy.h").is_file()
    if shutil.which("node"):
        assert (exported_twice("js", "masked", tmp_path) / "index.html").is_file()


class Doubled(keras.layers.Layer):
    def call(self, x):
        return x * 2.0


class Subclass(keras.layers.Dense):
    pass


class Model(keras.Model):
    def call(self, x):
        return x


class OwnPolicy(Policy):
    def forward(self, *args):
        return super().forward(*args)


def over(layer):
    """A network of one layer."""

    def network(shape):
        inputs = keras.Input(shape)
        return keras.Model(inputs, layer()(inputs))

    return network


def test_what_cannot_be_plain_is_refused_by_name(tmp_path):
    kinds = {
        "layer 'doubled.*' of kind Doubled": over(lambda: Doubled(name="doubled")),
        "layer '.*' of kind Subclass": over(lambda: Subclass(3)),
        "layer '.*' of kind Model": over(Model),
        "layer '.*' of kind Conv1D": lambda shape: keras.Sequential(
            [keras.Input(shape), keras.layers.Reshape((3, 1)), keras.layers.Conv1D(2, 2), keras.layers.Flatten()]
        ),
        "activation 'sin'": over(lambda: keras.layers.Dense(3, activation=tf.sin)),
        "function keras.ops.cos": lambda shape: keras.Model(x := keras.Input(shape), keras.ops.cos(x)),
    }
    for reason, network in kinds.items():
        model = PolicyModel(described.policy(network))
        with pytest.raises(UsageError, match=f"cannot write the {reason} .*savedmodel, litert and onnx"):
            export(model, tmp_path / "export", "c", episodes=0)
    model = PolicyModel(described.policy(policy_class=OwnPolicy))
    with pytest.raises(UsageError, match="a policy of kind OwnPolicy"):
        export(model, tmp_path / "export", "numpy", episodes=0)
    assert not list(tmp_path.iterdir())


def test_numbers_that_differ_are_announced(capsys):
    """A policy may compute with other numbers than an export: those of bfloat16, or a subclass's."""
    model = described.made("squashed")
    options = described.options(model)
    options.outputs["actions"][0] += 1e-3
    described_by(model, options)
    assert "actions of the export, which computes in float32, differ by up to 0.001" in capsys.readouterr().err


def test_statistics_of_environments():
    """VecNormalize's statistics are a part of the export, which takes raw observations."""
    model = PolicyModel(described.POLICIES["squashed"]())
    rng = np.random.default_rng(0)
    statistics = {"mean": rng.normal(size=3), "var": rng.uniform(0.1, 2, 3), "count": 10.0}
    normalization = {"ob": statistics, "ret": None, "epsilon": 1e-8, "clipob": 1.5, "cliprew": 10.0}
    model.observations.restore(model.observations.state(), normalization)
    options = described.options(model)
    policy = numpy_policy.Policy(*describe(model.policy, model.observations.normalization, options.interface))
    assert compare(answers(policy, options.inputs), options.outputs) < 1e-5
    raw = numpy_policy.Policy(*describe(model.policy, {}, options.interface))
    assert compare(answers(raw, options.inputs), options.outputs) > 1e-2
