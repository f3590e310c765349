"""Scripts for the originals, as their users write them on Gymnasium, with only the package's name changed."""

import re

import numpy as np
import pytest

import tfbaselines
from tfbaselines.errors import UsageError
from tfbaselines.evaluate import evaluate
from tfbaselines.logs.logger import read_csv

# baselines' README: "training and saving a model", from Python, with its usual wrappers.
PPO2 = """
import gymnasium as gym
from baselines import bench, logger
from baselines.common import set_global_seeds
from baselines.common.vec_env.dummy_vec_env import DummyVecEnv
from baselines.common.vec_env.vec_normalize import VecNormalize
from baselines.ppo2 import ppo2


def train(env_id, num_timesteps, seed):
    def make_env():
        env = gym.make(env_id)
        env = bench.Monitor(env, logger.get_dir(), allow_early_resets=True)
        return env

    env = DummyVecEnv([make_env])
    env = VecNormalize(env)
    set_global_seeds(seed)
    model = ppo2.learn(network='mlp', env=env, nsteps=64, nminibatches=4, lam=0.95, gamma=0.99, noptepochs=2,
        log_interval=1, ent_coef=0.0, lr=lambda f: 3e-4 * f, cliprange=0.2, total_timesteps=num_timesteps)
    return model, env


logger.configure('run')
model, env = train('Pendulum-v1', num_timesteps=128, seed=0)
model.save('my_model')
obs = env.reset()
actions, _, state, _ = model.step(obs)
obs, rew, done, _ = env.step(actions)
"""

DEEPQ = """
import gymnasium as gym
from baselines import deepq


def callback(lcl, _glb):
    # stop training if reward exceeds 199
    is_solved = lcl['t'] > 100 and sum(lcl['episode_rewards'][-101:-1]) / 100 >= 199
    return is_solved


env = gym.make("CartPole-v1")
act = deepq.learn(env, network='mlp', lr=1e-3, total_timesteps=60, buffer_size=50, learning_starts=30,
    train_freq=10, exploration_fraction=0.1, exploration_final_eps=0.02, print_freq=10, callback=callback)
act.save("cartpole_model.pkl")
obs, _ = env.reset()
action = act(obs[None])[0]
"""

PPO1 = """
import gymnasium as gym
from baselines.ppo1 import mlp_policy, pposgd_simple


def policy_fn(name, ob_space, ac_space):
    return mlp_policy.MlpPolicy(name=name, ob_space=ob_space, ac_space=ac_space, hid_size=8, num_hid_layers=2)


env = gym.make('Pendulum-v1')
model = pposgd_simple.learn(env, policy_fn, max_timesteps=64, timesteps_per_actorbatch=32, clip_param=0.2,
    entcoeff=0.0, optim_epochs=2, optim_stepsize=3e-4, optim_batchsize=16, gamma=0.99, lam=0.95, schedule='linear')
"""

SAC = """
import argparse
import gymnasium as gym
import spinup.algos.tf1.sac.core as core
from spinup import sac_tf1 as sac
from spinup.utils.run_utils import setup_logger_kwargs

parser = argparse.ArgumentParser()
parser.add_argument('--env', type=str, default='Pendulum-v1')
parser.add_argument('--hid', type=int, default=8)
parser.add_argument('--l', type=int, default=2)
parser.add_argument('--gamma', type=float, default=0.99)
parser.add_argument('--seed', '-s', type=int, default=0)
parser.add_argument('--epochs', type=int, default=2)
parser.add_argument('--exp_name', type=str, default='sac')
args = parser.parse_args([])

logger_kwargs = setup_logger_kwargs(args.exp_name, args.seed)

model = sac(lambda: gym.make(args.env), actor_critic=core.mlp_actor_critic,
    ac_kwargs=dict(hidden_sizes=[args.hid] * args.l),
    gamma=args.gamma, seed=args.seed, epochs=args.epochs, steps_per_epoch=100, start_steps=50, update_after=50,
    update_every=50, max_ep_len=50, num_test_episodes=2, batch_size=8, logger_kwargs=logger_kwargs)
"""


def run(script, directory, monkeypatch):
    """The names of a script, run in a directory with the package's name changed."""
    monkeypatch.chdir(directory)
    script, changed = re.subn(r"(?<=from |port )(baselines|spinup)\b", "tfbaselines", script)
    assert changed and not re.search(r"\b(baselines|spinup)\b", script)
    namespace = {}
    exec(compile(script, "script", "exec"), namespace)
    return namespace


def test_ppo2_of_baselines(tmp_path, monkeypatch):
    names = run(PPO2, tmp_path, monkeypatch)
    rows = read_csv(tmp_path / "run/progress.csv")
    assert rows["misc/total_timesteps"].tolist() == [64, 128]
    assert (tmp_path / "run/0.monitor.csv").exists() or list((tmp_path / "run").glob("*monitor.csv"))
    assert names["env"].ob_rms.count > 128 and names["actions"].shape == (1, 1)
    value = names["model"].value(names["obs"])
    names["model"].load(tmp_path / "my_model")
    np.testing.assert_array_equal(names["model"].value(names["obs"]), value)


def test_deepq_of_baselines(tmp_path, monkeypatch, eager):
    names = run(DEEPQ, tmp_path, monkeypatch)
    assert names["action"] in (0, 1) and (tmp_path / "cartpole_model.pkl").exists()


def test_ppo1_of_baselines(tmp_path, monkeypatch, eager):
    model = run(PPO1, tmp_path, monkeypatch)["model"]
    assert [v.shape for v in model.policy.network.trainable_variables] == [(3, 8), (8,), (8, 8), (8,)]
    assert model.policy.normalizer


def test_sac_of_spinning_up(tmp_path, monkeypatch):
    names = run(SAC, tmp_path, monkeypatch)
    directory = tmp_path / "data/sac/sac_s0"
    rows = read_csv(directory / "progress.txt", separator="\t")
    assert rows["Epoch"].tolist() == [1, 2] and rows["TotalEnvInteracts"].tolist() == [100, 200]
    assert np.isfinite(rows["AverageTestEpRet"]).all()
    assert [v.shape for v in names["model"].policy.trainable_variables][:2] == [(3, 8), (8,)]
    # What it wrote is a run like any other.
    loaded = tfbaselines.load(directory)
    obs = np.ones((4, 3), np.float32)
    actions = [model.act(obs, deterministic=True)[0] for model in (loaded, names["model"])]
    np.testing.assert_array_equal(*actions)
    assert len(evaluate(directory, episodes=1)["returns"]) == 1
    from tfbaselines.utils.test_policy import load_policy_and_env, run_policy

    env, get_action = load_policy_and_env(str(directory), "last", True)
    row = run_policy(env, get_action, max_ep_len=5, num_episodes=2, render=False)
    assert row["EpLen"] == 5 and row["MinEpRet"] <= row["AverageEpRet"] <= row["MaxEpRet"]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("vpg", {"train_v_iters": 2}),
        ("trpo", {"train_v_iters": 2}),
        ("ppo", {"train_v_iters": 2, "train_pi_iters": 2}),
        ("ddpg", {"start_steps": 20, "update_after": 20, "update_every": 20, "num_test_episodes": 1, "batch_size": 8}),
        ("td3", {"start_steps": 20, "update_after": 20, "update_every": 20, "num_test_episodes": 1, "batch_size": 8}),
    ],
)
def test_the_other_functions_of_spinning_up(name, arguments, tmp_path, eager):
    import gymnasium
    import tensorflow as tf

    model = getattr(tfbaselines, name)(
        env_fn=lambda: gymnasium.make("Pendulum-v1"),
        ac_kwargs={"hidden_sizes": (8, 4), "activation": tf.nn.relu},
        seed=3,
        steps_per_epoch=40,
        epochs=1,
        max_ep_len=20,
        logger_kwargs={"output_dir": str(tmp_path / "run"), "exp_name": "some"},
        **arguments,
    )
    kernels = [v.shape for v in model.policy.trainable_variables if len(v.shape) == 2]
    assert (3, 8) in kernels and (8, 4) in kernels
    assert (tmp_path / "run/progress.csv").exists() and (tmp_path / "run/checkpoints").is_dir()
    assert (tmp_path / "run/progress.txt").exists() == (name != "ddpg")
    again = tfbaselines.load(tmp_path / "run")
    np.testing.assert_array_equal(
        *(one.act(np.ones((2, 3), np.float32), deterministic=True)[0] for one in (again, model))
    )


def test_a_network_as_baselines_takes_it(eager):
    import gymnasium
    import keras

    def network_fn(X):
        return keras.layers.Dense(8, activation="relu")(X)

    small = {"total_timesteps": 16, "nsteps": 8, "nminibatches": 1, "noptepochs": 1, "value_network": "copy"}
    model = tfbaselines.ppo2.learn(network=network_fn, env=lambda: gymnasium.make("Pendulum-v1"), **small)
    assert [v.shape for v in model.policy.network.trainable_variables] == [(3, 8), (8,)]
    assert model.policy.value_network is not model.policy.network
    with pytest.raises(UsageError, match="unknown argument 'num_hidden' \\(network 'network_fn'\\)"):
        tfbaselines.ppo2.learn(network_fn, lambda: gymnasium.make("Pendulum-v1"), num_hidden=4, **small)


def test_an_environment_without_an_id_leaves_no_configuration(tmp_path, eager):
    from helpers import ACTIONS, Guess
    from tfbaselines.utils.test_policy import load_policy_and_env

    course = {"steps_per_epoch": 20, "total_timesteps": 40, "max_ep_len": 10, "train_v_iters": 1}
    own = {"ac_kwargs": {"hidden_sizes": [4]}, "logger_kwargs": {"output_dir": str(tmp_path / "run")}}
    tfbaselines.vpg(lambda: Guess(ACTIONS[0]), **course, **own)
    assert read_csv(tmp_path / "run/progress.txt", separator="\t")["TotalEnvInteracts"].tolist() == [20, 40]
    assert not (tmp_path / "run/config.json").exists()
    with pytest.raises(UsageError, match=r"has no config\.json"):
        load_policy_and_env(tmp_path / "run")


def test_mistakes_in_spinning_ups_form():
    def make():
        import gymnasium

        return gymnasium.make("Pendulum-v1")

    for arguments, words in (
        ({"actor_critic": print}, "returns a Keras model 'pi'"),
        ({"ac_kwargs": {"output_activation": "tanh"}}, "output_activation"),
        ({"ac_kwargs": {"hiden_sizes": [8]}}, "did you mean 'hidden_sizes'"),
        ({"epocs": 3}, "did you mean 'epochs'"),
    ):
        with pytest.raises(UsageError, match=words) as error:
            tfbaselines.sac(make, **arguments)
        assert "\n" not in str(error.value)
