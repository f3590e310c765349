"""learn's positions, signature and documentation are those that its Config declares."""

import inspect
from typing import Any

import gymnasium
import pytest
from loops import for_each

from tfbaselines import ALGORITHMS
from tfbaselines.algs import get
from tfbaselines.config.algorithm import Algorithm, takes
from tfbaselines.config.config import Config
from tfbaselines.config.options import RunOptions
from tfbaselines.errors import UsageError
from tfbaselines.policy.networks import NETWORKS

EVERY_CONFIG = for_each("config", [get(name).config for name in ALGORITHMS])


def decorated(config, **texts):
    @takes(Algorithm(config, "an algorithm of this test", ("Discrete",)), **texts)
    def learn(network: str, env: Any, **kwargs: Any) -> int:
        """Train a policy.

        Nothing more.

        Returns:
            The trained model.
        """
        # The options of the run have the network for the description.
        return network, env, {name: value for name, value in kwargs.items() if not isinstance(value, RunOptions)}

    return learn


@pytest.fixture(autouse=True)
def environments_as_they_are(monkeypatch):
    monkeypatch.setattr("tfbaselines.envs.adapt.as_vec_env", lambda env, *_, **__: env)
    monkeypatch.setattr("tfbaselines.envs.env_type_of", lambda env: ("own", env))


@EVERY_CONFIG
def test_positions_have_names(config):
    learn, names = decorated(config), list(config.arguments())
    assert learn("mlp", -1, *range(len(names))) == ("mlp", -1, dict(zip(names, range(len(names)), strict=True)))
    assert learn("mlp", 1, 30_000, width=2) == ("mlp", 1, {names[0]: 30_000, "width": 2})
    assert learn(network="mlp", env=1, width=2) == ("mlp", 1, {"width": 2})
    # As in baselines' deepq.
    assert learn(1, network="mlp", width=2) == ("mlp", 1, {"width": 2})


def make_env():
    """An environment."""


@for_each("network", ["mlp", "my_networks:towers", make_env])
@for_each("env", ["CartPole-v1", "my_environments:Robot-v0", "Unversioned", "CartPol-v1"])
def test_an_id_may_come_before_the_network(env, network, monkeypatch):
    """As in baselines' deepq."""
    monkeypatch.setitem(gymnasium.registry, "Unversioned", None)
    learn = decorated(Config)
    assert learn(env, network)[:2] == learn(network, env)[:2] == (network, env)


def test_what_may_be_a_network_stays_one(monkeypatch):
    monkeypatch.setitem(NETWORKS, "towers-v1", None)
    learn = decorated(Config)
    for network, env in (("towers-v1", make_env), ("mlp", make_env), ("CartPole-v1", "Pong-v4"), ("CartPole-v1", [])):
        assert learn(network, env)[:2] == (network, env)


@EVERY_CONFIG
def test_too_many_positions_and_doubled_arguments_are_named_in_one_line(config):
    learn, names = decorated(config), list(config.arguments())
    with pytest.raises(UsageError) as caught:
        learn("mlp", 1, *range(len(names) + 1))
    most = len(names) + 2
    words = f"learn takes at most {most} arguments by position, not {most + 1}: {names[-1]} is the last"
    assert str(caught.value) == words
    with pytest.raises(UsageError, match=f"^argument '{names[1]}' is given twice, by position and by name$"):
        learn("mlp", 1, 2, 3, **{names[1]: 3})
    with pytest.raises(TypeError, match="env"):
        learn("mlp")


@EVERY_CONFIG
def test_the_signature_has_every_argument(config):
    signature = inspect.signature(decorated(config))
    *first, rest = signature.parameters.values()
    assert [one.name for one in first] == ["network", "env", *config.arguments()]
    assert rest.kind is rest.VAR_KEYWORD and signature.return_annotation is int
    for argument in config.arguments().values():
        parameter = signature.parameters[argument.name]
        assert parameter.default == argument.default
        assert parameter.annotation is not parameter.empty
    assert "Annotated" not in str(signature)


@EVERY_CONFIG
def test_the_documentation_has_every_argument(config):
    learn = decorated(config, env="environments of this test")
    paragraphs = learn.__doc__.split("\n\n")
    assert paragraphs[:2] == ["Train a policy.", "Nothing more."]
    assert paragraphs[2].startswith("Args:\n    network: ")
    assert paragraphs[-1] == "Returns:\n    The trained model."
    flat = " ".join(paragraphs[2].split())
    assert "env: environments of this test." in flat and "network_kwargs: " in flat
    for one in config.arguments().values():
        assert f"{one.name}: {one.meaning} ({one.notes()})." in flat
    if any("schedule" in one.kinds for one in config.arguments().values()):
        assert "linear_3e-4" in paragraphs[3]
    assert max(map(len, learn.__doc__.splitlines())) <= 120


def test_schedules_are_explained_where_there_are_some():
    assert "schedule" not in decorated(Config).__doc__
    assert list(inspect.signature(decorated(Config)).parameters) == [
        *("network", "env", "total_timesteps", "seed", "load_path", "comm", "run", "network_kwargs")
    ]


@for_each("name", ALGORITHMS)
def test_learn_has_the_declared_positions_and_defaults(name):
    parameters = inspect.signature(get(name).learn).parameters
    declared = {one.name: one.default for one in get(name).config.arguments().values()}
    assert list(parameters) == ["network", "env", *declared, "network_kwargs"]
    assert {key: parameters[key].default for key in declared} == declared
    for key in declared:
        assert f"{key}: " in get(name).learn.__doc__


def test_without_eager_execution_there_is_one_line():
    import tensorflow as tf

    for context in (tf.Graph().as_default, tf.compat.v1.Session):
        with context(), pytest.raises(UsageError, match=r"^TensorFlow's eager execution is off: .*disable_v2_behavior"):
            get("ppo2").learn("mlp", "CartPole-v1", total_timesteps=0)
