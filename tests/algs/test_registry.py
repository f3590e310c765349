"""Every algorithm's entry agrees with its file."""

import subprocess
import sys
from pathlib import Path

import pytest
from gymnasium import spaces
from small_runs import ACTIONS

import tfbaselines
from tfbaselines import algs
from tfbaselines.algs import ALGORITHMS, get
from tfbaselines.config.groups import NETWORKS
from tfbaselines.envs.vec import DummyVecEnv
from tfbaselines.training.build import saved_model

FOLDERS = {path.parent.name for path in Path(algs.__file__).parent.glob("*/__init__.py")}
GOALS = ("observation", "achieved_goal", "desired_goal")
KINDS = {"Discrete", "MultiDiscrete", "MultiBinary", "Box", "bounded Box"}


class Small:
    """Spaces alone."""

    observation_space = spaces.Box(-1, 1, (2,))

    def __init__(self, action_space):
        self.action_space = action_space


def test_every_folder_has_an_entry_and_every_entry_a_folder():
    assert ALGORITHMS.keys() == FOLDERS == set(tfbaselines.ALGORITHMS)
    assert {name: algorithm.name for name, algorithm in ALGORITHMS.items()} == {name: name for name in ALGORITHMS}


def test_an_unknown_algorithm_names_the_nearest():
    with pytest.raises(ValueError, match=r"^unknown algorithm 'pp02': did you mean 'ppo2'\?$"):
        get("pp02")


@pytest.mark.parametrize("algorithm", ALGORITHMS.values(), ids=ALGORITHMS)
def test_an_entry_is_whole(algorithm):
    assert algorithm.summary and len(algorithm.summary) < 110 and not algorithm.summary.endswith(".")
    assert set(algorithm.actions) <= KINDS and algorithm.actions
    assert set(algorithm.config.length_arguments) <= algorithm.config.arguments().keys()
    assert {algorithm.default_network(kind) for kind in ("atari", "mujoco", "mine")} <= NETWORKS.keys()
    assert algorithm.learn is algorithm.module.learn is getattr(tfbaselines, algorithm.name).learn


def test_default_networks():
    found = {name: [get(name).default_network(kind) for kind in ("atari", "retro", "mine")] for name in ALGORITHMS}
    assert found["ppo2"] == ["cnn", "cnn", "mlp"]
    assert found["sac"] == ["cnn", "dense", "dense"]
    assert found["td3"] == ["dense", "dense", "dense"]


@pytest.mark.parametrize("algorithm", ALGORITHMS.values(), ids=ALGORITHMS)
def test_environments_are_wrapped_where_action_masks_count(algorithm):
    import gymnasium

    env = DummyVecEnv([lambda: gymnasium.make("CartPole-v1")])
    wrapped = algorithm.wrap(env)
    assert (wrapped is env) is not algorithm.takes_masks
    assert wrapped.num_envs == 1
    wrapped.close()


@pytest.mark.parametrize("algorithm", ALGORITHMS.values(), ids=ALGORITHMS)
def test_models_are_built_from_what_config_json_keeps(algorithm):
    network, sizes, action, shape = "mlp", {"num_hidden": 4, "num_layers": 1}, ACTIONS[algorithm.actions[0]], (2, 4)
    if algorithm.tabular:
        network, sizes, shape = "table", {"grid_size": 5}, (25, 3)
    small = Small(action)
    if algorithm.goals:
        small.observation_space = spaces.Dict(dict.fromkeys(GOALS, Small.observation_space))
        shape = (4, 4)
    model = saved_model(algorithm, network, small, sizes | {"seed": 3})
    assert model.policy.trainable_variables[0].shape == shape
    with pytest.raises(ValueError) as caught:
        saved_model(algorithm, network, small, sizes | {"dropped_argument": 3})
    assert "'dropped_argument'" in str(caught.value) and len(str(caught.value).splitlines()) == 1


def test_importing_the_package_loads_nothing_heavy():
    code = "import sys, tfbaselines; print({'tensorflow', 'keras', 'numpy', 'gymnasium'} & set(sys.modules) or '')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
