"""Measurements of each run for the report: curves over steps, minutes and episodes, a final score, facts, videos."""

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tfbaselines.doctor.__main__ import defaults
from tfbaselines.doctor.examine import examine_directory
from tfbaselines.doctor.findings import Finding
from tfbaselines.errors import UsageError, complain
from tfbaselines.files import read_document
from tfbaselines.plot.columns import EPISODE_RETURNS, RATES, RETURNS, SECONDS_IN, SHORT_XAXES, SUCCESS, readable
from tfbaselines.plot.results import Run, Series, series

# Names of the axes, and their columns in order of preference.
AXES: dict[str, Sequence[str]] = {"steps": (*SHORT_XAXES["steps"], "Epoch"), "time": SHORT_XAXES["time"]}
AXES["episodes"] = SHORT_XAXES["episodes"]
# The final score is the mean over this share of the curve, at its end.
FINAL_SHARE = 0.1
# A log of fewer rows is replaced by the run's single episodes.
FEW_ROWS = 10
# Parts of a run; without logged rates, its rate is the median of the parts' rates.
PARTS = 20
# File of `bench table` with a score.
RESULT, LARGEST_RESULT = "result.json", 2**16
# Characters at which texts from a run's files are cut.
LONGEST_TEXT = 200
# Kinds of videos by the end of their names.
VIDEOS = {".mp4": "video/mp4", ".webm": "video/webm"}
# Directories below a run's in which videos are.
VIDEO_DIRECTORIES = ("", "videos", "video")
MOST_VIDEOS = 6


class Measured(NamedTuple):
    """Numbers of one run.

    Attributes:
        run: tables and configuration.
        success: the curve is a rate of success, no return.
        column: column of the curve.
        curves: curves by the name of the axis; time in minutes.
        score: mean of the last tenth of the curve.
        tested: score that `bench table` measured after training; None without it.
        findings: what the doctor found, the likeliest first.
        facts: texts for the table of runs, by name.
        videos: paths.
    """

    run: Run
    success: bool
    column: str
    curves: Mapping[str, Series]
    score: float
    tested: float | None
    findings: Sequence[Finding]
    facts: Mapping[str, str]
    videos: Sequence[Path]

    @property
    def name(self) -> str:
        """The run's name among the runs of its method: its seed, or else its directory."""
        return f"seed {self.facts['seed']}" if self.facts["seed"] else os.path.basename(self.run.dirname)

    @property
    def end(self) -> float:
        """Last value of the first axis that the run has."""
        return float(next(iter(self.curves.values())).x[-1])


def measure(run: Run) -> Measured | str:
    """Read a run's numbers; a line instead if it has no returns."""
    success = any(SUCCESS in table for table in run.tables.values())
    try:
        curves = _curves(run, [SUCCESS] if success else RETURNS)
        if curves and _is_coarse(curves):
            curves = _curves(run, EPISODE_RETURNS) or curves
    except UsageError as error:
        return str(error)
    if not curves:
        return f"no returns in {run.dirname}"
    first = next(iter(curves.values()))
    score, found = final_score(first), _findings(run)
    return Measured(
        run, success, first.y_name, curves, score, _tested(run), found, facts(run, curves), find_videos(run)
    )


def _curves(run: Run, columns: Sequence[str]) -> dict[str, Series]:
    """Read a run's curve over each axis that it has; time in minutes."""
    found = {name: series(run, axis, columns) for name, axis in AXES.items()}
    return {
        name: curve._replace(x=curve.x / SECONDS_IN.get(readable(curve.x_name), 1.0))
        for name, curve in found.items()
        if curve is not None
    }


def _is_coarse(curves: Mapping[str, Series]) -> bool:
    """Return whether the log of a run in training has so few rows that its episodes show more."""
    first = next(iter(curves.values()))
    return len(first.x) < FEW_ROWS and readable(first.y_name) == "mean return"


def _tested(run: Run) -> float | None:
    try:
        score = read_document(os.path.join(run.dirname, RESULT), LARGEST_RESULT)["score"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return float(score) if isinstance(score, int | float) and math.isfinite(score) else None


def _findings(run: Run) -> Sequence[Finding]:
    try:
        return examine_directory(run.dirname, defaults).findings
    # Files of other programs make it raise almost anything; the page goes without its findings.
    except Exception as error:
        complain(f"the doctor cannot examine {run.dirname}: {type(error).__name__}: {error!s:.{LONGEST_TEXT}}")
        return ()


def final_score(curve: Series) -> float:
    """Compute the mean of the last tenth of a curve."""
    begin = curve.x[-1] - FINAL_SHARE * (curve.x[-1] - curve.x[0])
    return float(curve.y[curve.x >= begin].mean())


def facts(run: Run, curves: Mapping[str, Series]) -> dict[str, str]:
    """Describe a run: seed, rate, duration, machine, commit."""
    config, env = run.config, run.config.get("env")
    seed = env.get("seed") if isinstance(env, dict) else config.get("seed")
    minutes = curves["time"].x[-1] if "time" in curves else None
    versions, commits = (_mapping(config.get(name)) for name in ("versions", "git_commit"))
    found = {
        "seed": "" if seed is None else str(seed),
        "steps": f"{curves['steps'].x[-1]:,.0f}" if "steps" in curves else "",
        "steps/s": _rate(run, curves),
        "minutes": "" if minutes is None else f"{minutes:,.1f}",
        "machine": " ".join(str(config.get(name) or "") for name in ("host", "platform")).strip(),
        "commit": str(commits.get("tfbaselines") or commits.get("working_directory") or "")[:10],
        "version": " ".join(f"{name} {versions[name]}" for name in ("tfbaselines", "tensorflow") if name in versions),
        "started": str(config.get("started") or "")[:19].replace("T", " "),
    }
    return {name: text[:LONGEST_TEXT] for name, text in found.items()}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _rate(run: Run, curves: Mapping[str, Series]) -> str:
    """Return the median of the logged steps per second, or else of parts of the run: it may have been paused."""
    try:
        found = series(run, AXES["steps"], RATES)
    except UsageError:
        # The column holds no numbers.
        found = None
    if found is not None:
        return f"{np.median(found.y):,.0f}"
    if "time" not in curves or "steps" not in curves:
        return ""
    count = min(len(curves["time"].x), len(curves["steps"].x))
    places = np.linspace(0, count - 1, min(count, PARTS + 1)).astype(int)
    seconds, steps = 60 * np.diff(curves["time"].x[places]), np.diff(curves["steps"].x[places])
    rates = steps[seconds > 0] / seconds[seconds > 0]
    return f"{np.median(rates):,.0f}" if len(rates) else ""


def find_videos(run: Run) -> list[Path]:
    """Find a run's latest videos; links and special files are left out."""
    found = []
    for place in (Path(run.dirname, below) for below in VIDEO_DIRECTORIES):
        if place.is_dir() and not place.is_symlink():
            with os.scandir(place) as entries:
                own = (entry for entry in entries if entry.name.lower().endswith(tuple(VIDEOS)))
                found += [(entry.stat().st_mtime, entry.path) for entry in own if entry.is_file(follow_symlinks=False)]
    return [Path(path) for _, path in sorted(found)[-MOST_VIDEOS:]]
