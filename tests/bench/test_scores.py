"""Learning curves of runs become one table and one picture."""

import json

import pytest

from tfbaselines.bench import table as scores
from tfbaselines.bench.__main__ import main
from tfbaselines.run import command as train


def test_curves_of_runs_are_collected(tmp_path, capsys):
    for seed in (0, 1):
        flags = [f"--seed={seed}", "--nsteps=64", "--num_timesteps=640", "--num_hidden=4", "--log_interval=1"]
        assert train([*flags, f"--log_path={tmp_path / 'runs' / str(seed)}"]) == 0
    assert main(["scores", str(tmp_path / "runs"), "--out", str(tmp_path / "scores")]) == 0
    assert "CartPole-v1" in capsys.readouterr().out
    assert (tmp_path / "scores.png").stat().st_size > 1000
    curves = scores.collect([str(tmp_path / "runs")])
    assert sorted(curves["seed"].unique()) == [0, 1]
    again = scores.collect([str(tmp_path / "scores.csv"), str(tmp_path / "runs/1")])
    assert len(again) == len(curves) + (curves["seed"] == 1).sum()
    assert again.iloc[: len(curves)].to_csv() == curves.to_csv()
    final = scores.final_scores(curves)
    assert final["total_timesteps"].tolist() == [640, 640]
    assert final["mean_of_seeds"].iloc[0] == pytest.approx(final["eprewmean"].mean())


def test_a_panel_for_each_environment_with_a_curve_for_each_seed(tmp_path, monkeypatch):
    rows = ["her,Reach,0,10,0.5", "her,Reach,1,10,0.6", "sac,Cheetah,0,10,7", "sac,Cheetah,0,20,8"]
    (tmp_path / "a.csv").write_text("\n".join([",".join(scores.CURVE_COLUMNS), *rows]))
    drawn = []
    monkeypatch.setattr("tfbaselines.plot.panels.draw", lambda panels, out: drawn.extend(panels))
    scores.write_curves(scores.collect([str(tmp_path / "a.csv")]), str(tmp_path / "b"))
    assert [(panel.title, panel.ylabel) for panel in drawn] == [("Cheetah", "mean return"), ("Reach", "success rate")]
    assert [curve.label for curve in drawn[1].curves] == ["her seed 0", "her seed 1"]
    assert drawn[0].curves[0].x.tolist() == [10, 20] and drawn[0].curves[0].y.tolist() == [7, 8]


def test_runs_with_other_settings_are_other_curves(tmp_path):
    for number, (lr, seed) in enumerate([(0.1, 0), (0.1, 1), (0.2, 0), (0.2, 1), (0.2, 1)]):
        run = tmp_path / str(number)
        run.mkdir()
        config = {"alg": "a2c", "env": {"env": "CartPole-v1", "seed": seed}, "learn": {"lr": lr}}
        (run / "config.json").write_text(json.dumps(config))
        (run / "progress.csv").write_text(f"misc/total_timesteps,eprewmean\n10,{number}\n20,{number + 1}\n")
    curves = scores.collect([str(tmp_path)])
    final = scores.final_scores(curves)
    assert final["settings"].tolist() == ["lr=0.1", "lr=0.1", "lr=0.2", "lr=0.2", "lr=0.2 run 2"]
    assert final["eprewmean"].tolist() == [1, 2, 3, 4, 5] and final["mean_of_seeds"].tolist() == [1.5, 1.5, 3.5, 3.5, 5]
    table, _ = scores.write_curves(curves, str(tmp_path / "out"))
    assert scores.collect([str(table)]).equals(curves)
    labels = [curve.label for curve in scores._panel("CartPole-v1", curves).curves]
    assert labels[0] == "a2c lr=0.1 seed 0" and len(set(labels)) == 5


def test_no_runs_is_an_error(tmp_path, capsys):
    assert main(["scores", str(tmp_path)]) == 2
    assert "no runs" in capsys.readouterr().err


def test_another_table_is_refused(tmp_path, capsys):
    (tmp_path / "a.csv").write_text("r,l,t\n1,2,3\n")
    assert main(["scores", str(tmp_path / "a.csv")]) == 2
    assert "is not a table of scores" in capsys.readouterr().err
