"""The command line as a user types it: the files it leaves, stopping, resuming, playing, several ranks."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from commands import SMALL, finish, run, run_on_ranks, start, start_shell

from tfbaselines.algs import ALGORITHMS
from tfbaselines.cli.command_line import parse, split
from tfbaselines.cli.stored import make_config
from tfbaselines.config.options import write_config
from tfbaselines.errors import NotFiniteError, UsageError
from tfbaselines.logs.directory import LOCK_NAME, make_room
from tfbaselines.logs.logger import read_csv
from tfbaselines.run import Ended
from tfbaselines.run import command as main
from tfbaselines.training.checkpoint import Checkpoints, load_tree

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


def test_a_mistake_leaves_no_directory(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.delenv("OPENAI_LOGDIR", raising=False)
    assert main([*SMALL, "--num_timesteps=64", "--nminibatches=7"]) == 2
    assert "Logging to" in capsys.readouterr().out and not list(tmp_path.glob("openai-*"))


def test_a_run_logs_to_something(capsys):
    for given in ("", ","):
        assert main([*SMALL, f"--log_format={given}"]) == 2
        assert "unknown log format in --log_format '': choose from" in capsys.readouterr().err


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
    assert "`python -m tfbaselines.evaluate LOGDIR --video DIR` records them" in out


def test_a_run_that_could_not_begin_leaves_room_for_the_corrected_one(tmp_path, capsys):
    flags = [*SMALL, "--num_timesteps=64", f"--log_path={tmp_path}"]
    (tmp_path / "notes.txt").touch()
    assert main([*flags, "--nminibatches=7"]) == 2
    assert main(["--alg=deepq", "--env=Pendulum-v1", "--num_timesteps=64", f"--log_path={tmp_path}"]) == 2
    capsys.readouterr()
    assert main(flags) == 0, capsys.readouterr().err
    assert (tmp_path / "notes.txt").exists()
    # Nothing of a run that has begun is taken back.
    assert main([*flags, "--nminibatches=7"]) == 2
    assert "holds a run" in capsys.readouterr().err


def test_a_run_whose_length_is_given_otherwise_names_what_is_next(tmp_path, capsys):
    flags = ["--alg=es", "--env=CartPole-v1", "--num_agents=2", "--num_iterations=1", "--num_test_episodes=0"]
    assert main([*flags, f"--log_path={tmp_path}"]) == 0
    out = capsys.readouterr().out
    assert f"plot it:        python -m tfbaselines.plot {tmp_path}" in out
    assert f"train it more:  python -m tfbaselines.run --resume={tmp_path} --num_iterations=2\n" in out


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
    # Those of two ranks, and from there on of three.
    assert table["global_timesteps"].tolist() == [*range(128, 1281, 128), *range(1472, 2241, 192)]
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
    script = "import os; from tfbaselines import run; run.console(os.abort)"
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


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_directory_without_a_run_keeps_everything(tmp_path, overwrite):
    own = [tmp_path / name for name in ("videos/holiday.mp4", "replay/a", "logbook.txt", "tb_results.xlsx", "tb/x")]
    for path in own:
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
    make_room(str(tmp_path), overwrite)
    assert all(path.read_text() == "mine" for path in own)


def test_resuming_what_is_no_run_is_an_error(tmp_path, capsys):
    assert main([f"--resume={tmp_path}"]) == 2
    assert "config.json" in capsys.readouterr().err


@pytest.fixture
def stored(tmp_path, monkeypatch):
    """What a command would run with; it runs nothing. 'run' in the working directory is a run, of the seed 5."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "run/checkpoints").mkdir(parents=True)
    (tmp_path / "run/checkpoints/00001").touch()
    config = make_config(parse(split(["--alg=deepq", "--seed=5", "--lr=1e-3"]), ALGORITHMS))
    del config["given"]["seed"]
    write_config(tmp_path / "run", config)
    seen = []
    monkeypatch.setattr("tfbaselines.run._run", lambda args: seen.append(args) or Ended(0))
    return seen


@pytest.mark.parametrize("words", [["--resume=auto", "--log_path=~/run"], ["--resume=~/run"]])
def test_the_home_directory_is_known_by_its_sign(stored, tmp_path, words):
    """Shells expand ~ only at the beginning of a word: --log_path=~/run comes as it is."""
    assert main(words) == 0
    (args,) = stored
    assert args.resume == args.log_path == str(tmp_path / "run") and not args.overwrite
    assert args.alg == "deepq" and args.learn["lr"] == 1e-3


def test_checkpoints_without_their_config_are_not_overwritten(stored, tmp_path, capsys):
    (tmp_path / "run/config.json").unlink()
    words = ["--resume=auto", "--log_path=run"]
    assert main(words) == 2
    assert "'run' has checkpoints, but no config.json: put it back, or give --overwrite" in capsys.readouterr().err
    assert main([*words, "--overwrite"]) == 0 and stored[0].overwrite


def test_the_sign_of_the_home_directory_is_known_in_files_too(stored, tmp_path):
    (tmp_path / "own.yaml").write_text("default: {log_path: ~/new}")
    assert main(["--config=own.yaml"]) == 0
    assert stored[0].log_path == str(tmp_path / "new")


def test_a_resumed_run_keeps_its_directory(stored, capsys):
    assert main(["--resume=run", "--log_path=other"]) == 2
    err = capsys.readouterr().err
    assert "--log_path=other: a resumed run goes on in its own directory, 'run'" in err and err.count("\n") == 1
    assert main(["--resume=run", "--log_path=./run/"]) == 0


def test_a_resumed_run_keeps_the_seed_that_was_drawn_for_it(stored):
    assert main(["--resume=run"]) == main(["--resume=run", "--seed=7"]) == 0
    assert [args.seed for args in stored] == [5, 7]


def test_a_resumed_run_keeps_the_number_of_games_that_its_machine_gave_it(stored, tmp_path, monkeypatch):
    given = ["--alg=a2c", "--env=PongNoFrameskip-v4"]
    monkeypatch.setattr("tfbaselines.cli.command_line.usable_cores", lambda: {0, 1, 2})
    write_config(tmp_path / "run", make_config(parse(split(given), ALGORITHMS)))
    monkeypatch.setattr("tfbaselines.cli.command_line.usable_cores", lambda: set(range(16)))
    assert main(["--resume=run"]) == main(["--resume=run", "--num_env=2"]) == 0
    assert [args.flags["num_env"] for args in stored] == [3, 2]


def test_the_variables_directory_is_protected_too(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("OPENAI_LOGDIR", str(tmp_path))
    seen = []
    monkeypatch.setattr("tfbaselines.run._logged", lambda *_: seen.append((tmp_path / LOCK_NAME).exists()) or Ended(0))
    assert main(["--num_timesteps=0"]) == 0
    assert seen == [True]
    (tmp_path / "config.json").write_text("{}")
    assert main(["--num_timesteps=0"]) == 2
    assert f"'{tmp_path}' holds a run: continue it with" in capsys.readouterr().err


@pytest.mark.usefixtures("eager")
def test_a_run_that_could_save_nothing_fails_but_for_its_model(tmp_path, monkeypatch, capsys):
    def full(*_):
        # As an environment may.
        os.chdir(tmp_path / "elsewhere")
        raise OSError("disk full")

    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Checkpoints, "save", full)
    assert main([*SMALL, "--num_timesteps=64", "--log_path=log", "--save_path=model"]) == 1
    assert "--resume" not in capsys.readouterr().out
    assert (tmp_path / "model").is_file()


@pytest.mark.usefixtures("eager")
def test_a_mistake_in_resuming_leaves_the_run_as_it_was(tmp_path, capsys):
    log = tmp_path / "log"
    assert main([*SMALL, "--num_timesteps=64", f"--log_path={log}"]) == 0
    before = (log / "config.json").read_text()
    assert main([f"--resume={log}", "--num_hidden=16", "--num_timesteps=128"]) == 2
    assert "another network" in capsys.readouterr().err
    assert (log / "config.json").read_text() == before
    assert main([f"--resume={log}", "--num_timesteps=128"]) == 0
    assert json.loads((log / "config.json").read_text())["given"]["num_timesteps"] == "128"


@pytest.mark.parametrize(
    ("error", "status"), [(UsageError("one"), 2), (NotFiniteError("one"), 3), (KeyboardInterrupt(), 130), (None, 0)]
)
def test_an_error_of_one_rank_ends_all(monkeypatch, error, status):
    def one_rank(argv):
        if error:
            raise error
        return Ended(status)

    aborted = []
    monkeypatch.setattr("tfbaselines.run._main", one_rank)
    monkeypatch.setattr("tfbaselines.parallel.mpi.abort_job", aborted.append)
    assert main([]) == status
    assert aborted == ([status] if error else [])


def test_a_rank_says_which_it_is(monkeypatch, capsys):
    monkeypatch.setattr("tfbaselines.parallel.mpi.launched", lambda: True)
    monkeypatch.setattr("tfbaselines.parallel.mpi.abort_on_exception", lambda: None)
    monkeypatch.setattr("tfbaselines.parallel.mpi.abort_job", lambda status: None)
    monkeypatch.setenv("PMI_RANK", "1")
    assert main(["--nstep=3"]) == 2
    assert capsys.readouterr().err.startswith("tfbaselines: rank 1: error: ")


def test_ranks_that_were_stopped_together_take_leave_of_each_other(monkeypatch):
    monkeypatch.setattr("tfbaselines.run._main", lambda argv: Ended(130))
    monkeypatch.setattr("tfbaselines.parallel.mpi.abort_job", lambda status: pytest.fail("aborted"))
    assert main([]) == 130


def test_the_command_finds_modules_where_it_is_started(tmp_path):
    """As python -m does, and the script of an installed command does not by itself."""
    (tmp_path / "my_module.py").write_text("raise ValueError('found')")
    (tmp_path / "bin").mkdir()
    script = tmp_path / "bin/tfbaselines"
    script.write_text("from tfbaselines.run import console\nconsole()\n")
    command = [sys.executable, script, "--env=my_module:Robot-v0"]
    top = {"PYTHONPATH": str(Path(__file__).parents[1])}
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=os.environ | top)
    assert done.returncode == 1 and done.stderr.strip().endswith("ValueError: found")
    first = f"tfbaselines: error: ValueError in {tmp_path / 'my_module.py'}, line 1, which is not a file of tfbaselines"
    assert done.stderr.startswith(first)


def test_the_script_at_the_top_can_be_executed(tmp_path):
    script = Path(__file__).parents[1] / "run.py"
    assert os.access(script, os.X_OK) and script.read_text().startswith("#!/usr/bin/env python3\n")


def test_a_closed_standard_error_is_no_fault(tmp_path):
    status, out, _ = finish(start_shell("python -m tfbaselines.run --print_config 2>&-", tmp_path))
    assert status == 0 and "num_timesteps" in out
