"""Tables from the registry, the migration tables and the benchmarks' numbers, written anew by every build."""

import ast
import csv
import statistics
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

from sphinx.application import Sphinx

from tfbaselines.algs import NAMES, get
from tfbaselines.bench.speed import ONE_CORE
from tfbaselines.compat.__main__ import arguments_table, calls_table, names_table
from tfbaselines.config.algorithm import EVERY_KIND, Algorithm
from tfbaselines.config.bases import EpochConfig, ReplayConfig, RolloutConfig
from tfbaselines.doctor.findings import CAUSES
from tfbaselines.doctor.rules import rules
from tfbaselines.probes.rules import RULES

ROOT = Path(__file__).parents[2]
BENCHMARKS = ROOT / "data" / "benchmarks"
PACKAGE = ROOT / "tfbaselines"


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Write a table as Markdown."""
    head = list(head)
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def read(name: str) -> list[dict[str, str]]:
    """Read a CSV file of data/benchmarks."""
    with open(BENCHMARKS / f"{name}.csv", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def number(value: float) -> str:
    """Format a score: integers from a thousand on, else one decimal, two below ten."""
    size = abs(value)
    text = f"{value:,.0f}" if size >= 1000 else f"{value:.1f}" if size >= 10 else f"{value:.2f}"
    return text.removesuffix(".00").removesuffix(".0")


# --- Which algorithm?


def data_of(algorithm: Algorithm) -> str:
    """Name the data that an algorithm learns from."""
    arguments = algorithm.config.arguments()
    if algorithm.tabular:
        return "every step once"
    if "demo_path" in arguments and not issubclass(algorithm.config, RolloutConfig):
        return "demonstrations alone"
    if issubclass(algorithm.config, ReplayConfig):
        return "a replay of all steps"
    if algorithm.name == "acer":
        return "the latest rollout and a replay"
    if issubclass(algorithm.config, RolloutConfig):
        return "an epoch's rollout" if issubclass(algorithm.config, EpochConfig) else "the latest rollout"
    return "returns of a population"


def observations_of(algorithm: Algorithm) -> str:
    """Name the kinds of observations that an algorithm takes."""
    if algorithm.tabular:
        return "discrete, or a few numbers on a grid"
    if algorithm.goals:
        return "Dict with goals"
    return "vectors, images, several parts" if algorithm.several_observations else "vectors, images"


def demonstrations_of(algorithm: Algorithm) -> str:
    """Name the arguments that take demonstrations."""
    names = ("demo_path", "demo_file", "pretraining", "reward_signals", "offline")
    return ", ".join(f"`{name}`" for name in names if name in algorithm.config.arguments()) or "-"


def which_table() -> str:
    """Write the decision table, from the registry."""
    rows = []
    for name in sorted(NAMES):
        algorithm = get(name)
        actions = "all" if set(algorithm.actions) == set(EVERY_KIND) else ", ".join(algorithm.actions)
        memory = "yes" if algorithm.recurrent else "-"
        masks = "yes" if algorithm.takes_masks else "-"
        rows.append(
            [
                f"[`{name}`](algorithms/{name}.md)",
                actions,
                observations_of(algorithm),
                memory,
                masks,
                demonstrations_of(algorithm),
                data_of(algorithm),
            ]
        )
    return table(("algorithm", "actions", "observations", "memory", "masks", "demonstrations", "learns from"), rows)


# --- Results


def groups(rows: list[dict[str, str]], *keys: str) -> dict[tuple[str, ...], list[dict[str, str]]]:
    """Group rows by columns, in sorted order."""
    found: dict[tuple[str, ...], list[dict[str, str]]] = {}
    for row in rows:
        found.setdefault(tuple(row[key] for key in keys), []).append(row)
    return dict(sorted(found.items()))


def spread(scores: list[float]) -> str:
    """Write a mean, with the least and the largest value where there are several."""
    ends = f" ({number(min(scores))}; {number(max(scores))})" if len(scores) > 1 else ""
    return number(statistics.mean(scores)) + ends


def minutes(rows: list[dict[str, str]]) -> str:
    """Write the mean minutes of runs."""
    known = [float(row["minutes"]) for row in rows if row["minutes"]]
    if not known:
        return "-"
    return f"{statistics.mean(known):.1f}" if statistics.mean(known) >= 0.1 else "< 0.1"


def tuned_table() -> str:
    """Write the scores of the tuned settings, an environment after the other."""
    rows = []
    for (env, alg), found in groups(read("tuned"), "env", "alg").items():
        scores = [float(row["score"]) for row in found]
        steps = f"{float(found[0]['num_timesteps']):,.0f}"
        rows.append([env, f"`{alg}`", steps, str(len(found)), spread(scores), minutes(found)])
    return table(("environment", "algorithm", "steps", "seeds", "mean return (least; most)", "minutes a run"), rows)


def budget_table() -> str:
    """Write what the tuned settings reach on two environments, and in what time: budgets to compare."""
    tuned = groups(read("tuned"), "env", "alg")
    rows = []
    for alg in sorted(NAMES):
        cells = [f"`{alg}`"]
        for env in ("CartPole-v1", "HalfCheetah-v5"):
            found = tuned.get((env, alg))
            if found is None:
                cells += ["-", "-", "-"]
                continue
            score = statistics.mean(float(row["score"]) for row in found)
            cells += [f"{float(found[0]['num_timesteps']):,.0f}", number(score), minutes(found)]
        if set(cells[1:]) != {"-"}:
            rows.append(cells)
    head = ("algorithm", "CartPole: steps", "return", "minutes", "HalfCheetah: steps", "return", "minutes")
    return table(head, rows)


def suite_table(name: str) -> str:
    """Write a suite of scores with an environment a line and an algorithm a column."""
    found = groups(read(name), "env", "alg")
    algs = sorted({alg for _, alg in found})
    rows = []
    for env in sorted({env for env, _ in found}):
        scores = [[float(row["score"]) for row in found.get((env, alg), [])] for alg in algs]
        rows.append([env, *(spread(cell) if cell else "-" for cell in scores)])
    return table(("environment", *(f"`{alg}`" for alg in algs)), rows)


def speed_table() -> str:
    """Write the median ratios of all rounds in which both programs ran one after the other."""
    rows = []
    for (case,), found in groups(read("speed"), "case").items():
        programs = groups(found, "program")
        ours = {name[0]: runs for name, runs in programs.items() if name[0].startswith("tfbaselines")}
        peers = {name[0]: runs for name, runs in programs.items() if name[0] not in ours and "rank" not in name[0]}
        for program, runs in ours.items():
            here = statistics.median(float(row["steps_per_second"]) for row in runs)
            cells = [f"`{case}`", program.removeprefix("tfbaselines ") or "float32", f"{here:,.0f}", str(len(runs))]
            if not peers:
                rows.append([*cells, "-", "-", "-"])
            for peer, beside in peers.items():
                if peer.endswith(ONE_CORE) != program.endswith(ONE_CORE):
                    continue
                there = statistics.median(float(row["steps_per_second"]) for row in beside)
                rows.append([*cells, peer, f"{there:,.0f}", f"{here / there:.1f}"])
    return table(("case", "precision", "steps/s, median", "rounds", "peer", "peer's steps/s", "ratio"), rows)


def written_table(name: str, left_out: Collection[str] = ()) -> str:
    """Take over the table of a page that a command wrote into data/benchmarks, without some of its columns."""
    lines = (BENCHMARKS / f"{name}.md").read_text(encoding="utf-8").splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    kept = [i for i, head in enumerate(rows[0]) if head not in left_out]
    return table((rows[0][i] for i in kept), ([row[i] for i in kept] for row in rows[2:]))


# --- The doctor


def doctor_rules() -> str:
    """Describe the doctor's rules, each with the anchor that its findings link to."""
    sections = []
    for rule in rules():
        needs = f"Needs a column of {', '.join(rule.needs)}. " if rule.needs else ""
        causes = "; ".join(CAUSES[cause] for cause in rule.causes)
        commands = f"Check: `{rule.check.format(run='RUN', env='ENV', column='COLUMN')}`"
        lines = [f"({rule.name.replace('_', '-')})=\n### {rule.title}\n", f"{rule.meaning}\n"]
        lines += [f"{needs}Likely causes: {causes}. Source: {rule.source}. {commands}\n"]
        sections.append("\n".join(lines))
    return "\n".join(sections)


def probe_rules() -> str:
    """Describe the rules of the probes as those of the files."""
    sections = []
    for name, rule in RULES.items():
        causes = "; ".join(CAUSES[cause] for cause in rule.causes)
        check = rule.check.format(run="RUN", env="ENV")
        sections.append(
            f"({name.replace('_', '-')})=\n### {rule.title}\n\n{rule.meaning}\n\nMeasured: {rule.quantity}. Healthy: "
            f"{rule.healthy}. Likely causes: {causes}. Source: {rule.source}. Check: `{check}`\n"
        )
    return "\n".join(sections)


def doctor_table(name: str) -> str:
    """Count the spoiled runs of a judgement in which the true cause is first or second, by way and algorithm."""
    algs = ("ppo2", "a2c", "deepq", "sac")
    found = groups([row for row in read(name) if row["way"]], "way", "alg")
    rows = []
    for way in dict.fromkeys(way for way, _ in found):
        cells = [found.get((way, alg), []) for alg in algs]
        counts = [
            f"{sum(row['place'] in ('1', '2') for row in cell)} of {len(cell)}" if cell else "-" for cell in cells
        ]
        rows.append([way.replace("_", " "), *counts])
    return table(("way", *(f"`{alg}`" for alg in algs)), rows)


# --- Architecture


def modules_table(rooms: Iterable[str]) -> str:
    """List the modules of rooms with the first line of their docstrings."""
    rows = []
    for room in rooms:
        for path in sorted((PACKAGE / room).rglob("*.py")):
            text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
            if text:
                rows.append([f"`{path.relative_to(PACKAGE)}`", text.splitlines()[0].replace("|", "\\|")])
    return table(("module", "what it does"), rows)


TABLES: dict[str, Callable[[], str]] = {
    "baselines_names": lambda: names_table("baselines"),
    "spinningup_names": lambda: names_table("spinup"),
    "stable_baselines3_arguments": arguments_table,
    "stable_baselines3_calls": calls_table,
    "which": which_table,
    "budget": budget_table,
    "tuned": tuned_table,
    "mujoco1m": lambda: written_table("mujoco1m", ("steps", "seeds", "deviation", "commit")),
    "on_policy": lambda: suite_table("on_policy"),
    "speed": speed_table,
    "doctor_rules": doctor_rules,
    "doctor_table": lambda: doctor_table("doctor"),
    "doctor_probes_table": lambda: doctor_table("doctor_probes"),
    "probe_rules": probe_rules,
    "faults": lambda: written_table("faults"),
    "minutes": lambda: written_table("minutes"),
    "modules_training": lambda: modules_table(["training", "learn", "rollout", "replay"]),
    "modules_acting": lambda: modules_table(["policy", "envs"]),
    "modules_signals": lambda: modules_table(["rewards", "demos"]),
    "modules_edges": lambda: modules_table(
        ["config", "cli", "logs", "doctor", "probes", "plot", "bench", "parallel", "compat"]
    ),
}


def write(app: Sphinx) -> None:
    """Write the tables into docs/_generated, from where pages include them."""
    directory = Path(app.srcdir) / "_generated"
    directory.mkdir(exist_ok=True)
    for name, make in TABLES.items():
        path = directory / f"{name}.md"
        text = make()
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the tables before pages are read."""
    app.connect("builder-inited", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
