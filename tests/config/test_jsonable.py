import functools
import json
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfbaselines.config.options import to_jsonable

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(PLAIN)
def test_json_stays_as_it_is(value):
    assert json.loads(json.dumps(to_jsonable(value))) == value


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.float32(0.5), 0.5),
        (np.int64(3), 3),
        (np.bool_(True), True),
        (np.arange(3), [0, 1, 2]),
        (np.zeros((20, 20), np.float32), "array of shape (20, 20), float32"),
        ((1, (2,)), [1, [2]]),
        ({3, 1}, [1, 3]),
        ({1: {"a": np.mean}}, {"1": {"a": "numpy.mean"}}),
        (functools.partial(np.full, 3, fill_value=1), "numpy.full(3, fill_value=1)"),
        (Path("/tmp/x"), "/tmp/x"),
        (gymnasium.spaces.Discrete(3), "Discrete(3)"),
        (b"abc", "abc"),
    ],
)
def test_what_is_not_json_becomes_readable(value, expected):
    assert to_jsonable(value) == expected


def test_no_memory_addresses():
    assert "0x" not in json.dumps(to_jsonable([object(), lambda x: x, functools.partial(print, object())]))


def test_a_container_inside_itself():
    loop = [1]
    loop.append(loop)
    assert to_jsonable(loop) == [1, "<circular reference>"]
    twice = [2]
    assert to_jsonable([twice, twice]) == [[2], [2]]
