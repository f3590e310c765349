"""The suite 'zoo': rows of rl-baselines3-zoo's benchmark page, whose published scores are single runs.

The numbers are from benchmark.md of https://github.com/DLR-RM/rl-baselines3-zoo: mean returns of the deterministic
policy after training, on older versions of some environments. A cell trains with the tuned settings of this package
for at most as many steps, and its score is the mean return of the deterministic policy too.
"""

import csv
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from tfbaselines.bench.table import EPISODES, Cell, interquartile_mean
from tfbaselines.cli.sections import OF_SET, tuned_sections
from tfbaselines.errors import unknown

SUITE = "zoo"
PUBLISHED = Path(__file__).with_name("zoo.csv")
# A score reaches a published one from this share of its size below it.
MARGIN = 0.03
PAGE_COLUMNS = ("peer", "environment", "steps", "published", "our settings", "our steps", "seeds", "scores")
PAGE_COLUMNS += ("interquartile mean", "reached", "minutes a run", "commit")


class Row(NamedTuple):
    """A published score, and the run to set beside it.

    Attributes:
        peer, peer_env: algorithm and environment of the published score.
        alg, tuned, env: our algorithm, its settings as --tuned takes them, and environment.
        published: mean return.
        steps: environment steps of the published run.
    """

    peer: str
    peer_env: str
    alg: str
    tuned: bool | str
    env: str
    published: float
    steps: float

    @property
    def section(self) -> str:
        """Name of the section of the tuned settings."""
        return self.env if self.tuned is True else f"{self.tuned}{OF_SET}{self.env}"

    def cell(self, seed: int, steps: float | None = None) -> Cell:
        """Return a run of this row, of at most as many steps as the published one."""
        tuned = float(tuned_sections(self.alg)[self.section].get("num_timesteps", self.steps))
        return Cell(self.alg, self.env, seed, min(self.steps, tuned) if steps is None else steps, self.tuned)

    def reached(self, score: float) -> bool:
        """Check whether a score is at most MARGIN below the published one."""
        return score >= self.published - MARGIN * abs(self.published)


def published_rows() -> list[Row]:
    """Read the published scores."""
    with open(PUBLISHED, encoding="utf-8") as file:
        return [
            Row(*names, tuned == "True" or tuned, env, float(score), float(steps))
            for *names, tuned, env, score, steps in list(csv.reader(file))[1:]
        ]


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
    return [row.cell(seed, steps) for seed in range(seeds) for row in wanted]


def page(finished: Any) -> str:
    """Format a Markdown table with a line for each published score, and the count of those that are reached."""
    lines, reached, run = [], 0, 0
    for row in published_rows():
        name = Cell(row.alg, row.env, 0, 0, row.tuned).name
        own = finished[(finished["alg"] == name) & (finished["env"] == row.env)]
        cells = [row.peer, row.env, f"{row.steps:,.0f}", f"{row.published:,.1f}", f"{name}"]
        if len(own):
            score = interquartile_mean(own["score"].to_numpy())
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
