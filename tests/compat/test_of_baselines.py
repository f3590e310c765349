"""Calls of baselines' scripts that this package answers in the porting layer, or with one line."""

import numpy as np
import pytest
from gymnasium import spaces

import tfbaselines
from tfbaselines.bench import load_results
from tfbaselines.errors import UsageError
from tfbaselines.logs import logger


def play_episodes(env):
    env.reset()
    for _ in range(30):
        env.step(np.ones(env.num_envs, int))
    env.close()


def test_environments_write_monitor_files_where_the_logger_was_configured(tmp_path):
    from tfbaselines.common.cmd_util import make_vec_env

    logger.configure(str(tmp_path), ["csv"])
    play_episodes(make_vec_env("CartPole-v1", "classic_control", 2, 0))
    assert {path.name for path in tmp_path.glob("*monitor.csv")} == {"0.0.monitor.csv", "0.1.monitor.csv"}
    assert len(load_results(str(tmp_path))) > 2
    play_episodes(make_vec_env("CartPole-v1", num_env=3, logger_dir=None))
    assert not (tmp_path / "0.2.monitor.csv").exists()


def test_environments_write_nothing_where_no_logger_was_configured(tmp_path, monkeypatch):
    from tfbaselines.common.cmd_util import make_vec_env

    monkeypatch.chdir(tmp_path)
    play_episodes(make_vec_env("CartPole-v1", "classic_control", 1, 0))
    assert logger.configured_dir() is None and not list(tmp_path.iterdir())


def test_environments_that_learn_makes_write_no_monitor_files(tmp_path):
    from tfbaselines.envs.adapt import as_vec_env

    logger.configure(str(tmp_path), ["csv"])
    play_episodes(as_vec_env("CartPole-v1"))
    assert not list(tmp_path.glob("*monitor.csv"))


def test_games_for_deepq_are_stacked_bytes():
    from tfbaselines.common.atari_wrappers import make_atari

    from tfbaselines import deepq

    env = deepq.wrap_atari_dqn(make_atari("PongNoFrameskip-v4"))
    obs, _ = env.reset(seed=0)
    assert np.asarray(obs).shape == (84, 84, 4) and np.asarray(obs).dtype == np.uint8


def test_rewards_are_scaled_as_in_retro_wrappers():
    from tfbaselines.common.retro_wrappers import RewardScaler

    from tfbaselines.envs import wrappers

    assert RewardScaler is wrappers.RewardScaler


def policy_fn(name, ob_space, ac_space):
    return "mlp"


@pytest.mark.parametrize(
    ("positional", "named"),
    [
        (("env", policy_fn, None, None, 0), {"pretrained": False, "g_step": 3, "d_step": 1}),
        (("env",), {"policy_func": policy_fn}),
        (("env", policy_fn), {"reward_giver": None, "expert_dataset": None}),
    ],
)
def test_gail_as_baselines_run_mujoco_calls_it(positional, named):
    from tfbaselines.gail import trpo_mpi

    with pytest.raises(UsageError) as caught:
        trpo_mpi.learn(*positional, **named)
    assert str(caught.value) == (
        "gail.trpo_mpi.learn(env, policy_func, reward_giver, expert_dataset, ...) has no counterpart: write "
        "tfbaselines.gail.learn(network, env, demo_path=expert_path, ...), which makes the discriminator"
    )


def test_gail_in_its_own_form_is_not_refused():
    from tfbaselines.gail import trpo_mpi

    for positional in (("mlp", "Pendulum-v1"), ("Pendulum-v1", "mlp")):
        with pytest.raises(UsageError, match="demo_path=None"):
            trpo_mpi.learn(*positional)
    with pytest.raises(UsageError, match=r"nowhere\.npz"):
        trpo_mpi.learn("mlp", "Pendulum-v1", "nowhere.npz")


SPACES = [
    spaces.Discrete(3, start=1),
    spaces.MultiDiscrete([2, 3]),
    spaces.Box(-1, 1, (2,), np.float32),
    spaces.MultiBinary(2),
]


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_distributions_have_the_originals_methods(space):
    import tensorflow as tf
    from tfbaselines.common.distributions import Pd, PdType, make_pdtype

    pdtype = make_pdtype(space)
    assert isinstance(pdtype, PdType) and pdtype.sample_shape() == list(space.shape)
    assert pdtype.sample_dtype() == tf.as_dtype(space.dtype)
    (width,) = pdtype.param_shape()
    flat = tf.zeros((5, width))
    pd, other = pdtype.pdfromflat(flat), pdtype.pdfromflat(flat + 1.0)
    assert isinstance(pd, Pd) and pd.flatparam() is flat
    for actions in (pd.sample(), pd.mode(), pd.sample(pdtype.draw_noise(np.random.default_rng(0), (5,)))):
        assert actions.shape == (5, *space.shape)
        assert pd.logp(actions).shape == pd.neglogp(actions).shape == pd.entropy().shape == pd.kl(other).shape == (5,)
    tfbaselines.common.misc_util.set_global_seeds(0)
    first = pd.sample()
    tfbaselines.common.misc_util.set_global_seeds(0)
    np.testing.assert_array_equal(pd.sample(), first)
    with pytest.raises(ValueError, match=r"give noise: pdtype\.draw_noise\(rng, \(n,\)\)"):
        tf.function(lambda: pdtype.pdfromflat(tf.zeros((5, width))).sample())()
    with pytest.raises(UsageError, match=r"keras\.layers\.Dense\(pdtype\.param_shape\(\)\[0\]\)"):
        pdtype.pdfromlatent(flat)


def test_distributions_are_made_from_sizes_as_in_the_original():
    from tfbaselines.common import distributions

    widths = {"CategoricalPdType": (4, 4), "DiagGaussianPdType": (2, 4), "BernoulliPdType": (3, 3)}
    for name, (size, width) in widths.items():
        assert getattr(distributions, name)(size).param_shape() == [width]
    assert distributions.MultiCategoricalPdType([2, 3]).param_shape() == [5]
    assert distributions.CategoricalPdType(SPACES[0]).pdfromflat(np.zeros((1, 3), np.float32)).mode() == 1
    with pytest.raises(UsageError, match="action space Text"):
        distributions.make_pdtype(spaces.Text(3))
