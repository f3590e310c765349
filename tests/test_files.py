import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfbaselines.files import drop_torn_line, write_whole


def test_write_whole_leaves_the_old_file_when_writing_fails(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    write_whole(path, "old\n")
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        write_whole(path, "new\n")
    assert path.read_text() == "old\n"
    assert os.listdir(tmp_path) == ["a.txt"]


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
