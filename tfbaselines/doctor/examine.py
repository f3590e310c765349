"""Examine a run: apply all rules to its evidence, and describe what was found and what was looked at."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tfbaselines.doctor.evidence import Evidence, of_directory
from tfbaselines.doctor.findings import PAGE, Finding, as_json, ordered, text
from tfbaselines.doctor.rules import Rule, rules
from tfbaselines.errors import printable


@dataclass(frozen=True)
class Report:
    """Result of an examination.

    Attributes:
        directory: the run's log directory.
        findings: the likeliest first.
        evidence: what was read.
        applied, left_out: rules that were applied, and those that need columns that the run lacks.
        probes: names of the probes that were made.
        not_probed: reasons why others were not, by name.
    """

    directory: str
    findings: tuple[Finding, ...]
    evidence: Evidence
    applied: tuple[Rule, ...]
    left_out: tuple[Rule, ...]
    probes: tuple[str, ...] = ()
    not_probed: Mapping[str, str] = field(default_factory=dict)

    def with_probes(self, findings: Iterable[Finding], made: Iterable[str], lacking: Mapping[str, str]) -> "Report":
        """Return a report that has the findings of probes as well."""
        every = tuple(ordered([*self.findings, *findings]))
        return replace(self, findings=every, probes=tuple(made), not_probed=dict(lacking))

    @property
    def lacking(self) -> list[str]:
        """Quantities that rules need and the run has no column of."""
        needed = dict.fromkeys(name for rule in self.left_out for name in rule.needs)
        return [name for name in needed if name in self.evidence.lacking]

    def as_json(self) -> str:
        """Write the report for programs."""
        run = self.evidence
        more = {"run": self.directory, "alg": run.settings.alg, "env": run.settings.env, "steps": run.steps}
        more |= {"read": list(run.read), "problems": list(run.problems), "lacking": self.lacking}
        if self.probes or self.not_probed:
            more |= {"probes": list(self.probes), "not_probed": dict(self.not_probed)}
        return as_json(self.findings, **more, rules=[rule.name for rule in self.applied])

    def as_text(self) -> str:
        """Write the report for a terminal."""
        run = self.evidence
        what = " ".join(filter(None, [run.settings.alg, run.settings.env])) or "a run without config.json"
        lines = [f"{self.directory}: {what}, {int(run.steps):,} steps, {len(run.episodes.returns):,} episodes read"]
        lines += [f"warning: {problem}" for problem in run.problems]
        lines += ["", text(self.findings) if self.findings else "Nothing found."]
        looked = f"Looked at {_listed(run.read)} with {len(self.applied)} rules ({PAGE})."
        lines += ["", looked]
        if self.lacking:
            lines += [f"No column for {', '.join(self.lacking)}: {len(self.left_out)} rules were not applied."]
        if self.probes:
            lines += [f"Probed: {', '.join(self.probes)}."]
        lines += [printable(f"Not probed: {name}: {reason}") for name, reason in self.not_probed.items()]
        return "\n".join(lines)


def _listed(names: tuple[str, ...]) -> str:
    """List the names of files, those of many copies by their number."""
    monitors = [name for name in names if name.endswith("monitor.csv")]
    others = [name for name in names if name not in monitors]
    if monitors:
        others.append(monitors[0] if len(monitors) == 1 else f"{len(monitors)} monitor files")
    return ", ".join(others)


def examine(run: Evidence, directory: str) -> Report:
    """Apply all rules to a run's evidence."""
    applied = tuple(rule for rule in rules() if not set(rule.needs) & set(run.lacking))
    left_out = tuple(rule for rule in rules() if rule not in applied)
    findings = [found for rule in applied if (found := rule.finding(run, directory)) is not None]
    return Report(directory, tuple(ordered(findings)), run, applied, left_out)


def examine_directory(directory: str, defaults: Callable[[str], Mapping[str, Any]]) -> Report:
    """Read the files of a run and apply all rules; see evidence.of_directory for the arguments."""
    return examine(of_directory(Path(directory).expanduser(), defaults), directory)
