"""Spinning Up's save_state: a model, and the state of a script."""

import gymnasium
import numpy as np
import pytest
from helpers import vec
from tfbaselines.utils.logx import EpochLogger, Logger

import tfbaselines
from tfbaselines.algs import ppo
from tfbaselines.envs import tiny
from tfbaselines.errors import UsageError
from tfbaselines.training.checkpoint import load_tree


def test_a_script_saves_its_model_and_its_state(tmp_path, eager, capsys):
    small = {"steps_per_epoch": 10, "train_pi_iters": 1, "train_v_iters": 1, "num_test_episodes": 0}
    env = vec(lambda: tiny.DiscreteIdentityEnv(3, episode_len=5))
    model = ppo.learn("mlp", env, 10, **small, num_layers=1, num_hidden=4)
    logger = EpochLogger(tmp_path)
    logger.setup_tf_saver(model)
    for itr in (None, 0, 12):
        logger.save_state({"env": gymnasium.make("CartPole-v1"), "t": 3, "mean": np.arange(2.0)}, itr)
    logger.close()
    names = {f"{kind}{number}.npz" for kind in ("model", "vars") for number in ("", "0", "12")}
    assert {path.name for path in tmp_path.iterdir()} - {"progress.txt"} == names
    assert "not saved, neither arrays nor numbers nor text: env" in capsys.readouterr().out
    state = load_tree(tmp_path / "vars12.npz")
    assert state.keys() == {"t", "mean"} and state["t"] == 3 and state["mean"].tolist() == [0.0, 1.0]
    obs = env.reset()
    expected = model.act(obs, deterministic=True)[0]
    for variable in model.policy.trainable_variables:
        variable.assign(variable.value * 0.0)
    model.load(tmp_path / "model12.npz")
    assert np.array_equal(model.act(obs, deterministic=True)[0], expected)


def test_without_a_model_the_state_alone_is_saved(tmp_path):
    logger = Logger(tmp_path)
    logger.save_state({}, 1)
    logger.close()
    assert (tmp_path / "vars1.npz").exists() and not (tmp_path / "model1.npz").exists()


def test_a_session_is_refused_in_one_line(tmp_path):
    logger = EpochLogger(tmp_path)
    with pytest.raises(UsageError, match=r"^model='session' is not valid: a model that learn returned, .*no sessions$"):
        logger.setup_tf_saver("session", inputs={"x": 1}, outputs={"pi": 2})
    logger.close()


def test_its_logger_is_the_epoch_logger():
    assert issubclass(EpochLogger, tfbaselines.logs.statistics.EpochLogger)
