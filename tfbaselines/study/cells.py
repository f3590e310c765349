"""Cells of a study: a run for each combination of algorithm, environment, settings and seed, checked beforehand."""

import itertools
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from tfbaselines.algs import ALGORITHMS, get
from tfbaselines.cli.command_line import Arguments, parse
from tfbaselines.cli.sections import below
from tfbaselines.errors import UsageError, check_at_least, nearest, unknown
from tfbaselines.words import pieces
from tfbaselines.yaml_files import read_yaml

# Arguments that the study gives to its runs.
OF_THE_STUDY = ("alg", "env", "seed", "tuned", "config", "num_timesteps")
# Arguments that a worker gives, or that have no use in a run without a terminal.
OF_THE_WORKER = ("log_path", "resume", "overwrite", "save_path", "print_config", "play", "help", "trust")
# Argument that one of Spinning Up's experiments has, and no other run; see compat/experiment_cells.py.
EXPERIMENT = "exp_name"
# Entries of a study's YAML file.
ENTRIES = ("alg", "env", "seeds", "num_timesteps", "tuned", "config", "set")
# Letters of a directory's name that come from settings.
LONGEST_SETTINGS = 100


@dataclass(frozen=True)
class Cell:
    """One run of a study.

    Attributes:
        name: unique name; workers take cells in the order of their names.
        group: name of the runs that differ in their seeds alone.
        directory: log directory of the run, relative to the study.
        words: arguments of the run by name, as they would be typed.
    """

    name: str
    group: str
    directory: str
    words: Mapping[str, str]

    @property
    def label(self) -> str:
        """Last part of the log directory, which people read."""
        return PurePosixPath(self.directory).name

    def document(self) -> dict[str, Any]:
        """Return the cell as a JSON document."""
        return {"name": self.name, "group": self.group, "directory": self.directory, "words": dict(self.words)}


def cell_of(document: Any) -> Cell:
    """Read a cell from its document; UsageError if it is damaged or would leave the study's directory."""
    words = document.get("words") if isinstance(document, dict) else None
    if not isinstance(words, dict):
        raise UsageError("it does not describe a cell")
    name, group, directory = (document.get(key) for key in ("name", "group", "directory"))
    if not all(isinstance(text, str) for text in (name, group, directory, *words.keys(), *words.values())):
        raise UsageError("it does not describe a cell: its entries are not texts")
    if chosen := words.keys() & set(OF_THE_WORKER):
        raise UsageError(f"its argument '{min(chosen)}' is chosen by the worker")
    place = PurePosixPath(directory)
    if place.is_absolute() or ".." in place.parts or not place.parts or "\\" in directory or "/" in name:
        raise UsageError(f"its directory {directory!r:.200} is not inside of the study")
    return Cell(name, group, directory, words)


def combinations(
    algs: Iterable[str],
    envs: Iterable[str],
    seeds: int,
    settings: Mapping[str, list[str]] | None = None,
    num_timesteps: str | None = None,
    tuned: str | None = None,
    config: str | None = None,
) -> list[Cell]:
    """Make a cell for each combination, the first seed of all before the second; UsageError for a wrong argument.

    Args:
        algs, envs: algorithms and ids of environments.
        seeds: number of seeds of each combination, from 0 on.
        settings: values of further arguments by name, as they would be typed.
        num_timesteps, tuned: arguments of every run; None for the command's own.
        config: YAML file of arguments, read now, with sections as in `--config`.
    """
    check_at_least(1, seeds=seeds)
    settings = {name.replace("-", "_"): values for name, values in (settings or {}).items()}
    _check_settings(settings)
    common = {name: value for name, value in (("num_timesteps", num_timesteps), ("tuned", tuned)) if value is not None}
    groups: dict[str, dict[str, str]] = {}
    for alg, env in itertools.product(dict.fromkeys(algs), dict.fromkeys(envs)):
        get(alg)
        for values in itertools.product(*settings.values()):
            setting = dict(zip(settings, values, strict=True))
            words = {"alg": alg, "env": env, **common, **setting}
            words = _of_config(config, words) | words
            parse_words(words)
            varied = {name: value for name, value in setting.items() if len(settings[name]) > 1}
            groups[_unique(_group_name(alg, env, varied), groups)] = words
    return _seeded(groups, seeds)


def _seeded(groups: Mapping[str, dict[str, str]], seeds: int) -> list[Cell]:
    runs = [(seed, group) for seed in range(seeds) for group in groups]
    digits = len(str(len(runs)))
    return [
        Cell(
            f"{number:0{digits}d}-{group}-s{seed}",
            group,
            f"runs/{group}-s{seed}",
            groups[group] | {"seed": str(seed)},
        )
        for number, (seed, group) in enumerate(runs)
    ]


def _check_settings(settings: Mapping[str, list[str]]) -> None:
    for name, values in settings.items():
        if name in OF_THE_STUDY:
            raise UsageError(f"--set {name}=...: give it as --{'seeds' if name == 'seed' else name}")
        if name in OF_THE_WORKER:
            raise UsageError(f"--set {name}=...: the study's workers choose it")
        if not values:
            raise UsageError(f"--set {name}= needs a value, or several with commas: --set {name}=A,B")
        if len(set(values)) < len(values):
            raise UsageError(f"--set {name}={','.join(values)}: a value is there twice")


def _of_config(path: str | None, words: dict[str, str]) -> dict[str, str]:
    """Return what a file of arguments has for a run, so that the study does not need the file again."""
    if path is None:
        return {}
    own = {name: value for name, value in words.items() if name != "tuned"}
    values, _ = below(own | {"config": os.path.expanduser(path)}, {})
    return {name: str(value) for name, value in values.items() if name not in ("alg", "env", "seed")}


def parse_words(words: Mapping[str, str]) -> Arguments:
    """Parse the arguments of a run; UsageError for wrong ones. This does not load TensorFlow."""
    added, origins = below(words, {})
    return parse({**added, **words}, ALGORITHMS, {name: origins[name] for name in origins.keys() - words.keys()})


def _group_name(alg: str, env: str, varied: Mapping[str, str]) -> str:
    # Names of modules before a colon are no help in a directory's name.
    parts = [alg.rpartition(":")[2], env.rpartition(":")[2]]
    shown = "-".join(f"{name}={value}" for name, value in varied.items())
    return re.sub(r"[^\w.=+-]+", "_", "-".join([*parts, *filter(None, [shown[:LONGEST_SETTINGS]])])).strip("_.-")


def _unique(name: str, taken: Iterable[str]) -> str:
    names = itertools.chain([name], (f"{name}-{number}" for number in itertools.count(2)))
    # Some file systems do not distinguish upper and lower case.
    lower = {one.lower() for one in taken}
    return next(one for one in names if one.lower() not in lower)


def split_settings(given: Iterable[str]) -> dict[str, list[str]]:
    """Split words 'name=value,value' of --set; commas inside of brackets and quotes stay."""
    settings: dict[str, list[str]] = {}
    for word in given:
        name, equals, values = word.partition("=")
        name = name.removeprefix("--")
        if not equals or not name:
            raise UsageError(f"--set {word!r:.200} is not valid: write NAME=VALUE,VALUE, as in --set lr=1e-3,3e-4")
        if name in settings:
            raise UsageError(f"--set {name} is there twice: give all values at once, with commas")
        settings[name] = pieces(values)
    return settings


def read_study_file(path: str | os.PathLike) -> dict[str, Any]:
    """Read the arguments of `combinations` from a YAML file; its entries have the names of the command's flags."""
    document = read_yaml(Path(path).expanduser())
    if not isinstance(document, dict) or not document:
        raise UsageError(f"'{path}' does not describe a study: it needs 'alg:' and 'env:'")
    for name in document:
        if name not in ENTRIES:
            raise unknown(f"entry of '{path}'", str(name), ENTRIES)
    for name in ("alg", "env"):
        if not document.get(name):
            raise UsageError(f"'{path}' has no '{name}:'")
    settings = document.get("set") or {}
    if not isinstance(settings, dict):
        raise UsageError(f"'{path}': 'set' must have arguments by name, as in 'lr: [1e-3, 3e-4]'")
    seeds = document.get("seeds", 1)
    if type(seeds) is not int:
        raise UsageError(f"'{path}': seeds={seeds!r:.80} is not valid: a whole number")
    texts = {name: str(document[name]) for name in ("num_timesteps", "tuned", "config") if document.get(name)}
    if "config" in texts:
        # Relative to the file that names it.
        texts["config"] = str(Path(path).expanduser().parent / Path(texts["config"]).expanduser())
    listed = {name: [str(value) for value in _listed(document[name])] for name in ("alg", "env")}
    settings = {str(name): [str(value) for value in _listed(values)] for name, values in settings.items()}
    return {"algs": listed["alg"], "envs": listed["env"], "seeds": seeds, "settings": settings, **texts}


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def find_cell(name: str, cells: Iterable[Cell]) -> Cell:
    """Find a cell by its name or its label; UsageError that names the nearest."""
    by_name = {known: cell for cell in cells for known in (cell.name, cell.label)}
    if name not in by_name:
        guess = nearest(name, by_name)
        raise UsageError(f"there is no cell '{name:.200}'{f': did you mean {guess}?' if guess else ''}")
    return by_name[name]
