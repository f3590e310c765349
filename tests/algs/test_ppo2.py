"""PPO2 learns what the original's tests ask of it, and every argument does what it says."""

import numpy as np
import pytest
from helpers import mean_return, reward_per_step, vec

from tfbaselines.algs import ppo2
from tfbaselines.envs import tiny
from tfbaselines.logs import logger
from tfbaselines.logs.logger import read_csv
from tfbaselines.settings.options import RunOptions

TINY = {"nsteps": 16, "nminibatches": 2, "noptepochs": 2, "num_hidden": 8, "seed": 0}


def cartpole(count=1):
    import gymnasium

    return vec(lambda: gymnasium.make("CartPole-v1", disable_env_checker=True), count)


def identity(count=1, episode_len=10):
    return vec(lambda: tiny.DiscreteIdentityEnv(4, episode_len=episode_len), count)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("maker", "bar"),
    [
        (lambda: tiny.DiscreteIdentityEnv(10, episode_len=100), 0.9),
        (lambda: tiny.MultiDiscreteIdentityEnv((3, 3), episode_len=100), 0.9),
        (lambda: tiny.BoxIdentityEnv((1,), episode_len=100), -0.1),
    ],
)
def test_identity(maker, bar):
    env = vec(maker)
    model = ppo2.learn("mlp", env, 30_000, seed=0, gamma=0.9, lr=1e-3, nsteps=64, ent_coef=0.0)
    assert reward_per_step(model, env) >= bar


@pytest.mark.slow
def test_cartpole():
    env = cartpole()
    model = ppo2.learn("mlp", env, 30_000, seed=0, gamma=1.0, value_network="copy")
    assert mean_return(model, env) >= 100


@pytest.mark.slow
def test_fixed_sequence_with_memory():
    """The median of three seeds: most reach 1, some are still on their way after so few steps."""

    def reached(seed):
        env = vec(lambda: tiny.FixedSequenceEnv(10, episode_len=5))
        model = ppo2.learn("lstm", env, 50_000, seed=seed, nsteps=10, ent_coef=0.0, nminibatches=1)
        return reward_per_step(model, env)

    assert np.median([reached(seed) for seed in range(3)]) >= 0.7


@pytest.mark.slow
def test_image_classification():
    env = vec(lambda: tiny.ImageClassificationEnv(episode_len=100))
    model = ppo2.learn(
        "cnn", env, 6_000, seed=0, gamma=0.9, ent_coef=0.0, nsteps=100, nminibatches=4, noptepochs=2, lr=1e-3
    )
    assert reward_per_step(model, env, steps=300) >= 0.6


def rows(directory):
    table = read_csv(str(directory / "progress.csv"))
    return table.drop(columns=["fps", "misc/time_elapsed"])


def train(directory, env=None, total_timesteps=320, **kwargs):
    logger.configure(str(directory), ["csv"], resume=bool(kwargs.get("run") and kwargs["run"].resume))
    return ppo2.learn("mlp", env or identity(), total_timesteps, **{**TINY, "log_interval": 1, **kwargs})


def test_one_seed_gives_one_curve(tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        train(tmp_path / name, seed=seed)
    assert rows(tmp_path / "a").equals(rows(tmp_path / "b"))
    assert not rows(tmp_path / "a").equals(rows(tmp_path / "c"))


def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path):
    """The environment's episodes end where the run is stopped, and its start does not depend on chance."""

    def fixed():
        return vec(lambda: tiny.FixedSequenceEnv(4, episode_len=16))

    whole = train(tmp_path / "whole", fixed(), lr="linear_1e-2", normalize_observations=False)
    stop_at_half = RunOptions(callback=lambda training: training.update < 10)
    train(tmp_path / "half", fixed(), lr="linear_1e-2", run=stop_at_half)
    resume = RunOptions(resume=str(tmp_path / "half"))
    resumed = train(tmp_path / "half", fixed(), lr="linear_1e-2", run=resume, seed=99)
    assert rows(tmp_path / "whole").equals(rows(tmp_path / "half"))
    for one, other in zip(whole.policy.trainable_variables, resumed.policy.trainable_variables, strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())


def test_save_and_load_give_the_same_policy(tmp_path):
    model = train(tmp_path / "log")
    model.save(tmp_path / "model")
    loaded = ppo2.learn("mlp", identity(), 0, load_path=tmp_path / "model", **TINY)
    obs = np.arange(4)
    np.testing.assert_array_equal(model.value(obs), loaded.value(obs))
    np.testing.assert_array_equal(model.act(obs, deterministic=True)[0], loaded.act(obs, deterministic=True)[0])


def test_the_log_has_the_originals_columns(tmp_path):
    train(tmp_path, eval_env=identity())
    header = (tmp_path / "progress.csv").read_text().splitlines()[0]
    assert header == (
        "eplenmean,eprewmean,eval_eplenmean,eval_eprewmean,fps,loss/approxkl,loss/clipfrac,loss/policy_entropy,"
        "loss/policy_loss,loss/value_loss,misc/explained_variance,misc/nupdates,misc/serial_timesteps,"
        "misc/time_elapsed,misc/total_timesteps"
    )


def test_rates_follow_their_schedules():
    seen = []

    class Recording(ppo2.Model):
        def train(self, lr, cliprange, *args, **kwargs):
            seen.append((lr, cliprange))
            return super().train(lr, cliprange, *args, **kwargs)

    rates = {"lr": lambda fraction: fraction, "cliprange": "linear_0.5"}
    ppo2.learn("mlp", identity(), 64, model_fn=Recording, **rates, **TINY)
    per_update = TINY["nminibatches"] * TINY["noptepochs"]
    assert len(seen) == 4 * per_update
    np.testing.assert_allclose(seen[::per_update], [(1, 0.5), (0.75, 0.375), (0.5, 0.25), (0.25, 0.125)])


@pytest.mark.parametrize("network", ["mlp", "lstm"])
def test_a_model_of_the_users_own_trains_as_the_built_in_one(network):
    """model_fn goes minibatch by minibatch through train(); the numbers are those of the one compiled phase."""
    kwargs = {**TINY, **({"nlstm": 4} if network == "lstm" else {"num_hidden": 8})}
    if network == "lstm":
        del kwargs["num_hidden"]
    fused = ppo2.learn(network, identity(2), 128, **kwargs)
    stepped = ppo2.learn(network, identity(2), 128, model_fn=ppo2.Model, **kwargs)
    for one, other in zip(fused.policy.trainable_variables, stepped.policy.trainable_variables, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-4, atol=1e-5)


def test_functions_are_called():
    calls = []
    ppo2.learn("mlp", identity(), 48, init_fn=lambda: calls.append("init"), update_fn=calls.append, **TINY)
    assert calls == ["init", 1, 2, 3]


def test_recurrent_minibatches_are_whole_environments():
    with pytest.raises(ValueError, match="divisor of the 3 envs"):
        ppo2.learn("lstm", identity(3), 48, nsteps=16, nminibatches=2, nlstm=4)


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("nminibatches", 3),
        ("nminibatches", 0),
        ("nsteps", 0),
        ("noptepochs", -1),
        ("total_timesteps", -1),
        ("gamma", 1.5),
        ("lam", -0.1),
        ("log_interval", 0),
        ("lr", "quick"),
        ("network", "mpl"),
        ("value_network", "cpoy"),
    ],
)
def test_bad_arguments_are_named_in_one_line(argument, value):
    arguments = {"network": "mlp", "env": identity(), "total_timesteps": 32, **TINY, argument: value}
    with pytest.raises(ValueError, match=r"valid|unknown") as error:
        ppo2.learn(**arguments)
    assert "\n" not in str(error.value)
    assert str(value) in str(error.value)


def test_time_outs_are_bootstrapped():
    """Reward 1 for ever, cut every 10 steps: the value is 1 / (1 - gamma), far above the 10 that a cut would give."""
    env = vec(lambda: tiny.ConstantRewardEnv(episode_len=10), 4)
    model = ppo2.learn(
        "mlp", env, 12_000, seed=0, nsteps=50, gamma=0.95, lr=3e-3, cliprange=1e3, noptepochs=8, num_hidden=16
    )
    np.testing.assert_allclose(model.value(env.reset()), 20.0, rtol=0.1)


def test_statistics_of_observations_are_kept_by_the_policy(tmp_path):
    env = vec(lambda: tiny.BoxIdentityEnv((3,), episode_len=10))
    model = ppo2.learn("mlp", env, 64, normalize_observations=True, **TINY)
    assert model.policy.normalizer.std.max() < 0.9
    model.save(tmp_path / "model")
    loaded = ppo2.learn("mlp", env, 0, normalize_observations=True, load_path=tmp_path / "model", **TINY)
    np.testing.assert_array_equal(loaded.policy.normalizer.mean, model.policy.normalizer.mean)


def test_the_compiled_functions_are_traced_once(tmp_path):
    model = train(tmp_path, total_timesteps=16 * 30)
    assert model._update.traces() == 1
