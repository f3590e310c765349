"""Pretraining is given as a dict or as JSON; a mistake is one line that names it and the nearest name."""

import json

import pytest

from tfbaselines.algs import ALGORITHMS, get
from tfbaselines.errors import UsageError

GIVEN = {"demo_path": "demo.npz", "strength": 2, "steps": 1e4, "batch_size": 32.0}
BOTH = pytest.mark.parametrize("alg", ["ppo2", "sac"])


@BOTH
@pytest.mark.parametrize("given", [GIVEN, json.dumps(GIVEN)])
def test_a_group_has_defaults(alg, given):
    cloning = get(alg).config(pretraining=given).cloning
    assert (cloning.demo_path, cloning.strength, cloning.steps, cloning.batch_size) == ("demo.npz", 2, 10_000, 32)
    assert cloning.sequence_length == 64 and isinstance(cloning.steps, int)
    assert get(alg).config().cloning is None


@BOTH
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"demo_path": "a", "strenght": 1}, "pretraining has no argument 'strenght': did you mean 'strength'?"),
        ({"strength": 1}, "pretraining: demo_path=None is not valid: a file of demonstrations"),
        ({"demo_path": "a", "strength": -1}, "pretraining: strength=-1 is not valid: at least 0"),
        ({"demo_path": "a", "batch_size": 0}, "pretraining: batch_size=0 is not valid: at least 1"),
        ({}, "pretraining={} is not valid: a dict such as"),
        ("demo.npz", "pretraining='demo.npz' is not valid: not JSON"),
        (5, "pretraining=5 is not valid"),
    ],
)
def test_mistakes_are_one_line(alg, given, message):
    with pytest.raises(UsageError) as caught:
        get(alg).config(pretraining=given)
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_who_has_it():
    assert {alg for alg, one in ALGORITHMS.items() if "pretraining" in one.config.arguments()} == {"ppo2", "sac"}
