"""Rules of the doctor: each is one small function of a run's evidence, with what it means and its source beside it.

A rule looks for a sign, not for a case: its function returns the Sign that it sees, or None. Healthy ranges of columns
are computed from healthy runs (healthy.csv, by tests/doctor/healthy.py), those of settings from the defaults and the
tuned settings.
"""

import csv
import functools
import importlib
import math
import shlex
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tfbaselines.doctor.evidence import Evidence
from tfbaselines.doctor.findings import Finding, number

HERE = Path(__file__).parent
# Modules with rules, in the order of the documentation.
MODULES = ("settings", "episodes", "columns", "values")
PROBE = "tfbaselines doctor {run} --probe"
CHECK_ENV = "tfbaselines check_env {env}"
PLOT = "tfbaselines plot {run} --value {column}"
PLOT_RETURNS = "tfbaselines plot {run}"
PRINT_CONFIG = "tfbaselines run --config={run} --print_config"
AGAIN = "tfbaselines run --config={run} --log_path={run}-mended"


# Arguments of the command, whatever the algorithm.
OF_COMMAND = ("network", "normalize", "num_timesteps", "reward_scale", "tuned")


def accepted(command: str, arguments: Collection[str]) -> str:
    """Keep the flags of a mending command that an algorithm takes; return "" without any.

    Args:
        command: AGAIN and flags.
        arguments: names of the algorithm's arguments; empty if they are unknown.
    """
    if not arguments:
        return command
    flags = command.removeprefix(AGAIN).split()
    kept = [flag for flag in flags if flag.removeprefix("--").partition("=")[0] in (*OF_COMMAND, *arguments)]
    return " ".join([AGAIN, *kept]) if kept else ""


class Sign(NamedTuple):
    """A sign that a rule sees.

    Attributes:
        quantity: the column, setting or measured quantity.
        value: value of the quantity, in words.
        certainty: how sure it is that this keeps the run from learning, from 0 to 1.
        step: environment step from which on it was seen; None for the whole run.
        healthy: the healthy range, in words.
        causes: causes of this very sign; empty for the rule's causes.
        flags: flags of a command that mends it; empty for the rule's remedy.
    """

    quantity: str
    value: str
    certainty: float
    step: float | None = None
    healthy: str = ""
    causes: tuple[str, ...] = ()
    flags: str = ""


@dataclass(frozen=True)
class Rule:
    """One rule.

    Attributes:
        name: name, and anchor on the documentation's page.
        title: what is wrong.
        needs: quantities that the run's table must have.
        meaning: what the sign usually means.
        source: the paper or the experience behind it.
        causes: causes, the likeliest first.
        check, remedy: commands, with {run}, {env} and {column}.
        find: function of the evidence that returns the Sign, or None.
    """

    name: str
    title: str
    meaning: str
    source: str
    causes: tuple[str, ...]
    find: Callable[[Evidence], Sign | None]
    needs: tuple[str, ...] = ()
    check: str = PROBE
    remedy: str = ""

    def finding(self, run: Evidence, directory: str) -> Finding | None:
        """Return the finding of this rule for a run in a directory; None if it sees no sign."""
        sign = self.find(run)
        if sign is None:
            return None
        words = {"run": directory, "env": run.settings.env or "ENV", "column": shlex.quote(sign.quantity)}
        remedy = f"{AGAIN} {sign.flags}" if sign.flags else self.remedy
        # Runs of other libraries cannot be built by this one's commands.
        remedy = accepted(remedy, run.settings.arguments) if run.settings.alg else ""
        check = self.check if run.settings.alg or self.check != PROBE else PLOT_RETURNS
        return Finding(
            self.name,
            self.title,
            sign.quantity,
            sign.value,
            self.meaning,
            round(sign.certainty, 3),
            sign.causes or self.causes,
            healthy=sign.healthy,
            step=None if sign.step is None or not math.isfinite(sign.step) else int(sign.step),
            check=filled(check, words, run.settings.foreign),
            remedy=filled(remedy, words, run.settings.foreign),
        )


def filled(text: str, words: Mapping[str, str], foreign: bool) -> str:
    """Fill in a command; those that import the modules of a run get --trust."""
    needs = foreign and any(part in text for part in ("--config=", "--probe", "--resume="))
    return text.format(**words) + (" --trust" if needs else "")


_rules: dict[str, Rule] = {}


def rule(**declared: object) -> Callable[[Callable[[Evidence], Sign | None]], Callable[[Evidence], Sign | None]]:
    """Declare a function as a rule of its name; see Rule for the arguments."""

    def declare(find: Callable[[Evidence], Sign | None]) -> Callable[[Evidence], Sign | None]:
        _rules[find.__name__] = Rule(name=find.__name__, find=find, **declared)
        return find

    return declare


@functools.cache
def rules() -> tuple[Rule, ...]:
    """Return all rules, in the order of the documentation."""
    for module in MODULES:
        importlib.import_module(f"{__name__}.{module}")
    return tuple(_rules.values())


class Range(NamedTuple):
    """The range of a quantity in healthy runs."""

    low: float
    high: float

    def __str__(self) -> str:
        return f"{number(self.low)} to {number(self.high)}"


@functools.cache
def _ranges() -> dict[tuple[str, str], Range]:
    with open(HERE / "healthy.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return {(row["quantity"], row["alg"]): Range(float(row["low"]), float(row["high"])) for row in rows}


def healthy(quantity: str, alg: str) -> Range | None:
    """Return the healthy range of a quantity for an algorithm, or else for all; None if neither is known."""
    return _ranges().get((quantity, alg)) or _ranges().get((quantity, "all"))
