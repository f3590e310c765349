"""Configs are imported without TensorFlow, and what they declare is whole."""

import json
import subprocess
import sys
from pathlib import Path

from loops import for_each

from tfbaselines import ALGORITHMS
from tfbaselines.algs import get
from tfbaselines.config.groups import NETWORKS


@for_each("name", ALGORITHMS)
def test_every_argument_is_whole(name):
    for argument in get(name).config.arguments().values():
        assert argument.meaning and not argument.meaning.endswith("."), argument
        assert argument.kinds, argument
        assert argument.default is None or argument.checked(argument.default) == argument.default, argument
        assert argument.default is not None or {"None", "object"} & set(argument.kinds), argument


@for_each("name", ALGORITHMS)
def test_positions_stay(name):
    config = get(name).config
    positions = json.loads(Path(__file__).with_name("positions.json").read_text())[name].split()
    assert list(config.arguments()) == positions


@for_each("name", ALGORITHMS)
def test_defaults_for_environments_are_of_arguments_there_are(name):
    config = get(name).config
    for env_type, values in config.env_defaults.items():
        # Of that type's network too.
        network = NETWORKS[config.defaults_for(env_type).get("network", "mlp")]
        assert values.keys() <= config.arguments().keys() | {"network"} | network.arguments.keys()
        config.of({key: value for key, value in config.defaults_for(env_type).items() if key != "network"})


def test_reading_configs_does_not_load_tensorflow():
    code = (
        "import sys; from tfbaselines.algs import ALGORITHMS;"
        "[algorithm.config() for algorithm in ALGORITHMS.values()];"
        "print({'tensorflow', 'keras', 'numpy', 'gymnasium'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
