"""Every checkpoint finds the replay that it was saved with, and a save writes only what is new."""

import numpy as np
import pytest

from tfbaselines.errors import UsageError
from tfbaselines.logs import logger
from tfbaselines.training import kept_replay
from tfbaselines.training.checkpoint import Checkpoints, load_tree, save_tree
from tfbaselines.training.kept_replay import KeptReplay


class Numbers:
    """The latest of the numbers 0, 1, ...; it remembers which were asked for."""

    item_nbytes = 8

    def __init__(self, count=0, size=50):
        self.count, self.size, self.written = count, size, []
        self.numbers = self.open = None

    def span(self):
        return max(0, self.count - self.size), self.count

    def items(self, first, last):
        self.written.append((first, last))
        return {"numbers": np.arange(first, last)}

    def state(self):
        return {"count": self.count}

    def rebuild(self, state, pieces, episodes_continue):
        numbers = [number for _, piece in pieces for number in piece["numbers"].tolist()]
        if not numbers or numbers[-1] != state["count"] - 1:
            raise UsageError("another end")
        self.count, self.numbers, self.open = state["count"], numbers[-self.size :], episodes_continue


@pytest.fixture
def checkpoints(tmp_path, monkeypatch):
    monkeypatch.setattr(kept_replay, "SMALL", 0)
    return Checkpoints(tmp_path / "checkpoints", keep=3)


@pytest.fixture
def warnings(monkeypatch):
    lines = []
    monkeypatch.setattr(logger, "warn", lines.append)
    return lines


def saved(checkpoints, counts, first=1):
    """Checkpoints first, first + 1, ... of a growing replay."""
    replay = Numbers()
    kept = KeptReplay(replay, "000")
    for number, count in enumerate(counts, first):
        replay.count = count
        kept.save(checkpoints, number)
    return replay


def loaded(checkpoints, update, size=50, restored=True):
    replay = Numbers(size=size)
    kept = KeptReplay(replay, "000")
    kept.load(checkpoints, update, restored)
    return replay, kept


def names(tmp_path):
    return sorted(path.name for path in (tmp_path / "replay/000").iterdir())


def test_each_checkpoint_has_its_replay(checkpoints, warnings):
    replay = saved(checkpoints, [10, 30, 70, 75])
    assert replay.written == [(0, 10), (10, 30), (30, 70), (70, 75)]
    for update, count in ((2, 30), (3, 70), (4, 75)):
        assert loaded(checkpoints, update)[0].numbers == list(range(max(0, count - 50), count))
    assert not warnings


def test_what_no_kept_checkpoint_needs_is_removed(checkpoints, tmp_path):
    saved(checkpoints, [10, 30, 70, 110, 150])
    assert names(tmp_path) == ["00002.10", "00003", "00003.30", "00004", "00004.70", "00005", "00005.110"]


def test_a_small_file_is_written_again_with_what_follows(checkpoints, monkeypatch, tmp_path):
    monkeypatch.setattr(kept_replay, "SMALL", 2**20)
    assert saved(checkpoints, [10, 30, 40]).written == [(0, 10), (0, 30), (0, 40)]
    # The older checkpoints keep theirs.
    assert names(tmp_path) == ["00001", "00001.0", "00002", "00002.0", "00003", "00003.0"]
    assert loaded(checkpoints, 2)[0].numbers == list(range(30))


def test_much_is_written_in_several_files(checkpoints, monkeypatch):
    monkeypatch.setattr(kept_replay, "LARGE", 160)
    assert saved(checkpoints, [50]).written == [(0, 20), (20, 40), (40, 50)]
    assert loaded(checkpoints, 1)[0].numbers == list(range(50))


def test_a_resumed_run_adds_to_the_files(checkpoints):
    saved(checkpoints, [10, 30])
    replay, kept = loaded(checkpoints, 2)
    replay.count = 35
    kept.save(checkpoints, 3)
    assert replay.open and replay.written == [(30, 35)]
    assert loaded(checkpoints, 3)[0].numbers == list(range(35))


def test_episodes_that_were_cut_off_are_written_again(checkpoints):
    """They end where the run was resumed, which the files do not tell."""
    saved(checkpoints, [10, 30])
    replay, kept = loaded(checkpoints, 2, restored=False)
    kept.save(checkpoints, 3)
    assert not replay.open and replay.written == [(0, 30)]


def test_a_run_that_goes_on_elsewhere_writes_all_of_it(checkpoints, tmp_path):
    saved(checkpoints, [10, 30])
    replay, kept = loaded(checkpoints, 2)
    kept.save(Checkpoints(tmp_path / "other/checkpoints"), 2)
    assert replay.written == [(0, 30)]


def test_checkpoints_after_the_one_of_the_resumed_run_are_forgotten(checkpoints, tmp_path):
    saved(checkpoints, [10, 30, 40])
    replay, kept = loaded(checkpoints, 1)
    replay.count = 12
    kept.save(checkpoints, 2)
    assert names(tmp_path) == ["00001", "00001.0", "00002", "00002.10"]
    assert loaded(checkpoints, 2)[0].numbers == list(range(12))


@pytest.mark.parametrize("name", ["00003", "00003.30"])
@pytest.mark.parametrize("size", [0, 100, -1, None])
def test_a_torn_file_is_found_and_the_replay_before_it_taken(name, size, checkpoints, tmp_path, warnings):
    saved(checkpoints, [10, 30, 40])
    path = tmp_path / "replay/000" / name
    data = path.read_bytes()
    path.unlink()
    if size is not None:
        path.write_bytes(data[:size] if size >= 0 else data[:200] + bytes([data[200] ^ 1]) + data[201:])
    replay, _ = loaded(checkpoints, 3)
    assert replay.numbers == list(range(30)) and not replay.open
    assert len(warnings) == 1 and warnings[0].startswith("the replay is that of update 2: ")
    # It can be saved again.
    _, kept = loaded(checkpoints, 3)
    kept.save(checkpoints, 3)
    assert loaded(checkpoints, 3)[0].open


def test_nothing_to_read_is_an_empty_replay(checkpoints, tmp_path, warnings):
    assert loaded(checkpoints, 3)[0].numbers is None
    assert len(warnings) == 1 and "the replay starts empty: there is no file" in warnings[0]


@pytest.mark.parametrize(
    "pieces", [[["../00001", 0, 10]], [["00001.0", 0]], [["00001.0", "0", 10]], 7, [["00001.0"] * 3]]
)
def test_a_record_names_files_of_its_own_directory_alone(pieces, checkpoints, tmp_path, warnings):
    saved(checkpoints, [10])
    record = tmp_path / "replay/000/00001"
    save_tree(record, load_tree(record) | {"pieces": pieces})
    assert loaded(checkpoints, 1)[0].numbers is None
    assert len(warnings) == 1 and "is damaged" in warnings[0] and "\n" not in warnings[0]
