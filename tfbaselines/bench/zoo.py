"""The suite 'zoo': rows of rl-baselines3-zoo's benchmark page; its scores are single runs.

The numbers are from benchmark.md of https://github.com/DLR-RM/rl-baselines3-zoo: mean returns of the deterministic
policy after training, on older versions of some environments. A cell trains with the tuned settings of this package
for at most as many steps, and its score is the mean return of the deterministic policy too.
"""

from collections.abc import Iterable
from typing import Any

from tfbaselines.bench.table import EPISODES, Cell
from tfbaselines.cli.sections import tuned_sections
from tfbaselines.errors import unknown
from tfbaselines.report.published import MARGIN, Row, published_rows
from tfbaselines.report.statistics import interquartile_mean_of

PAGE_COLUMNS = ("peer", "environment", "steps", "published", "our settings", "our steps", "seeds", "scores")
PAGE_COLUMNS += ("interquartile mean", "reached", "minutes a run", "commit")


def cell_of(row: Row, seed: int, steps: float | None = None) -> Cell:
    """Return a run of a row, of at most as many steps as the published one."""
    tuned = float(tuned_sections(row.alg)[row.section].get("num_timesteps", row.steps))
    return Cell(row.alg, row.env, seed, min(row.steps, tuned) if steps is None else steps, row.tuned)


def cells(algs: Iterable[str] | None, seeds: int, envs: Iterable[str] | None, steps: float | None) -> list[Cell]:
    """List the runs of rows with tuned settings, the first seed of all before the second; None stands for all."""
    rows = published_rows()
    for kind, given, known in (
        ("algorithm", algs, {row.alg for row in rows}),
        ("environment", envs, {row.env for row in rows}),
    ):
        for name in given or ():
            if name not in known:
                raise unknown(kind, name, known)
    wanted = [row for row in rows if (algs is None or row.alg in algs) and (envs is None or row.env in envs)]
    wanted = [row for row in wanted if row.section in tuned_sections(row.alg)]
    return [cell_of(row, seed, steps) for seed in range(seeds) for row in wanted]


def page(finished: Any) -> str:
    """Format a Markdown table with a line for each published score, and the count of those that are reached."""
    lines, reached, run = [], 0, 0
    for row in published_rows():
        name = Cell(row.alg, row.env, 0, 0, row.tuned).name
        own = finished[(finished["alg"] == name) & (finished["env"] == row.env)]
        cells = [row.peer, row.env, f"{row.steps:,.0f}", f"{row.published:,.1f}", f"{name}"]
        if len(own):
            score = interquartile_mean_of(own["score"].to_numpy())
            run, reached = run + 1, reached + row.reached(score)
            cells += [f"{own['num_timesteps'].max():,.0f}", len(own)]
            cells += [", ".join(f"{one:,.1f}" for one in own["score"]), f"{score:,.1f}"]
            cells += ["yes" if row.reached(score) else "no", f"{own['minutes'].mean():.1f}"]
            cells += [", ".join(sorted(own["commit"].astype(str).str[:7].unique()))]
        else:
            cells += ["-"] * (len(PAGE_COLUMNS) - len(cells))
        lines.append(f"| {' | '.join(map(str, cells))} |")
    head = [
        f"# zoo: mean return of {EPISODES} episodes of the deterministic policy after training",
        "",
        f"Published scores that are reached (at most {MARGIN:.0%} below): {reached} of {len(lines)}; not reached: "
        f"{run - reached}; without a run: {len(lines) - run}. Published are single runs of rl-baselines3-zoo, on "
        "versions 2 and 3 of some tasks.",
        "",
        f"| {' | '.join(PAGE_COLUMNS)} |",
        f"|{'---|' * len(PAGE_COLUMNS)}",
    ]
    return "\n".join([*head, *lines]) + "\n"
