"""The page as a whole: what a directory of runs becomes."""

import json
import re

import numpy as np
import pytest

from tfbaselines.report import build
from tfbaselines.report.__main__ import main


def write_run(directory, alg, env, seed, level, rows=30, **learn):
    """A run's files as this package writes them, with returns that grow to about `level`."""
    directory.mkdir(parents=True)
    config = {"alg": alg, "env": {"env": env, "seed": seed}, "learn": learn, "host": "machine", "started": "2026-01-02"}
    (directory / "config.json").write_text(json.dumps(config | {"git_commit": {"tfbaselines": "0123456789abcdef"}}))
    steps = np.arange(1, rows + 1) * 1000
    returns = level * steps / steps[-1] + np.random.default_rng(seed).normal(0, 0.02 * level, rows)
    table = np.stack([steps, returns, steps / 500], axis=1)
    header = "misc/total_timesteps,eprewmean,misc/time_elapsed"
    np.savetxt(directory / "progress.csv", table, delimiter=",", header=header, comments="", fmt="%.6g")


@pytest.fixture
def logs(tmp_path):
    """Two algorithms on two environments, three seeds each."""
    for env, scale in (("CartPole-v1", 1.0), ("Acrobot-v1", 0.1)):
        for seed in range(3):
            write_run(tmp_path / f"logs/a2c-{env}-{seed}", "a2c", env, seed, 300 * scale)
            write_run(tmp_path / f"logs/ppo2-{env}-{seed}", "ppo2", env, seed, 450 * scale, lr=0.1)
    return tmp_path / "logs"


def data_of(page):
    return json.loads(re.search(r'<script type="application/json" id="data">(.+?)</script>', page, re.DOTALL)[1])


def test_the_page_has_curves_scores_and_comparisons(logs, capsys):
    assert main([str(logs)]) == 0
    out = logs / "report.html"
    assert capsys.readouterr().out == f"Wrote {out}\n"
    page = out.read_text()
    data = data_of(page)
    assert [method["name"] for method in data["methods"]] == ["ppo2", "a2c"]
    titles = [panel["title"] for panel in data["panels"]]
    assert titles[:2] == ["Acrobot-v1", "CartPole-v1"] and len(titles) == 5
    for panel in data["panels"][:2]:
        assert list(panel["axes"]) == ["steps", "time"]
        assert len(panel["axes"]["steps"]["runs"]) == 6 and panel["axes"]["time"]["lines"][0]["x"][-1] == 1.0
    assert "These 3 seeds cannot tell ppo2 from a2c; about 6 would" in page


def test_a_page_of_runs_that_go_on_needs_none_yet(tmp_path):
    page = build([tmp_path], tmp_path / "live.html", title="Live", refresh=5).read_text()
    assert "There are no runs yet." in page and data_of(page)["refresh"] == 5 and "<title>Live</title>" in page
