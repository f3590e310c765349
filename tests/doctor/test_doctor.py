"""`tfbaselines doctor RUN`: runs of several libraries, spoiled runs, hostile files, and a process of its own."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.doctor.judge import findings_of, place_of
from tests.doctor.spoiled import cases
from tfbaselines.doctor.__main__ import defaults, main
from tfbaselines.doctor.examine import examine_directory

DATA = Path(__file__).parent / "data" / "spoiled.zip"
ROOT = Path(__file__).parents[2]


def written(directory, **files):
    directory.mkdir(exist_ok=True)
    for name, content in files.items():
        (directory / name.replace("__", ".")).write_bytes(content if isinstance(content, bytes) else content.encode())
    return directory


def rules_of(directory):
    return {found.rule: found for found in examine_directory(str(directory), defaults).findings}


def table(columns, rows, separator=","):
    return "\n".join([separator.join(columns), *(separator.join(map(str, row)) for row in rows)]) + "\n"


def test_true_causes_of_spoiled_runs_come_first_or_second(tmp_path):
    """One seed of each way under each algorithm; tests/doctor/judge.py has the places of all seeds."""
    with zipfile.ZipFile(DATA) as archive:
        archive.extractall(tmp_path)
    there = [case for case in cases() if (tmp_path / case.name).is_dir()]
    assert len(there) > 60
    findings = {case: findings_of(tmp_path / case.name) for case in there}
    places = [place_of(case.cause, found) for case, found in findings.items() if case.way]
    assert sum(place in (1, 2) for place in places) / len(places) >= 0.6
    healthy = [one for case, found in findings.items() if not case.way for one in found if one["sure"] == "surely"]
    assert len(healthy) <= 1


def test_runs_of_other_libraries_are_read(tmp_path, capsys):
    columns = (
        "time/total_timesteps",
        "train/approx_kl",
        "train/entropy_loss",
        "train/learning_rate",
        "train/value_loss",
    )
    rows = [(2048 * row, 3.5, -0.6, 0.1, "" if row == 1 else 9.0) for row in range(1, 13)]
    monitor = '#{"t_start": 1.0, "env_id": "CartPole-v1"}\nr,l,t\n' + "".join(f"-{n},{n},{n}\n" for n in range(20, 60))
    peer = written(tmp_path / "peer", progress__csv=table(columns, rows), monitor__csv=monitor)
    found = rules_of(peer)
    assert found["kl_high"].quantity == "train/approx_kl"
    assert found["kl_high"].remedy == ""
    assert {"rate_high", "sign_turned"} <= found.keys()
    config = {"env_name": "Pendulum-v1", "gamma": 0.1, "polyak": 1.0, "pi_lr": 1e-3, "exp_name": "sick"}
    columns = ("Epoch", "TotalEnvInteracts", "AverageEpRet", "EpLen", "AverageQVals", "LossQ")
    rows = [(row, 4000 * row, -1200 + row % 3, 200, -0.1, 0.01) for row in range(12)]
    files = {"progress__txt": table(columns, rows, "\t"), "config__json": json.dumps(config)}
    assert {"discount_low", "target_still"} <= rules_of(written(tmp_path / "spinning", **files)).keys()
    assert main([str(peer), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["findings"][0]["sure"] == "surely"
    assert document["env"] == "CartPole-v1" and document["read"] == ["progress.csv", "monitor.csv"]
    assert "clip_fraction" in document["lacking"]


def test_broken_files_are_a_line_each(tmp_path, capsys):
    good = table(("misc/total_timesteps", "loss/approxkl"), [(1000 * row, 2.0) for row in range(1, 9)])
    for name, files in {
        "torn": {"progress__csv": good + "9000,"},
        "bytes": {"progress__csv": good, "monitor__csv": bytes(range(256)) * 9},
        "quotes": {"progress__csv": good, "0__0__monitor__csv": '#{"env_id": [1]}\nr,l,t\n"1,2,3\n' + "x" * 200_000},
        "config": {"progress__csv": good, "config__json": "[" * 10_000},
        "types": {"progress__csv": good, "config__json": '{"alg": 3, "env": [1], "learn": {"lr": {}, "gamma": "x"}}'},
        "infinite": {"progress__csv": good + "9000,inf\n-inf,1e999\n"},
    }.items():
        assert "kl_high" in rules_of(written(tmp_path / name, **files)), name
    for name, files in {
        "none": {},
        "binary": {"progress__csv": b"\x00\xff" * 999},
        "bare": {"config__json": "{"},
    }.items():
        status = main([str(written(tmp_path / name, **files))])
        captured = capsys.readouterr()
        assert (status == 0 and "Nothing found" in captured.out) or (status == 2 and captured.err.count("\n") == 1), (
            name
        )
    assert main([str(tmp_path / "missing")]) == 2
    assert "is not a directory: give the log directory of a run" in capsys.readouterr().err


@pytest.fixture(scope="module")
def long_run(tmp_path_factory):
    """Ten million steps: 5,000 rows, and half a million episodes of eight copies."""
    directory = tmp_path_factory.mktemp("long")
    columns = ("misc/total_timesteps", "loss/approxkl", "loss/policy_entropy", "misc/explained_variance", "eprewmean")
    rows = [(2000 * row, 0.01, 0.5, 0.9, 20 + row / 100) for row in range(1, 5001)]
    episodes = "".join(f"{20 + n // 1000}.0,20,{n}.123456\n" for n in range(62_500))
    header = '# {"t_start": 1.0, "env_id": "CartPole-v1"}\nr,l,t\n'
    files = {f"0__{number}__monitor__csv": header + episodes for number in range(8)}
    return written(directory, progress__csv=table(columns, rows), config__json='{"alg": "ppo2"}', **files)


def test_a_fresh_process_loads_no_tensorflow_and_thins_a_long_run(long_run):
    code = """if True:
        import sys
        from tfbaselines.__main__ import main
        status = main(["doctor", sys.argv[1]])
        loaded = {"tensorflow", "keras", "pandas", "matplotlib"} & sys.modules.keys()
        sys.exit(f"loaded {loaded}" if loaded else status)
    """
    done = subprocess.run([sys.executable, "-c", code, str(long_run)], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "10,000,000 steps, 31,256 episodes read" in done.stdout
    assert "11 rules were not applied" in done.stdout
