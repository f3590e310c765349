"""Replays beside the checkpoints of a run: every checkpoint finds its replay, and each save writes only what is new.

A replay is a sequence of items, such as steps or rollouts, that are never changed once they are stored. In the replay's
directory NUMBER is a checkpoint's record, with everything that does change, and the files NUMBER.FIRST hold the items
of all records. A file is written whole, flushed and never changed, and its checksums are compared when it is read.
"""

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple, Protocol

from tfbaselines.errors import UsageError
from tfbaselines.logs import logger
from tfbaselines.training.checkpoint import Checkpoints, Tree, load_tree, save_tree

# A file of fewer bytes is written again together with the items after it, so that there are few files.
SMALL = 2**20
# Most bytes of items in a file.
LARGE = 2**26

FILE_NAME = re.compile(r"\d{5,}\.\d+")


class Growing(Protocol):
    """A replay that can be kept.

    Attributes:
        item_nbytes: memory of an item.
    """

    item_nbytes: int

    def span(self) -> tuple[int, int]:
        """Return the number of the oldest item, and the number that the next item will have."""

    def items(self, first: int, last: int) -> Tree:
        """Return the items first to last - 1."""

    def state(self) -> Tree:
        """Return everything but the items."""

    def rebuild(self, state: Tree, pieces: Iterable[tuple[int, Tree]], episodes_continue: bool) -> None:
        """Restore a replay.

        Args:
            state: result of `state`.
            pieces: the number of the first item and the result of `items`, for successive items; the first piece may
                begin before the replay's oldest item.
            episodes_continue: the environments continue the episodes they were in.
        """


class Piece(NamedTuple):
    """A file of the items begin to end - 1."""

    name: str
    begin: int
    end: int


class KeptReplay:
    """Saves a replay beside the checkpoints, and reads it again.

    Args:
        replay: the replay.
        name: name of its directory.
    """

    def __init__(self, replay: Growing, name: str) -> None:
        self._replay = replay
        self._name = name
        # The files that hold its items, and their directory.
        self._directory: Path | None = None
        self._pieces: list[Piece] = []

    def save(self, checkpoints: Checkpoints, update: int) -> None:
        """Write the record of a checkpoint and the new items; remove what no kept checkpoint needs."""
        directory = self._in(checkpoints)
        pieces = self._add(directory, update)
        save_tree(directory / f"{update:05d}", {"pieces": list(map(list, pieces)), "state": self._replay.state()})
        self._directory, self._pieces = directory, pieces
        records = _records(directory)
        kept = [number for number in records if number <= update][-checkpoints.keep :]
        for number in set(records) - set(kept):
            (directory / f"{number:05d}").unlink()
        needed = {piece.name for number in kept for piece in _pieces_of(directory, number)}
        for path in directory.iterdir():
            if path.name not in needed and FILE_NAME.fullmatch(path.name):
                path.unlink()

    def load(self, checkpoints: Checkpoints, update: int, episodes_restored: bool) -> None:
        """Read the replay of a checkpoint, else the newest before it; warn of this, and of an empty one.

        Args:
            checkpoints: checkpoints of the run that saved it.
            update: update of the checkpoint that the run resumes from.
            episodes_restored: the environments continue their episodes.
        """
        directory = self._in(checkpoints)
        problem = f"there is no file '{directory / f'{update:05d}'}'"
        for number in reversed([number for number in _records(directory) if number <= update]):
            continues = number == update and episodes_restored
            try:
                pieces = self._read(directory, number, continues)
            except UsageError as error:
                problem = str(error)
                continue
            if continues:
                self._directory, self._pieces = directory, pieces
            if number < update:
                logger.warn(f"the replay is that of update {number}: {problem}")
            return
        logger.warn(f"the replay starts empty: {problem}")

    def _in(self, checkpoints: Checkpoints) -> Path:
        return Path(os.path.realpath(checkpoints.directory)).parent / "replay" / self._name

    def _add(self, directory: Path, update: int) -> list[Piece]:
        """Write the items that no file of the directory has; return the files of all items."""
        replay = self._replay
        begin, end = replay.span()
        pieces = [piece for piece in self._pieces if piece.end > begin] if self._directory == directory else []
        borders = [piece.end for piece in pieces]
        joined = all(piece.begin <= border for piece, border in zip(pieces, [begin, *borders], strict=False))
        if not joined or not all((directory / piece.name).exists() for piece in pieces):
            pieces = []
        written = pieces[-1].end if pieces else begin
        if written < end and pieces and (directory / pieces[-1].name).stat().st_size < SMALL:
            written = max(begin, pieces.pop().begin)
        most = max(1, LARGE // max(1, replay.item_nbytes))
        for first in range(written, end, most):
            piece = Piece(f"{update:05d}.{first}", first, min(first + most, end))
            save_tree(directory / piece.name, replay.items(piece.begin, piece.end))
            pieces.append(piece)
        return pieces

    def _read(self, directory: Path, number: int, continues: bool) -> list[Piece]:
        try:
            record = load_tree(directory / f"{number:05d}")
            pieces = _pieces_in(record)
            items = ((piece.begin, load_tree(directory / piece.name)) for piece in pieces)
            self._replay.rebuild(record["state"], items, continues)
        except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError) as error:
            reason = error if isinstance(error, UsageError) else f"{type(error).__name__}: {error!s:.200}"
            raise UsageError(
                f"replay {number:05d} in '{directory}' is damaged ({' '.join(str(reason).split())})"
            ) from None
        return pieces


def _records(directory: Path) -> list[int]:
    return sorted(int(path.name) for path in directory.glob("*") if path.name.isdigit()) if directory.is_dir() else []


def _pieces_of(directory: Path, number: int) -> list[Piece]:
    try:
        return _pieces_in(load_tree(directory / f"{number:05d}"))
    except ValueError:
        return []


def _pieces_in(record: Tree) -> list[Piece]:
    """Return the files that a record names; UsageError unless they follow one another in its own directory."""
    pieces = [Piece(*piece) for piece in record.get("pieces", [])]
    for piece, border in zip(pieces, [None, *(piece.end for piece in pieces)], strict=False):
        numbers = type(piece.begin) is int and type(piece.end) is int and 0 <= piece.begin < piece.end
        if not numbers or border not in (None, piece.begin) or not FILE_NAME.fullmatch(str(piece.name)):
            raise UsageError(f"its record names the file {piece.name!r:.50}")
    return pieces
