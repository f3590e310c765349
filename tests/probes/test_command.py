"""`tfbaselines doctor RUN --probe`, as it is typed."""

import json

import pytest

from tfbaselines.__main__ import main
from tfbaselines.config.options import write_config
from tfbaselines.probes import examination, series
from tfbaselines.probes.signs import Sign


@pytest.fixture
def run(tmp_path):
    """A run that ended before its first checkpoint, of an environment that drops the actions."""
    env = {
        "env": "tests.probes.toys:tests/Mass-v0",
        "num_env": 2,
        "env_kwargs": {"fault": "ignored"},
        "normalize": False,
    }
    document = {"alg": "ppo2", "network": "mlp", "learn": {"nsteps": 16, "gamma": 0.99}, "env": env, "given": {}}
    write_config(tmp_path, document)
    (tmp_path / "progress.csv").write_text("misc/total_timesteps,eprewmean\n32,1.0\n")
    return tmp_path


def test_findings_of_files_and_probes(run, capsys, monkeypatch):
    # The later probes train: tests/probes/test_learning.py has them.
    monkeypatch.setattr(series, "PROBES", [*series.PROBES[:7], series.PROBES[7]])
    assert main(["doctor", str(run), "--probe", "--trust", "--json"]) == 0
    out, err = capsys.readouterr()
    report = json.loads(out)
    assert report["findings"][0]["rule"] == "actions_ignored"
    assert report["findings"][0]["causes"] == ["actions_ignored"]
    assert "wrappers" in report["probes"]
    assert "no checkpoint" in report["not_probed"]["policy"]
    lines = [line for line in err.splitlines() if line.startswith("probe ")]
    assert lines[0].startswith("probe 1/8 the interface: ")
    assert len(lines) == 8
    assert main(["doctor", str(run), "--probe", "--trust"]) == 0
    out = capsys.readouterr().out
    assert "1. Actions have no effect (surely, 0.97)" in out
    assert "Not probed: policy: there is no checkpoint" in out


def test_bad_input_is_one_line(run, tmp_path, capsys):
    assert main(["doctor", str(run), "--probe"]) == 2
    assert "add --trust" in capsys.readouterr().err
    document = json.loads((run / "config.json").read_text())
    write_config(run, document | {"env": {}})
    assert main(["doctor", str(run), "--probe"]) == 2
    err = capsys.readouterr().err
    assert "were not made from an id" in err
    assert len(err.splitlines()) == 1
    (run / "config.json").unlink()
    assert main(["doctor", str(run), "--probe"]) == 2
    assert "has no config.json" in capsys.readouterr().err


def test_failures_of_a_probe_and_the_end_of_time_are_reported(run):
    def broken(patient, end):
        yield Sign("weights", "1", 0.5)
        raise RuntimeError("the simulator\ngave up")

    probes = [examination.Probe("broken", broken, 1.0), examination.Probe("late", broken, 1.0)]
    lines = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(series, "PROBES", probes)
        found = examination.examine(str(run), True, announce=lines.append)
        assert found.lacking == dict.fromkeys(("broken", "late"), "RuntimeError: the simulator gave up")
        assert [one.rule for one in found.findings] == ["weights"]
        assert (
            examination.examine(str(run), True, seconds=0.0, announce=lines.append).lacking["late"]
            == "the time was over"
        )
    assert len(lines) == 2


def test_consequences_fall_behind_a_sure_cause():
    cause, consequence = Sign("actions_ignored", "", 0.95), Sign("one_action", "", 0.9)
    assert [sign.certainty for sign in examination.best([consequence, cause])] == [0.95, 0.5]
    assert examination.best([consequence, consequence._replace(certainty=0.2)]) == [consequence]
