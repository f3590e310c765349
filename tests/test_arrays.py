"""Files of arrays from strangers: no mutation of them gives anything but the arrays or one line, in bounded memory."""

import io
import json
import os
import subprocess
import sys
import zipfile

import numpy as np
import pytest
from commands import SUPPORT
from mutations import HEADERS, mutations, refused_or_read

from tfbaselines import files as arrays
from tfbaselines import files as memory
from tfbaselines.errors import UsageError
from tfbaselines.files import as_declared, map_array, parse_document, read_archive
from tfbaselines.training.checkpoint import TREE_ENTRY, load_tree, save_tree

TREE = {
    "format": "x",
    "weights": {"00": np.arange(24.0).reshape(2, 3, 4), "01": np.arange(5, dtype=np.float32)},
    "text": np.array(["a", "bc"]),
    "list": [1, 2.5, None, {"a": np.zeros((0, 3), bool)}],
}


def npy(header, data=bytes(192)):
    """A .npy file with a header of one's own."""
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + data


def npy_of(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def archive(members, compression=zipfile.ZIP_STORED):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as zipped:
        for name, data in members.items():
            zipped.writestr(f"{name}.npy", data)
    return file.getvalue()


def document(text):
    return npy_of(np.frombuffer(text, np.uint8))


def fuzz(directory, count, seed=0):
    """Load `count` mutations of a saved tree."""
    path = os.path.join(directory, "model")
    save_tree(path, TREE)
    with open(path, "rb") as file:
        whole = file.read()
    read = 0
    for data in mutations(whole, count, seed):
        with open(path, "wb") as file:
            file.write(data)
        read += refused_or_read(load_tree, path)
    assert read < count / 2


# Loads a file in a process that may take 1.5 GiB of address space; prints the error and the most that it took.
LIMITED = """
import os, resource, sys
from tfbaselines.errors import UsageError
from tfbaselines.training.checkpoint import load_tree
if sys.argv[1] == "fuzz":
    sys.path[:0] = sys.argv[3].split(os.pathsep)
    from test_arrays import fuzz
    resource.setrlimit(resource.RLIMIT_AS, (3 * 2**29, 3 * 2**29))
    fuzz(sys.argv[2], int(sys.argv[4]), seed=1)
else:
    resource.setrlimit(resource.RLIMIT_AS, (3 * 2**29, 3 * 2**29))
    try:
        load_tree(sys.argv[2])
    except UsageError as error:
        print(error)
print(next(int(line.split()[1]) // 1024 for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


def limited(*arguments):
    """The lines that it prints: the last one is MiB."""
    command = [sys.executable, "-c", LIMITED, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1000)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_two_thousand_mutations_of_a_model(tmp_path):
    fuzz(tmp_path, 2000)


@pytest.mark.slow
def test_mutations_in_bounded_memory(tmp_path):
    """TFBASELINES_FUZZ=10000 tries more."""
    count = os.environ.get("TFBASELINES_FUZZ", 3000)
    assert int(limited("fuzz", tmp_path, os.pathsep.join((os.path.dirname(__file__), SUPPORT)), count)[-1]) < 300


def bomb(path):
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file,
        file.open("tree.json.npy", "w") as member,
    ):
        member.write(npy(b"{'descr': '|u1', 'fortran_order': False, 'shape': (536870912,), }", b""))
        for _ in range(32):
            member.write(bytes(2**24))


def overlapping(path):
    """Ten thousand names for the bytes of one member."""
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("tree.json.npy", document(b"{}"))
        file.writestr("array_0.npy", npy_of(np.zeros(2**20)))
        first = file.infolist()[1]
        for number in range(1, 10_000):
            again = zipfile.ZipInfo(f"array_{number}.npy")
            for name in ("file_size", "compress_size", "CRC", "header_offset"):
                setattr(again, name, getattr(first, name))
            file.filelist.append(again)


def many_members(path):
    with zipfile.ZipFile(path, "w") as file:
        file.filelist.extend(zipfile.ZipInfo(f"array_{number}.npy") for number in range(300_000))
        for member in file.filelist:
            member.file_size = member.compress_size = member.CRC = member.header_offset = 0
        file._didModify = True


def sparse(path):
    with open(path, "wb") as file:
        file.write(archive({"tree.json": document(b"{}")}))
        file.truncate(2**42)


@pytest.mark.parametrize("write", [bomb, overlapping, many_members, sparse])
def test_giants_are_refused_before_they_are_read(tmp_path, write):
    write(tmp_path / "model")
    error, most = limited("load", tmp_path / "model")
    assert "cannot be read as a saved model" in error
    assert int(most) < 200


@pytest.mark.parametrize(
    "text",
    [
        b"[" * 10**6,
        b'{"a":' * 10**5 + b"1" + b"}" * 10**5,
        b'{"a":' + b"[" * 100 + b"]" * 100 + b"}",
        b"1" * 10**6,
        b'{"a": ' + b"9" * 5000 + b"}",
        b"\xff\xfe",
        b'{"__array__": -1}',
        b'{"a": {"__array__": 1}}',
        b'{"a": {"__array__": true}}',
        b'{"a": {"__array__": "0"}}',
        b'{"a": {"__array__": [0]}}',
        b'{"__array__": 0}',
        b"[]",
        b"3",
        b"",
    ],
)
def test_trees_that_are_none(tmp_path, text):
    path = tmp_path / "model"
    path.write_bytes(archive({TREE_ENTRY: document(text), "array_0": npy_of(np.zeros(3))}))
    assert not refused_or_read(load_tree, path)


@pytest.mark.parametrize("header", HEADERS)
def test_headers_that_state_something_else(tmp_path, header):
    members = {TREE_ENTRY: document(b"{}"), "array_0": npy(header)}
    (tmp_path / "model").write_bytes(archive(members))
    assert not refused_or_read(load_tree, tmp_path / "model")
    (tmp_path / "array.npy").write_bytes(npy(header))
    assert not refused_or_read(map_array, tmp_path / "array.npy")


@pytest.mark.parametrize("names", [("array_1",), ("array_0", "other"), ("array_0", "array_00")])
def test_members_of_other_names(tmp_path, names):
    members = {TREE_ENTRY: document(b"{}")} | dict.fromkeys(names, npy_of(np.zeros(3)))
    (tmp_path / "model").write_bytes(archive(members))
    assert not refused_or_read(load_tree, tmp_path / "model")


def test_more_than_the_memory_or_the_limit_is_refused(tmp_path, monkeypatch):
    save_tree(tmp_path / "model", {"a": np.zeros(10_000)})
    assert load_tree(tmp_path / "model")["a"].shape == (10_000,)
    monkeypatch.setattr(arrays, "available_memory", lambda: 50_000)
    with pytest.raises(UsageError, match=r"at most 0\.048 MiB can be read"):
        load_tree(tmp_path / "model")
    monkeypatch.setattr(arrays, "available_memory", lambda: None)
    assert load_tree(tmp_path / "model")["a"].shape == (10_000,)
    monkeypatch.setattr(arrays, "LARGEST_ARCHIVE", 50_000)
    with pytest.raises(UsageError, match="it holds"):
        load_tree(tmp_path / "model")


def test_arrays_can_be_written_to_and_keep_their_order(tmp_path):
    saved = {"f": np.asfortranarray(np.arange(6.0).reshape(2, 3)), "empty": np.zeros((0, 2)), "one": np.array(3)}
    np.savez(tmp_path / "all.npz", **saved)
    read = read_archive(tmp_path / "all.npz")
    for name, array in saved.items():
        np.testing.assert_array_equal(read[name], array)
        np.save(tmp_path / "one.npy", array)
        np.testing.assert_array_equal(map_array(tmp_path / "one.npy"), array)
        assert read[name].flags.writeable and read[name].dtype == array.dtype


@pytest.mark.parametrize(
    ("array", "shape", "words"),
    [
        (None, ("E",), "it has no array 'rewards'"),
        (np.zeros((2, 3)), ("E", 4), r"rewards has the shape \(2, 3\), expected is \('E', 4\)"),
        (np.zeros(2), ("E", "L", ...), "rewards has the shape"),
        (np.array(["1"]), ("E",), "rewards has the type <U1, expected are numbers"),
        (np.array([np.inf]), ("E",), "rewards has numbers that are not finite"),
        (np.array([0.5]), ("E",), "expected are whole numbers of type int64"),
    ],
)
def test_arrays_that_are_not_as_declared_are_refused(array, shape, words):
    with pytest.raises(UsageError, match=words):
        as_declared("rewards", array, shape, np.int64)


def test_arrays_become_what_is_declared():
    read = as_declared("rewards", np.arange(6.0).reshape(1, 2, 3), ("E", ...), np.int64)
    assert read.dtype == np.int64 and read.tolist() == [[[0, 1, 2], [3, 4, 5]]]


def test_documents_are_bounded():
    assert parse_document(json.dumps([[1], {"a": None}]).encode()) == [[1], {"a": None}]
    with pytest.raises(UsageError, match="at most"):
        parse_document(b"[1, 2, 3]", largest=8)


def test_memory_in_words(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 2**20)
    with pytest.raises(UsageError, match=r"^the batch would take 2\.0 GiB and 1 MiB are free: lower batch_size$"):
        memory.require_memory(2**31, "batch_size", "the batch")
