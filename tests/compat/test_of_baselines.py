"""Calls of baselines' scripts that this package answers in the porting layer, or with one line."""

import shlex
import subprocess
import sys

import numpy as np
import pytest
from gymnasium import spaces

import tfbaselines
from tfbaselines.algs import ALGORITHMS
from tfbaselines.bench import load_results
from tfbaselines.cli.command_line import parse, split
from tfbaselines.compat import SCRIPT, rows
from tfbaselines.compat.spinup import SPINNING_UP
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


def test_main_returns_the_model_and_raises_errors(tmp_path):
    from tfbaselines.run import main

    words = ["--alg=a2c", "--env=CartPole-v1", "--num_timesteps=100", f"--log_path={tmp_path / 'log'}"]
    model = main(words)
    actions, values, _, _ = model.step(np.zeros((1, 4), np.float32))
    assert actions.shape == values.shape == (1,)
    with pytest.raises(UsageError, match="holds a run"):
        main(words)


def test_algorithms_are_found_by_the_functions_of_run(tmp_path):
    from tfbaselines.common.cmd_util import common_arg_parser

    from tfbaselines import run

    words = ["--env", "CartPole-v1", "--alg", "a2c", "--num-timesteps=60", "--seed=0", "--nsteps=5", "--lr=1e-3"]
    args, rest = common_arg_parser().parse_known_args(words)
    assert run.get_env_type(args) == run.get_env_type("CartPole-v1") == ("classic_control", "CartPole-v1")
    assert run.get_alg_module("a2c").learn is run.get_learn_function("a2c") is tfbaselines.a2c.learn
    assert run.get_alg_module("ppo2", "runner").__name__ == "tfbaselines.ppo2.runner"
    assert run.get_learn_function_defaults("ppo2", "atari")["nsteps"] == 128
    assert [run.get_default_network(kind) for kind in ("atari", "mujoco")] == ["cnn", "mlp"]
    assert run.parse_cmdline_kwargs(rest) == {"nsteps": 5, "lr": 1e-3}
    run.configure_logger(str(tmp_path))
    model, env = run.train(args, run.parse_cmdline_kwargs(rest))
    assert model.step(env.reset())[0].shape == (1,)
    env.close()
    with pytest.raises(UsageError, match="unknown algorithm 'ppo3'"):
        run.get_alg_module("ppo3")


def test_environments_and_parsers_of_cmd_util(tmp_path):
    from tfbaselines.common.cmd_util import atari_arg_parser, make_mujoco_env, make_robotics_env, robotics_arg_parser

    logger.configure(str(tmp_path), ["csv"])
    for spelling in ("--num_timesteps", "--num-timesteps"):
        assert atari_arg_parser().parse_args([spelling, "1e4"]).num_timesteps == 1e4
    assert robotics_arg_parser().parse_args([]).env.startswith("FetchReach")
    env = make_mujoco_env("InvertedPendulum-v5", 0, reward_scale=0.5)
    env.reset()
    assert env.step(env.action_space.sample())[1] in (0.0, 0.5) and list(tmp_path.glob("0.0.monitor.csv"))
    env.close()
    goals = make_robotics_env("tfbaselines.envs.tiny:tfbaselines/PointReach-v0", 0)
    assert goals.observation_space.shape
    goals.close()


@pytest.mark.parametrize(
    ("module", "words", "command"),
    [
        ("ppo1.run_mujoco", ["--num-timesteps=0", "--print_config"], "--alg=ppo1 --env=Reacher-v5"),
        ("algos.tf1.ppo.ppo", ["--help"], "tfbaselines.run ppo"),
    ],
)
def test_example_commands_run_in_their_place(tmp_path, module, words, command):
    done = subprocess.run(
        [sys.executable, "-m", f"tfbaselines.{module}", *words], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert command in done.stderr and done.stdout


def test_the_flags_of_commands_in_place_of_scripts_are_known():
    commands = [row.remark for row in rows() if SCRIPT in row.names]
    assert len(commands) > 20
    for module, *words in (shlex.split(command)[2:] for command in commands):
        if module == "tfbaselines.run" and words[0].startswith("--"):
            assert parse(split(words), ALGORITHMS).given
        else:
            assert module == "tfbaselines.evaluate" or words[0] in (*SPINNING_UP, "plot", "test_policy")


def test_absent_names_are_no_values():
    from tfbaselines.deepq import build_act
    from tfbaselines.user_config import DEFAULT_BACKEND, FORCE_DATESTAMP

    assert not FORCE_DATESTAMP and DEFAULT_BACKEND["ppo"] == "tf1"
    assert tfbaselines.algos.tf1.ppo.core.EPS == 1e-8
    uses = [bool, len, list, int, float, lambda x: x["ppo"], lambda x: x + 1, lambda x: 2 * x, lambda x: x < 1, open]
    for use in uses:
        with pytest.raises(UsageError, match="has no counterpart: deepq"):
            use(build_act)
