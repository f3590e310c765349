"""Saved runs are loaded from their directory or file, and damaged ones are one line."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import gymnasium
import keras
import numpy as np
import pytest
from commands import SMALL
from helpers import vec

import tfbaselines
from tfbaselines.algs import ppo2
from tfbaselines.envs.tiny import BoxIdentityEnv
from tfbaselines.errors import NotFiniteError, UsageError
from tfbaselines.evaluate import evaluate
from tfbaselines.logs import logger
from tfbaselines.record import record
from tfbaselines.run import command as train
from tfbaselines.training.checkpoint import Checkpoints, load_tree, save_tree, saved_file


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    directory = tmp_path_factory.mktemp("saved")
    flags = ["--num_timesteps=640", "--save_interval=5", f"--save_path={directory / 'model'}"]
    assert train([*SMALL, *flags, f"--log_path={directory / 'log'}"]) == 0
    return directory


def observations():
    return np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)


def test_a_directory_and_a_file_are_loaded_and_act(saved):
    models = [tfbaselines.load(saved / name) for name in ("log", "model", "log/checkpoints/00010")]
    models.append(tfbaselines.load(str(saved / "log"), checkpoint="10"))
    actions = [model.act(observations(), deterministic=True)[0] for model in models]
    values = [model.value(observations()) for model in models]
    for other in range(1, 4):
        np.testing.assert_array_equal(actions[other], actions[0])
        np.testing.assert_array_equal(values[other], values[0])
    earlier = tfbaselines.load(saved / "log", checkpoint="5").value(observations())
    assert not np.array_equal(earlier, values[0])


def test_predict_is_act_with_stable_baselines_order(saved):
    model = tfbaselines.load(saved / "log")
    action, state = model.predict(observations()[0], None, None, True)
    assert state is None and action == model.act(observations()[0], deterministic=True)[0]
    assert model.predict(observations(), deterministic=True)[0].shape == (5,)


def test_an_environment_takes_over_the_normalisation(tmp_path):
    from tfbaselines.envs.make import build_env

    flags = ["--env=InvertedPendulum-v5", "--nsteps=64", "--noptepochs=1", "--num_hidden=8", "--num_timesteps=128"]
    assert train([*flags, f"--log_path={tmp_path}"]) == 0
    env = build_env(json.loads((tmp_path / "config.json").read_text())["env"], training=False)
    tfbaselines.load(tmp_path, env)
    assert env.ob_rms.count > 100
    assert tfbaselines.load(tmp_path).observations.normalization["ob"]["count"] == env.ob_rms.count
    env.close()


@pytest.mark.parametrize("alg", ["ppo2", "ddpg"])
def test_a_loaded_model_takes_raw_observations(alg, tmp_path):
    """As an export does, and as the model does on the observations of the run's normalized environments."""
    from tfbaselines.envs.make import build_env, make_vec_env

    flags = [f"--alg={alg}", "--env=InvertedPendulum-v5", "--num_hidden=8", "--seed=0", f"--log_path={tmp_path}"]
    steps = {"ppo2": ["--nsteps=64", "--noptepochs=1", "--num_timesteps=128"]}
    steps["ddpg"] = ["--nb_epochs=1", "--nb_epoch_cycles=1", "--nb_rollout_steps=100", "--nb_train_steps=1"]
    assert train([*flags, *steps[alg]]) == 0
    env = build_env(json.loads((tmp_path / "config.json").read_text())["env"], training=False)
    run, model = tfbaselines.load(tmp_path, env), tfbaselines.load(tmp_path)
    raw = np.random.default_rng(0).normal(3.0, 0.1, (5, 4))
    scaled = env.scaled(raw)
    assert not np.allclose(scaled, raw, atol=0.1)
    plain = make_vec_env("InvertedPendulum-v5", num_env=1)
    for loaded in (model, tfbaselines.load(tmp_path, plain)):
        for one in (lambda model, obs: model.act(obs, deterministic=True)[0], lambda model, obs: model.value(obs)):
            np.testing.assert_allclose(one(loaded, raw), one(run, scaled), rtol=1e-5, atol=1e-6)
        # What is saved and exported scales them too.
        np.testing.assert_array_equal(loaded.tree()["normalization"]["ob"]["mean"], env.ob_rms.mean)
    plain.close()
    single = model.predict(raw[0], deterministic=True)[0]
    np.testing.assert_allclose(single, model.act(raw, None, True)[0][0], rtol=1e-5, atol=1e-6)
    env.close()


def test_another_environment_is_refused(saved):
    from tfbaselines.envs.vec import DummyVecEnv

    env = DummyVecEnv([lambda: gymnasium.make("Acrobot-v1")])
    with pytest.raises(UsageError, match="another observation space"):
        tfbaselines.load(saved / "log", env)


def test_what_is_no_run_is_named(saved, tmp_path):
    with pytest.raises(UsageError, match=r"has no config\.json"):
        tfbaselines.load(tmp_path)
    with pytest.raises(UsageError, match=r"is not valid: the log directory of a run"):
        tfbaselines.load(tmp_path / "none")
    tree = load_tree(saved / "model")
    save_tree(tmp_path / "model", tree | {"config": {}})
    with pytest.raises(UsageError, match="load_path"):
        tfbaselines.load(tmp_path / "model")
    save_tree(tmp_path / "model", tree | {"config": tree["config"] | {"network": "evil:net"}})
    with pytest.raises(UsageError, match="trust"):
        tfbaselines.load(tmp_path / "model")


def test_a_log_directory_as_load_path_is_its_last_checkpoint(saved, tmp_path):
    flags = ["--num_timesteps=0", f"--log_path={tmp_path / 'log'}"]
    for name in ("log", "log/checkpoints"):
        assert train([*SMALL, *flags, f"--load_path={saved / name}", "--overwrite"]) == 0
        assert f"loading {saved / 'log/checkpoints/00010'}" in (tmp_path / "log/log.txt").read_text()


def test_the_last_readable_checkpoint_of_a_directory(saved, tmp_path):
    shutil.copytree(saved / "log", tmp_path / "log")
    assert saved_file(tmp_path / "log").name == "00010"
    (tmp_path / "log/checkpoints/00010").write_text("damaged")
    assert saved_file(tmp_path / "log").name == "00005"
    model = tfbaselines.load(saved / "log")
    model.load(tmp_path / "log")
    np.testing.assert_array_equal(
        model.value(observations()), tfbaselines.load(saved / "log", checkpoint="5").value(observations())
    )
    for name in ("00001", "00005"):
        (tmp_path / "log/checkpoints" / name).unlink()
    for directory in (tmp_path / "log", tmp_path):
        with pytest.raises(UsageError, match=f"directory '{directory}' has no readable checkpoint"):
            model.load(directory)
    assert saved_file(tmp_path / "none") == tmp_path / "none"


def leaves(tree, path=()):
    for key, value in tree.items() if isinstance(tree, dict) else ():
        yield (*path, key)
        yield from leaves(value, (*path, key))


def changed(tree, path, value):
    if not path:
        return value
    return {key: changed(item, path[1:], value) if key == path[0] else item for key, item in tree.items()}


def test_models_with_a_wrong_part_are_one_line(saved, tmp_path):
    tree, model = load_tree(saved / "model"), tfbaselines.load(saved / "log")
    refused = 0
    for path in leaves({name: tree[name] for name in ("format", "model", "normalization")}):
        for wrong in (None, 3, "x", [], {}, np.zeros(3), np.array("a"), {"00": np.zeros((4, 4), np.int8)}):
            save_tree(tmp_path / "model", changed(tree, path, wrong))
            try:
                model.load(tmp_path / "model")
            except UsageError as error:
                refused += 1
                assert len(str(error).splitlines()) == 1, (path, wrong)
    assert refused > 20


def test_evaluating_a_changed_run_is_one_line_or_works(saved, tmp_path):
    """What config.json may hold, but does not fit to the checkpoint or to the environment."""
    shutil.copytree(saved / "log", tmp_path / "log")
    config = json.loads((tmp_path / "log/config.json").read_text())
    wrong = {"env": {"env": "Pendulum-v1"}, "network": "cnn", "alg": "sac", "learn": {"nlstm": 4}}
    for name, value in wrong.items():
        (tmp_path / "log/config.json").write_text(json.dumps(config | {name: value}))
        with pytest.raises(UsageError):
            evaluate(tmp_path / "log", episodes=1)
    for name, value in {"env_type": "atari", "gamestate": "x", "reward_scale": 1e30, "num_env": 10**4}.items():
        (tmp_path / "log/config.json").write_text(json.dumps(config | {"env": config["env"] | {name: value}}))
        try:
            assert evaluate(tmp_path / "log", episodes=1)["lengths"]
        except (UsageError, NotFiniteError):
            assert name != "num_env"


SHORT = {"nsteps": 32, "nminibatches": 1, "noptepochs": 1, "num_hidden": 8, "seed": 0}


def test_a_run_of_python_is_a_run_of_the_command_line(tmp_path, eager):
    """It is described by its config.json: loaded, evaluated with a video, recorded and resumed."""
    logger.configure(str(tmp_path / "log"), ["csv"])
    env = vec(lambda: gymnasium.make("CartPole-v1", render_mode="rgb_array"))
    model = ppo2.learn("mlp", env, 96, lr=lambda left: 3e-4 * left, **SHORT)
    logger.reset()
    loaded = tfbaselines.load(tmp_path / "log")
    np.testing.assert_array_equal(loaded.value(observations()), model.value(observations()))
    options = {"episodes": 2, "seed": 5}
    returns = evaluate(tmp_path / "log", **options)["returns"]
    assert returns == evaluate(model, **options)["returns"] == evaluate(loaded, "CartPole-v1", **options)["returns"]
    for env in (lambda: gymnasium.make("CartPole-v1"), vec(lambda: gymnasium.make("CartPole-v1"), seed=5)):
        assert len(evaluate(model, env, **options)["returns"]) == 2
    filmed = gymnasium.make("CartPole-v1", render_mode="rgb_array")
    (video,) = evaluate(model, filmed, episodes=1, video=str(tmp_path / "videos"))["videos"]
    assert video.endswith("mp4")
    assert record(model, str(tmp_path / "demo.npz"), episodes=2)["episodes"] == 2
    # Its function is no text: the command asks for it.
    resume = [f"--resume={tmp_path / 'log'}", "--num_timesteps=160"]
    assert train(resume) == 2 and train([*resume, "--lr=1e-3"]) == 0
    assert Checkpoints(tmp_path / "log/checkpoints").latest().name == "00005"


def test_a_model_of_an_environment_without_an_id_is_loaded_by_its_spaces(tmp_path, eager, capsys):
    model = ppo2.learn("mlp", vec(lambda: BoxIdentityEnv((2,), episode_len=5)), 64, **SHORT)
    model.save(tmp_path / "model")
    loaded, obs = tfbaselines.load(tmp_path / "model"), np.random.default_rng(0).normal(size=(4, 2))
    np.testing.assert_array_equal(loaded.predict(obs, deterministic=True)[0], model.act(obs, deterministic=True)[0])
    space, other = loaded.policy.action_space, model.policy.action_space
    np.testing.assert_array_equal([space.low, space.high], [other.low, other.high])
    with pytest.raises(UsageError, match="were not made from an id: give them as env"):
        evaluate(tmp_path / "model")
    assert evaluate(tmp_path / "model", lambda: BoxIdentityEnv((2,), episode_len=5), episodes=3)["lengths"] == [5] * 3
    with pytest.raises(UsageError, match="another observation space"):
        evaluate(tmp_path / "model", "CartPole-v1")


def test_a_network_that_is_a_function_is_loaded_by_learn(tmp_path, eager):
    def network():
        return lambda shape: keras.Sequential([keras.Input(shape), keras.layers.Dense(3)])

    arguments = {name: value for name, value in SHORT.items() if name != "num_hidden"}
    model = ppo2.learn(network, vec(lambda: gymnasium.make("CartPole-v1")), 64, **arguments)
    model.save(tmp_path / "model")
    with pytest.raises(UsageError, match=r"its network is a function\): learn\(.*load_path=.* loads it"):
        tfbaselines.load(tmp_path / "model")


def test_a_saved_network_is_played_and_trained_further_without_naming_it_again(tmp_path, eager, capsys):
    """A recurrent one of four environments, in one, which has no minibatches of its own."""
    run = ["--env=CartPole-v1", "--nsteps=16", "--noptepochs=1", "--seed=0"]
    memory = ["--network=lstm", "--nlstm=6", "--num_env=4", "--nminibatches=4", "--value_network=copy"]
    assert train([*run, *memory, "--num_timesteps=128", f"--log_path={tmp_path / 'log'}"]) == 0
    for name in ("log", "log/checkpoints/00002"):
        played = [f"--load_path={tmp_path / name}", f"--log_path={tmp_path / 'play'}", "--overwrite", "--play"]
        assert train([*run[:1], "--num_timesteps=0", *played]) == 0
        assert capsys.readouterr().out.count("episode_rew=") == 10
    further = [f"--load_path={tmp_path / 'log'}", f"--log_path={tmp_path / 'further'}", "--num_timesteps=128"]
    assert train([*run, *further, "--num_env=4", "--nminibatches=4"]) == 0
    assert tfbaselines.load(tmp_path / "further").policy.state_size == 24
    model, states = tfbaselines.load(tmp_path / "log"), []
    for count in (1, 4):
        # The loop of baselines.
        states.append(model.step(np.zeros((count, 4)), S=model.initial_state, M=np.zeros(count))[2])
    assert [state.shape for state in states] == [(1, 24), (4, 24)]
    with pytest.raises(UsageError, match=r"state\.shape"):
        model.step(np.zeros((2, 4)), S=states[1], M=np.zeros(2))


def test_checkpoints_of_a_run_are_found(saved):
    assert Checkpoints(saved / "log/checkpoints").named("last").name == "00010"


OWN_NETWORK = """
import keras
from tfbaselines.policy.networks import register


@register("towers")
def towers():
    return lambda input_shape: keras.Model(inputs := keras.Input(input_shape), keras.layers.Dense(3)(inputs))
"""


@pytest.mark.parametrize("code", ["import tfbaselines; tfbaselines.load('LOG')", "network_named('own:towers')"])
def test_nothing_of_tensorflow_is_said(saved, tmp_path, code):
    (tmp_path / "own.py").write_text(OWN_NETWORK)
    code = "from tfbaselines.config.groups import network_named\n" + code.replace("LOG", str(saved / "log"))
    environment = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
    environment["PYTHONPATH"] = os.pathsep.join([str(tmp_path), str(Path(tfbaselines.__file__).parents[1])])
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stderr == ""
