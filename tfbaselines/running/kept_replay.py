"""The replay beside the checkpoints, each rank's in files of its own."""

import contextlib
import os
from typing import Any

from tfbaselines.files import write_whole
from tfbaselines.logs import logger
from tfbaselines.running.checkpoint import Checkpoints


class KeptReplay:
    """Saves a replay and reads it again.

    Attributes:
        saved: the update after which it was saved last.

    Args:
        replay: experience with save(path) and load(path, episodes_continue=...).
        rank: whose it is.
    """

    def __init__(self, replay: Any, rank: int) -> None:
        self._replay, self._rank, self.saved = replay, rank, 0

    def save(self, checkpoints: Checkpoints, update: int) -> None:
        """Write it after an update."""
        path = self._path(checkpoints)
        self._replay.save(path)
        self.saved = update
        write_whole(f"{path}.update", f"{update}\n")

    def load(self, checkpoints: Checkpoints, update: int, episodes_restored: bool) -> None:
        """Read it; one that is missing or damaged costs experience, not the run.

        Args:
            checkpoints: beside which it was saved.
            update: of the checkpoint from which the run goes on.
            episodes_restored: whether the environments stand where they were then.
        """
        path, same = self._path(checkpoints), False
        try:
            # One that was saved with an earlier checkpoint does not end where the environments stand.
            with contextlib.suppress(OSError), open(f"{path}.update", encoding="ascii") as file:
                same = file.read().strip() == str(update)
            self._replay.load(path, episodes_continue=same and episodes_restored)
        except ValueError as error:
            logger.warn(f"the replay starts empty: {error}")

    def _path(self, checkpoints: Checkpoints) -> str:
        return os.path.join(checkpoints.directory, os.pardir, "replay", f"{self._rank:03d}")
