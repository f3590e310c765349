"""Subject of a search: its algorithm, environment, space and budget, kept in DIR/search.json."""

import dataclasses
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tfbaselines import __version__
from tfbaselines.algs import get
from tfbaselines.cli.command_line import Arguments
from tfbaselines.errors import UsageError, bad_argument, check_at_least
from tfbaselines.files import read_document, write_whole
from tfbaselines.limits import SEED, TIMESTEPS
from tfbaselines.search.space import Space, defaults, read_space, sample
from tfbaselines.study.cells import parse_words

FILE_NAME = "search.json"
LARGEST = 2**20
# Arguments that the search gives to its runs.
OF_THE_SEARCH = ("seed", "log_path", "log_format", "resume", "overwrite", "keep_checkpoints", "save_path", "play")
OF_THE_SEARCH += ("evaluate_every", "evaluate_episodes", "print_config", "help", "save_video_interval", "cpu")
# Share of the training after which the evaluations count.
LAST = 0.8
# Checkpoints of a run: a killed run repeats a tenth at most.
CHECKPOINTS = 10
# Distance of the judgement's seeds from the seeds of the search.
JUDGES_APART = 1_000_000


@dataclass(frozen=True)
class Settings:
    """Settings that a search keeps from its first command to its last.

    Attributes:
        words: arguments that every run has, with `alg` and `env`, as they would be typed.
        space: the search space.
        num_timesteps: environment steps of a run.
        seeds: seeds of a trial.
        seed: first of these seeds, and seed of the sampler.
        evaluations: evaluations in a run.
        evaluate_episodes: episodes of each.
        version: version of tfbaselines.
    """

    words: Mapping[str, str]
    space: Space
    num_timesteps: float = 1e5
    seeds: int = 3
    seed: int = 0
    evaluations: int = 20
    evaluate_episodes: int = 10
    version: str = field(default=__version__)

    def document(self) -> dict[str, Any]:
        """Return the settings as a JSON document."""
        space = {name: one._asdict() for name, one in self.space.items()}
        own = {name: value for name, value in vars(self).items() if name not in ("words", "space")}
        return json.loads(json.dumps({"words": dict(self.words), "space": space, **own}))

    @property
    def every(self) -> int:
        """Environment steps between two evaluations."""
        return max(1, int(self.num_timesteps / self.evaluations))

    def defaults(self) -> dict[str, Any]:
        """Return the sampled numbers that stand for the defaults; see space.defaults."""
        return defaults(self.space, self._parsed({}))

    def sample(self, trial: Any) -> dict[str, str]:
        """Sample the arguments of a trial."""
        usual = self._parsed({})
        values = {name: one.default for name, one in usual.algorithm.config.arguments().items()}
        values |= usual.flags | usual.learn
        return sample(self.space, trial, self.words, lambda name: str(values[name]))

    def run(self, found: Mapping[str, str], seed: int) -> dict[str, str]:
        """Return the arguments of a run.

        Args:
            found: the trial's arguments.
            seed: seed of the run.
        """
        own = {"seed": str(seed), "evaluate_every": str(self.every), "evaluate_episodes": str(self.evaluate_episodes)}
        own |= {"num_timesteps": f"{self.num_timesteps:.0f}", "log_format": "csv", "keep_checkpoints": "1"}
        own["save_every"] = str(max(1, int(self.num_timesteps / CHECKPOINTS)))
        return {**self._rows(found), **self.words, **found, **own}

    def _rows(self, found: Mapping[str, str]) -> dict[str, str]:
        """Return the log interval: two rows for each evaluation; empty if the steps of an update are unknown."""
        args = self._parsed(found)
        arguments = args.algorithm.config.arguments()
        if "print_freq" in arguments:
            return {"print_freq": "10"}
        steps = [args.learn.get(name, arguments[name].default) for name in args.algorithm.config.update_arguments]
        if "log_interval" not in arguments or not steps or not all(steps):
            return {}
        return {"log_interval": str(max(1, int(self.every / (2 * math.prod(steps) * args.num_env))))}

    def _parsed(self, found: Mapping[str, str]) -> Arguments:
        return parse_words({**self.words, **found})

    def check(self) -> None:
        """Raise a UsageError for arguments that no run would take."""
        check_at_least(1, seeds=self.seeds, evaluations=self.evaluations, evaluate_episodes=self.evaluate_episodes)
        if not 1 <= self.num_timesteps <= TIMESTEPS:
            raise bad_argument("num_timesteps", self.num_timesteps, f"between 1 and {TIMESTEPS:g}")
        if not 0 <= self.seed <= SEED - 2 * JUDGES_APART:
            raise bad_argument("seed", self.seed, f"between 0 and {SEED - 2 * JUDGES_APART}")
        self._parsed({})


def make(
    alg: str, env: str, words: Mapping[str, Any], space: str | Path | Mapping[str, Any] | None, **budget: Any
) -> Settings:
    """Make and check the settings of a search.

    Args:
        alg, env: algorithm, and id of the environment.
        words: arguments of every run by name.
        space: file or content of a search space; None for the algorithm's own.
        budget: further attributes of Settings.
    """
    fixed = {name.replace("-", "_"): str(value) for name, value in words.items()}
    for name in fixed:
        if name in OF_THE_SEARCH:
            raise UsageError(f"--{name} is not an argument of a search's runs: the search chooses it")
    fixed = {"alg": alg, "env": env, **fixed}
    get(alg)
    settings = Settings(fixed, {}, **budget)
    settings.check()
    return dataclasses.replace(settings, space=read_space(space, fixed))


def keep(directory: Path, settings: Settings) -> bool:
    """Write the settings of a new search; UsageError if the directory has another search. Return True if it is new."""
    path = directory / FILE_NAME
    if not path.exists():
        others = [one for one in directory.iterdir() if not one.name.startswith(".")] if directory.is_dir() else []
        if not others:
            directory.mkdir(parents=True, exist_ok=True)
            write_whole(path, json.dumps(settings.document(), indent=1))
            return True
        # Another process of the same search may have begun it meanwhile.
        if not path.exists():
            raise UsageError(f"'{directory}' is not the directory of a search, and not empty: give another --log_path")
    try:
        kept = read_document(path, LARGEST)
        if not isinstance(kept, dict) or not all(isinstance(kept.get(name), dict) for name in ("words", "space")):
            raise ValueError("it does not describe a search")
    except ValueError as error:
        raise UsageError(f"'{path}' is damaged: {error}") from None
    _compare(directory, kept, settings.document())
    return False


def _compare(directory: Path, kept: Mapping[str, Any], own: Mapping[str, Any]) -> None:
    if kept.get("version") != own["version"]:
        raise UsageError(
            f"'{directory}' is a search of tfbaselines {kept.get('version')!s:.40}, and this is {own['version']}: "
            "install that version, or give another --log_path"
        )
    words = {name: (kept["words"].get(name), own["words"].get(name)) for name in {*kept["words"], *own["words"]}}
    others = {name: (kept.get(name), own[name]) for name in own if name not in ("words", "space", "version")}
    for name, (before, now) in sorted((words | others).items()):
        if before != now:
            raise UsageError(
                f"'{directory}' is another search, with {name}={before!s:.80}, not {now!s:.80}: give another --log_path"
            )
    differing = [name for name in {*kept["space"], *own["space"]} if kept["space"].get(name) != own["space"].get(name)]
    if differing:
        raise UsageError(f"'{directory}' is a search in another space ({min(differing):.80}): give another --log_path")
