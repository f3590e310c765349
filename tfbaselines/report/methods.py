"""Names of configurations that are the same on all environments, so that scores can be compared across them."""

import re
from collections import defaultdict
from collections.abc import Sequence

from tfbaselines.plot.results import Run, differing_settings, grouped_by_settings, settings_shown, shortest_ends

# A longer list of settings is replaced by a number; the table of arguments has them.
MOST_SETTINGS, LONGEST = 3, 48
# Letters of the name of a method or an environment.
LONGEST_NAME = 100


def with_methods(runs: Sequence[Run]) -> list[Run]:
    """Label runs by their method: the directory without seed and environment, the algorithm, settings that differ.

    Runs of one environment with equal settings are seeds of one method, whatever their directories are called, as in
    plots. Settings are part of the name only where they differ between runs of one environment: tuned ones that differ
    between environments are not.
    """
    runs = [run._replace(env=run.env[:LONGEST_NAME]) for run in runs]
    several = len({str(run.config.get("alg")) for run in runs}) > 1
    runs = grouped_by_settings([run if run.named else run._replace(group=_method(run, several)) for run in runs])
    names = shortest_ends({run.group for run in runs})
    settings: defaultdict[tuple[str, tuple[str, ...]], set[frozenset[tuple[str, str]]]] = defaultdict(set)
    for run in runs:
        settings[run.env, run.group].add(run.settings)
    differing = {group: differing_settings(own) for group, own in settings.items()}
    shown = [tuple(settings_shown(run.settings, differing[run.env, run.group])) for run in runs]
    words = _in_few_letters({(run.group, own) for run, own in zip(runs, shown, strict=True)})
    return [
        run._replace(label=f"{names[run.group][-LONGEST_NAME:]}{words[run.group, own]}")
        for run, own in zip(runs, shown, strict=True)
    ]


def _method(run: Run, with_algorithm: bool) -> tuple[str, ...]:
    """Return the parts of the run's path without its environment, and with its algorithm where there are several."""
    parts = [_without(part, run.env) for part in run.group] if run.env else list(run.group)
    parts = [part for part in parts if part]
    alg = run.config.get("alg")
    named = any(alg in re.split("[-=]", part) for part in parts[-2:])
    if with_algorithm and isinstance(alg, str) and not named:
        parts.append(alg)
    return tuple(parts) or run.group


def _without(part: str, env: str) -> str:
    """Cut an environment's id out of a part of a path."""
    for name in (env, env.replace("/", "-"), env.replace("/", "_"), env.rpartition("/")[2]):
        if name in part:
            before, _, after = part.partition(name)
            return "-".join(filter(None, (before.strip("-_. "), after.strip("-_. "))))
    return part


def _in_few_letters(pairs: set[tuple[tuple[str, ...], tuple[str, ...]]]) -> dict:
    """Map pairs of a method and its differing settings to words: the settings, or a number if they are many."""
    words: dict[tuple[tuple[str, ...], tuple[str, ...]], str] = {}
    numbers: defaultdict[tuple[str, ...], int] = defaultdict(int)
    for group, settings in sorted(pairs):
        text = "".join(f" {setting}" for setting in settings)
        numbers[group] += 1
        long = len(settings) > MOST_SETTINGS or len(text) > LONGEST
        words[group, settings] = f" #{numbers[group]}" if long else text
    return words
