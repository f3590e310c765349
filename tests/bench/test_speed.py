"""The benchmark command measures both sides with the same numbers."""

import csv
import importlib
import json
import shutil
import time
from types import SimpleNamespace

import numpy as np
import pytest
from gymnasium import spaces

from tfbaselines.algs import deepq, sac
from tfbaselines.bench import sides, speed
from tfbaselines.bench.__main__ import main
from tfbaselines.bench.speed import CASES


@pytest.mark.slow
def test_speed_is_measured_and_written(tmp_path, capsys):
    flags = ["--cases", "cartpole", "--rounds", "1", "--fraction", "0.01", "--out", str(tmp_path / "speed.csv")]
    assert main(["speed", *flags]) == 0
    with open(tmp_path / "speed.csv", newline="", encoding="utf-8") as file:
        (row,) = csv.DictReader(file)
    assert row["case"] == "cartpole"
    assert float(row["steps_per_second"]) > 100
    assert float(row["peak_mib"]) > 100
    out = capsys.readouterr().out
    assert "steps/s" in out
    assert "matrix product" in out


def test_the_summary_compares_medians_with_the_peers():
    rows = [
        {"case": "a", "program": program, "steps_per_second": value, "peak_mib": 100.0, "matmul_seconds": 0.1}
        for program, values in (("tfbaselines float32", (90, 100, 500)), ("stable-baselines3", (10, 20, 30)))
        for value in values
    ]
    lines = speed.summary(rows).splitlines()
    assert "5.00x" in lines[1]
    assert "1.00x" in lines[2]


def test_ranks_are_compared_with_one():
    rows = [
        {"case": "a", "program": program, "steps_per_second": value, "peak_mib": 100.0, "matmul_seconds": 0.1}
        for program, value in ((speed.ONE_RANK, 100), ("2 ranks, 1 thread", 170))
    ]
    assert "1.70x" in speed.summary(rows).splitlines()[2]


def test_the_steps_of_all_ranks_count(monkeypatch):
    printed = 'noise\n{"steps_per_second": 70.0, "peak_mib": 9}{"steps_per_second": 30.0, "peak_mib": 11}\n'
    monkeypatch.setattr(speed.subprocess, "run", lambda *_, **__: SimpleNamespace(returncode=0, stdout=printed))
    assert speed._result(["mpirun"]) == {"steps_per_second": 100.0, "peak_mib": 11}


def test_ranks_have_a_thread_each():
    one, several = speed._ranks("halfcheetah", 100, 2).values()
    assert "TF_NUM_INTRAOP_THREADS=1" in one and one[-5:] == several[-5:]
    assert several[several.index("-np") : several.index("-np") + 2] == ["-np", "2"]


def test_processor_time_is_that_of_one_core_and_one_thread(monkeypatch):
    cores, commands = [], []
    monkeypatch.setattr(speed.os, "sched_setaffinity", lambda process, of: cores.append(of))
    monkeypatch.setattr(speed, "matmul_seconds", lambda: 0.1)
    monkeypatch.setattr(speed, "_result", lambda command: commands.append(command) or {"steps_per_second": 9.0})
    rows = list(speed.measure(["sac-sbx"], ["float32"], "python", 1, 1.0, clock="cpu"))
    assert [row["program"] for row in rows] == ["tfbaselines float32, one core", "sbx, one core"]
    assert len(cores) == 1 and len(cores[0]) == 1
    for command in commands:
        assert command[0] == "env" and "OMP_NUM_THREADS=1" in command
        (case,) = [json.loads(word) for word in command if word.startswith("{")]
        assert sides.clock_of(case) is time.process_time and sides.clock_of(CASES["sac-sbx"]) is time.perf_counter
    assert "1.00x" in speed.summary([row | {"peak_mib": 1.0} for row in rows]).splitlines()[1]


def test_a_peer_that_is_missing_is_an_error_in_one_line():
    with pytest.raises(ValueError, match="failed") as error:
        speed._result([shutil.which("false")])
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--cases", "cartpol"], "did you mean 'cartpole'"),
        (["--precision", "float16"], "unknown precision"),
        (["--rounds", "0"], "rounds=0"),
        (["--ranks", "1"], "ranks=1"),
        (["--ranks", "2", "--clock", "cpu"], "clock='cpu' is not valid: 'wall' with ranks"),
        (["--ranks", "2", "--peer-python", "python"], "ranks=2 is not valid: without a peer"),
    ],
)
def test_a_mistake_is_one_line(flags, words, capsys):
    assert main(["speed", *flags]) == 2
    err = capsys.readouterr().err
    assert words in err
    assert err.count("\n") == 1


def test_both_sides_divide_a_rollout_alike():
    for name, case in CASES.items():
        learn = case["learn"]
        steps = speed._steps(name, 1.0)
        assert steps == case["steps"] > case.get("warmup", 0)
        if "nsteps" in learn:
            assert (case["num_env"] * learn["nsteps"]) % learn.get("nminibatches", 1) == 0
        if "start_steps" in learn:
            assert case["warmup"] > learn["start_steps"]
        if "learning_starts" in learn:
            assert case["warmup"] > learn["learning_starts"]


def test_prioritised_replay_is_all_that_its_case_adds():
    uniform, prioritised = CASES["deepq-cartpole"], CASES["deepq-cartpole-prioritized"]
    assert prioritised == uniform | {"peer": None, "learn": uniform["learn"] | {"prioritized_replay": True}}


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.get("alg") == "deepq"])
def test_a_case_of_deepq_has_its_arguments(name):
    """A mistake would be seen only when it is measured; the network has its own arguments besides."""
    learn = {name: value for name, value in CASES[name]["learn"].items() if name != "hidden_sizes"}
    deepq.Config(**learn)


def test_sacs_other_critics_have_equal_settings_on_both_sides():
    cases = {name: case for name, case in CASES.items() if "peer_further" in case}
    assert list(cases) == ["sac-tqc", "sac-tqc-sbx", "sac-crossq", "sac-crossq-sbx", "sac-droq-sbx"]
    for case in cases.values():
        learn = {key: value for key, value in case["learn"].items() if key != "hidden_sizes"}
        ours = sac.Config.of(learn)
        theirs = sides.peer_numbers(case["peer"].split(":")[1], case) | case["peer_further"]
        assert theirs["policy_kwargs"]["net_arch"] == list(case["learn"]["hidden_sizes"])
        assert theirs["policy_kwargs"].get("dropout_rate", 0.0) == ours.critic_dropout
        assert theirs["policy_kwargs"].get("layer_norm", False) == ours.critic_layer_norm
        assert theirs["batch_size"] == ours.batch_size and theirs["learning_rate"] == ours.lr == 1e-3
        assert theirs["learning_starts"] == ours.start_steps and theirs["ent_coef"] == ours.alpha
        # The peers' own delay is that of CrossQ, and 1 for the others.
        assert theirs.get("policy_delay", 3 if ours.critic == "crossq" else 1) == ours.policy_delay
        steps = ours.update_every if ours.num_update is None else ours.num_update
        assert theirs["gradient_steps"] == steps / ours.update_every


def test_the_network_of_pong_is_the_peers():
    case = CASES["deepq-pong"]
    env = SimpleNamespace(observation_space=spaces.Box(0, 255, (84, 84, 4), np.uint8), action_space=spaces.Discrete(6))
    policy = deepq.make_policy(case["network"], env, deepq.Config.of(case["learn"]))
    # Its three convolutions without padding, its 512 features, and a value for each action.
    layers = [(8 * 8 * 4, 32), (4 * 4 * 32, 64), (3 * 3 * 64, 64), (7 * 7 * 64, 512), (512, 6)]
    assert [variable.shape for variable in policy.trainable_variables if len(variable.shape) == 1] == [
        (units,) for _, units in layers
    ]
    assert sum(variable.value.shape.num_elements() for variable in policy.trainable_variables) == sum(
        (inputs + 1) * units for inputs, units in layers
    )


def test_the_peers_own_numbers_are_ours():
    same = {
        "nsteps": "n_steps",
        "steps_per_epoch": "n_steps",
        "timesteps_per_batch": "n_steps",
        "gamma": "gamma",
        "lam": "gae_lambda",
        "lr": "learning_rate",
        "pi_lr": "learning_rate",
        "vf_stepsize": "learning_rate",
        "ent_coef": "ent_coef",
        "clip_ratio": "clip_range",
        "cliprange": "clip_range",
        "noptepochs": "n_epochs",
        "train_pi_iters": "n_epochs",
        "max_kl": "target_kl",
        "cg_iters": "cg_max_steps",
        "cg_damping": "cg_damping",
        "vf_iters": "n_critic_updates",
    }
    cases = [case for case in CASES.values() if "peer_learn" in case]
    assert cases
    for case in cases:
        config = importlib.import_module(f"tfbaselines.algs.{case['alg']}").Config.of(case["learn"])
        for ours, theirs in same.items():
            if theirs in case["peer_learn"] and hasattr(config, ours):
                # These count the steps of all environments.
                envs = case["num_env"] if ours in ("steps_per_epoch", "timesteps_per_batch") else 1
                assert getattr(config, ours) == case["peer_learn"][theirs] * envs, (ours, theirs)


def test_an_original_that_is_gone_is_compared_by_the_yardstick():
    original = CASES["acer-pong"]["original"]
    row = {"case": "acer-pong", "program": "ours", "steps_per_second": 284.0, "peak_mib": 1.0}
    slower = row | {"matmul_seconds": 2 * original["matmul_seconds"]}
    assert "4.00x" in speed.summary([slower])


def test_matrix_products_take_time():
    assert 0 < speed.matmul_seconds(1) < 60
