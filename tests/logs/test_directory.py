"""One writer at a time, protection of an earlier run, and logs that are cut back to a checkpoint."""

import subprocess
import sys

import pytest

from tfbaselines.logs import directory, logger
from tfbaselines.logs.directory import clear, cut_back, has_checkpoint, holds_run, locked, positions

HOLD = """
import sys, time
from tfbaselines.logs.directory import locked
with locked(sys.argv[1]):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def other_process(tmp_path):
    """Another process that holds the directory's lock."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()


def test_a_locked_directory_names_who_writes_in_it(tmp_path, other_process):
    with pytest.raises(ValueError, match=rf"is in use: .*process {other_process.pid} on"), locked(tmp_path):
        pass


def test_a_lock_ends_with_its_process(tmp_path, other_process):
    other_process.kill()
    other_process.wait()
    with locked(tmp_path):
        assert (tmp_path / directory.LOCK_NAME).exists()
    assert not (tmp_path / directory.LOCK_NAME).exists()


def test_one_process_may_lock_twice(tmp_path):
    with locked(tmp_path), locked(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["config.json", "progress.csv", "checkpoints/00001", "progress.txt"])
def test_what_a_run_leaves_is_recognised_and_removed(tmp_path, name):
    assert not holds_run(tmp_path)
    mine = tmp_path / "notes.md"
    mine.write_text("mine")
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("x")
    assert holds_run(tmp_path)
    clear(tmp_path)
    assert not holds_run(tmp_path) and mine.read_text() == "mine"


def test_a_run_can_be_continued_from_its_config_and_a_checkpoint(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / ".00003.1.tmp").write_text("")
    assert not has_checkpoint(tmp_path)
    (tmp_path / "checkpoints" / "00003").write_text("")
    assert has_checkpoint(tmp_path)


def test_logs_are_cut_back_to_where_they_stood(tmp_path):
    """Also when a table's header has grown since, and when a file came later."""
    monitor = tmp_path / "0.0.monitor.csv"
    monitor.write_bytes(b'# {"t_start": 1.0} \nr,l,t\r\n1.0,5,0.1\r\n')
    logger.configure(str(tmp_path), ["csv", "json", "log"])
    logger.logkv("steps", 1)
    logger.dumpkvs()
    known = positions(tmp_path)
    with open(monitor, "ab") as file:
        file.write(b"2.0,5,0.2\r\n")
    late = tmp_path / "0.1.monitor.csv"
    late.write_bytes(b'# {"t_start": 1.0} \nr,l,t\r\n1.0,5,0.1\r\n')
    for step in (2, 3):
        logger.logkvs({"steps": step, "later": 1})
        logger.dumpkvs()
    cut_back(tmp_path, known)
    assert (tmp_path / "progress.csv").read_text() == "steps,later\n1,\n"
    assert (tmp_path / "progress.json").read_text().count("\n") == 1
    assert "3" not in (tmp_path / "log.txt").read_text().split("steps", 1)[1]
    assert monitor.read_bytes().endswith(b"1.0,5,0.1\r\n") and late.read_bytes().endswith(b"r,l,t\r\n")
    # What is written next stands after the cut.
    logger.logkvs({"steps": 2, "later": 5})
    logger.dumpkvs()
    assert (tmp_path / "progress.csv").read_text() == "steps,later\n1,\n2,5\n"
