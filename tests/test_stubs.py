"""What editors and type checkers see: stubs that are written from the Configs."""

import subprocess
import sys
from pathlib import Path

import pytest
from stubs import stubs

import tfbaselines

TOP = Path(tfbaselines.__file__).parents[1]

SCRIPT = """
import gymnasium

import tfbaselines
from tfbaselines import deepq, load, ppo2
from tfbaselines.callbacks import EvaluateEvery, StopAt
from tfbaselines.config.options import RunOptions

options = RunOptions(callback=[StopAt(475), EvaluateEvery(1e4, "CartPole-v1")])
model = ppo2.learn("mlp", "CartPole-v1", total_timesteps=1e4, nsteps=32, lr="linear_3e-4", num_hidden=8, run=options)
reveal_type(model)
reveal_type(deepq.learn("mlp", gymnasium.make("CartPole-v1")))
reveal_type(load("logs"))
tfbaselines.logger.configure("logs", ["csv"])
ppo2.learn("mlp", "CartPole-v1", nsteps="many")
ppo2.learn(3, "CartPole-v1")
"""
EXPECTED = [
    'note: Revealed type is "tfbaselines.algs.ppo2.ppo2.Model"',
    'note: Revealed type is "tfbaselines.algs.deepq.deepq.ActWrapper"',
    'note: Revealed type is "tfbaselines.training.model.PolicyModel"',
    'error: Argument "nsteps" to "learn" has incompatible type "str"; expected "int"',
    'error: Argument 1 to "learn" has incompatible type "int"',
]


def test_the_stubs_are_those_that_the_configs_declare():
    wrong = [str(path) for path, text in stubs().items() if not path.exists() or path.read_text("utf-8") != text]
    assert not wrong, "run `python tests/support/stubs.py`"
    assert set((TOP / "tfbaselines").rglob("*.pyi")) == set(stubs())


def test_a_type_checker_knows_learn_and_load(tmp_path):
    pytest.importorskip("mypy")
    (tmp_path / "script.py").write_text(SCRIPT)
    words = ["--follow-imports=silent", "--no-error-summary", "--no-incremental", "--hide-error-codes", "script.py"]
    command = [sys.executable, "-m", "mypy", "--config-file=", *words]
    environment = {"MYPYPATH": str(TOP), "PATH": "", "PYTHONPATH": ""}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    lines = done.stdout.splitlines()
    assert len(lines) == len(EXPECTED), done.stdout + done.stderr
    assert all(expected in line for expected, line in zip(EXPECTED, lines, strict=True)), done.stdout
