"""Every algorithm as processes: stopped by Ctrl-C and resumed, and two ranks that train one model."""

import os
import signal

import numpy as np
import pytest
from commands import SUPPORT, run_on_ranks
from small_runs import EVERY, flags, length, rows

from tfbaselines.algs import ALGORITHMS, get
from tfbaselines.run import command as main
from tfbaselines.training.checkpoint import Checkpoints, load_tree
from tfbaselines.training.run import Run

# Processes take longer to start than to train.
GROUP = 9
GROUPS = [list(ALGORITHMS)[i : i + GROUP] for i in range(0, len(ALGORITHMS), GROUP)]


@EVERY
def test_ctrl_c_saves_and_names_how_to_go_on(alg, eager, tmp_path, monkeypatch, capsys):
    """In this process: tests/support/faults.py does it to processes."""
    log, finish_update = tmp_path / "log", Run.finish_update

    def interrupted(run, row):
        if run.update == 5:
            os.kill(os.getpid(), signal.SIGINT)
        finish_update(run, row)

    monkeypatch.setattr(Run, "finish_update", interrupted)
    monkeypatch.setenv("OPENAI_LOG_FORMAT", "log,csv")
    own = {"replay_size": 100_000, "num_test_episodes": 0}
    own = {name: value for name, value in own.items() if name in set_of(alg)}
    own |= {"log_path": log} | length(alg, 10**6)
    assert main(flags(alg, **own)) == 128 + signal.SIGINT
    assert f"to continue: python -m tfbaselines.run --resume={log}" in capsys.readouterr().out
    before = rows(log)
    assert int(Checkpoints(log / "checkpoints").latest().name) == 5
    more = [f"--{name}={value}" for name, value in length(alg, 15).items()]
    # Paths are not kept.
    more += [flag for flag in flags(alg) if flag.startswith("--demo_path=")]
    assert main([f"--resume={log}", *more]) == 0
    after = rows(log)
    assert len(after) > len(before) and after[: len(before)].equals(before)
    assert int(Checkpoints(log / "checkpoints").latest().name) == 15
    assert "starts empty" not in (log / "log.txt").read_text()
    assert (log / "0.0.monitor.csv").read_text().count("t_start") == 1


def set_of(alg):
    return set(get(alg).config.arguments())


@pytest.mark.slow
@pytest.mark.parametrize("algs", GROUPS, ids="-".join)
def test_two_ranks_train_one_model(algs, tmp_path):
    """They are stopped and resumed in between; what each has learnt is equal, what each draws is its own."""
    status, _, err = run_on_ranks("two_ranks", *algs, cwd=tmp_path, timeout=600, PYTHONPATH=SUPPORT)
    assert status == 0, err
    for alg in algs:
        one, other = (load_tree(tmp_path / alg / f"rank{rank}") for rank in (0, 1))
        np.testing.assert_equal(other["model"], one["model"])
        assert one["drawn"] != other["drawn"], alg
        latest = Checkpoints(tmp_path / alg / "checkpoints").latest()
        assert latest.name == "00004" and set(load_tree(latest)["training"]["ranks"]) == {"0", "1"}
        for name in ("log.txt", "log-rank001.txt"):
            assert "starts empty" not in (tmp_path / alg / name).read_text()
