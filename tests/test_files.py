import os
import secrets
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfbaselines.files import check_can_be_written, drop_torn_line, put_back, replace_directory, write_whole
from tfbaselines.training.checkpoint import save_tree


def test_write_whole_leaves_the_old_file_when_writing_fails(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    write_whole(path, "old\n")
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        write_whole(path, "new\n")
    assert path.read_text() == "old\n"
    assert os.listdir(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("write", [lambda path: write_whole(path, "new"), lambda path: save_tree(path, {"new": 1})])
def test_scratch_files_are_new_and_their_names_cannot_be_guessed(tmp_path, monkeypatch, write):
    """A link under a name that can be guessed would be written through."""
    seen = []
    replace = os.replace
    monkeypatch.setattr(os, "replace", lambda old, new: (seen.append(Path(old).name), replace(old, new)))
    for _ in range(2):
        write(tmp_path / "a.txt")
    assert len(set(seen)) == 2 and not any(str(os.getpid()) in name for name in seen)
    monkeypatch.setattr(secrets, "token_hex", lambda _: "known")
    (tmp_path / "precious").write_text("mine")
    (tmp_path / ".a.txt.known.tmp").symlink_to("precious")
    with pytest.raises((OSError, ValueError), match="exists"):
        write(tmp_path / "a.txt")
    assert (tmp_path / "precious").read_text() == "mine"


def of_kind(path, kind):
    """Make what is no regular file; the device has the numbers of /dev/full, which need no root to look at."""
    if kind == "link":
        (path.parent / "mine").write_text("mine")
        path.symlink_to("mine")
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(os.path.relpath(path))
    else:
        path = Path("/dev/full")
    return path


@pytest.mark.parametrize("kind", ["link", "pipe", "socket", "device"])
@pytest.mark.parametrize(
    "write", [write_whole, save_tree, lambda path, _: check_can_be_written("save_path", str(path))]
)
def test_what_is_no_regular_file_is_not_replaced(tmp_path, monkeypatch, kind, write):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "replace", pytest.fail)
    path = of_kind(tmp_path / "out", kind)
    kind, number = os.lstat(path).st_mode, os.lstat(path).st_ino
    with pytest.raises(ValueError, match="give the name of a file") as error:
        write(path, {} if write is save_tree else "text")
    assert "\n" not in str(error.value) and (kind, number) == (os.lstat(path).st_mode, os.lstat(path).st_ino)


@given(st.lists(st.integers(0, 6000), max_size=3), st.integers(0, 9000))
def test_only_the_torn_last_line_is_dropped(tmp_path_factory, whole, torn):
    path = tmp_path_factory.mktemp("torn") / "log"
    kept = b"".join(b"x" * length + b"\n" for length in whole)
    path.write_bytes(kept + b"y" * torn)
    drop_torn_line(path)
    assert path.read_bytes() == kept


def test_a_missing_file_stays_missing(tmp_path):
    drop_torn_line(tmp_path / "none")
    assert not os.listdir(tmp_path)


def make_directory(path, text):
    path.mkdir()
    (path / "a.txt").write_text(text)
    return path


def test_a_directory_takes_the_place_of_another(tmp_path):
    for text in ("old", "new"):
        replace_directory(tmp_path / "d", make_directory(tmp_path / "scratch", text))
        assert os.listdir(tmp_path) == ["d"]
        assert (tmp_path / "d/a.txt").read_text() == text


def test_a_crash_at_any_moment_leaves_the_old_directory_or_the_new_one(tmp_path, monkeypatch):
    """Each system call that changes the disk fails once, as if the process had been killed there."""

    class Killed(BaseException):
        pass

    def dies_at(call):
        count = iter(range(99))

        def wrap(function):
            def wrapped(*args, **kwargs):
                if next(count) == call:
                    raise Killed
                return function(*args, **kwargs)

            return wrapped

        return wrap

    real = {name: getattr(os, name) for name in ("rename", "rmdir", "unlink")}
    seen = set()
    for call in range(9):
        place = make_directory(tmp_path / f"{call}", "").joinpath("d")
        replace_directory(place, make_directory(tmp_path / f"{call}/one", "old"))
        scratch = make_directory(tmp_path / f"{call}/two", "new")
        wrap = dies_at(call)
        with monkeypatch.context() as patch:
            for name, function in real.items():
                patch.setattr(os, name, wrap(function))
            try:
                replace_directory(place, scratch)
                died = False
            except Killed:
                died = True
        put_back(place)
        seen.add((died, (place / "a.txt").read_text()))
        replace_directory(place, make_directory(tmp_path / f"{call}/three", "next"))
        assert (place / "a.txt").read_text() == "next"
        assert {path.name for path in place.parent.iterdir()} <= {"a.txt", "d", "two"}
    assert seen == {(True, "old"), (True, "new"), (False, "new")}


def test_there_may_be_nothing_to_put_back(tmp_path):
    put_back(tmp_path / "none")
    assert not os.listdir(tmp_path)
