"""Small parts of the originals that scripts use."""

import argparse
import random
import time

import numpy as np
import pytest

from tfbaselines.algs import get
from tfbaselines.algs.deepq.buffers import Memory
from tfbaselines.compat import baselines, experiments
from tfbaselines.compat.experiments import ExperimentGrid, all_bools, call_experiment, setup_logger_kwargs, valid_str
from tfbaselines.envs.tiny import DiscreteIdentityEnv
from tfbaselines.errors import UsageError
from tfbaselines.logs.statistics import colorize


class Recurrent:
    """A model with a memory of two numbers."""

    def initial_states(self, count):
        return np.zeros((count, 2), np.float32)


class Count(baselines.AbstractEnvRunner):
    def run(self):
        return self.nsteps * self.nenv


def test_a_runner_of_the_users_own():
    from helpers import vec

    env = vec(lambda: DiscreteIdentityEnv(3, episode_len=5), 2)
    runner = Count(env=env, model=Recurrent(), nsteps=4)
    assert runner.run() == 8 and runner.batch_ob_shape == (8,) and runner.dones == [False, False]
    assert runner.obs.shape == (2,) and runner.obs.dtype == env.observation_space.dtype
    assert runner.states.shape == (2, 2)
    alone = Count(env=DiscreteIdentityEnv(3), model=Recurrent(), nsteps=4)
    assert alone.obs.shape == (1,) and alone.nenv == 1
    with pytest.raises(TypeError):
        baselines.AbstractEnvRunner(env=env, model=Recurrent(), nsteps=4)


def test_global_seeds():
    draws = []
    for seed in (5, 5, 6):
        baselines.set_global_seeds(seed)
        draws.append((random.random(), np.random.rand()))
    assert draws[0] == draws[1] != draws[2]
    baselines.set_global_seeds(None)


def test_parsers():
    parser = baselines.common_arg_parser()
    args, rest = parser.parse_known_args(["--env=Pong-v4", "--num_timesteps=1e4", "--play", "--nsteps=5", "--lr", "3"])
    assert (args.env, args.num_timesteps, args.play, args.alg, args.reward_scale) == ("Pong-v4", 1e4, True, "ppo2", 1.0)
    assert baselines.parse_unknown_args(rest) == {"nsteps": "5", "lr": "3"}
    for words, line in ((["--dueling"], "write --dueling=value"), (["nsteps=5"], "write --name=value")):
        with pytest.raises(UsageError, match=line):
            baselines.parse_unknown_args(words)
    flags = argparse.ArgumentParser()
    baselines.boolean_flag(flags, "layer-norm", default=True)
    given = [flags.parse_args(words).layer_norm for words in ([], ["--no-layer-norm"], ["--layer-norm"])]
    assert given == [True, False, True]


def test_policies_of_ppo1_are_network_builders():
    assert baselines.MlpPolicy("pi", None, None, hid_size=5, num_hid_layers=3)()((2,)).output_shape == (None, 5)
    assert baselines.CnnPolicy("pi", None, None, kind="small")()((84, 84, 4)).output_shape == (None, 128)
    for make, words in (
        (lambda: baselines.MlpPolicy("pi", None, None, reuse=True), "reuse=True"),
        (lambda: baselines.MlpPolicy("pi", None, None, gaussian_fixed_var=False), "gaussian_fixed_var=False"),
        (lambda: baselines.CnnPolicy("pi", None, None, kind="huge"), "kind='huge'"),
    ):
        with pytest.raises(UsageError, match=words):
            make()


def test_the_memory_of_ddpg():
    memory = Memory(limit=5, action_shape=(2,), observation_shape=(3,), rng=np.random.default_rng(0))
    with pytest.raises(UsageError, match="holds 0 transitions"):
        memory.sample(1)
    for k in range(8):
        memory.append(np.full(3, k), np.full(2, -k), 10 * k, np.full(3, k + 1), k == 7)
    memory.append(np.zeros(3), np.zeros(2), 0, np.zeros(3), False, training=False)
    assert memory.nb_entries == 5
    batch = memory.sample(200)
    # The oldest is 3; the last two are not drawn.
    assert set(batch["rewards"].ravel()) == {30, 40, 50} and batch["terminals1"].sum() == 0
    np.testing.assert_array_equal(batch["obs1"], batch["obs0"] + 1)
    np.testing.assert_array_equal(batch["actions"][:, 0], -batch["obs0"][:, 0])
    shapes = {name: array.shape[1:] for name, array in batch.items()}
    assert shapes == {"obs0": (3,), "obs1": (3,), "actions": (2,), "rewards": (1,), "terminals1": (1,)}


def test_colors():
    assert colorize("x", "red") == "\x1b[31mx\x1b[0m" and colorize("x", "crimson", bold=True) == "\x1b[38;1mx\x1b[0m"
    assert colorize("x", "green", highlight=True) == "\x1b[42mx\x1b[0m"
    with pytest.raises(UsageError, match="did you mean 'red'"):
        colorize("x", "reed")


def test_directories_of_experiments():
    assert setup_logger_kwargs("e", 3, "d") == {"output_dir": "d/e/e_s3", "exp_name": "e"}
    assert setup_logger_kwargs("e") == {"output_dir": "data/e/", "exp_name": "e"}
    stamped = setup_logger_kwargs("e", 3, "d", datestamp=True)["output_dir"].split("/")
    assert time.strptime(stamped[1], "%Y-%m-%d_e") and time.strptime(stamped[2], "%Y-%m-%d_%H-%M-%S-e_s3")


def test_values_as_names():
    assert valid_str([32, (64, 8)]) == "32-64-8" and valid_str("CartPole v1.0") == "cartpole-v1-0"
    assert valid_str(np.tanh) == "tanh"
    assert all_bools([True, False]) and not all_bools([True, 0])


def grid():
    grid = ExperimentGrid("bench")
    grid.add("env_name", "CartPole-v1", "", True)
    grid.add("seed", [0, 10])
    grid.add("epochs", 3)
    grid.add("ac_kwargs:hidden_sizes", [(32,), (64, 64)], "hid")
    grid.add("use_gae", [True, False])
    return grid


def test_the_variants_of_a_grid():
    variants = grid().variants()
    assert len(variants) == 8 and [one["seed"] for one in variants] == [0] * 4 + [10] * 4
    assert variants[2] == {
        "env_name": "CartPole-v1",
        "seed": 0,
        "epochs": 3,
        "ac_kwargs": {"hidden_sizes": (64, 64)},
        "use_gae": True,
    }
    names = [grid().variant_name(one) for one in variants[:4]]
    start = "bench_cartpole-v1"
    assert names == [f"{start}_hid32_use", f"{start}_hid32", f"{start}_hid64-64_use", f"{start}_hid64-64"]
    assert grid().shs == ["", "see", "epo", "hid", "use"]
    named = grid()
    named.add("q_lr", [1e-3, 1e-4])
    assert named.shs[-1] == "ql"
    for key, words in (("", "key=''"), (3, "key=3")):
        with pytest.raises(UsageError, match=words):
            grid().add(key, 1)


def test_experiments_run_in_processes_of_their_own(tmp_path, capfd):
    def thunk(seed, logger_kwargs, env_fn, ac_kwargs, **others):
        import os

        print("ran", seed, env_fn().spec.id, ac_kwargs["hidden_sizes"], os.path.basename(logger_kwargs["output_dir"]))
        if others.get("fail"):
            raise RuntimeError

    small = ExperimentGrid("g")
    small.add("seed", [0, 10])
    small.add("env_name", "CartPole-v1")
    small.add("ac_kwargs:hidden_sizes", [(8,)])
    assert small.run(thunk, data_dir=str(tmp_path)) == [str(tmp_path / f"g/g_s{seed}") for seed in (0, 10)]
    printed = capfd.readouterr().out
    assert "ran 0 CartPole-v1 (8,) g_s0" in printed and "ran 10 CartPole-v1 (8,) g_s10" in printed
    assert "ExperimentGrid [g]: 2 runs" in printed
    with pytest.raises(RuntimeError, match="experiment 'bad' with seed 0 failed with status 1"):
        sizes = {"hidden_sizes": 1}
        call_experiment("bad", thunk, data_dir=str(tmp_path), fail=True, env_name="CartPole-v1", ac_kwargs=sizes)
    with pytest.raises(UsageError, match="num_cpu='many'"):
        call_experiment("bad", thunk, num_cpu="many")


def test_a_key_of_the_grid_may_name_what_runs(monkeypatch):
    calls = []
    monkeypatch.setattr(experiments, "call_experiment", lambda *args, **kwargs: calls.append((args, kwargs["seed"])))
    both = ExperimentGrid("g")
    both.add("algo", [np.sin, np.cos], "")
    both.add("seed", [0, 10])
    both.run("algo")
    assert calls == [(("g_sin", np.sin), 0), (("g_sin", np.sin), 10), (("g_cos", np.cos), 0), (("g_cos", np.cos), 10)]
    for thunk in ("alg", "seed", None):
        with pytest.raises(UsageError, match=f"thunk={thunk!r} is not valid: a function, or the key of the grid"):
            both.run(thunk)
    assert len(calls) == 4


def test_environments_of_experiments_may_be_of_a_module(tmp_path, monkeypatch):
    lines = "from gymnasium import register", "register('Mine-v0', 'gymnasium.envs.classic_control:CartPoleEnv')"
    (tmp_path / "of_mine.py").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(tmp_path)
    assert experiments.make_env("of_mine:Mine-v0").spec.id == "Mine-v0"


def test_algorithms_can_be_sent_to_another_process():
    import cloudpickle

    import tfbaselines

    again = cloudpickle.loads(cloudpickle.dumps(tfbaselines.ppo_tf1))
    assert again is tfbaselines.ppo_tf1 and get("ppo").learn is again.learn
