"""The suite 'zoo': published scores, our runs beside them, and the page."""

import json

import pytest

from tfbaselines.bench import table, zoo
from tfbaselines.bench.__main__ import main
from tfbaselines.cli.sections import tuned_sections


def test_rows_are_those_that_were_published():
    rows = {(row.peer, row.env): row for row in zoo.published_rows()}
    assert len(rows) == 98
    assert rows["ppo", "HalfCheetah-v5"] == (*("ppo", "HalfCheetah-v3", "ppo2", True, "HalfCheetah-v5", 5819.099, 1e6),)
    assert rows["qrdqn", "CartPole-v1"].section == "qrdqn@CartPole-v1"
    assert rows["ppo", "Acrobot-v1"].reached(-75.7) and not rows["ppo", "Acrobot-v1"].reached(-75.8)


def test_runs_have_tuned_settings_and_at_most_the_published_steps():
    found = table.cells("zoo", None, 2, None, None)
    assert [cell.seed for cell in found] == [0] * (len(found) // 2) + [1] * (len(found) // 2)
    published = {(row.alg, row.tuned, row.env): row for row in zoo.published_rows()}
    for cell in found:
        row = published[cell.alg, cell.tuned, cell.env]
        assert cell.steps <= row.steps and row.section in tuned_sections(cell.alg)
    assert {cell.env for cell in table.cells("zoo", ["ddpg"], 1, ["Pendulum-v1"], None)} == {"Pendulum-v1"}
    with pytest.raises(ValueError, match="unknown environment 'Pendulum-v0': did you mean 'Pendulum-v1'"):
        table.cells("zoo", None, 1, ["Pendulum-v0"], None)


def test_the_page_sets_finished_runs_beside_published_ones(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    cells = table.cells("zoo", ["ppo2", "deepq"], 2, ["CartPole-v1"], None)
    scores = {"ppo2": [500.0, 470.0], "deepq": [470.0, 490.0], "deepq-qrdqn": [500.0, 500.0]}
    for cell in cells:
        cell.directory("logs").mkdir(parents=True)
        row = {"alg": cell.name, "env": cell.env, "seed": cell.seed, "num_timesteps": cell.steps}
        row |= {"score": scores[cell.name][cell.seed], "minutes": 1.25, "commit": "0123456789"}
        (cell.directory("logs") / table.RESULT).write_text(json.dumps(row))
    given = ["--algs", "ppo2", "deepq", "--envs", "CartPole-v1", "--seeds=2", "--finished"]
    assert main(["table", "--suite=zoo", *given]) == 0
    out = capsys.readouterr().out
    assert "reached (at most 3% below): 2 of 98; not reached: 1; without a run: 95." in out
    ppo2, qrdqn = (
        next(line for line in out.splitlines() if line.startswith(f"| {p} | CartPole")) for p in ("ppo", "qrdqn")
    )
    assert ppo2.startswith("| ppo | CartPole-v1 | 100,000 | 500.0 | ppo2 | 100,000 | 2 | 500.0, 470.0 | 485.0 | yes |")
    assert "| deepq-qrdqn | 50,000 | 2 | 500.0, 500.0 | 500.0 | yes | 1.2 | 0123456 |" in qrdqn
    assert "| trpo | CartPole-v1 | 100,000 | 500.0 | trpo_mpi | - | - |" in out
