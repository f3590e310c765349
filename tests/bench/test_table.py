"""Suites: missing runs are made once, and their scores stand beside the published ones."""

import json
import os
import signal
import threading
import time

import numpy as np
import pandas as pd
import pytest

from tfbaselines.bench import table
from tfbaselines.bench.__main__ import main
from tfbaselines.bench.table import SUITES
from tfbaselines.report.published import Suite
from tfbaselines.study.store import Study

SMALL = {"small": Suite(512, ("CartPole-v1", "Nowhere-v0"), {"a2c": {"CartPole-v1": 12.5}})}


@pytest.fixture(autouse=True)
def small_suite(monkeypatch):
    monkeypatch.setattr(table, "SUITES", SMALL)


@pytest.mark.slow
def test_what_is_missing_is_run_once(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    given = ["table", "--suite=small", "--algs", "a2c", "--envs", "CartPole-v1", "--jobs=2", "--logs=runs"]
    assert main([*given, "--seeds=1"]) == 0
    first = pd.read_csv("small.csv")
    result = tmp_path / "runs/a2c/CartPole-v1/0/result.json"
    before = result.stat().st_mtime_ns
    assert main([*given, "--seeds=2"]) == 0
    assert result.stat().st_mtime_ns == before
    rows = pd.read_csv("small.csv")
    assert rows["seed"].tolist() == [0, 1] and rows.iloc[0].tolist() == first.iloc[0].tolist()
    assert (rows["num_timesteps"] == 512).all() and rows["score"].between(5, 100).all()
    assert (
        "| a2c | CartPole-v1 | 512 | 2 |" in (tmp_path / "small.md").read_text()
        and "| 12.5 |" in capsys.readouterr().out
    )
    # More steps continue the same runs.
    assert main([*given, "--seeds=1", "--num_timesteps=1024"]) == 0
    progress = pd.read_csv("runs/a2c/CartPole-v1/0/progress.csv")
    assert progress["total_timesteps"].iloc[-1] > 512
    assert "resume" not in json.loads(result.read_text())


@pytest.mark.slow
def test_a_run_that_fails_is_told_of_and_the_others_go_on(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["table", "--suite=small", "--algs", "a2c", "--seeds=1"]) == 1
    out = capsys.readouterr().out
    assert "a2c Nowhere-v0 seed 0: tfbaselines: error: " in out and ", see logs/a2c/Nowhere-v0/0/output.txt" in out
    assert "a2c CartPole-v1 seed 0: done" in out
    assert "Nowhere" in (tmp_path / "logs/a2c/Nowhere-v0/0/output.txt").read_text()
    assert pd.read_csv("small.csv")["env"].tolist() == ["CartPole-v1"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--suite=large"], "unknown suite 'large'"),
        (["--suite=small", "--algs", "ppo3"], "unknown algorithm 'ppo3'"),
        (["--suite=small", "--envs", "CartPole-v0"], "did you mean 'CartPole-v1'"),
        (["--suite=small", "--seeds=0"], "seeds=0 is not valid"),
        (["--suite=small", "--jobs=0"], "jobs=0 is not valid"),
    ],
)
def test_mistakes_are_one_line(given, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["table", *given]) == 2
    err = capsys.readouterr().err
    assert message in err and err.count("\n") == 1


def test_the_interquartile_mean_leaves_out_extremes():
    scores = np.array([1000.0, 4.0, 2.0, 3.0, -500.0])
    assert table.interquartile_mean_of(scores) == 3.0
    low, high = table.interval(scores)
    assert low <= 3.0 <= high and table.interval(np.array([7.0])) == (7.0, 7.0)


def test_published_scores_are_those_of_the_originals():
    assert SUITES["mujoco1m"].published["trpo_mpi"]["Reacher-v5"] == -4.82
    assert SUITES["atari10m"].published["deepq"]["PongNoFrameskip-v4"] == 16.49


def test_sigterm_ends_the_runs_too(tmp_path, monkeypatch):
    """In place of Python, a script that notes its process and would sleep for long."""
    script = tmp_path / "python"
    script.write_text(f"#!/bin/bash\necho $$ > {tmp_path}/new && mv {tmp_path}/new {tmp_path}/pid\nexec sleep 600\n")
    script.chmod(0o755)
    monkeypatch.setattr(table.sys, "executable", str(script))

    def terminate():
        while not (tmp_path / "pid").exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    threading.Thread(target=terminate).start()
    status = table.run_missing(table.cells("small", ["a2c"], 1, ["CartPole-v1"], None), tmp_path / "logs", 1)
    assert status == 128 + signal.SIGTERM and signal.getsignal(signal.SIGTERM) is before
    assert Study(tmp_path / "logs").names("open") == ["0000-a2c-CartPole-v1"]
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
