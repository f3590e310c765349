"""Grids of experiments as cells of a study: what cells say, and what kills, failures and repeated calls leave."""

import io
import os
import signal
import sys
import time
from functools import partial

import fake_experiments
import numpy as np
import pytest

import tfbaselines
from tfbaselines.compat import experiment_run, experiment_work, experiments
from tfbaselines.compat.experiment_cells import Experiment, NotData, arguments_of, function_named, words_of
from tfbaselines.compat.experiments import ExperimentGrid
from tfbaselines.errors import InUseError, UsageError
from tfbaselines.study.__main__ import main as study
from tfbaselines.study.store import DONE, FAILED, OPEN, Member, Study
from tfbaselines.study.worker import run_command


@pytest.fixture
def fake(monkeypatch):
    """Runs in no time."""
    monkeypatch.setattr(experiment_work, "run_command", fake_experiments.command)


def grid(**values):
    made = ExperimentGrid("g")
    for name, value in ({"env_name": "CartPole-v1", "seed": [0, 10], "clip_ratio": [0.1, 0.2]} | values).items():
        made.add(name, value, "" if name == "env_name" else None)
    return made


def tables(directory):
    return {path.parent.name: path.read_text() for path in sorted(directory.glob("g*/*/progress.txt"))}


def test_arguments_are_words_and_words_are_arguments():
    import tensorflow as tf

    arguments = {
        "ac_kwargs": {"hidden_sizes": (32, np.int64(8)), "activation": tf.tanh, "none": {}},
        "clip_ratio": np.float64(0.1),
        "target_kl": None,
        "name": "1",
        "env_fn": fake_experiments.command,
    }
    words = words_of(Experiment("e", tfbaselines.ppo_tf1, {"seed": np.int64(3), **arguments}), 2)
    assert words == {
        "alg": "ppo",
        "exp_name": "e",
        "seed": "3",
        "num_cpu": "2",
        "ac_kwargs:hidden_sizes": "(32, 8)",
        "ac_kwargs:activation": "'tanh'",
        "ac_kwargs:none": "{}",
        "clip_ratio": "0.1",
        "target_kl": "None",
        "name": "'1'",
        "env_fn": "fake_experiments:command",
    }
    assert arguments_of(words) == arguments | {"ac_kwargs": arguments["ac_kwargs"] | {"activation": "tanh"}}
    assert words_of(Experiment("e", "os.path:join", {"env_name": "A:B-v0"}))["env"] == "A:B-v0"
    for function, given, reason in (
        (tfbaselines.ppo2, {}, "the function tfbaselines.ppo2 is not given as 'module:function'"),
        (test_arguments_are_words_and_words_are_arguments, {}, "is not given as 'module:function'"),
        (tfbaselines.sac, {"env_fn": lambda: 0}, "env_fn is a function that cannot be imported by a name"),
        (tfbaselines.sac, {"seed": "x"}, "seed='x' is not a whole number"),
        (tfbaselines.sac, {"env_name": 3}, "env_name=3 is not a text"),
        (tfbaselines.sac, {"alpha": float("nan")}, "alpha=nan is not data"),
        (tfbaselines.sac, {"alpha": np.ones(2)}, "is not data"),
        (tfbaselines.sac, {"logger_kwargs": {}}, "'logger_kwargs' has another meaning"),
    ):
        with pytest.raises(NotData, match=reason):
            words_of(Experiment("e", function, given))
    for name, reason in (("os.path:nothing", "has no attribute 'nothing'"), ("nowhere_at_all:f", "No module named")):
        with pytest.raises(UsageError, match=reason):
            function_named(name)


def test_a_killed_grid_called_again_ends_as_an_undisturbed_one(tmp_path, fake, capfd):
    calm = grid().run(tfbaselines.ppo, data_dir=str(tmp_path / "calm"), jobs=2)
    names = [f"g_cli0-{value}/g_cli0-{value}_s{seed}" for seed in (0, 10) for value in (1, 2)]
    assert calm == [str(tmp_path / "calm" / name) for name in names]
    capfd.readouterr()
    directory = tmp_path / "killed"
    pid = os.fork()
    if pid == 0:
        try:
            grid().run(tfbaselines.ppo, data_dir=str(directory), jobs=2)
        finally:
            os._exit(1)
    end = time.monotonic() + 60
    while not any(table.count("\n") > 3 for name, table in tables(directory).items() if name.endswith("s10")):
        assert time.monotonic() < end
        time.sleep(0.005)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    ended = Study(directory).names(DONE)
    assert 1 <= len(ended) < 4 and tables(directory) != tables(tmp_path / "calm")
    capfd.readouterr()
    assert grid().run(tfbaselines.ppo, data_dir=str(directory), jobs=2) == [str(directory / name) for name in names]
    out = capfd.readouterr().out
    assert f"{len(ended)} of 4 runs are done already with the same arguments" in out and "; 4 of 4 runs done\n" in out
    assert out.count("running g_cli0") == 4 - len(ended)
    assert tables(directory) == tables(tmp_path / "calm") and len(tables(directory)) == 4


def test_a_repeated_call_runs_what_is_new_failed_or_removed(tmp_path, fake, capfd):
    def run(**values):
        capfd.readouterr()
        grid(clip_ratio=0.1, **values).run(tfbaselines.ppo, data_dir=str(tmp_path))
        out = capfd.readouterr().out
        return [line.rpartition(" ")[2] for line in out.splitlines() if line.startswith("running g, seed")]

    assert run(seed=[10, 0]) == ["10", "0"] and run() == []
    assert run(seed=[20, 0, 10]) == ["20"]
    (tmp_path / "g/g_s10").rename(tmp_path / "moved")
    assert run() == ["10"] and run() == []
    # Other arguments are another run, in the same directory as in Spinning Up.
    assert run(epochs=3) == ["0", "10"] and run(epochs=3) == []
    with pytest.raises(RuntimeError, match="experiment 'g' with seed 0 failed with status 2"):
        run(fail=True)
    assert Study(tmp_path).names(FAILED) == ["g_s0"] and Study(tmp_path).names(OPEN) == ["g_s10"]
    assert capfd.readouterr().err == "tfbaselines: error: boom\n"
    with pytest.raises(RuntimeError):
        grid(clip_ratio=0.1, fail=True).run(tfbaselines.ppo, data_dir=str(tmp_path), jobs=2)
    # Both may have failed.
    assert set(capfd.readouterr().err.splitlines()) == {"tfbaselines: error: boom"}
    assert (tmp_path / "g/g_s0/output.txt").read_text() == "tfbaselines: error: boom\n"
    # What a dead worker left of other arguments is replaced, and a living one is left alone.
    live = Member(Study(tmp_path)).__enter__()
    live.study.reopen("g_s10")
    assert live.take("g_s10")
    with pytest.raises(InUseError, match="g_s10' is in use: another process runs it with other arguments"):
        run(epochs=3)
    (tmp_path / "cells/workers" / live.id).write_text("{}")
    stale = partial(experiment_work.Member, stale=0.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(experiment_work, "Member", stale)
        assert run(epochs=3) == ["0", "10"]


def test_dates_in_names_stay_until_the_grid_is_done(tmp_path, fake, monkeypatch):
    def run(**values):
        made = grid(clip_ratio=0.1, **values).run(tfbaselines.ppo, data_dir=str(tmp_path), datestamp=True)
        return [os.path.basename(path) for path in made]

    moments = iter(f"2026-01-01_{hour:02d}-00-00-" for hour in range(9))
    monkeypatch.setattr("time.strftime", lambda form: next(moments) if "%H" in form else "2026-01-01_")
    first = run()
    assert first == ["2026-01-01_00-00-00-g_s0", "2026-01-01_01-00-00-g_s10"]
    assert run() == ["2026-01-01_02-00-00-g_s0", "2026-01-01_03-00-00-g_s10"]
    with pytest.raises(RuntimeError):
        run(fail=True)
    # The failed run and the one behind it keep their directories.
    with pytest.raises(RuntimeError):
        run(fail=True)
    assert len(list(tmp_path.glob("2026-01-01_g/*_s0"))) == 3
    assert Study(tmp_path).names(OPEN) == ["2026-01-01_05-00-00-g_s10"]


def test_what_is_no_cell(tmp_path, fake, monkeypatch, capsys):
    called = []
    monkeypatch.setattr(experiments, "call_experiment", lambda *args, **kwargs: called.append(args[0]))
    with pytest.raises(UsageError, match="two runs with different values of 'clip_ratio' have the directory 'g_cli0-1"):
        grid(clip_ratio=[0.1, "0.1"]).run(tfbaselines.ppo, data_dir=str(tmp_path))
    grid(env_fn=lambda: 0).run(tfbaselines.ppo, data_dir=str(tmp_path))
    assert (
        "and one runs at a time, since env_fn is a function that cannot be imported by a name\n"
        in capsys.readouterr().out
    )
    outside = grid()
    outside.name = "../g"
    outside.run(tfbaselines.ppo, data_dir=str(tmp_path / "in"))
    assert f"since the directory of '../g_cli0-1' is not inside of '{tmp_path}/in'" in capsys.readouterr().out
    grid().run("os.path:join", data_dir=str(tmp_path / "../x"), num_cpu="auto")
    assert len(called) == 8 and not (tmp_path / "cells").exists()


def trained(seed, logger_kwargs, env_fn, rate):
    print("trained", seed, os.path.basename(logger_kwargs["output_dir"]), env_fn().spec.id, rate)
    if rate < 0:
        raise UsageError("no rate")


def test_the_process_of_a_cell(tmp_path, monkeypatch, capsys):
    made = grid(clip_ratio=0.1)
    made.keys[-1], made.vals[-1] = "rate", [0.5]
    monkeypatch.setattr(experiment_work, "run_command", fake_experiments.command)
    monkeypatch.setattr(experiment_work, "work", lambda *args, **kwargs: 0)
    made.run(f"{__name__}:trained", data_dir=str(tmp_path))
    cell = next(Study(tmp_path).cells(OPEN))
    _, _, module, *words = run_command(cell, tmp_path / cell.directory)
    assert module == experiment_run.__name__ and words[-1] == f"--log_path={tmp_path}/g/g_s0"
    ended = []
    monkeypatch.setattr(experiment_run, "leave", lambda status, last: ended.append(status) or sys.exit(status))
    for changed, status in ((words, 0), ([*words, "--rate=-1"], 2)):
        capsys.readouterr()
        with pytest.raises(SystemExit):
            experiment_run.main(changed)
        assert ended.pop() == status
    said = capsys.readouterr()
    assert (
        said.out == "trained 0 g_s0 CartPole-v1 -1\n"
        and said.err == f"tfbaselines {__name__}:trained: error: no rate\n"
    )
    ranks = []
    monkeypatch.setattr(experiment_run.mpi, "start_ranks", lambda *args: ranks.append(args) or 0)
    assert experiment_run.main([*words, "--num_cpu=2"]) == 0
    assert ranks == [(2, ["-m", module, *words, "--num_cpu=2"])]
    # The study may come from a stranger.
    assert study(["work", str(tmp_path)]) == 2
    assert f"'g_s0' has --alg={__name__}:trained, and importing a module runs its code" in capsys.readouterr().err


def test_a_named_function_and_a_place_of_a_stranger_are_refused(tmp_path, capsys):
    made = Study.create(tmp_path, [])
    for name, value in (("env_fn", "os.path:join"), ("actor_critic", "'os:system'")):
        words = {"alg": "ppo", "exp_name": "e", "seed": "0", name: value}
        made.put(experiment_work.Cell("e", "e", "e/e_s0", words))
        assert study(["work", str(tmp_path)]) == 2
        assert f"'e_s0' has --{name}={value}, and importing" in capsys.readouterr().err
    for name in ("save_path", "log_path"):
        made.put(experiment_work.Cell("e", "e", "e/e_s0", {"alg": "ppo", "exp_name": "e", name: "/etc/x"}))
        assert study(["work", str(tmp_path)]) == 1
        assert f"e: failed: 'e' is damaged: its argument '{name}' is chosen by the worker" in capsys.readouterr().out


def test_several_runs_are_a_table_in_a_terminal(tmp_path, fake, monkeypatch):
    class Screen(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(experiment_work, "work", lambda *args, **kwargs: 0)
    grid(clip_ratio=0.1).run(tfbaselines.ppo, data_dir=str(tmp_path))
    made = Study(tmp_path)
    names = made.names(OPEN)
    monkeypatch.setattr(experiment_work, "EVERY", 0.0)
    monkeypatch.setattr(sys, "stdout", screen := Screen())
    terminal = experiment_work.Terminal(made, names, 2, 2)
    with Member(made) as member:
        for name in names:
            cell = member.take(name).cell
            terminal.command(cell, made.place(cell))
        terminal.watch(cell, made.place(cell))
        head, _, table = screen.getvalue().partition("2 cells, 0 done, 2 running, 0 failed, 0 open")
        assert head == "running g, seed 0\nrunning g, seed 10\n" and "\ng_s10 " in table and "\033" not in table
        terminal.hear("g_s0: done")
        # The lines of the table are removed.
        count = 1 + table.count("\n") - 1
        assert screen.getvalue().endswith(f"\033[{count}F\033[Jg_s0: done; 1 of 2 runs done, about 0 s left\n")
        terminal.hear("g_s10: failed: boom")
        assert terminal.over()
