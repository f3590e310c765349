"""Progress of a run: a bar on a terminal, a plain line now and then elsewhere."""

import contextlib
import sys
import time
from collections.abc import Callable
from typing import TextIO

from tqdm import tqdm

# Shortest time between two lines.
SECONDS_BETWEEN_LINES = 30.0


class NoProgress:
    """Show nothing."""

    def update(self, steps: int, reward: Callable[[], float]) -> None:
        """Show the steps done so far and the mean reward, which `reward` returns, if it is time."""

    def close(self) -> None:
        """End the display."""


class ProgressBar:
    """Show a tqdm bar with steps, steps per second, reward and time left, on standard error."""

    def __init__(self, name: str, done: int, total: int, stream: TextIO, unit: str = "step") -> None:
        self._bar = tqdm(
            total=total, initial=done, desc=name, unit=unit, unit_scale=True, file=stream, dynamic_ncols=True
        )

    def update(self, steps: int, reward: Callable[[], float]) -> None:
        """Move the bar."""
        with contextlib.suppress(OSError, ValueError):
            self._move(steps, reward)

    def _move(self, steps: int, reward: Callable[[], float]) -> None:
        self._bar.set_postfix_str(f"reward={reward():.4g}", refresh=False)
        self._bar.update(steps - self._bar.n)

    def close(self) -> None:
        """Leave the bar as it is."""
        with contextlib.suppress(OSError, ValueError):
            self._bar.close()


class ProgressLines:
    """Print a line with steps, share done, steps per second, reward and time left, at most every half minute."""

    def __init__(self, name: str, done: int, total: int, stream: TextIO, unit: str = "step") -> None:
        self._name = name
        self._started_at = done
        self._total = total
        self._stream = stream
        self._units = f"{unit}s"
        self._start = time.monotonic()
        self._last = self._start

    def update(self, steps: int, reward: Callable[[], float]) -> None:
        """Print a line if it is time, and at the end."""
        now = time.monotonic()
        if now - self._last < SECONDS_BETWEEN_LINES and steps < self._total:
            return
        self._last = now
        speed = (steps - self._started_at) / max(now - self._start, 1e-9)
        left = max(self._total - steps, 0) / max(speed, 1e-9)
        minutes, seconds = divmod(int(left), 60)
        # A closed standard error does not end the run.
        with contextlib.suppress(OSError, ValueError):
            print(
                f"{self._name}: {steps:,} of {self._total:,} {self._units} ({100 * steps / self._total:.0f}%), "
                f"{speed:,.0f} {self._units}/s, reward {reward():.4g}, {minutes}:{seconds:02d} left",
                file=self._stream,
                flush=True,
            )

    def close(self) -> None:
        """Do nothing: no display is open."""


def make_progress(
    show: bool, name: str, done: int, total: int, unit: str = "step"
) -> NoProgress | ProgressBar | ProgressLines:
    """Return a display that suits standard error: a bar on a terminal, else lines."""
    if not show or total <= 0 or sys.stderr is None:
        return NoProgress()
    return (ProgressBar if sys.stderr.isatty() else ProgressLines)(name, done, total, sys.stderr, unit)
