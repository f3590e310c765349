"""Settings of a run, and the range of settings that are known to work: defaults and tuned settings."""

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tfbaselines.config.schedules import parse_schedule
from tfbaselines.errors import UsageError
from tfbaselines.yaml_files import read_yaml

TUNED = Path(__file__).parents[1] / "tuned"
# Names in config.json of Spinning Up, and their names here.
SPINNING_UP = {"clip_ratio": "cliprange", "pi_lr": "lr", "q_lr": "critic_lr", "steps_per_epoch": "nsteps"}


class Settings:
    """Settings of a run by name, numbers where they have one.

    Attributes:
        alg: name of the algorithm; empty if it is unknown.
        env: id of the environment; empty if it is unknown.
        given: settings that the run's config has; the others are defaults.
        foreign: the run names modules to import, so commands on it need --trust.

    Args:
        config: the run's config.json; empty without one.
        defaults: defaults of the algorithm by name.
    """

    def __init__(self, config: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
        env = config.get("env")
        learn = config.get("learn")
        learned = isinstance(learn, Mapping)
        self.env_settings: dict[str, Any] = dict(env) if isinstance(env, Mapping) else {}
        self.alg = _word(config.get("alg"))
        self.env = _word(self.env_settings.get("env")) or _word(config.get("env_name"))
        self.foreign = names_modules(config)
        renamed = {SPINNING_UP.get(name, name): value for name, value in config.items()}
        self.given: dict[str, Any] = dict(learn) if learned else renamed
        arguments = config.get("arguments")
        if isinstance(arguments, Mapping) and "total_timesteps" not in self.given:
            self.given["total_timesteps"] = arguments.get("num_timesteps")
        self._values = dict(defaults) | self.given
        self._defaults = dict(defaults)

    @property
    def arguments(self) -> list[str]:
        """Names of the algorithm's arguments; empty if they are unknown."""
        return list(self._defaults)

    def value(self, name: str) -> Any:
        """Return a setting; None if the run and its algorithm have none by this name."""
        return self._values.get(name)

    def number(self, name: str) -> float | None:
        """Return a setting's number, of a schedule the first one; None if it has none."""
        return number_of(self._values.get(name))

    def tuned(self) -> dict[str, Any]:
        """Return the tuned settings of this algorithm for this environment; empty without any."""
        return dict(tuned_sections(self.alg).get(self.env.rpartition(":")[2], {}))

    def known(self, name: str) -> tuple[float, float] | None:
        """Return the least and the largest number of a setting among the default and all tuned settings."""
        sections = [self._defaults, *tuned_sections(self.alg).values()]
        numbers = [number for section in sections if (number := number_of(section.get(name))) is not None]
        return (min(numbers), max(numbers)) if numbers else None

    def numeric(self) -> list[str]:
        """List the settings that the run was given and that have a number."""
        return [name for name in self.given if self.number(name) is not None]


def names_modules(config: Mapping[str, Any]) -> bool:
    """Return True if a run's config names modules to import, by its environment, its wrapper or its network."""
    env = config.get("env") if isinstance(config.get("env"), Mapping) else {}
    return bool(env.get("wrapper")) or ":" in _word(env.get("env")) + _word(config.get("network"))


def _word(value: Any) -> str:
    return value if isinstance(value, str) else ""


def number_of(value: Any) -> float | None:
    """Return the number of a value, or the first one of a schedule such as linear_3e-4; None for anything else."""
    if value is None or isinstance(value, bool):
        return None
    try:
        return float(parse_schedule(value)(1.0))
    except (UsageError, TypeError):
        return None


@functools.cache
def tuned_sections(alg: str) -> dict[str, dict[str, Any]]:
    """Return the tuned settings of an algorithm by environment; empty if it has none."""
    path = TUNED / f"{alg}.yaml"
    if not alg.isidentifier() or not path.exists():
        return {}
    return {str(name): section for name, section in read_yaml(path).items() if isinstance(section, dict)}
