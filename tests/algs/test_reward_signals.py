"""Runs with reward signals: a maze that only curiosity solves, logs, resuming, evaluation."""

import json

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from helpers import reward_per_step, vec
from small_environments import box, identity
from small_runs import DEMONSTRATIONS, rows, weights

from tfbaselines.algs import get
from tfbaselines.config.options import RunOptions
from tfbaselines.demos import Demonstrations, load_demonstrations, save_demonstrations
from tfbaselines.envs import tiny
from tfbaselines.envs.make import make_vec_env
from tfbaselines.envs.normalize import VecNormalize
from tfbaselines.evaluate import evaluate
from tfbaselines.logs import logger
from tfbaselines.rewards.learned import Adversary, Discriminator
from tfbaselines.run import command as main

EVERY = {
    "extrinsic": {"gamma": 0.9},
    "curiosity": {"strength": 0.1, "encoding_size": 8},
    "rnd": {"strength": 0.5, "encoding_size": 8},
}
SMALL = {
    "ppo2": {"nsteps": 16, "nminibatches": 2, "noptepochs": 2, "log_interval": 1},
    "a2c": {"nsteps": 8, "log_interval": 1, "lr": 0.05, "lrschedule": "constant"},
}
ALGS = pytest.mark.parametrize("alg", list(SMALL))


def train(directory, alg="ppo2", env=None, steps=128, signals=EVERY, network="mlp", **kwargs):
    resume = bool(kwargs.get("run") and kwargs["run"].resume)
    logger.configure(directory and str(directory), ["csv", "log"] if directory else [], resume=resume)
    own = {"nlstm": 4} if network == "lstm" else {"num_hidden": 8}
    arguments = {"seed": 0, "reward_signals": signals} | SMALL[alg] | own | kwargs
    return get(alg).learn(network, env or identity(2), total_timesteps=steps, **arguments)


# Extrinsic rewards alone never reach the far corner in as many steps; see README.
MAZE = {"nsteps": 128, "ent_coef": 0.01, "lr": 1e-3, "num_hidden": 32, "nminibatches": 4, "noptepochs": 4}


def found_in_maze(signals, alg="ppo2", steps=24_576, seed=0, **kwargs):
    """The share of the latest episodes that reached the far corner, the highest of all updates."""
    best = []

    def watch(run):
        best.append(run.episodes.mean_reward)
        return not best[-1] > 0.2

    env = vec(lambda: tiny.SparseMazeEnv(size=16), 8)
    train(None, alg, env, steps, signals, seed=seed, run=RunOptions(callback=watch), **kwargs)
    return np.nanmax(best)


def test_curiosity_finds_what_rewards_alone_do_not():
    assert found_in_maze({"extrinsic": {}}, **MAZE) == 0
    assert found_in_maze({"extrinsic": {}, "rnd": {}}, **MAZE) > 0.2


@pytest.mark.slow
def test_the_other_kind_of_curiosity_finds_it():
    """Seed 0 alone: README says what seeds 1 and 2 reach."""
    assert found_in_maze({"extrinsic": {}, "curiosity": {}}, steps=65_536, seed=0, **MAZE) > 0.2


@ALGS
def test_the_environments_rewards_alone_are_one_signal(alg, eager):
    """With the algorithm's own discount it learns what it learns without the argument."""
    plain = weights(train(None, alg, signals=None, gamma=0.9).policy)
    one = weights(train(None, alg, signals={"extrinsic": {"gamma": 0.9}}).policy)
    np.testing.assert_allclose(one, plain, rtol=1e-4, atol=1e-6)
    other = weights(train(None, alg, signals={"extrinsic": {"gamma": 0.5}}).policy)
    assert np.abs(other - plain).max() > 1e-4


@ALGS
@pytest.mark.parametrize("network", ["mlp", "lstm"])
def test_a_resumed_run_goes_on_as_if_nothing_had_happened(alg, network, eager, tmp_path):
    whole = train(tmp_path / "whole", alg, network=network)
    train(tmp_path / "half", alg, steps=64, network=network)
    resumed = train(tmp_path / "half", alg, network=network, run=RunOptions(resume=str(tmp_path / "half")))
    np.testing.assert_equal(resumed.state(), whole.state())
    assert rows(tmp_path / "half").equals(rows(tmp_path / "whole"))
    names = {f"{name}/{of}" for name in EVERY for of in ("reward", "value", "explained_variance")}
    assert names | {"rnd/loss", "curiosity/forward_loss", "curiosity/inverse_loss"} <= set(rows(tmp_path / "whole"))


@ALGS
def test_values_have_a_column_for_each_signal(alg, eager):
    model = train(None, alg, env=box(2))
    obs = np.zeros((3, 2), np.float32)
    assert model.value(obs).shape == model.step(obs)[1].shape == (3, 3)


def test_a_model_is_of_its_signals(eager, tmp_path):
    train(None).save(tmp_path / "model")
    assert train(None, load_path=str(tmp_path / "model"), steps=0)
    with pytest.raises(ValueError, match=r"cannot load .*: the saved model has another network"):
        train(None, signals=None, load_path=str(tmp_path / "model"))


@ALGS
def test_the_command_line(alg, eager, tmp_path, capsys):
    file = tmp_path / "signals.yaml"
    file.write_text("default:\n  reward_signals:\n    extrinsic: {gamma: 0.95}\n    rnd: {encoding_size: 8}\n")
    log = tmp_path / "log"
    small = [f"--{name}={value}" for name, value in SMALL[alg].items()]
    words = [f"--alg={alg}", "--num_timesteps=64", "--num_hidden=8", "--seed=0", *small]
    assert main([*words, f"--config={file}", f"--log_path={log}", "--reward_signal_num_update=3"]) == 0
    assert rows(log)["rnd/reward"].notna().all()
    assert main([f"--resume={log}", "--num_timesteps=96"]) == 0
    assert evaluate(str(log), episodes=1)
    capsys.readouterr()


def demonstrated(path, dim=4, steps=200):
    """Demonstrations of DiscreteIdentity: every number that is shown is repeated."""
    numbers = np.arange(steps) % dim
    space = spaces.Discrete(dim)
    episodes = Demonstrations(
        obs=numbers,
        actions=numbers,
        rewards=np.ones(steps, np.float32),
        lengths=np.full(steps // 10, 10),
        terminated=np.ones(steps // 10, bool),
        last_obs=numbers[: steps // 10],
    )
    save_demonstrations(path, episodes, space, space)
    own = {"use_actions": True, "encoding_size": 32, "learning_rate": 3e-3, "gamma": 0.5}
    return {"gail": {"demo_path": str(path)} | own}


def test_what_is_demonstrated_is_imitated_without_the_environments_rewards(tmp_path):
    env = identity(4)
    signals = demonstrated(tmp_path / "demo.npz")
    own = {"nsteps": 64, "lr": 3e-3, "noptepochs": 4, "num_hidden": 32, "reward_signal_num_update": 32}
    model = train(None, env=env, steps=8000, signals=signals, **own)
    assert reward_per_step(model, env, steps=100) > 0.9


@ALGS
def test_gail_is_resumed_with_its_demonstrations_given_again(alg, eager, tmp_path, capsys):
    signals, log = demonstrated(tmp_path / "demo.npz"), tmp_path / "log"
    given = f"--reward_signals={json.dumps({'extrinsic': {}} | signals)}"
    small = [f"--{name}={value}" for name, value in SMALL[alg].items()]
    env = "--env=tfbaselines.envs.tiny:tfbaselines/DiscreteIdentity-v0"
    words = [f"--alg={alg}", env, "--env_kwargs.dim=4", "--num_timesteps=64", "--num_hidden=8", "--seed=0", *small]
    assert main([*words, given, f"--log_path={log}"]) == 0
    assert "--reward_signals=" in capsys.readouterr().out
    assert {"gail/generator_loss", "gail/expert_acc", "gail/reward", "gail/value"} < set(rows(log))
    assert main([f"--resume={log}", "--num_timesteps=96"]) == 2
    assert "the path in the run's reward_signals is not kept" in capsys.readouterr().err
    assert main([f"--resume={log}", "--num_timesteps=96", given]) == 0
    assert evaluate(str(log), episodes=1)


def test_demonstrations_are_scaled_as_the_environments_observations_are(eager, monkeypatch):
    seen, loss = [], Adversary.loss
    monkeypatch.setattr(Adversary, "loss", lambda self, batch: seen.append(batch) or loss(self, batch))
    env = VecNormalize(make_vec_env("Pendulum-v1", "classic_control", 1, 0))
    signals = {"gail": {"demo_path": str(DEMONSTRATIONS / "pendulum.npz")}}
    train(None, env=env, steps=16, signals=signals, noptepochs=1, nminibatches=1)
    raw = load_demonstrations(signals["gail"]["demo_path"], env.observation_space, env.action_space).obs
    rows, scaled = seen[0]["expert_obs"].numpy(), env.scaled(raw)
    assert all(np.isclose(row, scaled, atol=1e-4).all(-1).any() for row in rows)
    assert not any(np.isclose(row, raw, atol=1e-4).all(-1).any() for row in rows)


def test_the_gradient_penalty_is_that_of_the_formula(eager):
    """In numpy, by differences: between each of the policy's steps and a demonstrated one, the gradient's norm is 1."""
    space, rng = spaces.Box(-1.0, 1.0, (2,), np.float32), np.random.default_rng(0)
    discriminator = Discriminator(space, spaces.Discrete(3), 8)
    steps = [(rng.uniform(-1, 1, (5, 2)).astype(np.float32), rng.integers(0, 3, 5)) for _ in range(2)]
    encoded = [discriminator.encoded(obs, tf.constant(actions)) for obs, actions in steps]
    mix = rng.random(5, np.float32)
    found = float(discriminator.gradient_penalty(*encoded, tf.constant(mix)))
    policy, expert = (np.concatenate([part.numpy() for part in parts], axis=1, dtype=np.float64) for parts in encoded)
    points = mix[:, None] * policy + (1 - mix[:, None]) * expert
    weights = [variable.numpy() for variable in discriminator.encoder.trainable_variables]

    def d(x):
        for number in (0, 2):
            x = np.tanh(x @ weights[number] + weights[number + 1])
        return 1 / (1 + np.exp(-(x @ weights[4] + weights[5])[:, 0]))

    gradients = np.stack([(d(points + move) - d(points - move)) / 2e-5 for move in 1e-5 * np.eye(5)], axis=1)
    assert found == pytest.approx(np.square(np.linalg.norm(gradients, axis=1) - 1).mean(), rel=1e-4)


def test_a_gradient_penalty_is_learned_from_and_logged(eager, tmp_path):
    signals, learned = demonstrated(tmp_path / "demo.npz"), []
    for penalty in (0.0, 10.0):
        signals["gail"]["gradient_penalty"] = penalty
        log = tmp_path / f"{penalty}"
        train(log, env=identity(4), steps=256, signals=signals, nsteps=32, noptepochs=1, nminibatches=1)
        assert ("gail/gradient_penalty" in rows(log)) == bool(penalty)
        learned.append(rows(log)["gail/generator_loss"].iloc[-1])
    assert learned[0] != learned[1]


def test_a_discriminator_of_ends_tells_steps_apart_that_differ_in_their_end_alone(eager):
    """The demonstrated episodes end by themselves, and the agent's never do."""
    space, actions = spaces.Box(-1.0, 1.0, (2,), np.float32), spaces.Discrete(3)
    numbers = np.zeros(40, np.int64)
    obs = np.zeros((40, 2), np.float32)
    rewards, ones = np.ones(40, np.float32), np.ones(40, int)
    episodes = Demonstrations(obs=obs, actions=numbers, rewards=rewards, lengths=ones, terminated=ones > 0)
    own = {"entcoeff": 0.0, "lr": 1e-2, "rng": np.random.default_rng(0)}
    seen = {"obs": obs, "actions": numbers, "terminated": np.zeros(40, bool)}
    for use_done in (False, True):
        adversary = Adversary(Discriminator(space, actions, 8, use_done=use_done), episodes, actions, **own)
        for _ in range(100):
            statistics = adversary.update(seen)
        ended, going = (adversary.rewards(obs[:1], numbers[:1], terminated=np.array([end])) for end in (True, False))
        assert (ended > 3 * going) == use_done, (ended, going)
        assert (statistics["expert_acc"] == 1.0 and statistics["generator_acc"] == 1.0) == use_done


def test_a_discriminator_of_observations_alone(eager):
    space = spaces.Box(-1.0, 1.0, (2,), np.float32)
    discriminator = Discriminator(space, spaces.Discrete(3), 8, use_actions=False)
    obs = np.zeros((3, 2), np.float32)
    np.testing.assert_array_equal(*(discriminator.logits(obs, tf.constant(a)) for a in ([0, 1, 2], [2, 2, 2])))
