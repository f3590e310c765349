"""The networks that are declared without TensorFlow are those that policy/networks.py builds."""

import inspect
from collections.abc import Callable, Sequence

import pytest
from loops import for_each

from tfbaselines.config.argument import kinds_of
from tfbaselines.config.groups import ACTIVATIONS, NETWORKS, network_named
from tfbaselines.errors import UsageError
from tfbaselines.policy import networks as built

OPEN_ENDED = """
from tfbaselines.policy.networks import register

@register("any_towers")
def any_towers(width=32, **more):
    return None
"""


def test_all_networks_are_found():
    own = {name for name, builder in built.NETWORKS.items() if builder.__module__ == built.__name__}
    assert NETWORKS.keys() == own


@for_each("name", NETWORKS)
def test_networks(name):
    read, builder = NETWORKS[name], built.NETWORKS[name]
    parameters = dict(inspect.signature(builder).parameters)
    kinds = [parameter.kind for parameter in parameters.values()]
    parameters = {name: one for name, one in parameters.items() if one.kind is not one.VAR_KEYWORD}
    assert read.open_ended == (inspect.Parameter.VAR_KEYWORD in kinds)
    assert list(read.arguments) == list(parameters)
    for key, parameter in parameters.items():
        argument = read.arguments[key]
        assert argument.name == key and argument.default == parameter.default
        assert argument.kinds == kinds_of(parameter.annotation)
        assert argument.checked(argument.default) == argument.default
        assert argument.meaning and not argument.meaning.endswith("."), key
        assert f"{key}: " in builder.__doc__
    assert read.name == name and read.summary
    assert network_named(name) is read


def test_types_of_networks_arguments():
    kinds = {key: argument.kinds for network in NETWORKS.values() for key, argument in network.arguments.items()}
    assert kinds["activation"] == kinds_of(str | Callable) == ("str", "function")
    assert kinds["convs"] == kinds_of(Sequence[tuple[int, int, int]]) == ("list",)
    assert NETWORKS["mlp"].arguments["activation"].choices == ACTIVATIONS


def test_an_unknown_network_names_the_nearest():
    with pytest.raises(UsageError, match="unknown network 'mpl': did you mean 'mlp'"):
        network_named("mpl")


def test_a_network_that_takes_any_argument(tmp_path, monkeypatch):
    (tmp_path / "open_network.py").write_text(OPEN_ENDED)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(built, "NETWORKS", dict(built.NETWORKS))
    network = network_named("open_network:any_towers")
    assert network.open_ended and list(network.arguments) == ["width"]
