"""Scores: run the missing cells of a suite and compare them with published ones, or collect learning curves of runs.

A cell is an algorithm on an environment. Each of its seeds is one run of the command line in LOGS/ALG/ENV/SEED, with
default arguments or, in the suite 'tuned', with --tuned. A stopped run is resumed; a finished run is not repeated.
OpenAI baselines published the scores: means over the last 100 episodes of several seeds. Learning curves are
mean returns of 100 episodes, or of a test of the deterministic policy where the run has them.
"""

import json
import os
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tfbaselines.algs import get
from tfbaselines.cli.sections import tuned_environments
from tfbaselines.errors import UsageError, check_at_least, unknown
from tfbaselines.files import write_whole
from tfbaselines.report.published import SUITES
from tfbaselines.report.statistics import interquartile_mean_of
from tfbaselines.study import cells as study_cells
from tfbaselines.study.process import call, last_error
from tfbaselines.study.store import FAILED, OUTPUT, Study
from tfbaselines.study.worker import work

RESULT = "result.json"
TUNED_SUITE = "tuned"
# The module zoo.py has the suite of that name.
ZOO_SUITE = "zoo"
DEFAULT_ALG = "ppo2"
COLUMNS = ("alg", "env", "seed", "num_timesteps", "score", "minutes", "commit")
PAGE_COLUMNS = ("algorithm", "environment", "steps", "seeds", "mean", "deviation")
PAGE_COLUMNS += ("interquartile mean (95 % interval)", "published", "minutes a run", "commit")
# A score is the mean return of the last episodes of training; for tuned settings, of a test after training.
EPISODES = 100
RESAMPLES, LEVEL = 2000, 0.95


@dataclass(frozen=True)
class Cell:
    """One run of a suite, of at most `steps`; with tuned settings, which may stop it earlier, or default ones.

    Attributes:
        tuned: the value of --tuned: True, False or a named set.
    """

    alg: str
    env: str
    seed: int
    steps: float
    tuned: bool | str = False

    @property
    def name(self) -> str:
        """Name of the algorithm and of its named set, if any."""
        return f"{self.alg}-{self.tuned}" if isinstance(self.tuned, str) else self.alg

    def directory(self, logs: str) -> Path:
        """Return the log directory of the run."""
        return Path(logs) / self.name / self.env / str(self.seed)

    def of_study(self) -> study_cells.Cell:
        """Return the cell of a study in the directory of the logs."""
        words = {"alg": self.alg, "env": self.env, "seed": str(self.seed), "num_timesteps": f"{self.steps:.0f}"}
        words |= {"tuned": str(self.tuned)} if self.tuned else {}
        group = f"{self.name}-{self.env}"
        name = f"{self.seed:04d}-{group}".replace("/", "_")
        return study_cells.Cell(name, group, self.directory("").as_posix(), words)

    @classmethod
    def of_words(cls, words: dict[str, str]) -> "Cell":
        """Return the cell that has these words in a study."""
        tuned = words.get("tuned", "False")
        own = words["alg"], words["env"], int(words["seed"]), float(words["num_timesteps"])
        return cls(*own, {"True": True, "False": False}.get(tuned, tuned))

    def result(self, logs: str) -> dict[str, object] | None:
        """Return the row of a finished run, or None."""
        path = self.directory(logs) / RESULT
        if not path.exists():
            return None
        row = json.loads(path.read_text(encoding="utf-8"))
        return row if row["num_timesteps"] >= self.steps else None


def cells(
    suite: str, algs: Iterable[str] | None, seeds: int, envs: Iterable[str] | None, steps: float | None
) -> list[Cell]:
    """List the runs of a suite, the first seed of all cells before the second.

    The seeds are 0 to `seeds` - 1. None stands for ppo2, or in the suite 'zoo' for all algorithms, for all environments
    of the suite, and for its number of steps.
    """
    if suite not in (*SUITES, TUNED_SUITE, ZOO_SUITE):
        raise unknown("suite", suite, (*SUITES, TUNED_SUITE, ZOO_SUITE))
    check_at_least(1, seeds=seeds)
    if suite == ZOO_SUITE:
        from tfbaselines.bench import zoo

        return zoo.cells(algs, seeds, envs, steps)
    algs = [DEFAULT_ALG] if algs is None else list(algs)
    for alg in algs:
        get(alg)
    tuned = suite == TUNED_SUITE
    if tuned:
        sections = {alg: tuned_environments(alg) for alg in algs}
        wanted = {alg: {env: float(own["num_timesteps"]) for env, own in of.items()} for alg, of in sections.items()}
    else:
        wanted = dict.fromkeys(algs, dict.fromkeys(SUITES[suite].envs, SUITES[suite].steps))
    known = {env for of_env in wanted.values() for env in of_env}
    envs = known if envs is None else list(envs)
    for env in envs:
        if env not in known:
            raise unknown("environment", env, known)
    return [
        Cell(alg, env, seed, own if steps is None else steps, tuned)
        for seed in range(seeds)
        for alg in algs
        for env, own in wanted[alg].items()
        if env in envs
    ]


def run_missing(
    wanted: list[Cell], logs: str, jobs: int, ended: Callable[[Cell, str | None], None] = lambda cell, problem: None
) -> int:
    """Run the missing cells as a study in LOGS, which workers of other machines may share; return the worker's status.

    Args:
        wanted, logs: cells, and directory of their runs.
        jobs: runs at once, which share the cores.
        ended: called with each cell that ends, and its error or None.
    """
    study = Study.opened(logs)
    missing = {one.name: (cell, one) for cell in wanted if cell.result(logs) is None for one in [cell.of_study()]}
    for _, one in missing.values():
        study.put(one)

    def note(_: str) -> None:
        failed = set(study.names(FAILED))
        for name, (cell, _) in list(missing.items()):
            if name in failed or cell.result(logs) is not None:
                del missing[name]
                output = cell.directory(logs) / OUTPUT
                ended(cell, f"{last_error(output)}, see {output}" if name in failed else None)

    command = [sys.executable, "-m", "tfbaselines.bench.suite_run", os.fspath(logs)]
    return work(study, jobs, lambda one, _: [*command, json.dumps(dict(one.words))], note, only=sorted(missing))


def run(cell: Cell, logs: str) -> int:
    """Run a cell in this process's place: its training, the test and the row of the table; return the exit status."""
    directory = cell.directory(logs)
    words = {"alg": cell.alg, "env": cell.env, "num_timesteps": f"{cell.steps:.0f}", "seed": cell.seed}
    words |= {"log_path": directory, "resume": "auto"} | ({"tuned": cell.tuned} if cell.tuned else {})
    status = call([sys.executable, "-m", "tfbaselines.run", *(f"--{name}={value}" for name, value in words.items())])
    if status == 0:
        write_whole(directory / RESULT, json.dumps(_row(cell, directory)))
    return status


def _row(cell: Cell, directory: Path) -> dict[str, object]:
    # Minutes of all parts of an interrupted run.
    minutes = progress_of(directory)["elapsed"] / 60
    run = {"alg": cell.name, "env": cell.env, "seed": cell.seed, "num_timesteps": cell.steps}
    found = {"score": _score(cell, directory), "minutes": round(minutes, 2)}
    return run | found | {"commit": commit_of(directory)}


def progress_of(directory: Path) -> dict[str, Any]:
    """Return the counters of a run's latest checkpoint, such as the seconds that it took in all."""
    from tfbaselines.training.checkpoint import Checkpoints, load_tree

    return load_tree(Checkpoints(directory / "checkpoints").latest())["training"]


def commit_of(directory: Path) -> str:
    """Return the commit of the code that a run used."""
    return json.loads((directory / "config.json").read_text(encoding="utf-8"))["git_commit"]["tfbaselines"]


def _score(cell: Cell, directory: Path) -> float:
    if not cell.tuned:
        from tfbaselines.envs.monitor import load_results

        return float(load_results(str(directory))["r"].tail(EPISODES).mean())
    # Many runs with tuned settings have too few episodes for a mean.
    return float(evaluated(directory, EPISODES, num_env=10, seed=1000)["mean"])


def evaluated(directory: Path, episodes: int, **options: int) -> dict[str, Any]:
    """Return the results of episodes of a run's deterministic policy; for the options see `evaluate`."""
    command = [sys.executable, "-m", "tfbaselines.evaluate", str(directory), "--deterministic", "--json"]
    command += [f"--episodes={episodes}", *(f"--{name}={value}" for name, value in options.items())]
    result = subprocess.run(command, stdout=subprocess.PIPE, check=True, start_new_session=True)
    return json.loads(result.stdout)


def interval(scores: np.ndarray) -> tuple[float, float]:
    """Compute the bootstrap interval of the interquartile mean."""
    rng = np.random.default_rng(0)
    means = [interquartile_mean_of(rng.choice(scores, len(scores))) for _ in range(RESAMPLES)]
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def page(suite: str, rows: Any) -> str:
    """Format a Markdown table with a line for each cell."""
    if suite == ZOO_SUITE:
        from tfbaselines.bench import zoo

        return zoo.page(rows)
    which = "after training" if suite == TUNED_SUITE else "the last ones"
    lines = [
        f"# {suite}: mean return of {EPISODES} episodes, {which}",
        "",
        f"| {' | '.join(PAGE_COLUMNS)} |",
        f"|{'---|' * len(PAGE_COLUMNS)}",
    ]
    for (alg, env, steps), own in rows.groupby(["alg", "env", "num_timesteps"]):
        scores = own["score"].to_numpy()
        low, high = interval(scores)
        published = SUITES[suite].published.get(alg, {}).get(env) if suite in SUITES else None
        commits = ", ".join(sorted(own["commit"].astype(str).str[:7].unique()))
        cells = (alg, env, f"{steps:,.0f}", len(own), f"{scores.mean():,.1f}", f"{scores.std():,.1f}")
        cells += (f"{interquartile_mean_of(scores):,.1f} ({low:,.1f} to {high:,.1f})",)
        cells += ("-" if published is None else f"{published:,.1f}", f"{own['minutes'].mean():.1f}", commits)
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines) + "\n"


def write(suite: str, wanted: list[Cell], logs: str, out: str) -> list[Path]:
    """Write OUT.csv and OUT.md from the finished runs."""
    import pandas as pd

    finished = [row for row in (cell.result(logs) for cell in wanted) if row is not None]
    rows = pd.DataFrame(finished, columns=COLUMNS).sort_values(["alg", "env", "seed"])
    paths = [Path(f"{out}.csv"), Path(f"{out}.md")]
    paths[0].parent.mkdir(parents=True, exist_ok=True)
    for path, content in zip(paths, (rows.to_csv(index=False), page(suite, rows)), strict=True):
        write_whole(path, content)
    return paths


CURVE_COLUMNS = ("alg", "env", "seed", "total_timesteps", "eprewmean")
# Column of tables with runs of one algorithm, environment and seed: the arguments that differ.
SETTINGS = "settings"
# Rows kept of each run: a curve needs no more, and the files stay small.
POINTS = 200


def collect(directories: list[str]) -> Any:
    """Read the learning curves of all runs below some directories into a data frame with CURVE_COLUMNS and SETTINGS.

    Args:
        directories: log directories, directories above them, or tables of `write_curves` to add to.
    """
    import pandas as pd

    tables, configs, curves = [], [], []
    for top in directories:
        if Path(top).is_file():
            tables.append(_table(top))
        for path in sorted(Path(top).rglob("config.json")):
            progress = path.parent / "progress.csv"
            if progress.exists():
                configs.append(json.loads(path.read_text(encoding="utf-8")))
                curves.append(_curve(configs[-1], pd.read_csv(progress, float_precision="round_trip")))
    for curve, label in zip(curves, _labels(configs), strict=True):
        tables.append(curve.assign(**{SETTINGS: label}))
    if not tables:
        raise UsageError(f"no runs (config.json and progress.csv) under {', '.join(directories)}")
    return pd.concat(tables, ignore_index=True)


def _labels(configs: list[dict[str, Any]]) -> list[str]:
    """Label each run by the settings that differ between runs of its algorithm and environment; number equal runs."""
    from tfbaselines.plot.results import differing_settings, settings_of, settings_shown

    settings = [settings_of(config) for config in configs]
    cells = [(config["alg"], config["env"]["env"]) for config in configs]
    settings_by_cell = defaultdict(set)
    for cell, of_run in zip(cells, settings, strict=True):
        settings_by_cell[cell].add(of_run)
    differing = {cell: differing_settings(of_cell) for cell, of_cell in settings_by_cell.items()}
    labels, seen = [], Counter()
    for cell, config, of_run in zip(cells, configs, settings, strict=True):
        run = (cell, config["env"]["seed"], of_run)
        seen[run] += 1
        words = settings_shown(of_run, differing[cell]) + ([f"run {seen[run]}"] if seen[run] > 1 else [])
        labels.append(" ".join(words))
    return labels


def _table(path: str) -> Any:
    import pandas as pd

    table = pd.read_csv(path, float_precision="round_trip")
    if tuple(table)[: len(CURVE_COLUMNS)] != CURVE_COLUMNS:
        raise UsageError(f"'{path}' is not a table of scores: its columns are not {', '.join(CURVE_COLUMNS)}")
    return table.assign(**{SETTINGS: table[SETTINGS].fillna("") if SETTINGS in table else ""})


def _curve(config: dict[str, Any], progress: Any) -> Any:
    import pandas as pd

    from tfbaselines.plot.columns import RETURNS, XAXES

    steps, returns = (next(progress[name] for name in names if name in progress) for names in (XAXES, RETURNS))
    keep = np.unique(np.linspace(0, len(progress) - 1, POINTS).astype(int))
    columns = (config["alg"], config["env"]["env"], config["env"]["seed"], steps[keep], returns[keep])
    return pd.DataFrame(dict(zip(CURVE_COLUMNS, columns, strict=True)))


def final_scores(curves: Any) -> Any:
    """Compute the last mean return of every run, and its mean over the seeds."""
    last = curves.groupby(["alg", "env", SETTINGS, "seed"], as_index=False).last()
    last["mean_of_seeds"] = last.groupby(["alg", "env", SETTINGS])["eprewmean"].transform("mean")
    return _without_empty_settings(last)


def _without_empty_settings(table: Any) -> Any:
    return table if table[SETTINGS].any() else table.drop(columns=SETTINGS)


def write_curves(curves: Any, out: str) -> list[Path]:
    """Write OUT.csv and OUT.png: a panel per environment, a line per seed."""
    from tfbaselines.plot.panels import draw

    table, picture = Path(f"{out}.csv"), Path(f"{out}.png")
    table.parent.mkdir(parents=True, exist_ok=True)
    write_whole(table, _without_empty_settings(curves).to_csv(index=False))
    draw([_panel(env, of_env) for env, of_env in curves.groupby("env")], str(picture))
    return [table, picture]


def _panel(env: str, curves: Any) -> Any:
    from tfbaselines.plot.panels import Panel
    from tfbaselines.plot.results import Curve

    # Her's logs have success rates in place of returns.
    ylabel = "success rate" if set(curves["alg"]) == {"her"} else "mean return"
    lines = []
    for (alg, settings, seed), curve in curves.groupby(["alg", SETTINGS, "seed"]):
        steps, returns = curve["total_timesteps"].to_numpy(), curve["eprewmean"].to_numpy()
        label = " ".join(filter(None, (alg, settings, f"seed {seed}")))
        lines.append(Curve(label, steps, returns, returns, returns))
    return Panel("environment steps", ylabel, lines, title=env)
