"""One writer at a time, protection of an earlier run, and logs that are cut back to a checkpoint."""

import os
import shutil
import subprocess
import sys

import pytest

from tfbaselines.errors import InUseError
from tfbaselines.logs import directory, logger
from tfbaselines.logs.directory import clear, cut_back, has_checkpoint, holds_run, lock_again, locked, positions

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


def test_a_lock_is_taken_again_where_the_directory_was_removed(tmp_path):
    run, name = tmp_path / "run", tmp_path / "run" / directory.LOCK_NAME
    with locked(run):
        lock_again(run)
        shutil.rmtree(run)
        lock_again(run)
        process = subprocess.run([sys.executable, "-c", HOLD, str(run)], capture_output=True, text=True)
        assert "InUseError" in process.stderr and name.exists()
    assert not name.exists()


def test_a_removed_directory_belongs_to_whoever_came_first(tmp_path):
    run, name = tmp_path / "run", tmp_path / "run" / directory.LOCK_NAME
    with locked(run):
        shutil.rmtree(run)
        process = subprocess.Popen([sys.executable, "-c", HOLD, str(run)], stdout=subprocess.PIPE, text=True)
        assert process.stdout.readline() == "held\n"
        with pytest.raises(InUseError, match=f"another run is writing in it .process {process.pid} on"):
            lock_again(run)
    # The lock of the other is not removed.
    assert name.exists()
    process.kill()
    process.wait()
    # What this process has not locked is not locked again.
    lock_again(run)


@pytest.mark.parametrize(
    "name",
    [directory.LOCK_NAME, "progress.csv", "log.txt", "tb/events.out.1", "checkpoints", "replay", "replay/000", "tb"],
)
def test_links_are_not_written_through(tmp_path, name):
    precious, stranger = tmp_path / "precious.txt", tmp_path / "stranger"
    precious.write_text("mine")
    (stranger / name).parent.mkdir(parents=True)
    (stranger / name).symlink_to(precious)
    with pytest.raises(ValueError, match=rf"'{name}' in '.*stranger' is a symbolic link") as error, locked(stranger):
        pass
    assert "\n" not in str(error.value) and precious.read_text() == "mine"


@pytest.mark.parametrize("name", [directory.LOCK_NAME, "progress.csv", "log.txt", "0.0.monitor.csv", "config.json"])
def test_pipes_are_refused_instead_of_waited_for(tmp_path, name):
    os.mkfifo(tmp_path / name)
    words = rf"'{name}' in .* is a device, a pipe or a socket, which is not written to"
    with pytest.raises(ValueError, match=words), locked(tmp_path):
        pass


def test_a_lock_that_becomes_a_link_is_not_followed_either(tmp_path, monkeypatch):
    monkeypatch.setattr(directory, "_refuse_special_files", lambda *_: None)
    (tmp_path / "precious.txt").write_text("mine")
    (tmp_path / directory.LOCK_NAME).symlink_to("precious.txt")
    with pytest.raises(ValueError, match=r"is not valid: .*symbolic links"), locked(tmp_path):
        pass
    assert (tmp_path / "precious.txt").read_text() == "mine"


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


def test_what_only_looks_like_a_runs_file_is_the_users(tmp_path):
    own = ["logbook.txt", "log_book.txt", "tb_results.xlsx", "progress_report.csv", "progress.md", "sb3.monitor.csv"]
    for name in own:
        (tmp_path / name).write_text("mine")
    assert not holds_run(tmp_path)
    for name in ("config.json", "log.txt", "log-rank001.txt", "progress-rank001.json", "0.0.monitor.csv"):
        (tmp_path / name).write_text("x")
    for name in ("tb", "tb-rank001", "videos", "replay"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x").touch()
    clear(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(own)


def test_of_a_link_to_another_disk_only_the_link_is_removed(tmp_path):
    disk, run = tmp_path / "disk", tmp_path / "run"
    disk.mkdir()
    run.mkdir()
    (disk / "00001").touch()
    (run / "checkpoints").symlink_to(disk)
    (run / "videos").symlink_to(tmp_path / "gone")
    assert holds_run(run)
    clear(run)
    assert list(run.iterdir()) == [] and (disk / "00001").exists()


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


def test_a_table_without_rows_keeps_the_header_that_its_first_row_brings(tmp_path):
    logger.configure(str(tmp_path), ["csv"])
    known = positions(tmp_path)
    assert known == {"progress.csv": {"rows": 0}}
    logger.logkv("steps", 1)
    logger.dumpkvs()
    # The file that is open by the time of the cut knows its columns, and writes no second header.
    logger.configure(str(tmp_path), ["csv"], resume=True)
    cut_back(tmp_path, known)
    logger.logkv("steps", 1)
    logger.dumpkvs()
    assert (tmp_path / "progress.csv").read_text() == "steps\n1\n"


def dump(*numbers):
    for number in numbers:
        logger.logkv("loss", number)
        logger.dumpkvs()


def begin(tmp_path, resume=False):
    logger.configure(str(tmp_path), ["tensorboard"], resume=resume)
    logger.get_current().describe({"lr": 1})


def losses(tmp_path):
    frame = logger.read_tb(tmp_path / "tb")
    return dict(zip(frame.index, frame["loss"], strict=True))


def test_tensorboards_files_are_cut_back_too(tmp_path):
    """Those begun later are removed, and steps are counted on from the cut."""
    begin(tmp_path)
    dump(10, 20)
    known = positions(tmp_path)
    dump(30)
    begin(tmp_path, resume=True)
    dump(40)
    begin(tmp_path, resume=True)
    cut_back(tmp_path, known)
    dump(31, 41)
    assert losses(tmp_path) == {1: 10, 2: 20, 3: 31, 4: 41}


def test_tensorboards_rows_before_the_first_are_cut_as_well(tmp_path):
    begin(tmp_path)
    known = positions(tmp_path)
    dump(10)
    begin(tmp_path, resume=True)
    cut_back(tmp_path, known)
    dump(11)
    assert losses(tmp_path) == {1: 11}


def test_a_checkpoint_that_knows_nothing_of_tensorboard_cuts_nothing_of_it(tmp_path):
    begin(tmp_path)
    dump(10)
    begin(tmp_path, resume=True)
    cut_back(tmp_path, {"log.txt": {"bytes": 0}})
    dump(20)
    assert losses(tmp_path) == {1: 10, 2: 20}


def test_the_users_own_files_are_not_cut(tmp_path):
    names = ("logbook.txt", "progress_notes.txt", "progress-old.csv", "tb-old/events.1")
    (tmp_path / "tb-old").mkdir()
    known = positions(tmp_path)
    for name in names:
        (tmp_path / name).write_text("a\nb\nc\n")
    cut_back(tmp_path, known)
    assert {(tmp_path / name).read_text() for name in names} == {"a\nb\nc\n"}
