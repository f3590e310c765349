"""Every algorithm's arguments: learn's signature, mistakes named in one line, and the way through JSON and back."""

import inspect
import json

import pytest
from loops import for_each
from small_runs import BY_BASE, BY_NAME, EVERY, WITH_NETWORKS, flags, own_identity, small

from tfbaselines import ALGORITHMS as NAMES
from tfbaselines.algs import ALGORITHMS, get
from tfbaselines.cli.command_line import FLAGS, OF_THE_RUN, parse, split
from tfbaselines.cli.stored import make_config
from tfbaselines.config.options import to_jsonable
from tfbaselines.errors import UsageError
from tfbaselines.run import command as main

# Beyond bounds by this much.
OFF = 0.5


def outside(argument):
    """Numbers that an argument's bounds exclude, of its own type."""
    low, above, high = argument.bounds
    step = OFF if {"float", "schedule"} & set(argument.kinds) else 1
    numbers = [] if low is None else [low - step]
    numbers += [] if above is None else [above, above - step]
    numbers += [] if high is None else [high + step]
    return numbers + ([float("nan")] if {"int", "float"} & set(argument.kinds) else [])


def of_other_types(argument):
    """Values of types that an argument does not take."""
    kinds = set(argument.kinds)
    if "object" in kinds:
        return []
    numbers = kinds & {"int", "float", "schedule"}
    wrong = [1j, {"a": 1}] if "None" in kinds else [1j, {"a": 1}, None]
    wrong += [] if "str" in kinds and not argument.choices else ["quick", ""]
    wrong += [] if numbers else [1.5, 7]
    wrong += [1.5, float("inf")] if numbers == {"int"} else []
    return wrong + ([] if "bool" in kinds else [True] * bool(numbers)) + ([] if "list" in kinds else [[1]])


def error_of(alg, **kwargs):
    """The one line of a mistake; a run without it would be short."""
    try:
        get(alg).learn(env=own_identity(alg), **{"network": "mlp", "total_timesteps": 0} | kwargs)
    except UsageError as error:
        assert "\n" not in str(error)
        return str(error)
    pytest.fail(f"{alg} takes {kwargs}")


def test_the_registry_is_complete():
    assert set(NAMES) == set(ALGORITHMS) and all(name == one.name for name, one in ALGORITHMS.items())
    assert set(BY_NAME) <= set(ALGORITHMS)
    assert all(any(issubclass(one.config, base) for base in BY_BASE) for one in ALGORITHMS.values())


@EVERY
def test_learn_takes_every_argument_of_its_config(alg):
    signature = inspect.signature(get(alg).learn)
    assert list(signature.parameters)[:2] == ["network", "env"]
    declared = get(alg).config.arguments()
    for name, argument in declared.items():
        assert signature.parameters[name].default == argument.default, name
        assert argument.meaning in " ".join(get(alg).learn.__doc__.split()), name
    assert set(signature.parameters) == {"network", "env", *declared, "network_kwargs"}


@EVERY
def test_help_lists_every_argument(alg, capsys):
    assert main([f"--alg={alg}", "--help"]) == 0
    out = capsys.readouterr().out
    settable = {name for name, one in get(alg).config.arguments().items() if one.settable}
    # Flags of every algorithm are listed by --help alone.
    assert [name for name in settable - {*FLAGS, *OF_THE_RUN} if f"--{name}" not in out] == []


@EVERY
def test_numbers_out_of_bounds(alg):
    for name, argument in get(alg).config.arguments().items():
        for value in outside(argument):
            error = error_of(alg, **{name: value})
            assert error.startswith(f"{name}={value!r} is not valid: "), error


@EVERY
def test_values_of_other_types(alg):
    for name, argument in get(alg).config.arguments().items():
        for value in of_other_types(argument):
            assert name in error_of(alg, **{name: value}), f"{name}={value!r}"


@EVERY
def test_unknown_arguments_name_the_nearest(alg):
    names = [name for name in get(alg).config.arguments() if len(name) > 7]
    assert names
    for name in names:
        error = error_of(alg, **small(alg, "mlp") | {f"{name}x": 1})
        assert f"unknown argument '{name}x'" in error and f"did you mean '{name}'?" in error


@WITH_NETWORKS
def test_mistakes_about_networks_and_files(alg):
    own = {name: value for name, value in small(alg).items() if name in get(alg).config.arguments()}
    for arguments, words in (
        ({"network": "mpl"}, ["unknown network 'mpl'", "'mlp'"]),
        ({"network": "mlp", "num_hiden": 3}, ["unknown argument 'num_hiden'", "'num_hidden'"]),
        ({"network": "cnn"}, ["convolutional network needs images"]),
        ({"load_path": "nowhere"}, ["there is no file 'nowhere'"]),
    ):
        error = error_of(alg, **own | arguments)
        assert all(word in error for word in words), error


@EVERY
def test_mistakes_on_the_command_line(alg, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    share = next(name for name in ("gamma", "discount", "weight_decay") if name in get(alg).config.arguments())
    mistaken = share[0] + share[2:]
    mistakes = {
        f"{share}=1.5": [f"{share}=1.5 is not valid: between 0 and 1"],
        f"{share}=high": [f"{share}='high' is not valid: a number"],
        f"{mistaken}=0.9": [f"unknown argument --{mistaken}", f"did you mean --{share}?"],
        "network=mpl": ["unknown network 'mpl'", "'mlp'"],
        "num_timesteps=-1": ["num_timesteps=-1", "at least 0"],
    }
    for given, words in mistakes.items():
        capsys.readouterr()
        assert main(flags(alg, f"--{given}", log_path="log")) == 2
        err = capsys.readouterr().err
        assert err.startswith("tfbaselines: error: ") and err.count("\n") == 1
        assert all(word in err for word in words), err


def changed(argument):
    """A value within bounds that is not the default, for types of which one can be made up."""
    kinds, (low, above, high) = set(argument.kinds), argument.bounds
    if argument.choices:
        return argument.choices[-1]
    if "schedule" in kinds:
        return "linear_0.125"
    if "float" in kinds and high is not None:
        return 0.125
    if "float" in kinds or "int" in kinds:
        return 3 + max(value for value in (0, low, above) if value is not None)
    return not argument.default if kinds == {"bool"} else None


@EVERY
def test_a_config_survives_json(alg):
    kind, kept = get(alg).config, 0
    for name, argument in kind.arguments().items():
        value = changed(argument)
        try:
            config = kind.of({} if value is None else {name: value})
        except UsageError as error:
            # The value alone is valid, and goes with others only.
            assert f"{name}={value!r} is not valid: {argument.bounds}" not in str(error)
            continue
        declared = {one: getattr(config, one) for one in kind.arguments()}
        assert kind.of(json.loads(json.dumps(to_jsonable(declared)))) == config
        kept += value is not None
    assert kept > 5


@EVERY
@for_each("env", ["CartPole-v1", "PongNoFrameskip-v4", "HalfCheetah-v5"])
def test_config_json_repeats_the_run(alg, env):
    """The defaults of each type of environments, and what was given over them."""
    own = [f"--{name}={value}" for name, value in small(alg).items() if name in get(alg).config.arguments()]
    for given in ([], own):
        arguments = parse(split([f"--alg={alg}", f"--env={env}", *given]), ALGORITHMS)
        written = json.loads(json.dumps(make_config(arguments)))
        assert get(alg).config.of(written["learn"]) == get(alg).config.of(arguments.learn)
        again = parse(written["given"], ALGORITHMS)
        assert again.learn == arguments.learn and again.flags == arguments.flags
