"""Every algorithm as processes: stopped by Ctrl-C and resumed, and two ranks that train one model."""

from pathlib import Path

import numpy as np
import pytest
from commands import finish, interrupt, start
from small_runs import EVERY, flags, length, rows

from tfbaselines.algs.registry import get
from tfbaselines.run import main
from tfbaselines.running.checkpoint import Checkpoints, load_tree

HERE = Path(__file__).parent
TWO_RANKS = ("mpirun", "-np", "2")


@pytest.mark.slow
@EVERY
def test_ctrl_c_saves_and_names_how_to_go_on(alg, eager, tmp_path):
    log = tmp_path / "log"
    own = {"replay_size": 100_000, "num_test_episodes": 0}
    own = {name: value for name, value in own.items() if name in set_of(alg)}
    own |= {"log_path": "log"} | length(alg, 10**6)
    process = start("tfbaselines.run", *flags(alg, **own), cwd=tmp_path, OPENAI_LOG_FORMAT="log,csv")
    interrupt(process, log, 5)
    before = rows(log)
    done = int(Checkpoints(log / "checkpoints").latest().name)
    more = [f"--{name}={value}" for name, value in length(alg, done + 10).items()]
    # Paths are not kept.
    more += [flag for flag in flags(alg) if flag.startswith("--demo_path=")]
    assert main([f"--resume={log}", *more]) == 0
    after = rows(log)
    assert len(after) > len(before) and after[: len(before)].equals(before)
    assert int(Checkpoints(log / "checkpoints").latest().name) == done + 10
    assert "starts empty" not in (log / "log.txt").read_text()
    assert (log / "0.0.monitor.csv").read_text().count("t_start") == 1


def set_of(alg):
    return set(get(alg).config.arguments())


@pytest.mark.slow
@EVERY
def test_two_ranks_train_one_model(alg, tmp_path):
    """They are stopped and resumed in between; what each has learnt is equal, what each draws is its own."""
    paths = f"{HERE}:{HERE.parent}:{HERE.parents[1]}"
    process = start("two_ranks", alg, cwd=tmp_path, launcher=TWO_RANKS, PYTHONPATH=paths)
    try:
        status, _, err = finish(process, timeout=300)
    finally:
        process.terminate()
    assert status == 0, err
    one, other = (load_tree(tmp_path / f"rank{rank}") for rank in (0, 1))
    np.testing.assert_equal(other["model"], one["model"])
    assert one["drawn"] != other["drawn"]
    latest = Checkpoints(tmp_path / "log/checkpoints").latest()
    assert latest.name == "00008" and set(load_tree(latest)["training"]["ranks"]) == {"0", "1"}
    for name in ("log.txt", "log-rank001.txt"):
        assert "starts empty" not in (tmp_path / "log" / name).read_text()
