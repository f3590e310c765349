"""Spinning Up's vpg and ppo: what they learn, their epochs, rows, tests, spaces and memory."""

import gymnasium
import numpy as np
import pytest
from commands import run_on_ranks
from gymnasium import spaces
from helpers import Guess, mean_return, vec
from small_environments import identity
from small_runs import rows

from tfbaselines.algs import ppo, vpg
from tfbaselines.config.options import RunOptions
from tfbaselines.envs import tiny
from tfbaselines.logs import logger
from tfbaselines.training.callbacks import StopAt

ALGORITHMS = pytest.mark.parametrize("alg", [vpg, ppo], ids=["vpg", "ppo"])
NETWORK = {"hidden_sizes": (64, 64), "activation": "tanh"}
TINY = {"steps_per_epoch": 20, "train_v_iters": 3, "hidden_sizes": (8,), "activation": "tanh", "seed": 0}


def cartpole():
    return vec(lambda: gymnasium.make("CartPole-v1", disable_env_checker=True))


def learn(alg, env=None, epochs=3, **kwargs):
    arguments = TINY | {"epochs": epochs} | ({"train_pi_iters": 4} if alg is ppo else {}) | kwargs
    return alg.learn("dense", env or identity(), **arguments)


def train(directory, alg, env=None, epochs=3, **kwargs):
    logger.configure(str(directory), ["csv"], resume=bool(kwargs.get("run") and kwargs["run"].resume))
    return learn(alg, env, epochs, **kwargs)


# Means of the logs lag behind the policy.
LEARNED = RunOptions(callback=StopAt(450.0))


@pytest.mark.slow
def test_ppo_learns_cartpole():
    env = cartpole()
    model = ppo.learn("dense", env, seed=0, epochs=15, run=LEARNED, **NETWORK)
    assert mean_return(model, env) >= 400


@pytest.mark.slow
def test_vpg_learns_cartpole():
    """Faster than by default: in an epoch its policy takes a single step."""
    env = cartpole()
    model = vpg.learn("dense", env, seed=0, epochs=30, pi_lr=1e-2, vf_lr=1e-2, run=LEARNED, **NETWORK)
    assert mean_return(model, env) >= 400


EPISODES = "AverageEpRet StdEpRet MaxEpRet MinEpRet"
COLUMNS = (
    "Epoch {episodes} EpLen AverageVVals StdVVals MaxVVals MinVVals TotalEnvInteracts LossPi LossV DeltaLossPi "
    "DeltaLossV Entropy KL {own}Time fps"
)


@ALGORITHMS
@pytest.mark.parametrize("tests", [0, 2])
def test_the_table_has_the_originals_columns(alg, tests, eager, tmp_path):
    train(tmp_path, alg, eval_env=identity(seed=9), num_test_episodes=tests)
    header = (tmp_path / "progress.txt").read_text().splitlines()[0].split("\t")
    tested = EPISODES.replace("EpRet", "TestEpRet")
    columns = COLUMNS.format(
        episodes=f"{EPISODES} {tested}" if tests else EPISODES, own="ClipFrac StopIter " if alg is ppo else ""
    )
    if tests:
        columns = columns.replace(" EpLen", " EpLen TestEpLen")
    assert header == columns.split()
    table = rows(tmp_path)
    assert table["Epoch"].tolist() == [0, 1, 2]
    assert table["TotalEnvInteracts"].tolist() == [20, 40, 60]
    assert table["EpLen"].tolist() == [10, 10, 10]


@ALGORITHMS
def test_positions_are_the_originals(alg):
    names = list(alg.Config.arguments())
    vpgs = "seed steps_per_epoch epochs gamma pi_lr vf_lr train_v_iters lam max_ep_len logger_kwargs save_freq"
    ppos = (
        "seed steps_per_epoch epochs gamma clip_ratio pi_lr vf_lr train_pi_iters train_v_iters lam max_ep_len "
        "target_kl logger_kwargs save_freq"
    )
    expected = (vpgs if alg is vpg else ppos).split()
    assert names[: len(expected)] == expected
    values = {"seed": 0, "steps_per_epoch": 4000, "epochs": 50, "gamma": 0.99, "pi_lr": 3e-4, "vf_lr": 1e-3}
    values |= {"train_v_iters": 80, "lam": 0.97, "max_ep_len": 1000, "save_freq": 10, "train_pi_iters": 80}
    values |= {"clip_ratio": 0.2, "target_kl": 0.01}
    arguments = alg.Config.arguments()
    assert all(arguments[name].default == value for name, value in values.items() if name in arguments)


@ALGORITHMS
def test_the_deviation_of_actions_begins_as_in_the_original(alg, eager):
    env = vec(lambda: Guess(spaces.Box(-1.0, 1.0, (2,), np.float32)))
    model = alg.learn("dense", env, epochs=0, **TINY)
    np.testing.assert_array_equal(model.policy.logstd, np.full((1, 2), -0.5))


@ALGORITHMS
def test_time_outs_are_bootstrapped(alg):
    """Reward 1 for ever, cut every 10 steps: the value is 1 / (1 - gamma), far above the 10 that a cut would give."""
    env = vec(lambda: tiny.ConstantRewardEnv(episode_len=10), 4)
    kwargs = TINY | {"steps_per_epoch": 80, "vf_lr": 3e-2, "train_v_iters": 40, "gamma": 0.95}
    model = alg.learn("dense", env, epochs=60, **kwargs)
    np.testing.assert_allclose(model.value(env.reset()), 20.0, rtol=0.1)


@ALGORITHMS
def test_episodes_are_cut_at_max_ep_len(alg, eager, tmp_path):
    train(tmp_path, alg, vec(lambda: Guess(spaces.Discrete(2))), max_ep_len=4)
    assert rows(tmp_path)["EpLen"].tolist() == [4, 4, 4]


def test_steps_of_an_epoch_are_shared_out(eager, tmp_path):
    train(tmp_path, vpg, identity(2), epochs=2)
    assert rows(tmp_path)["TotalEnvInteracts"].tolist() == [20, 40]


def test_ranks_share_an_epoch(tmp_path):
    flags = "--env=CartPole-v1 --epochs=2 --steps_per_epoch=100 --train_v_iters=3 --hidden_sizes=[8] --seed=0"
    command = ["--alg=vpg", *flags.split(), "--num_test_episodes=1", f"--log_path={tmp_path / 'log'}"]
    status, _, err = run_on_ranks("tfbaselines.run", *command, cwd=tmp_path)
    assert status == 0, err
    # Of all ranks, as in the original.
    assert rows(tmp_path / "log")["TotalEnvInteracts"].tolist() == [100, 200]
