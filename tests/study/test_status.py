"""Status and final table of a study, read from logs as runs write them."""

import json

import pytest

from tfbaselines.study import status
from tfbaselines.study.__main__ import main
from tfbaselines.study.cells import combinations
from tfbaselines.study.measures import Measured, measure, total_steps
from tfbaselines.study.store import Member, Study


def log(study, cell, steps, score, rate=100):
    """The table of a run with a row for each tenth."""
    place = study.place(cell)
    place.mkdir(parents=True)
    rows = [f"{score * i / 10},{rate},{steps * i / 10}" for i in range(1, 11)]
    (place / "progress.csv").write_text("\n".join(["eprewmean,fps,total_timesteps", *rows]) + "\n1.0,3")


@pytest.fixture
def study(tmp_path):
    """One group of three is done, one run is under way, one has failed, one is open."""
    study = Study.create(tmp_path / "s", combinations(["ppo2"], ["CartPole-v1"], 3, {"lr": ["1e-3", "3e-4"]}, "1000"))
    with Member(study) as member:
        claims = [member.claim() for _ in range(6)]
        for claim, score in zip(claims[0::2], (10.0, 20.0, 60.0), strict=True):
            log(study, claim.cell, 1000, score)
            member.finish(claim)
        log(study, claims[1].cell, 400, 50.0)
        study.place(claims[3].cell).mkdir()
        (study.place(claims[3].cell) / "output.txt").write_text("x\ntfbaselines: error: no\x1b[2J luck\n")
        member.fail(claims[3])
        member.release(claims[5])
        yield study


def test_status_shows_progress_rates_returns_and_the_time_left(study, capsys):
    assert main(["status", str(study.directory)]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    # One run of 10 s is open, and one has 6 s left.
    assert " ".join(lines[0]).endswith("s: 6 cells, 3 done, 1 running, 1 failed, 1 open; about 16 s left")
    assert lines[3][:6] == ["ppo2-CartPole-v1-lr=3e-4-s0", "400", "1,000", "100", "50.0", "6"]
    assert ["ppo2-CartPole-v1-lr=1e-3", "3/3", "100", "30.0", "10", "s"] in lines
    assert lines[-1] == ["ppo2-CartPole-v1-lr=3e-4-s1:", *[r"tfbaselines:", r"error:", r"no\x1b[2J", r"luck"]]


def test_the_view_ends_with_the_study(study, monkeypatch, capsys):
    slept = []
    monkeypatch.setattr(status.time, "sleep", slept.append)
    monkeypatch.setattr(study, "names", lambda state: [] if len(slept) > 2 else ["x"])
    status.watch(study)
    assert len(slept) == 3 and capsys.readouterr().out.count(status.CLEAR) == 4


def test_the_table_has_every_run_and_the_scores_of_groups(study, tmp_path, capsys):
    assert main(["report", str(study.directory), "--out", str(tmp_path / "out/final")]) == 0
    assert (tmp_path / "out/final.csv").read_text() == (
        "algorithm,environment,lr,seed,steps,score,minutes\n"
        "ppo2,CartPole-v1,1e-3,0,1000,10,0.17\n"
        "ppo2,CartPole-v1,1e-3,1,1000,20,0.17\n"
        "ppo2,CartPole-v1,1e-3,2,1000,60,0.17\n"
    )
    page = (tmp_path / "out/final.md").read_text()
    assert "# s: 3 of 6 runs are done" in page and page in capsys.readouterr().out
    assert "| ppo2 | CartPole-v1 | 1e-3 | 3 | 30.0 | 21.6 | 30.0 (10.0 to 60.0) | 0.2 |" in page
    empty = Study.create(tmp_path / "e", combinations(["ppo2"], ["CartPole-v1"], 1))
    assert main(["report", str(empty.directory)]) == 2 and "is done yet" in capsys.readouterr().err
    assert main(["status", str(empty.directory)]) == 0 and "no worker: study work" in capsys.readouterr().out


def test_numbers_of_every_kind_of_log(tmp_path):
    assert measure(tmp_path) == Measured()
    (tmp_path / "progress.json").write_text('{"misc/total_timesteps": 5, "eprewmean": 2, "misc/time_elapsed": 4}\n{"mi')
    assert measure(tmp_path) == Measured(5.0, 2.0, 4.0) and measure(tmp_path).rate == 1.25
    (tmp_path / "progress.txt").write_text("Epoch\tAverageEpRet\tTotalEnvInteracts\tTime\n0\t1.5\t100\t2.0\n")
    assert measure(tmp_path) == Measured(100.0, 1.5, 2.0)
    # The header has grown, and the last row is of the shorter one; a number that is not finite; no row yet.
    for content in ("a,total_timesteps,b\n1,2\n", "total_timesteps,eprewmean\nnan,nan\n"):
        (tmp_path / "progress.csv").write_text(content)
        assert measure(tmp_path) in (Measured(), Measured(100.0, 1.5, 2.0))


def test_length_of_a_run(tmp_path):
    (cell,) = combinations(["ppo2"], ["CartPole-v1"], 1)
    # Nothing is known before the run has started.
    assert total_steps(cell, tmp_path) is None
    config = {"alg": "ppo2", "given": {}, "arguments": {"num_timesteps": 1e6}, "learn": {}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert total_steps(cell, tmp_path) == 1e6
    (tmp_path / "config.json").write_text(json.dumps(config | {"alg": "vpg", "learn": {"epochs": 3}}))
    assert total_steps(cell, tmp_path) == 3 * 4000
    own = {"nb_epochs": 2, "nb_epoch_cycles": 5, "update_every": 50}
    for alg, learn, steps in (("ddpg", own, 500), ("ddpg", {"nb_epochs": 2}, None), ("os:path", {}, None)):
        (tmp_path / "config.json").write_text(json.dumps(config | {"alg": alg, "learn": learn}))
        assert total_steps(cell, tmp_path) == steps
