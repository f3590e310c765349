"""Workers: each cell runs once, whatever dies, and nothing is lost."""

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import commands
import pytest

from tfbaselines.study import process, store, worker
from tfbaselines.study.__main__ import main
from tfbaselines.study.cells import Cell
from tfbaselines.study.store import DONE, FAILED, OPEN, RUNNING, Member, Study
from tfbaselines.study.worker import work

# Notes its start in the log directory, waits as long as a checkpoint says, and notes its end.
SCRIPT = "echo start >> starts; trap 'echo saved; exit 143' TERM; sleep {seconds} & wait; echo end >> ends"


def cells_of(count, **words):
    return [
        Cell(f"{i:04d}", "g", f"runs/{i:04d}", {"alg": "ppo2", "env": "CartPole-v1", **words}) for i in range(count)
    ]


def shell(text):
    return lambda cell, directory: ["sh", "-c", f"cd {directory}; {text}"]


def counts(study):
    return [len(study.names(state)) for state in (OPEN, RUNNING, DONE, FAILED)]


@pytest.fixture
def study(tmp_path):
    return Study.create(tmp_path / "s", cells_of(6))


def test_each_cell_is_claimed_once(tmp_path):
    study = Study.create(tmp_path / "s", cells_of(100))

    def claim_all(_):
        with Member(study) as member:
            claims = []
            while claim := member.claim():
                claims.append(claim.cell.name)
                assert member.finish(claim)
            return claims

    with ThreadPoolExecutor(4) as pool:
        claimed = [name for names in pool.map(claim_all, range(4)) for name in names]
    assert sorted(claimed) == [f"{i:04d}" for i in range(100)] and counts(study) == [0, 0, 100, 0]


def test_a_failing_cell_is_marked_and_the_others_go_on(study, capsys):
    bad = "echo 'tfbaselines: error: boom' >&2; echo later; exit 2"
    text = f"case $PWD in *0002) {bad};; *0003) echo words; kill -9 $$;; *) echo fine >> f;; esac"
    assert work(study, 2, shell(text)) == 0
    assert counts(study) == [0, 0, 4, 2] and study.names(FAILED) == ["0002", "0003"]
    out = capsys.readouterr().out
    assert "0002: failed: tfbaselines: error: boom\n" in out and out.count("0003: ended by SIGKILL, will be") == 2
    assert "0003: failed: ended by SIGKILL 3 times without a new checkpoint" in out
    assert main(["retry", str(study.directory), "0003"]) == 0 and study.names(OPEN) == ["0003"]
    assert main(["retry", str(study.directory)]) == 0 and counts(study) == [2, 0, 4, 0]
    assert work(study, 1, shell("echo fine >> f")) == 0 and counts(study) == [0, 0, 6, 0]
    assert {path.read_text() for path in study.directory.glob("runs/*/f")} == {"fine\n"}
    assert main(["retry", str(study.directory), "0003"]) == 2
    assert "there is no cell '0003'" in capsys.readouterr().err


def test_the_ordinary_command(study):
    (cell, *_) = study.cells(OPEN)
    command = worker.run_command(cell, Path("d"))
    words = ["--alg=ppo2", "--env=CartPole-v1", "--resume=auto", "--log_path=d"]
    assert command == [sys.executable, "-m", "tfbaselines.run", *words]


def start_worker(study, seconds):
    """A worker in a process of its own, with a command that takes some time."""
    code = f"""
from tfbaselines.study.store import Study
from tfbaselines.study.worker import work
command = lambda cell, directory: ["bash", "-c", f"cd {{directory}}; " + {SCRIPT.format(seconds=seconds)!r}]
raise SystemExit(work(Study({str(study.directory)!r}), 2, command))
"""
    environment = commands.environment(PYTHONPATH=commands.SUPPORT)
    return subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True)


def started(study):
    return {path.parent.name for path in study.directory.glob("runs/*/starts")}


def test_what_dead_and_stopped_workers_leave_is_resumed(study, capsys):
    process = start_worker(study, 600)
    commands.wait_for(lambda: len(started(study)) == 2, process)
    process.kill()
    process.wait()
    assert counts(study) == [4, 2, 0, 0]
    # The runs of a killed worker end with it, and save.
    outputs = [study.directory / "runs" / name / "output.txt" for name in ("0000", "0001")]
    deadline = time.monotonic() + 60
    while sys.platform == "linux" and any("saved" not in path.read_text() for path in outputs):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert main(["status", str(study.directory)]) == 0
    assert capsys.readouterr().out.count(f" {process.pid} (dead: study work resumes it)") == 2
    # Another worker takes these cells over at once, since the process is gone.
    with Member(study) as member:
        assert [member.claim(avoid=study.names(OPEN)).cell.name for _ in range(2)] == ["0000", "0001"]
        assert member.claim(avoid=study.names(OPEN)) is None
    assert counts(study) == [6, 0, 0, 0]
    process = start_worker(study, 600)
    commands.wait_for(lambda: (study.directory / "runs/0001/starts").read_text().count("start") == 2, process)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 143 and counts(study) == [6, 0, 0, 0]
    assert not os.listdir(study.queue / store.WORKERS)
    assert work(study, 3, shell("echo end >> ends")) == 0 and counts(study) == [0, 0, 6, 0]


def test_clocks_an_hour_apart_do_not_matter(study, monkeypatch):
    """A worker of another machine lives as long as its heartbeat changes, wherever its clock stands."""
    now = [1000.0]
    monkeypatch.setattr(store.time, "monotonic", lambda: now[0])
    other, observer = Member(study), Member(study)
    monkeypatch.setattr(store, "_machine", lambda: "elsewhere")
    other.__enter__()
    monkeypatch.undo()
    monkeypatch.setattr(store.time, "monotonic", lambda: now[0])
    claim = other.claim()
    names = study.names(OPEN)
    with observer:
        for hour in (-1, 1, -2, 2):
            moment = time.time() + 3600 * hour
            os.utime(study.queue / store.WORKERS / other.id, (moment, moment))
            assert observer.claim(avoid=names) is None
            now[0] += store.STALE - 1
            assert observer.claim(avoid=names) is None
        now[0] += 2
        taken = observer.claim(avoid=names)
        assert taken.cell == claim.cell
        # The first worker finds out with its next heartbeat, and neither ends the cell.
        assert other.beat() == [claim] and not other.finish(claim)
        assert observer.finish(taken) and study.names(DONE) == [claim.cell.name]


def test_workers_of_another_user_live_as_long_as_they_beat(study, monkeypatch):
    """Where /proc hides other users' processes, a signal to one is refused."""

    def refuse(*_):
        raise PermissionError

    with Member(study) as other, Member(study) as observer:
        claim = other.claim()
        monkeypatch.setattr(store, "_process", lambda process: None)
        names = study.names(OPEN)
        with monkeypatch.context() as patch:
            patch.setattr(store.os, "kill", refuse)
            assert observer.claim(avoid=names) is None
        # Without that, the process is gone.
        assert observer.claim(avoid=names).cell == claim.cell


def test_a_lost_run_is_killed(study, monkeypatch):
    monkeypatch.setattr(store, "BEAT", 0.0)
    said = []

    def command(cell, directory):
        if cell.name == "0000" and not said:
            (path,) = (study.queue / RUNNING).glob("0000@*")
            path.rename(study.queue / DONE / "0000")
            return ["sleep", "600"]
        return ["true"]

    assert work(study, 1, command, said.append) == 0
    assert said[0] == "0000: another worker has taken it over" and counts(study) == [0, 0, 6, 0]


def test_bad_cells_and_studies_are_one_line(study, tmp_path, capsys, monkeypatch):
    (study.queue / OPEN / "0000").write_text("{")
    other = Study.create(tmp_path / "other", cells_of(2))
    os.replace(other.queue / OPEN / "0001", study.queue / OPEN / "0001")
    assert work(study, 1, shell("true")) == 0 and study.names(FAILED) == ["0000", "0001"]
    out = capsys.readouterr().out
    assert "0000: failed: '0000' is damaged" in out and f"another study, '{other.id}'" in out
    description = study.queue / store.DESCRIPTION
    description.write_text(json.dumps({"id": study.id, "version": "9.9"}))
    for words, line in (
        (["work", str(study.directory)], "is a study of tfbaselines 9.9, and this is"),
        (["work", str(tmp_path)], "is not a study"),
        (["work", str(tmp_path / "nowhere")], "the directory of a study"),
        (["work", str(other.directory), "--jobs", "0"], "jobs=0 is not valid"),
        (["new", str(other.directory), "--alg", "ppo2", "--env", "CartPole-v1"], "is a study already"),
    ):
        assert main(words) == 2
        err = capsys.readouterr().err
        assert line in err and err.count("\n") == 1, err
    named = Study.create(tmp_path / "named", cells_of(1, env="my_module:Robot-v0"))
    assert main(["work", str(named.directory)]) == 2 and "add --trust" in capsys.readouterr().err
    description.write_text("{")
    assert main(["work", str(study.directory)]) == 2 and "is damaged" in capsys.readouterr().err


def test_a_full_disk_stops_the_worker_and_fails_no_cell(study, monkeypatch, capsys):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(worker, "run_command", shell("exit 1"))
    monkeypatch.setattr(worker.Path, "write_bytes", full)
    monkeypatch.setattr(worker.work, "__defaults__", (1, worker.run_command, *worker.work.__defaults__[2:]))
    assert main(["work", str(study.directory)]) == 2
    err = capsys.readouterr().err
    assert f"'{study.directory}': no space left on device" in err and err.count("\n") == 1
    assert counts(study) == [6, 0, 0, 0]
    # It may be full before the first cell.
    monkeypatch.setattr(os, "fsync", full)
    assert main(["work", str(study.directory)]) == 2
    err = capsys.readouterr().err
    assert "no space left on device" in err and err.count("\n") == 1 and counts(study) == [6, 0, 0, 0]


def test_the_run_of_a_dead_worker_is_left_alone_while_it_saves(study):
    from tfbaselines.logs.directory import in_use, locked

    code = f"from tfbaselines.logs.directory import locked; lock = locked({str(study.directory / 'runs/0000')!r})"
    code += "; lock.__enter__(); print('locked', flush=True); input()"
    holder = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdout.readline() == "locked\n"
    with Member(study) as member:
        assert member.claim().cell.name == "0001" and in_use(study.directory / "runs/0000")
    holder.communicate("\n")
    with Member(study) as member, locked(study.directory / "runs/0003"):
        assert member.claim().cell.name == "0000"


def test_cells_are_added_once(study):
    assert [cell.name for cell in study.add(cells_of(8))] == ["0006", "0007"]
    assert not study.add(cells_of(8)) and counts(study) == [8, 0, 0, 0]
    with Member(study) as member:
        claim = member.take("0005")
        assert claim.cell.name == "0005" and member.take("0005") is None and member.finish(claim)
    assert not study.add(cells_of(6)) and study.reopen("0005", DONE) and counts(study) == [8, 0, 0, 0]


def test_a_worker_wakes_up_when_a_run_ends(monkeypatch):
    processes = [subprocess.Popen(["sleep", seconds]) for seconds in ("30", "0.2")]
    begun = time.monotonic()
    process.wait_for_end(processes, 10.0)
    assert 0.1 < time.monotonic() - begun < 5.0
    # Without an end, without processes, and without the system's call the time is that of the argument.
    begun = time.monotonic()
    process.wait_for_end(processes[:1], 0.1)
    process.wait_for_end([], 0.1)
    monkeypatch.delattr(os, "pidfd_open")
    process.wait_for_end(processes, 0.1)
    assert 0.29 < time.monotonic() - begun < 5.0
    for one in processes:
        one.kill()
        one.wait()
