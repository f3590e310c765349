"""Rules applied to a run that goes on: its rows and its episodes as they come."""

import numbers
from collections.abc import Mapping
from typing import Any

import numpy as np

from tfbaselines.doctor.columns import MOST_ROWS, Table
from tfbaselines.doctor.evidence import Episodes, Evidence
from tfbaselines.doctor.examine import examine
from tfbaselines.doctor.findings import SURELY, Finding
from tfbaselines.doctor.settings import Settings

# Rows before the rules are applied first, and the growth of this number from one time to the next.
FIRST_ROWS, GROWTH = 8, 1.5


class Watch:
    """Collect the rows and the episodes of a run, and apply the rules now and then.

    Attributes:
        count: number of the run's episodes that were collected or left out.

    Args:
        config: description of the run, as in config.json.
        defaults: defaults of the algorithm's arguments.
        directory: log directory, for the findings' commands.
        num_env: number of environments.
    """

    def __init__(self, config: Mapping[str, Any], defaults: Mapping[str, Any], directory: str, num_env: int) -> None:
        env = config.get("env")
        known = dict(env) if isinstance(env, Mapping) else {}
        self._settings = Settings({**config, "env": {"num_env": num_env} | known}, defaults)
        self._directory = directory
        self.count = 0
        self._rows: list[dict[str, float]] = []
        self._episodes: list[tuple[float, float, float]] = []
        self._row: Any = None
        self._seen = 0
        self._due = FIRST_ROWS
        self._warned: set[str] = set()

    def look(self, row: Mapping[str, Any], steps: int, episodes: Any) -> list[Finding]:
        """Take the latest row of the logs; return findings that are sure and new.

        Args:
            row: the row; nothing happens if it is the one of the call before.
            steps: environment steps so far.
            episodes: the run's latest episodes, with count, rewards and lengths.
        """
        if row is self._row or not row:
            return []
        self._row = row
        self._seen += 1
        self._rows.append({name: float(value) for name, value in row.items() if isinstance(value, numbers.Real)})
        self._rows = self._rows[::2] if len(self._rows) > MOST_ROWS else self._rows
        self._take_episodes(steps, episodes)
        if self._seen < self._due:
            return []
        self._due = int(self._seen * GROWTH)
        return self._examined()

    def _take_episodes(self, steps: int, episodes: Any) -> None:
        """Take the episodes that ended since the row before, as many of them as the run keeps."""
        new = min(episodes.count - self.count, len(episodes.rewards))
        self.count = episodes.count
        if new > 0:
            latest = zip(episodes.rewards[-new:], episodes.lengths[-new:], strict=True)
            self._episodes += [(float(steps), reward, length) for reward, length in latest]
        self._episodes = self._episodes[::2] if len(self._episodes) > MOST_ROWS else self._episodes

    def _examined(self) -> list[Finding]:
        run = Evidence(self._settings, self._table(), [], episodes=Episodes(*self._episode_rows().T))
        findings = [found for found in examine(run, self._directory).findings if found.certainty >= SURELY]
        new = [found for found in findings if found.rule not in self._warned]
        self._warned |= {found.rule for found in new}
        return new

    def _table(self) -> Table:
        names = list(dict.fromkeys(name for row in self._rows for name in row))
        columns = {name: np.array([row.get(name, np.nan) for row in self._rows]) for name in names}
        return Table(columns, len(self._rows))

    def _episode_rows(self) -> np.ndarray:
        return np.array(self._episodes, np.float64).reshape(-1, 3)

    def state(self) -> dict[str, Any]:
        """Return what was collected, and the rules that have warned."""
        counts = {"count": self.count, "seen": self._seen, "due": self._due}
        more = {"warned": sorted(self._warned), "columns": self._table().columns, "latest": self._episode_rows()}
        return counts | more

    def restore(self, state: Mapping[str, Any]) -> None:
        self.count, self._seen, self._due = (int(state[name]) for name in ("count", "seen", "due"))
        self._warned = set(state["warned"])
        columns = {name: np.asarray(values, np.float64) for name, values in state["columns"].items()}
        rows = zip(*columns.values(), strict=True)
        self._rows = [dict(zip(columns, row, strict=True)) for row in rows]
        self._episodes = [tuple(row) for row in np.reshape(state["latest"], (-1, 3)).tolist()]
