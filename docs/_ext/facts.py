"""Facts about the algorithms as Markdown tables, from the registry, the Configs and data/benchmarks.

Importing this module and calling its functions loads no TensorFlow.
"""

import csv
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from tfbaselines.algs import ALGORITHMS
from tfbaselines.config.algorithm import EVERY_KIND, Algorithm
from tfbaselines.config.argument import Argument, shown
from tfbaselines.config.config import Declared
from tfbaselines.envs import ENV_TYPES

ROOT = Path(__file__).resolve().parents[2]
BENCHMARKS = ROOT / "data" / "benchmarks"
YES, NO = "yes", "no"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return ["| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines]


def _cell(text: str) -> str:
    return str(text).replace("|", "\\|").replace("$", "\\$").replace("\n", " ")


def uses(algorithm: Algorithm) -> dict[str, str]:
    """Return what an algorithm can be used with: short answers by question, in a fixed order."""
    arguments = algorithm.config.arguments()
    bounded = "bounded Box" in algorithm.actions
    actions = {kind: YES if kind in algorithm.actions else NO for kind in EVERY_KIND}
    if bounded:
        actions["Box"] = "yes, with bounds"
    return {f"{kind} actions": answer for kind, answer in actions.items()} | {
        "Vectors": "on a grid" if algorithm.tabular else YES,
        "Images": NO if algorithm.tabular else YES,
        "Images and vectors together": YES if algorithm.several_observations else NO,
        "Goals (hindsight)": _goals(algorithm),
        "Memory": _memory(algorithm),
        "Action masks": YES if algorithm.takes_masks and any("Discrete" in kind for kind in algorithm.actions) else NO,
        "Several environments": "for tests" if "held_out" in arguments else YES,
        "Several ranks (`mpirun`)": YES,
        "Demonstrations": _demonstrations(arguments),
        "Reward signals": "`reward_signals`" if "reward_signals" in arguments else NO,
        "From a data set alone": _data_sets(arguments),
        "Wraps MuJoCo in `VecNormalize`": YES if algorithm.normalized_environments else NO,
    }


def _goals(algorithm: Algorithm) -> str:
    if algorithm.goals:
        return "needs them"
    return "`replay=hindsight`" if "replay_k" in algorithm.config.arguments() else NO


def _memory(algorithm: Algorithm) -> str:
    if "memory_size" in algorithm.config.arguments():
        return "`memory_size`, or a recurrent network"
    return "a recurrent network" if algorithm.recurrent else NO


def _demonstrations(arguments: dict[str, Argument]) -> str:
    names = [name for name in ("demo_path", "demo_file", "pretraining") if name in arguments]
    return ", ".join(f"`{name}`" for name in names) or NO


def _data_sets(arguments: dict[str, Argument]) -> str:
    if "offline" in arguments:
        return "`offline`"
    return "`demo_path`" if "held_out" in arguments else NO


def use_table(name: str) -> list[str]:
    """Return the table "Can I use?" of one algorithm."""
    return table(("", f"`{name}`"), uses(ALGORITHMS[name]).items())


# Titles of groups of arguments by the class that declares them; the others are the algorithm's own.
GROUPS = {
    "Config": "Of every algorithm",
    "PretrainingConfig": "Demonstrations beside rewards",
    "SignalsConfig": "Reward signals",
    "DemonstrationConfig": "Demonstrations",
    "OnPolicyConfig": "Rollouts",
    "PolicyConfig": "Rollouts",
    "RolloutConfig": "Rollouts",
    "ActorCriticConfig": "Of a2c, acer and acktr",
    "BatchConfig": "Of ppo1, trpo_mpi and gail",
    "TrustRegionConfig": "Of trpo_mpi and gail",
    "EpochConfig": "Epochs",
    "SpinupConfig": "Epochs",
    "EpisodeReturn": "Episodes",
    "EpisodeLimits": "Episodes",
    "PreviousAction": "Memory",
    "EvaluatedConfig": "Tests",
    "SearchConfig": "Iterations and tests",
    "ReplayConfig": "Replay",
    "BufferConfig": "Replay",
    "SpinupReplayConfig": "Replay",
    "OffPolicyConfig": "Of sac and td3",
    "ExplorationConfig": "Of sac and td3",
}


def argument_groups(name: str) -> dict[str, list[tuple[int, Argument, str]]]:
    """Return (position, argument, defaults by type of environment) by group, the algorithm's own arguments first."""
    config = ALGORITHMS[name].config
    declared = {}
    for base in reversed(config.__mro__):
        for one in vars(base).get("__annotations__", {}) if issubclass(base, Declared) else ():
            if base.__dict__["__dataclass_fields__"][one].metadata:
                declared[one] = f"Of {name}" if base is config else GROUPS.get(base.__name__, "Others")
    groups: dict[str, list[tuple[int, Argument, str]]] = {f"Of {name}": []}
    # learn's first two positions are network and env.
    for position, argument in enumerate(config.arguments().values(), start=3):
        others = {kind: values[argument.name] for kind, values in _defaults(config).items() if argument.name in values}
        by_type = "".join(f"; {kind}: `{shown(value)}`" for kind, value in others.items())
        groups.setdefault(declared[argument.name], []).append((position, argument, by_type))
    return {title: rows for title, rows in groups.items() if rows}


def _defaults(config: type[Declared]) -> dict[str, dict[str, object]]:
    return {kind: values for kind, values in config.env_defaults.items() if kind in (*ENV_TYPES, "all")}


def argument_tables(name: str) -> list[str]:
    """Return the tables of one algorithm's arguments, a title before each."""
    lines = []
    for title, rows in argument_groups(name).items():
        cells = [
            (str(position), f"`{one.name}`", f"`{shown(one.default)}`{others}", _meaning(one))
            for position, one, others in rows
        ]
        lines += [f"**{title}**", "", *table(("position", "name", "default", "meaning"), cells), ""]
    return lines


def _meaning(argument: Argument) -> str:
    meaning = re.sub(r"--\w+|\{.*\}", r"`\g<0>`", argument.meaning)
    kinds = "; a schedule" if "schedule" in argument.kinds else ""
    return meaning + kinds + ("" if argument.settable else "; from Python only")


def scores(name: str) -> list[tuple[str, str, int, list[float]]]:
    """Return (command's flags, environment, steps, scores of the seeds) of one algorithm's measured runs."""
    found: dict[tuple[str, str, int], list[float]] = defaultdict(list)
    for file, flags in (("mujoco1m", ""), ("on_policy", ""), ("tuned", "--tuned ")):
        with open(BENCHMARKS / f"{file}.csv", encoding="utf-8", newline="") as lines:
            for row in csv.DictReader(lines):
                if row["alg"] == name:
                    found[flags, row["env"], int(float(row["num_timesteps"]))].append(float(row["score"]))
    return [(*key, values) for key, values in sorted(found.items(), key=lambda pair: (pair[0][0], pair[0][1]))]


def changed() -> set[tuple[str, str]]:
    """Return algorithm and environment of the tuned settings that are others than those of the scores."""
    with open(BENCHMARKS / "tuned_changed.csv", encoding="utf-8", newline="") as lines:
        return {(row["alg"], row["env"]) for row in csv.DictReader(lines)}


def score_table(name: str) -> list[str]:
    """Return the table of one algorithm's scores with the command of each, or nothing where none is measured."""

    def how(flags: str, environment: str, steps: int) -> str:
        earlier = flags and (name, environment) in changed()
        return "earlier tuned settings" if earlier else f"`{command(flags, environment, steps)}`"

    rows = [
        (environment, f"{steps:,}", str(len(values)), spread(values), how(flags, environment, steps))
        for flags, environment, steps, values in scores(name)
    ]
    header = ("environment", "steps", "seeds", "mean return (least; most)", f"`--alg={name}` and")
    return table(header, rows) if rows else []


def command(flags: str, environment: str, steps: int) -> str:
    """Return the flags of a run; the tuned settings have their number of steps."""
    return f"{flags}--env={environment}" + ("" if flags else f" --num_timesteps={shown(float(steps))}")


def spread(values: list[float]) -> str:
    """Return the mean of scores, and the least and the largest of several."""
    mean = number(sum(values) / len(values))
    return mean if len(values) == 1 else f"{mean} ({number(min(values))}; {number(max(values))})"


def number(value: float) -> str:
    """Format a score with four digits or so."""
    digits = 0 if abs(value) >= 1000 else 1 if abs(value) >= 1 else 2
    return f"{value:,.{digits}f}"
