import json
import os
import pickle
import resource
import signal
import subprocess
import sys
import threading
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import tfbaselines
from tfbaselines.training import checkpoint
from tfbaselines.training.checkpoint import Checkpoints, load_tree, save_tree

ARRAYS = hnp.arrays(hnp.scalar_dtypes(), hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3))
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | ARRAYS
KEYS = st.text(max_size=5)
TREES = st.dictionaries(
    KEYS,
    st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3)),
    max_size=4,
)
TREE = {"weights": {"00": np.arange(3.0)}, "n": 1}

# What a process does that is killed while it saves: the number and the array are always of one save.
SAVE_FOR_EVER = """
import itertools, sys
import numpy as np
from tfbaselines.training.checkpoint import save_tree
for n in itertools.count():
    save_tree(sys.argv[1], {"n": n, "array": np.full(300_000, n)})
"""


def same(one, other):
    """Equal to the bit and in type; nan is nan."""
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return repr(one) == repr(other)


def names(directory):
    return sorted(path.name for path in directory.iterdir())


def cut(path, share=0.5):
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])


@settings(deadline=None)
@given(TREES)
def test_any_tree_comes_back_as_it_was(tmp_path_factory, tree):
    path = tmp_path_factory.mktemp("tree") / "model"
    save_tree(path, tree)
    assert same(load_tree(path), tree)


@pytest.mark.parametrize(
    ("saved", "loaded"),
    [
        (np.float32(0.5), 0.5),
        (np.int64(-3), -3),
        (np.bool_(True), True),
        ((1, (2, "a")), [1, [2, "a"]]),
        ({3: {"x": None}}, {"3": {"x": None}}),
        ([np.arange(2), {"a": np.zeros(())}], [np.arange(2), {"a": np.zeros(())}]),
        (np.random.PCG64(1).state, np.random.PCG64(1).state),
        (np.arange(6).reshape(2, 3).T, np.array([[0, 3], [1, 4], [2, 5]])),
    ],
)
def test_what_json_has_no_name_for(tmp_path, saved, loaded):
    save_tree(tmp_path / "model", {"leaf": saved})
    assert same(load_tree(tmp_path / "model"), {"leaf": loaded})


@pytest.mark.parametrize("leaf", [object(), b"bytes", {1, 2}, np.array([None]), np.array([{}, "a"], object)])
def test_what_cannot_be_saved_is_refused_before_anything_is_written(tmp_path, leaf):
    with pytest.raises(TypeError):
        save_tree(tmp_path / "model", {"a": {"b": leaf}})
    assert names(tmp_path) == []


class Trap:
    """Unpickling it creates a file."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return open, (self.path, "w")


def test_a_pickle_in_place_of_a_model_is_never_run(tmp_path):
    np.savez(tmp_path / "trap.npz", **{checkpoint.TREE_ENTRY: np.array([Trap(tmp_path / "sprung")], object)})
    np.save(tmp_path / "trap.npy", np.array([Trap(tmp_path / "sprung")], object))
    (tmp_path / "trap.pkl").write_bytes(pickle.dumps(Trap(tmp_path / "sprung")))
    for name in ("trap.npz", "trap.npy", "trap.pkl"):
        with pytest.raises(ValueError, match=f"{name}' cannot be read as a saved model"):
            load_tree(tmp_path / name)
    assert not (tmp_path / "sprung").exists()


def test_the_file_is_made_for_others_to_read_as_any_file_is(tmp_path):
    (tmp_path / "plain").touch()
    save_tree(tmp_path / "new/directory/model", TREE)
    assert (tmp_path / "new/directory/model").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_write_that_fails_leaves_the_old_file(tmp_path):
    save_tree(tmp_path / "model", TREE)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, limits[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            save_tree(tmp_path / "model", {"big": np.zeros(100_000)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert same(load_tree(tmp_path / "model"), TREE)
    assert names(tmp_path) == ["model"]


@pytest.mark.parametrize("delay", [0.0, 0.003, 0.01, 0.02, 0.05])
def test_a_process_killed_while_it_saves_leaves_a_readable_file(tmp_path, delay):
    path, wait = tmp_path / "model", threading.Event().wait
    root = os.path.join(next(iter(tfbaselines.__path__)), "..")
    with subprocess.Popen([sys.executable, "-c", SAVE_FOR_EVER, str(path)], cwd=root) as process:
        try:
            while not path.exists() and process.poll() is None:
                wait(0.001)
            wait(delay)
        finally:
            process.kill()
    assert process.returncode == -signal.SIGKILL
    tree = load_tree(path)
    assert (tree["array"] == tree["n"]).all() and len(tree["array"]) == 300_000


@pytest.mark.parametrize("name", ["", "model", "file/model"])
def test_places_that_cannot_be_saved_to(tmp_path, name):
    (tmp_path / "file").touch()
    (tmp_path / "model").mkdir()
    with pytest.raises(ValueError, match="cannot save to '") as caught:
        save_tree(tmp_path / name, TREE)
    assert len(str(caught.value).splitlines()) == 1


def foreign_zip(path):
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(checkpoint.TREE_ENTRY, "{}")


def written(save, *args, **kwargs):
    def write(path):
        with path.open("wb") as file:
            save(file, *args, **kwargs)

    return write


def archive_of(document):
    return written(np.savez, **{checkpoint.TREE_ENTRY: np.frombuffer(json.dumps(document).encode(), np.uint8)})


@pytest.mark.parametrize(
    "write",
    [
        lambda path: None,
        lambda path: path.mkdir(),
        lambda path: path.touch(),
        lambda path: path.write_text("some\ntext"),
        written(np.save, np.zeros(3)),
        written(np.savez, a=np.zeros(3)),
        foreign_zip,
        archive_of([1, 2]),
        archive_of(None),
        archive_of({"a": {checkpoint.ARRAY_KEY: 7}}),
    ],
    ids=["missing", "directory", "empty", "text", "npy", "npz", "zip", "list", "null", "reference"],
)
def test_a_file_that_is_no_model_is_named_in_one_line(tmp_path, write):
    write(tmp_path / "model")
    with pytest.raises(ValueError, match=r"model'") as caught:
        load_tree(tmp_path / "model")
    assert len(str(caught.value).splitlines()) == 1


def test_a_cut_off_file_is_named(tmp_path):
    save_tree(tmp_path / "model", TREE)
    whole = (tmp_path / "model").read_bytes()
    for length in range(0, len(whole), 5):
        (tmp_path / "model").write_bytes(whole[:length])
        with pytest.raises(ValueError, match="model' cannot be read as a saved model, it is damaged") as caught:
            load_tree(tmp_path / "model")
        assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("bit", [0, 3, 7])
def test_a_flipped_bit_is_noticed_or_harmless(tmp_path, bit):
    save_tree(tmp_path / "model", TREE)
    whole, noticed = (tmp_path / "model").read_bytes(), 0
    for position in range(len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= 1 << bit
        (tmp_path / "model").write_bytes(damaged)
        try:
            assert same(load_tree(tmp_path / "model"), TREE)
        except ValueError:
            noticed += 1
    assert noticed > len(whole) / 2


def test_the_latest_are_kept(tmp_path):
    checkpoints = Checkpoints(tmp_path / "checkpoints", keep=2)
    for number in (1, 10, 99_999, 100_000):
        path = checkpoints.save(number, {"n": number})
        assert load_tree(path) == {"n": number}
        assert checkpoints.latest() == path
    assert names(tmp_path / "checkpoints") == ["100000", "99999"]


def test_a_run_begun_anew_drops_the_checkpoints_of_the_one_before(tmp_path):
    for number in range(8, 12):
        Checkpoints(tmp_path, keep=3).save(number, {"run": "old"})
    checkpoints = Checkpoints(tmp_path, keep=3)
    path = checkpoints.save(1, {"run": "new"})
    checkpoints.mark_best(path)
    assert checkpoints.latest() == path and load_tree(path) == {"run": "new"}
    assert names(tmp_path) == ["00001", "best"]


def test_latest_passes_over_what_cannot_be_read(tmp_path):
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    assert checkpoints.latest() is None
    paths = [checkpoints.save(number, TREE) for number in (1, 2, 3)]
    (tmp_path / "checkpoints/.00009.123.tmp").touch()
    cut(paths[2])
    assert checkpoints.latest() == paths[1]
    cut(paths[1], share=0)
    cut(paths[0], share=0.99)
    assert checkpoints.latest() is None


@pytest.mark.parametrize("links", [True, False])
def test_the_best_outlives_the_checkpoint_it_was(tmp_path, monkeypatch, links):
    if not links:
        monkeypatch.setattr(checkpoint.os, "link", lambda *_: (_ for _ in ()).throw(OSError("not supported")))
    checkpoints = Checkpoints(tmp_path, keep=1)
    checkpoints.mark_best(checkpoints.save(1, {"n": 1}))
    checkpoints.mark_best(checkpoints.save(2, {"n": 2}))
    checkpoints.save(3, {"n": 3})
    checkpoints.save(2, {"n": "another"})
    assert load_tree(checkpoints.best_path) == {"n": 2}
    assert names(tmp_path) == ["00002", "best"]
    assert checkpoints.latest().name == "00002"


def test_checkpoints_by_name(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    with pytest.raises(ValueError, match=r"there is no checkpoint in"):
        checkpoints.named("last")
    first, second = (checkpoints.save(number, TREE) for number in (3, 12))
    with pytest.raises(ValueError, match=r"has no checkpoint 'best': last, best, 00003, 00012"):
        checkpoints.named("best")
    checkpoints.mark_best(first)
    assert [checkpoints.named(name) for name in ("3", "00003", "12", "last")] == [first, first, second, second]
    assert checkpoints.named("best") == checkpoints.best_path
    for name in ("4", "lst", "-3", ""):
        with pytest.raises(ValueError, match=f"has no checkpoint '{name}'"):
            checkpoints.named(name)
