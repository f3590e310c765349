"""Learning results: the runs under some directories as one CSV, one PNG and a table of their last mean returns.

These are of 100 episodes, or of a test of the deterministic policy where the run has them.
"""

import json
from pathlib import Path
from typing import Any

from tfbaselines.errors import UsageError
from tfbaselines.files import write_whole

COLUMNS = ("alg", "env", "seed", "total_timesteps", "eprewmean")
# Rows kept of each run: a curve needs no more, and the files stay small.
POINTS = 200


def collect(directories: list[str]) -> Any:
    """Read the learning curves of all runs below some directories into a data frame with COLUMNS.

    Args:
        directories: log directories, directories above them, or tables that `write` wrote, which new runs go beside.
    """
    import pandas as pd

    tables = []
    for top in directories:
        if Path(top).is_file():
            tables.append(_table(top))
        for path in sorted(Path(top).rglob("config.json")):
            config, progress = json.loads(path.read_text(encoding="utf-8")), path.parent / "progress.csv"
            if progress.exists():
                tables.append(_curve(config, pd.read_csv(progress, float_precision="round_trip")))
    if not tables:
        raise UsageError(f"no runs (config.json and progress.csv) under {', '.join(directories)}")
    return pd.concat(tables, ignore_index=True)


def _table(path: str) -> Any:
    import pandas as pd

    table = pd.read_csv(path, float_precision="round_trip")
    if tuple(table) != COLUMNS:
        raise UsageError(f"'{path}' is not a table of scores: its columns are not {', '.join(COLUMNS)}")
    return table


def _curve(config: dict[str, Any], progress: Any) -> Any:
    import numpy as np
    import pandas as pd

    from tfbaselines.plot.results import RETURNS, XAXES

    steps, returns = (_first(progress, names) for names in (XAXES, RETURNS))
    keep = np.unique(np.linspace(0, len(progress) - 1, POINTS).astype(int))
    columns = (config["alg"], config["env"]["env"], config["env"]["seed"], steps[keep], returns[keep])
    return pd.DataFrame(dict(zip(COLUMNS, columns, strict=True)))


def _first(progress: Any, names: tuple[str, ...]) -> Any:
    """Return the first of some columns that a table has."""
    return next(progress[name] for name in names if name in progress)


def final_scores(curves: Any) -> Any:
    """Compute the last mean return of every run, and its mean over the seeds."""
    last = curves.groupby(["alg", "env", "seed"], as_index=False).last()
    last["mean_of_seeds"] = last.groupby(["alg", "env"])["eprewmean"].transform("mean")
    return last


def write(curves: Any, out: str) -> list[Path]:
    """Write OUT.csv and OUT.png: a panel per environment, a line per seed.

    Args:
        curves: from `collect`.
        out: path without extension.
    """
    from tfbaselines.plot.panels import draw

    table, picture = Path(f"{out}.csv"), Path(f"{out}.png")
    table.parent.mkdir(parents=True, exist_ok=True)
    write_whole(table, curves.to_csv(index=False))
    draw([_panel(env, of_env) for env, of_env in curves.groupby("env")], str(picture))
    return [table, picture]


def _panel(env: str, curves: Any) -> Any:
    """Collect the curves of an environment."""
    from tfbaselines.plot.panels import Panel
    from tfbaselines.plot.results import Curve

    # Her's logs have no returns, but how many goals were reached.
    ylabel = "success rate" if set(curves["alg"]) == {"her"} else "mean return"
    lines = []
    for (alg, seed), curve in curves.groupby(["alg", "seed"]):
        steps, returns = curve["total_timesteps"].to_numpy(), curve["eprewmean"].to_numpy()
        lines.append(Curve(f"{alg} seed {seed}", steps, returns, returns, returns))
    return Panel("environment steps", ylabel, lines, title=env)
