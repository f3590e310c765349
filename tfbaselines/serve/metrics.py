"""Counters of the server in the text format of Prometheus."""

import bisect
import os
from collections import Counter

# Upper bounds of the histogram of a request's seconds.
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1.0, 5.0)


class Metrics:
    """Count requests by their status, and their times."""

    def __init__(self) -> None:
        self._statuses: Counter[int] = Counter()
        self._times = [0] * (len(SECONDS) + 1)
        self._total = 0.0

    def add(self, status: int, seconds: float) -> None:
        """Count a request for actions."""
        self._statuses[status] += 1
        self._times[bisect.bisect_left(SECONDS, seconds)] += 1
        self._total += seconds

    def text(self, batches: int, rows: int) -> str:
        """Return all metrics; `batches` and `rows` are those of the policy."""
        lines = _head("requests_total", "counter", "Requests for actions by HTTP status.")
        statuses = self._statuses or {200: 0}
        lines += [f'tfbaselines_requests_total{{status="{status}"}} {statuses[status]}' for status in sorted(statuses)]
        lines += _head("request_seconds", "histogram", "Time from the end of a request's body to its answer.")
        below = 0
        for bound, count in zip((*SECONDS, "+Inf"), self._times, strict=True):
            below += count
            lines.append(f'tfbaselines_request_seconds_bucket{{le="{bound}"}} {below}')
        lines.append(f"tfbaselines_request_seconds_sum {self._total}")
        lines.append(f"tfbaselines_request_seconds_count {below}")
        values = {
            "batches_total": (batches, "counter", "Batches that the policy acted on."),
            "observations_total": (rows, "counter", "Observations that the policy acted on."),
            "resident_memory_bytes": (_resident(), "gauge", "Memory of the process."),
        }
        for name, (value, kind, words) in values.items():
            lines += [*_head(name, kind, words), f"tfbaselines_{name} {value}"]
        return "\n".join(lines) + "\n"


def _head(name: str, kind: str, words: str) -> list[str]:
    return [f"# HELP tfbaselines_{name} {words}", f"# TYPE tfbaselines_{name} {kind}"]


def _resident() -> int:
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return 0
