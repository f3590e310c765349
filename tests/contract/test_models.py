"""Every algorithm's model: saved and loaded, exported, evaluated and played, from Python and on the command line."""

import json

import numpy as np
import pytest
import tensorflow as tf
from small_environments import box, identity
from small_runs import (
    EVERY,
    PLAIN_AND_WITH_MEMORY,
    flags,
    learn,
    network_of,
    own_identity,
    rows,
    small,
    steps_of_update,
    table,
    takes,
    train,
    weights,
)

from tfbaselines.algs import ALGORITHMS, get
from tfbaselines.config.bases import ReplayConfig, SearchConfig
from tfbaselines.evaluate import evaluate
from tfbaselines.plot.__main__ import main as plot
from tfbaselines.run import command as main
from tfbaselines.training.build import saved_model
from tfbaselines.training.checkpoint import Checkpoints, load_tree

CLOSE = {"rtol": 1e-4, "atol": 1e-5}


def assert_same_answers(one, other, obs):
    np.testing.assert_array_equal(one.act(obs, deterministic=True)[0], other.act(obs, deterministic=True)[0])
    np.testing.assert_array_equal(one.value(obs), other.value(obs))


@PLAIN_AND_WITH_MEMORY
def test_save_and_load(alg, network, eager, tmp_path):
    model, obs = learn(alg, own_identity(alg), 3, network), own_identity(alg, 5).reset()
    model.save(tmp_path / "model")
    loaded = learn(alg, own_identity(alg), 0, network, seed=9, load_path=tmp_path / "model")
    np.testing.assert_equal(loaded.state(), model.state())
    assert_same_answers(loaded, model, obs)
    other = learn(alg, own_identity(alg), 0, network, seed=9)
    assert not np.array_equal(weights(other.policy), weights(model.policy))
    other.load(tmp_path / "model")
    np.testing.assert_equal(other.state(), model.state())
    assert_same_answers(other, model, obs)


@pytest.mark.parametrize("alg", [alg for alg in ALGORITHMS if alg != "qlearning"])
def test_linear_policies_learn(alg, eager, tmp_path):
    """Also where the observation is as wide as the head's input: the head has a layer of its own."""
    network = {"network": "mlp", "num_layers": 0}
    start, model = (learn(alg, own_identity(alg), updates, **network) for updates in (0, 3))
    acting = getattr(model.policy, "acting_variables", model.policy.trainable_variables)
    assert any(len(variable.shape) == 2 and "logstd" not in variable.path for variable in acting)
    assert not np.array_equal(weights(start.policy), weights(model.policy))
    model.save(tmp_path / "model")
    loaded = learn(alg, own_identity(alg), 0, seed=9, load_path=tmp_path / "model", **network)
    assert_same_answers(loaded, model, own_identity(alg, 5).reset())


@EVERY
def test_a_checkpoint_holds_the_trained_model(alg, eager, tmp_path):
    env = own_identity(alg, 5)
    model = train(tmp_path, alg, own_identity(alg), 3)
    arguments = {name: value for name, value in small(alg).items() if name != "seed"}
    loaded = saved_model(get(alg), network_of(alg), env, arguments)
    loaded.load(Checkpoints(tmp_path / "checkpoints").latest())
    assert_same_answers(loaded, model, env.reset())


@EVERY
def test_other_models_are_refused(alg, eager, tmp_path):
    """Of another family of algorithms, or with another network; what was there stays."""
    env = box() if takes(alg, "bounded Box") and not get(alg).goals else own_identity(alg)
    model = learn(alg, env, 0)
    before = model.state()
    width = {"mlp": {"num_hidden": 9}, "dense": {"hidden_sizes": [9]}}.get(network_of(alg), {})
    # A table has the width of what it is shown.
    others = {"narrow": learn(alg, identity(dim=3) if get(alg).tabular else env, 0, **width)}
    other = "ppo2" if issubclass(get(alg).config, ReplayConfig) else "td3"
    others[other] = learn(other, box(), 0)
    for name, other in others.items():
        other.save(tmp_path / name)
        with pytest.raises(ValueError, match=f"cannot load '.*{name}'") as error:
            learn(alg, env, 0, load_path=tmp_path / name)
        assert "\n" not in str(error.value)
    np.testing.assert_equal(model.state(), before)


# The command line.


def steps_of_run(alg):
    """Environment steps of the saved run: at least two updates."""
    return max(80, 2 * steps_of_update(alg, 1, small(alg)))


@pytest.fixture(scope="module", params=ALGORITHMS)
def saved(request, tmp_path_factory):
    """The algorithm, and a directory with the log and the model of a run of some updates."""
    directory = tmp_path_factory.mktemp(request.param)
    tf.config.run_functions_eagerly(True)
    paths = [f"--log_path={directory / 'log'}", f"--save_path={directory / 'model'}"]
    assert main(flags(request.param, f"--num_timesteps={steps_of_run(request.param)}", *paths)) == 0
    tf.config.run_functions_eagerly(False)
    return request.param, directory


def test_a_run_leaves_its_files(saved):
    alg, directory = saved
    names = {path.name for path in (directory / "log").iterdir()}
    assert names >= {"0.0.monitor.csv", "checkpoints", "config.json", "log.txt", "progress.csv"}
    config = json.loads((directory / "log/config.json").read_text())
    assert config["alg"] == alg
    of_the_command = ("seed", "num_test_episodes", "demo_path")
    own = {name: value for name, value in small(alg).items() if name not in of_the_command}
    assert {name: config["learn"][name] for name in own} == own
    assert load_tree(directory / "model")["config"]["alg"] == alg
    assert len(rows(directory / "log")) >= 2
    # The environment's own steps, of tests none; what searches ends its last episodes.
    monitor = (directory / "log/0.0.monitor.csv").read_text().splitlines()
    most = (
        table(directory / "log")["total_timesteps"].max()
        if issubclass(get(alg).config, SearchConfig)
        else steps_of_run(alg)
    )
    assert sum(int(line.split(",")[1]) for line in monitor[2:]) <= most


def test_a_saved_run_is_evaluated(saved):
    directory = str(saved[1] / "log")
    first, again, other = (evaluate(directory, episodes=2, seed=seed)["returns"] for seed in (1, 1, 2))
    assert first == again
    # An untrained policy reaches none of the goals, for which there is one return.
    assert first != other or get(saved[0]).goals
    exact, more = (evaluate(directory, episodes=2, seed=1, deterministic=True, num_env=count) for count in (1, 2))
    assert len(exact["returns"]) == len(more["returns"]) == 2


def test_a_saved_model_is_played(saved, capsys, monkeypatch, tmp_path):
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    alg, directory = saved
    own = ["--num_timesteps=0", f"--load_path={directory / 'model'}", "--play", f"--log_path={tmp_path / 'log'}"]
    assert main(flags(alg, *own)) == 0
    assert capsys.readouterr().out.count("episode_rew=") == 10


def test_a_saved_run_is_plotted(saved, tmp_path):
    assert plot([str(saved[1] / "log"), "--out", str(tmp_path / "plot.png")]) in (None, 0)
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
