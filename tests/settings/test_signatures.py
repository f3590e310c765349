"""What is read from the source text is what the loaded functions say."""

import ast
import importlib
import inspect

import pytest

from tfbaselines import ALGORITHMS
from tfbaselines.policy import networks as built
from tfbaselines.settings.signatures import Argument, algorithm, networks

OF_THE_RUN = {"network", "env", "total_timesteps", "seed", "eval_env", "run"}


def assert_same(arguments, function, without=()):
    """Equal names in equal order, types and defaults, and a meaning for each."""
    parameters = inspect.signature(function).parameters.values()
    parameters = {p.name: p for p in parameters if p.kind is not p.VAR_KEYWORD and p.name not in without}
    assert list(arguments) == list(parameters)
    for name, parameter in parameters.items():
        argument = arguments[name]
        assert argument.name == name
        assert eval(argument.annotation, vars(inspect.getmodule(function))) == parameter.annotation, name
        assert argument.default == literal(parameter.default), name
        assert argument.meaning and argument.meaning in " ".join(function.__doc__.split()), name


def literal(default):
    """The default as source text can give it: None for one that is required or no literal."""
    try:
        return ast.literal_eval(repr(default))
    except (ValueError, SyntaxError):
        return None


@pytest.mark.parametrize("name", ALGORITHMS)
def test_algorithms(name):
    module = importlib.import_module(f"tfbaselines.algs.{name}")
    read = algorithm(name)
    assert_same(read.arguments, module.learn, without=OF_THE_RUN)
    assert read.name == name
    assert read.summary == module.__doc__.splitlines()[0]
    assert read.defaults == getattr(module, "DEFAULTS", {})
    assert read.schedules == getattr(module, "SCHEDULE_ARGUMENTS", ())


@pytest.mark.parametrize("name", ALGORITHMS)
def test_defaults_and_schedules_are_of_arguments_that_there_are(name):
    read = algorithm(name)
    for values in read.defaults.values():
        assert values.keys() <= read.arguments.keys() | networks()["mlp"].arguments.keys() | {"network"}
    assert set(read.schedules) <= read.arguments.keys()


def test_all_networks_are_found():
    own = {name for name, builder in built.NETWORKS.items() if builder.__module__ == built.__name__}
    assert networks().keys() == own


@pytest.mark.parametrize("name", networks())
def test_networks(name):
    read, builder = networks()[name], built.NETWORKS[name]
    assert_same(read.arguments, builder)
    assert read.name == name and read.summary == builder.__doc__.splitlines()[0]


def test_a_meaning_of_several_lines_is_one_text():
    assert algorithm("ppo2").arguments["value_network"].meaning == (
        "None or 'shared' for a value head on the policy's network, 'copy' for a network of its own of the same kind, "
        "another network's name, or a builder."
    )


@pytest.mark.parametrize(
    ("annotation", "settable"),
    [
        ("int", True),
        ("float | None", True),
        ("float | str | FractionSchedule", True),
        ("Sequence[tuple[int, int, int]]", True),
        ("NetworkSpec | None", True),
        ("Callable[..., Model] | None", False),
        ("Callable[[int], None] | None", False),
        ("Any", False),
        ("", False),
    ],
)
def test_text_stands_for_values_but_not_for_objects(annotation, settable):
    assert Argument("x", annotation, None, "").settable is settable


def test_an_unknown_algorithm_names_the_nearest():
    with pytest.raises(ValueError, match="unknown algorithm 'pp02': did you mean 'ppo2'"):
        algorithm("pp02")
