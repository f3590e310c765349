"""What the migration page says of Stable-Baselines3: the names here are real."""

import importlib
import inspect
import re
from dataclasses import fields

import pytest

from tfbaselines.algs import ALGORITHMS
from tfbaselines.config.stable_baselines3 import OTHERS, TWINS
from tfbaselines.envs.make import make_vec_env
from tfbaselines.envs.normalize import VecNormalize
from tfbaselines.envs.vec import VecFrameStack
from tfbaselines.errors import UsageError
from tfbaselines.policy.networks import NETWORKS


@pytest.mark.parametrize("there", TWINS)
def test_arguments_have_the_names_that_the_page_gives(there):
    twin = TWINS[there]
    known = {field.name for field in fields(ALGORITHMS[twin.here].config)}
    named = {name for new in twin.arguments.values() for name in new.partition(", ")[0].split()}
    differing = set(re.findall(r"(\w+)=", twin.differs))
    assert named | differing <= known, (named | differing) - known


def test_other_names_are_real():
    here = " ".join(OTHERS.values())
    for path in re.findall(r"`(tfbaselines(?:\.\w+)+)`", here):
        module, _, name = path.rpartition(".")
        found = importlib.import_module(module)
        assert hasattr(found, name) or importlib.import_module(path), path
    callbacks = importlib.import_module("tfbaselines.callbacks")
    for name in ("EvaluateEvery", "SaveEvery", "StopAt", "StopWithoutGain"):
        assert name in here and hasattr(callbacks, name)
    for function in (make_vec_env, VecNormalize, VecFrameStack):
        (call,) = re.findall(rf"`{function.__name__}\((.*?)\)`", here)
        assert set(re.findall(r"(\w+)=", call)) <= set(inspect.signature(function).parameters)
    assert set(re.search(r"`network='(\w+)'` or `'(\w+)'`, `'(\w+)'`, `'(\w+)'`", here).groups()) <= set(NETWORKS)


def test_arguments_of_wrappers_by_their_names_there_name_those_here():
    env = make_vec_env("CartPole-v1")
    calls = {
        "n_envs is num_env": lambda: make_vec_env("CartPole-v1", n_envs=2),
        "norm_obs is ob": lambda: VecNormalize(env, norm_obs=True),
        "n_stack is nstack": lambda: VecFrameStack(env, n_stack=4),
    }
    for words, call in calls.items():
        with pytest.raises(UsageError, match=f"^Stable-Baselines3's {words} here$"):
            call()
    with pytest.raises(TypeError, match="nothing"):
        VecNormalize(env, nothing=1)
