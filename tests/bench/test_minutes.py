"""Scores after minutes: every program gets the same time, and its policy is evaluated as it then is."""

import os
import signal
import time

import pandas as pd
import pytest
from warm import Warm

from tfbaselines.bench import minutes, peer_minutes, speed
from tfbaselines.bench.__main__ import main
from tfbaselines.evaluate import evaluate

# In place of Python with the peers: it learns until SIGTERM, and then writes what the peer's side writes.
PEER = """#!/bin/bash
trap 'echo "{\\"steps\\": 70}" > "$2/trained.json"
      echo "{\\"returns\\": [-2000.0, -1000.0], \\"version\\": \\"1.2\\"}" > "$2/scored.json"; exit' TERM
echo "$3" > "$2/ready"
while :; do sleep 0.02; done
"""
GIVEN = ["minutes", "--tasks", "Pendulum-v1", "--budgets", "2", "--clock", "cpu", "--out", "out"]


def test_programs_run_until_their_time_is_over_and_are_compared(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    peer = tmp_path / "peer"
    peer.write_text(PEER)
    peer.chmod(0o755)
    read = []

    def used(session):
        """Two minutes, as soon as the latest run has begun to learn."""
        read.append(session)
        logs = [path for path in tmp_path.rglob("progress.csv") if path.stat().st_size]
        begun = [*logs, *tmp_path.rglob("ready")]
        return 120.5 if len(begun) == len(list(tmp_path.rglob("output.txt"))) else 0.0

    def start(command, output, variables):
        return (
            Warm(command[2:], tmp_path, variables, output) if command[1] == "-m" else begin(command, output, variables)
        )

    begin, cores = minutes.start, []
    monkeypatch.setattr(minutes, "start", start)
    monkeypatch.setattr(minutes, "processor_seconds", used)
    monkeypatch.setattr(minutes, "our_program", lambda task, budget: "a2c --num_hidden=8")
    monkeypatch.setattr(speed.os, "sched_setaffinity", lambda process, of: cores.append(of))
    monkeypatch.setattr(
        minutes, "evaluated", lambda logs, episodes, seed: evaluate(logs, episodes=2, deterministic=True, seed=seed)
    )
    given = [*GIVEN, "--seeds", "1", "--libraries", "tfbaselines", "sbx:tqc", "--peer-python", str(peer)]
    assert main(given) == 0
    assert len(cores) == 1 and len(cores[0]) == 1
    rows = pd.read_csv("out.csv").set_index("library")
    assert rows["minutes"].tolist() == [2.01, 2.01] and rows["algorithm"].tolist() == ["tqc", "a2c --num_hidden=8"]
    assert rows.loc["sbx", ["score", "deviation", "steps", "version"]].tolist() == [-1500.0, 500.0, 70, "1.2"]
    assert -2000 < rows.loc["tfbaselines", "score"] < 0 and 0 < rows.loc["tfbaselines", "steps"] < 1e6
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| 2 |")]
    assert "tqc -1,500.0 (-1,500.0; 70 steps)<br>crossq not run |" in line and "ppo not run<br>" in line
    # Finished runs are kept; a second seed fails without the peer's Python, and a run without result begins again.
    (half,) = tmp_path.glob("logs/2min-cpu/Pendulum-v1/sbx-tqc/0/ready")
    half.with_name("result.json").unlink()
    read.clear()
    assert main([*given[:-1], str(tmp_path / "nowhere")]) == 1
    assert "sbx tqc, seed 0: " in (out := capsys.readouterr().out) and "No such file" in out and not read
    assert len(pd.read_csv("out.csv")) == 1 and not half.exists()


def test_every_task_has_a_program_for_each_budget():
    cells = minutes.cells(minutes.TASKS, minutes.BUDGETS, 2)
    ours = [cell for cell in cells if cell.library == minutes.OURS]
    assert len(ours) == 2 * 24 and [cell.seed for cell in ours] == [0] * 24 + [1] * 24
    # A named set for each, none of them the set of another budget but where it is said so.
    other = {cell.task for cell in ours if not cell.algorithm.endswith(f"={cell.budget:g}min")}
    assert not other
    assert minutes.our_program("Hopper-v5", 2) == minutes.our_program("Hopper-v5", 10)
    assert {cell.algorithm for cell in minutes.cells(["LunarLander-v3"], [10], 1, ["sb3-contrib"])} == {"trpo", "qrdqn"}


def test_the_processor_time_of_a_session_counts_all_its_processes():
    process = minutes.start(
        ["bash", "-c", "for i in {1..20000}; do :; done; read -t 60 < <(sleep 60)"], None, os.environ
    )
    end = time.monotonic() + 30
    while not (used := minutes.processor_seconds(process.pid)) and time.monotonic() < end:
        time.sleep(0.01)
    minutes.kill(process)
    assert 0 < used < 10 and minutes.processor_seconds(process.pid) == 0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--tasks", "Hopper-v4"], "unknown task 'Hopper-v4': did you mean 'Hopper-v5'"),
        (["--budgets", "0"], "budgets=0.0 is not valid: minutes above 0"),
        (["--libraries", "sb3"], "unknown library 'sb3'"),
        (["--libraries", "sbx:tqcc"], "unknown algorithm of sbx 'tqcc': did you mean 'tqc'"),
    ],
)
def test_mistakes_are_one_line(given, message, capsys):
    assert main(["minutes", *given]) == 2
    err = capsys.readouterr().err
    assert message in err and err.count("\n") == 1


def test_the_peers_settings_are_those_of_the_task_or_of_its_latest_version():
    sections = {"Ant-v3": {"n_timesteps": 3}, "Ant-v10": {"n_timesteps": 10}, "AntBulletEnv-v0": {}, "default": {}}
    assert peer_minutes.settings_of(sections, "Ant-v3") == {"n_timesteps": 3}
    assert peer_minutes.settings_of(sections, "Ant-v5") == {"n_timesteps": 10}
    with pytest.raises(LookupError, match="Hopper-v5"):
        peer_minutes.settings_of(sections, "Hopper-v5")
    # A schedule ends with the steps of the settings; without one training goes on until the time is over.
    assert peer_minutes.steps_of({"n_timesteps": "1e6", "learning_rate": "lin_1e-3"}) == 10**6
    assert peer_minutes.steps_of({"n_timesteps": 5e4, "exploration_fraction": 0.1}) == 50_000
    assert peer_minutes.steps_of({"n_timesteps": 5e4, "learning_rate": 1e-3}) == peer_minutes.ENDLESS


def test_a_signal_is_remembered():
    stop = peer_minutes.Stop()
    assert not stop.came
    stop(signal.SIGTERM, None)
    assert stop.came
