"""A2C's memory, its options, and those it shares with ppo2."""

import numpy as np
import pytest
from helpers import reward_per_step, vec
from small_environments import identity
from small_runs import rows, weights

from tfbaselines.algs import a2c, ppo2
from tfbaselines.config.options import RunOptions
from tfbaselines.envs import tiny
from tfbaselines.logs import logger

TINY = {"num_hidden": 8, "seed": 0}


def train(directory, env=None, total_timesteps=100, **kwargs):
    logger.configure(str(directory), ["csv"], resume=bool(kwargs.get("run") and kwargs["run"].resume))
    return a2c.learn("mlp", env or identity(), total_timesteps=total_timesteps, **{**TINY, "log_interval": 1, **kwargs})


@pytest.mark.slow
def test_fixed_sequence_with_memory():
    """Observations tell nothing: without memory it is 0.4."""
    env = vec(lambda: tiny.FixedSequenceEnv(4, episode_len=5), 2)
    arguments = {"lr": 1e-2, "lrschedule": "constant", "gamma": 0.9, "nlstm": 16, "max_total_reward": 4.5}
    model = a2c.learn("lstm", env, total_timesteps=16_000, seed=0, **arguments)
    assert reward_per_step(model, env) >= 0.8


def test_the_log_has_the_originals_columns_and_cadence(tmp_path):
    train(tmp_path, total_timesteps=5 * 7, log_interval=3)
    header = (tmp_path / "progress.csv").read_text().splitlines()[0]
    assert header == ("eplenmean,eprewmean,explained_variance,fps,nupdates,policy_entropy,total_timesteps,value_loss")
    assert rows(tmp_path)["nupdates"].tolist() == [1, 3, 6, 7]
    assert rows(tmp_path)["total_timesteps"].tolist() == [5, 15, 30, 35]


def test_positions_are_the_originals():
    """network, env, seed, nsteps, total_timesteps, vf_coef, ent_coef, max_grad_norm, lr, lrschedule, ..."""
    names = list(a2c.Config.arguments())[:13]
    first = "seed nsteps total_timesteps vf_coef ent_coef max_grad_norm lr lrschedule epsilon alpha gamma log_interval"
    assert names == [*first.split(), "load_path"]
    defaults = [a2c.Config.arguments()[name].default for name in names]
    assert defaults == [None, 5, 80e6, 0.5, 0.01, 0.5, 7e-4, "linear", 1e-5, 0.99, 0.99, 100, None]


def test_a_shape_of_the_learning_rate_may_be_a_function(monkeypatch):
    seen = []

    def recording(run, optimizer):
        statistics = ("policy_loss", "value_loss", "policy_entropy")
        return lambda batch, **rates: seen.append(rates["lr"]) or dict.fromkeys(statistics, 0.0)

    monkeypatch.setattr("tfbaselines.algs.a2c.a2c.make_step", recording)
    a2c.learn("mlp", identity(), total_timesteps=20, lr=2.0, lrschedule=lambda left: left**2, **TINY)
    np.testing.assert_allclose(seen, [2.0 * (1 - n / 20) ** 2 for n in (4, 9, 14, 19)])


def test_time_outs_are_bootstrapped():
    """Reward 1 for ever, cut every 10 steps: the value is 1 / (1 - gamma), far above the 10 that a cut would give."""
    env = vec(lambda: tiny.ConstantRewardEnv(episode_len=10), 4)
    kwargs = {"gamma": 0.95, "lr": 3e-2, "lrschedule": "constant", "max_grad_norm": None}
    model = a2c.learn("mlp", env, total_timesteps=20_000, **kwargs, **TINY)
    np.testing.assert_allclose(model.value(env.reset()), 20.0, rtol=0.1)


def test_normalised_advantages_give_another_step(eager):
    one, other = (
        a2c.learn("mlp", identity(4), total_timesteps=20, normalize_advantages=normalize, **TINY)
        for normalize in (False, True)
    )
    assert (weights(one.policy) != weights(other.policy)).any()


def learn_a2c(**kwargs):
    env = vec(lambda: tiny.ConstantRewardEnv(episode_len=7), 2)
    return weights(a2c.learn("mlp", env, total_timesteps=80, **{"lr": 0.05, **TINY, **kwargs}).policy)


def test_n_step_returns_are_the_limit_of_gae(eager):
    np.testing.assert_allclose(learn_a2c(), learn_a2c(lam=1 - 1e-9), rtol=1e-3, atol=1e-3)
    assert (learn_a2c() != learn_a2c(lam=0.3)).any()


@pytest.mark.parametrize("learn", [a2c.learn, ppo2.learn])
def test_training_stops_at_a_mean_return(learn, tmp_path, eager):
    """The bound is judged once there are 100 episodes; each is worth 1 here."""
    updates = []
    run = RunOptions(callback=lambda run: updates.append((run.episodes.count, run.update)))
    env = vec(lambda: tiny.ConstantRewardEnv(episode_len=1))
    kwargs = {"nsteps": 20, "total_timesteps": 400, "run": run, **TINY}
    learn("mlp", env, max_total_reward=1.0, **kwargs)
    assert updates[-1] == (100, 5)
    learn("mlp", env, max_total_reward=1.1, **kwargs)
    assert updates[-1][1] == 20


def learn_ppo2(**kwargs):
    arguments = {"nsteps": 8, "nminibatches": 1, "noptepochs": 3, "lr": 0.05, **TINY, **kwargs}
    return weights(ppo2.learn("mlp", identity(2), 64, **arguments).policy)


def test_the_bound_of_values_may_be_apart_from_the_ratios(eager):
    same = learn_ppo2()
    np.testing.assert_array_equal(same, learn_ppo2(cliprange_vf=0.2))
    assert (same != learn_ppo2(cliprange_vf=0.01)).any()
    # So wide a bound never acts.
    np.testing.assert_allclose(learn_ppo2(cliprange_vf=False), learn_ppo2(cliprange_vf=1e4), rtol=1e-3, atol=1e-3)


def test_n_step_returns_equal_gae_where_lam_is_1(eager):
    np.testing.assert_allclose(learn_ppo2(use_gae=False, lam=0.3), learn_ppo2(lam=1.0), rtol=1e-3, atol=1e-3)
    assert (learn_ppo2(use_gae=False) != learn_ppo2(lam=0.3)).any()


def test_raw_advantages_give_another_step(eager):
    assert (learn_ppo2() != learn_ppo2(normalize_advantages=False)).any()
