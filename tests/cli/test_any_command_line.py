"""Any text on the command line is a value of its type, or a mistake in one line."""

import types
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tfbaselines.algs import ALGORITHMS
from tfbaselines.cli.command_line import FLAGS, parse, parse_value, split
from tfbaselines.config.argument import Argument
from tfbaselines.config.groups import NETWORKS
from tfbaselines.errors import UsageError

# The arguments of everything, but not those whose text names modules to import.
ARGUMENTS = {name: one for algorithm in ALGORITHMS.values() for name, one in algorithm.config.arguments().items()}
ARGUMENTS |= {name: argument for network in NETWORKS.values() for name, argument in network.arguments.items()}
NAMES = sorted({*FLAGS, *ARGUMENTS} - {"env", "network"})
KINDS = sorted({argument.kinds for argument in [*FLAGS.values(), *ARGUMENTS.values()]})
TYPES = {"bool": {bool}, "int": {int}, "float": {float}, "str": {str}, "None": {types.NoneType}}
TYPES |= {"schedule": {float, str}, "list": {list, tuple}}
# Lines of any text, and of what looks much like Python.
WORDS = [*"()[]{},:-+*01j'\"\\ ", "9e9", "1e999", "0x", "1_0", "None", "True", "nan", "inf", "if", "lambda:", "9" * 400]
TEXTS = st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), max_size=20)
TEXTS |= st.lists(st.sampled_from(WORDS)).map("".join)


def arguments(*words):
    return parse(split(list(words)), ALGORITHMS)


def one_line(error):
    return len(str(error).splitlines()) == 1


@given(st.sampled_from(KINDS), TEXTS)
def test_any_text_is_a_value_of_its_type_or_a_mistake_in_one_line(kinds, text):
    try:
        value = parse_value(Argument("x", kinds, None, ""), text)
    except UsageError as error:
        assert one_line(error)
        return
    assert type(value) in set().union(*(TYPES[kind] for kind in kinds if kind in TYPES))
    assert not isinstance(value, str) or value == text
    assert not isinstance(value, float) or abs(value) < float("inf")


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(NAMES) | TEXTS, TEXTS | st.just(True), max_size=3))
def test_any_command_parses_or_is_a_mistake_in_one_line(given):
    given = {name: text for name, text in given.items() if name not in ("env", "network")}
    try:
        assert parse(given, ALGORITHMS).given == given
    except UsageError as error:
        assert one_line(error)


@pytest.mark.parametrize("form", ["{}", "[{}]", "({},)", "linear_{}", "{{1: {}}}", "f'{{{}}}'"])
def test_nothing_is_ever_evaluated(tmp_path, monkeypatch, form):
    monkeypatch.chdir(tmp_path)
    text = form.format("__import__('pathlib').Path('ran').touch()")
    for name in [*NAMES, "network", "env"]:
        try:
            arguments(f"--{name}={text}", *(["--network=conv_only"] if name == "convs" else []))
        except UsageError as error:
            assert one_line(error)
    assert not Path("ran").exists()


@pytest.mark.parametrize("text", ["1if 1else 2", "'\\d'", "0or 1", "C:\\data"])
def test_no_warnings_of_the_python_compiler(text, recwarn):
    arguments(f"--log_path={text}")
    assert [str(warning.message) for warning in recwarn] == []
