"""Configs are read from the algorithms' files without what else these import."""

import dataclasses
import subprocess
import sys

import pytest

from tfbaselines import ALGORITHMS
from tfbaselines.algs.registry import get
from tfbaselines.settings.declared import config_of, declared_config
from tfbaselines.settings.signatures import networks

SOURCE = """
import tensorflow as tf
from dataclasses import dataclass
import math as m
from tfbaselines.settings.config import Config as Base, arg

ROWS = 2 * 4
UNUSED = tf.constant(3)

def largest(rows):
    return rows * FACTOR

FACTOR = m.floor(2.5)

@dataclass(frozen=True, kw_only=True)
class Config(Base):
    rows: int = arg(ROWS, "rows", at_least=1)

    def check(self):
        if self.rows > largest(ROWS):
            raise ValueError("too many rows")

def learn(network, env):
    return tf.zeros(ROWS)
"""


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_declared_config_is_the_imported_one(name):
    declared, imported = config_of(name), get(name).module.Config
    assert declared.arguments() == imported.arguments()
    fields = [[(one.name, one.type, one.default) for one in dataclasses.fields(kind)] for kind in (declared, imported)]
    assert fields[0] == fields[1]
    assert (declared.order, declared.env_defaults) == (imported.order, imported.env_defaults)
    assert (declared.__module__, declared.__doc__) == (imported.__module__, imported.__doc__)
    assert declared.__mro__[1:] == imported.__mro__[1:]
    assert config_of(name) is declared


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_argument_is_whole(name):
    for argument in config_of(name).arguments().values():
        assert argument.meaning and not argument.meaning.endswith("."), argument
        assert argument.kinds, argument
        assert argument.default is None or argument.checked(argument.default) == argument.default, argument
        assert argument.default is not None or {"None", "object"} & set(argument.kinds), argument


@pytest.mark.parametrize("name", ALGORITHMS)
def test_positions_and_defaults_for_environments_are_of_arguments_there_are(name):
    config = config_of(name)
    assert set(config.order.split()) <= config.arguments().keys()
    assert len(set(config.order.split())) == len(config.order.split())
    for env_type, values in config.env_defaults.items():
        # Of that type's network too.
        network = networks()[config.defaults_for(env_type).get("network", "mlp")]
        assert values.keys() <= config.arguments().keys() | {"network"} | network.arguments.keys()
        config.of({key: value for key, value in config.defaults_for(env_type).items() if key != "network"})


def test_what_the_config_names_comes_with_it():
    config = declared_config(SOURCE, "somewhere.py", "somewhere")
    assert config().rows == 8
    with pytest.raises(ValueError, match="too many rows"):
        config(rows=17)
    assert config.check.__code__.co_filename == "somewhere.py"


def test_a_config_that_needs_a_heavy_module_is_an_error():
    with pytest.raises(ImportError, match=r"somewhere.py, line 2: Config must not need 'tensorflow'"):
        declared_config(SOURCE.replace("def largest(rows):", "def largest(rows: tf.Tensor):"), "somewhere.py", "x")


def test_reading_configs_does_not_load_tensorflow():
    code = (
        "import sys; from tfbaselines.algs.registry import ALGORITHMS;"
        "[algorithm.config() for algorithm in ALGORITHMS.values()];"
        "print({'tensorflow', 'keras', 'numpy', 'gymnasium'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
