import dataclasses
import importlib
import inspect
import re

import pytest

from tfbaselines import ALGORITHMS
from tfbaselines.algs import get
from tfbaselines.config.options import PRECISIONS, RunOptions
from tfbaselines.errors import UsageError


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"precision": "float3"}, "unknown precision 'float3': did you mean 'float32'"),
        ({"precision": ""}, "choose from bfloat16, float32"),
        ({"on_nan": "ignore"}, "unknown on_nan 'ignore': choose from skip, stop"),
        ({"mpi_exchange": "batch"}, "unknown mpi_exchange 'batch': did you mean 'batches'"),
        ({"keep_checkpoints": 0}, "keep_checkpoints=0 is not valid: at least 1"),
        ({"callback": 3}, "callback=3 is not valid: a function of the Run, or a list of functions"),
        ({"callback": [print, None]}, "callback=None is not valid: a function of the Run"),
    ],
)
def test_bad_options_are_named(arguments, message):
    with pytest.raises(UsageError, match=message):
        RunOptions(**arguments)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_good_options_are_kept(precision):
    options = RunOptions(precision=precision, keep_checkpoints=1)
    assert (options.precision, options.keep_checkpoints) == (precision, 1)


def test_options_are_not_shared_and_do_not_change():
    one = RunOptions()
    assert one.config is None and one == RunOptions()
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.resume = "elsewhere"


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_takes_them(name):
    learn = importlib.import_module(f"tfbaselines.algs.{name}").learn
    assert inspect.signature(learn).parameters["run"].default is None


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"seed": -1}, "seed=-1 is not valid: at least 0"),
        ({"run": {"on_nan": "skip"}}, "run={'on_nan': 'skip'} is not valid: a RunOptions, of tfbaselines.config"),
    ],
)
def test_a_mistake_is_not_the_environments(wrong, message):
    with pytest.raises(UsageError, match=f"^{re.escape(message)}"):
        get("ppo2").learn("mlp", "CartPole-v1", **wrong)
