"""README's examples and commands, as they stand there."""

import contextlib
import importlib
import re
import shutil
import sys
from pathlib import Path

import commands
import numpy as np
import pytest
import tensorflow as tf
from readme import README, ROOT, blocks, commands_of, example, shortened

import tfbaselines
from tfbaselines.logs.logger import read_csv
from tfbaselines.run import command as main

# Commands that are one file; others are packages with a __main__.
ONE_FILE = ("tfbaselines.run", "tfbaselines.evaluate", "tfbaselines.check_env", "tfbaselines.record")

# Lengths of training in blocks of Python.
SHORTER = {
    "total_timesteps=1e5": "total_timesteps=1024",
    "steps_per_epoch=1000, epochs=5": "steps_per_epoch=100, epochs=1, train_pi_iters=2, train_v_iters=2",
}


@contextlib.contextmanager
def whole_functions():
    """What is exported is compiled, in a test whose operations are taken one by one."""
    tf.config.run_functions_eagerly(False)
    yield
    tf.config.run_functions_eagerly(True)


@pytest.mark.slow
def test_the_algorithm_passes_the_contract_suite(tmp_path):
    """Its file and its name are put into a copy of the package, and nothing else is changed."""
    assert example("Add an algorithm").count("\n") <= 60
    shutil.copytree(Path(tfbaselines.__file__).parent, tmp_path / "tfbaselines")
    for name in ("pyproject.toml", "README.md", "setup.py"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "tests", tmp_path / "tests", ignore=shutil.ignore_patterns("golden", "data"))
    algs = tmp_path / "tfbaselines" / "algs"
    (algs / "reinforce.py").write_text(example("Add an algorithm"))
    names = algs / "__init__.py"
    names.write_text(names.read_text().replace("NAMES = (", 'NAMES = (\n    "reinforce",', 1))
    command = ("pytest", "-n", "0", "-q", "-x", "-m", "not slow", "-k", "reinforce", "tests/contract")
    status, out, err = commands.finish(commands.start(*command, cwd=tmp_path, PYTHONPATH=str(tmp_path)), timeout=900)
    assert status == 0, out + err
    assert int(re.search(r"(\d+) passed", out)[1]) > 30


@pytest.mark.slow
def test_the_algorithm_learns(tmp_path):
    (tmp_path / "reinforce.py").write_text(example("Add an algorithm"))
    script = """
import gymnasium, numpy as np
from reinforce import learn
from tfbaselines.envs.monitor import Monitor
from tfbaselines.envs.tiny import DiscreteIdentityEnv
from tfbaselines.envs.vec import DummyVecEnv
def make():
    return Monitor(DiscreteIdentityEnv(4, episode_len=10), None, allow_early_resets=True)
env = DummyVecEnv([make] * 4)
model = learn("mlp", env, total_timesteps=20000, seed=0, gamma=0.5, run=None)
obs, total = env.reset(), 0.0
for _ in range(100):
    obs, rewards, _, _ = env.step(model.act(obs)[0])
    total += rewards.mean()
print("reward per step", total / 100)
"""
    (tmp_path / "go.py").write_text(script)
    status, out, err = commands.run("go", cwd=tmp_path, PYTHONPATH=f"{tmp_path}:{ROOT}")
    assert status == 0, err
    assert float(out.split()[-1]) > 0.8


def goal_demonstrations(path, episodes=2, steps=20):
    """Demonstrations as baselines' script for FetchPush writes them."""
    goals = {"observation": 25, "achieved_goal": 3, "desired_goal": 3}
    obs = [[{k: np.zeros(n) for k, n in goals.items()} for _ in range(steps + 1)] for _ in range(episodes)]
    acs = [[np.zeros(4) for _ in range(steps)] for _ in range(episodes)]
    # Of objects, which numpy pickles.
    arrays = {"acs": np.empty(episodes, object), "obs": np.empty(episodes, object)}
    for name, rows in (("acs", acs), ("obs", obs)):
        arrays[name][:] = rows
    np.savez(path, **arrays)


def run_python(code, directory):
    """A block in a module of its own; lengths of training are shorter."""
    for long, short in SHORTER.items():
        code = code.replace(long, short)
    (directory / "my_module.py").write_text(code)
    sys.modules.pop("my_module", None)
    with whole_functions() if "export" in code else contextlib.nullcontext():
        importlib.import_module("my_module")


def run_command(module, words):
    words = shortened(module, words)
    own = importlib.import_module(module if module in ONE_FILE else f"{module}.__main__")
    assert getattr(own, "command", own.main)(words) == 0, f"{module} {' '.join(words)}"


@pytest.mark.slow
def test_every_block_runs_in_an_empty_directory(tmp_path, monkeypatch, eager, capfd):
    """As typed, one after the other; only what SHORT and SHORTER name is changed, and done once is enough."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delenv("DISPLAY", raising=False)
    # What README names and its reader brings: demonstrations of the repository, and those of baselines.
    (tmp_path / "data").mkdir()
    (tmp_path / "data/demos").symlink_to(ROOT / "data/demos")
    goal_demonstrations(tmp_path / "old.npz")
    done = []
    for language, block in blocks():
        if language == "python":
            run_python(block, tmp_path)
        elif language == "yaml":
            (tmp_path / "my.yaml").write_text(block)
            run_command("tfbaselines.run", ["--config=my.yaml", "--env=Pendulum-v1", "--alg=ppo2"])
        for command in commands_of(block) if language == "bash" else ():
            if command not in done:
                run_command(*command)
                done.append(command)
    assert len(done) > 25
    out = capfd.readouterr().out
    # The callback of README's.
    assert len(re.findall(r"^2560 [\d.]+ [\d.]+$", out, re.MULTILINE)) == 1
    for path in (
        "logs/pong/plot.png",
        "all.png",
        "logs/car/table.png",
        "models/cheetah",
        "served/cartpole/fingerprint.pb",
    ):
        assert (tmp_path / path).exists(), path


def test_what_readme_names_is_found_by_name(tmp_path, monkeypatch, eager):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "towers.py").write_text(example("Add a network"))
    (tmp_path / "corridor.py").write_text(example("Add an environment"))
    flags = ("--network=towers:two_towers", "--width=8", "--env=corridor:Corridor-v0", "--log_path=log")
    run_command("tfbaselines.run", ["--alg=ppo2", *flags])


@pytest.mark.slow
def test_the_first_command_learns_and_names_the_next_ones(tmp_path):
    """Without its installation; then the commands as they are printed."""
    (line,) = re.findall(r'^pip install -e "\.\[all\]" && (python -m tfbaselines\.run .*)$', README, re.MULTILINE)
    status, out, err = commands.finish(commands.start_shell(f"{line} --seed=0", tmp_path), timeout=300)
    assert status == 0, err
    assert read_csv(tmp_path / "logs/cartpole/progress.csv")["eprewmean"].iloc[-1] >= 475
    following = [one.split(":", 1)[1].strip() for one in out.splitlines()[-3:]]
    assert [one.split()[2] for one in following] == [f"tfbaselines.{name}" for name in ("plot", "evaluate", "run")]
    for one in following[:2]:
        status, _, err = commands.finish(commands.start_shell(one, tmp_path))
        assert status == 0, err
    assert (tmp_path / "logs/cartpole/plot.png").exists() and list((tmp_path / "videos").glob("*.mp4"))
    assert following[2].endswith("--num_timesteps=400000 --max_total_reward=None")


@pytest.mark.slow
@pytest.mark.parametrize("seed", [103, 109])
def test_the_first_command_learns_with_other_seeds(seed, tmp_path, monkeypatch):
    """With these it did not where the value function's steps were clipped and it shared the policy's network."""
    monkeypatch.setenv("OPENAI_LOG_FORMAT", "csv")
    words = ["--alg=ppo2", "--env=CartPole-v1", "--tuned"]
    assert main([*words, f"--seed={seed}", f"--log_path={tmp_path}"]) == 0
    assert read_csv(tmp_path / "progress.csv")["eprewmean"].iloc[-1] >= 475
