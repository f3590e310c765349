"""The command line as a user types it: the files it leaves, stopping, resuming, playing, several ranks."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from commands import SMALL, finish, run, run_on_ranks, start

from tfbaselines.logs.logger import read_csv
from tfbaselines.run import main
from tfbaselines.running.checkpoint import Checkpoints, load_tree

RUN = "tfbaselines.run"


def rows(directory):
    return read_csv(directory / "progress.csv").drop(columns=["fps", "misc/time_elapsed"])


def test_a_run_leaves_its_files(tmp_path):
    status, out, err = run(RUN, *SMALL, "--num_timesteps=320", "--log_path=log", "--save_path=model", cwd=tmp_path)
    assert status == 0, err
    assert out.startswith(f"Logging to {tmp_path / 'log'}")
    assert "100%" in err
    assert "oneDNN" not in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log", "model"]
    files = sorted(path.name for path in (tmp_path / "log").iterdir())
    assert files == ["0.0.monitor.csv", "checkpoints", "config.json", "log.txt", "progress.csv"]
    config = json.loads((tmp_path / "log/config.json").read_text())
    assert config["given"]["nsteps"] == "64"
    assert config["learn"]["nsteps"] == 64
    assert config["env"]["env"] == "CartPole-v1"
    assert config["versions"]["tensorflow"]
    assert load_tree(tmp_path / "model")["config"]["alg"] == "ppo2"


def test_a_seed_that_was_not_given_is_noted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main([*SMALL[:-1], "--num_timesteps=0", "--log_path=log"]) == 0
    assert isinstance(json.loads((tmp_path / "log/config.json").read_text())["env"]["seed"], int)


def test_the_logs_go_where_the_variable_says_unless_a_path_is_given(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_LOGDIR", str(tmp_path / "variable"))
    monkeypatch.setenv("OPENAI_LOG_FORMAT", "csv,json,tensorboard")
    assert main([*SMALL, "--num_timesteps=64"]) == 0
    assert {"progress.csv", "progress.json", "tb"} <= {path.name for path in (tmp_path / "variable").iterdir()}
    assert main([*SMALL, "--num_timesteps=64", f"--log_path={tmp_path / 'flag'}"]) == 0
    assert (tmp_path / "flag/progress.csv").exists()


def test_a_saved_model_is_loaded_and_played(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    assert main([*SMALL, "--num_timesteps=320", "--save_path=model", "--log_path=a"]) == 0
    assert main([*SMALL, "--num_timesteps=0", "--load_path=model", "--play", "--log_path=b"]) == 0
    out = capsys.readouterr().out
    assert out.count("episode_rew=") == 10
    assert "no display" in out
    assert "--save_video_interval" in out


def test_videos_are_recorded(tmp_path):
    flags = ["--num_timesteps=320", "--save_video_interval=100", "--save_video_length=20", f"--log_path={tmp_path}"]
    assert main([*SMALL, *flags]) == 0
    videos = list((tmp_path / "videos").glob("vecenv.video.*"))
    assert len(videos) >= 2
    assert all(path.stat().st_size > 0 for path in videos)


@pytest.mark.slow
def test_several_ranks_leave_the_files_of_one_run_and_another_number_goes_on(tmp_path):
    flags = ["--num_timesteps=640", "--log_interval=1", "--log_path=log", "--cpu=2"]
    status, _, err = run(RUN, *SMALL, *flags, cwd=tmp_path)
    assert status == 0, err
    log = tmp_path / "log"
    assert {path.name for path in log.iterdir()} == {
        "0.0.monitor.csv",
        "1.0.monitor.csv",
        "checkpoints",
        "config.json",
        "log.txt",
        "log-rank001.txt",
        "progress.csv",
    }
    assert json.loads((log / "config.json").read_text())["ranks"] == 2
    # Each rank has a random stream of its own, kept in the one checkpoint.
    ranks = load_tree(Checkpoints(log / "checkpoints").latest())["training"]["ranks"]
    assert ranks["0"]["rng"] != ranks["1"]["rng"]
    assert err.count("100%") == 1
    assert rows(log)["global_timesteps"].iloc[-1] == 2 * 640
    text = (log / "log.txt").read_text()
    assert "ranks: 2, hosts: 1, environments in all: 2, threads a rank: " in text and "ranks exchange batches" in text
    three = start(RUN, "--resume=log", "--num_timesteps=960", cwd=tmp_path, launcher=("mpirun", "-np", "3"))
    status, _, err = finish(three)
    assert status == 0, err
    table = rows(log)
    assert table["misc/total_timesteps"].tolist() == list(range(64, 961, 64))
    assert table["global_timesteps"].iloc[-1] == 3 * 960
    assert len(load_tree(Checkpoints(log / "checkpoints").latest())["training"]["ranks"]) == 3


def test_without_mpirun_one_line_names_what_to_install(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("shutil.which", lambda *args, **kwargs: None)
    assert main(["--cpu=2"]) == 2
    assert capsys.readouterr().err.strip().endswith("there is no mpirun to start ranks with: pip install mpich mpi4py")


@pytest.mark.slow
def test_a_mistake_on_several_ranks_ends_all_of_them(tmp_path):
    status, _, err = run_on_ranks(RUN, *SMALL, "--nminibatches=7", cwd=tmp_path, timeout=60)
    assert status != 0
    assert "nminibatches=7 is not valid" in err


def test_the_script_at_the_top_is_the_same_command(tmp_path):
    script = Path(__file__).parents[1] / "run.py"
    done = subprocess.run([sys.executable, script, "--help"], capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout == run(RUN, "--help", cwd=tmp_path)[1]


def test_a_crash_of_a_library_shows_where_python_was(tmp_path):
    script = "import os; from tfbaselines import run; run.main = lambda: os.abort(); run.console()"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == -signal.SIGABRT
    assert "Fatal Python error: Aborted" in done.stderr and "in console" in done.stderr


def test_help_is_quick_and_without_tensorflow(tmp_path):
    start_time = time.monotonic()
    status, out, _ = run(RUN, "--alg=ppo2", "--help", cwd=tmp_path, PYTHONPROFILEIMPORTTIME="")
    assert status == 0
    # The bar is a second on an idle machine.
    assert time.monotonic() - start_time < 3
    assert "--cliprange" in out


def test_resuming_what_is_no_run_is_an_error(tmp_path, capsys):
    assert main([f"--resume={tmp_path}"]) == 2
    assert "config.json" in capsys.readouterr().err
