"""Parameters of environments that change while an agent learns: samplers and curricula, read from ML-Agents' files.

A sampler draws a parameter anew for every episode, or every `resampling-interval` steps. A curriculum is a row of
lessons, each with values of its parameters; it goes to the next lesson when a measure passes the lesson's threshold
(training/lessons.py). parameterized.py brings the values to an environment.
"""

import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tfbaselines.errors import UsageError, nearest
from tfbaselines.yaml_files import read_yaml

REWARD, PROGRESS = "reward", "progress"
INTERVAL = "resampling-interval"

# Arguments of the samplers, by their types.
SAMPLERS = {
    "uniform": ("min_value", "max_value"),
    "gaussian": ("mean", "st_dev"),
    "multirange_uniform": ("intervals",),
}


@dataclass(frozen=True)
class Sampler:
    """A distribution of one parameter.

    Attributes:
        kind: one of SAMPLERS.
        arguments: numbers of the distribution, in the order of SAMPLERS; pairs of bounds for multirange_uniform.
    """

    kind: str
    arguments: tuple[Any, ...]

    def draw(self, rng: np.random.Generator) -> float:
        """Draw a value; several ranges are drawn from in proportion to their lengths."""
        if self.kind == "gaussian":
            return float(rng.normal(*self.arguments))
        if self.kind == "uniform":
            return float(rng.uniform(*self.arguments))
        lows, highs = np.array(self.arguments, np.float64).T
        lengths = highs - lows
        equal = np.full(len(lengths), 1.0 / len(lengths))
        number = rng.choice(len(lengths), p=lengths / lengths.sum() if lengths.sum() > 0 else equal)
        return float(rng.uniform(lows[number], highs[number]))


# A number, or a distribution of numbers.
Value = float | Sampler


def encoded(values: Mapping[str, Value]) -> dict[str, Any]:
    """Return numbers and samplers as JSON, for a checkpoint."""
    samplers = {name: value for name, value in values.items() if isinstance(value, Sampler)}
    return {**values, **{name: [one.kind, [*map(_listed, one.arguments)]] for name, one in samplers.items()}}


def _listed(argument: Any) -> Any:
    return list(argument) if isinstance(argument, tuple) else argument


def decoded(saved: Mapping[str, Any]) -> dict[str, Value]:
    """Undo `encoded`."""
    return {name: _decoded(value) if isinstance(value, list) else value for name, value in saved.items()}


def _decoded(saved: list[Any]) -> Sampler:
    return Sampler(saved[0], tuple(tuple(one) if isinstance(one, list) else one for one in saved[1]))


@dataclass(frozen=True)
class Criterion:
    """The end of a lesson.

    Attributes:
        threshold: the lesson ends when the measure is above it.
        measure: 'reward', the mean return of the lesson's latest episodes; or 'progress', the share of training done.
        min_lesson_length: least number of episodes in the lesson, and number of episodes in the mean.
        signal_smoothing: take 0.75 of the mean return and 0.25 of the smoothed one before it.
    """

    threshold: float
    measure: str = REWARD
    min_lesson_length: int = 0
    signal_smoothing: bool = True


@dataclass(frozen=True)
class Curriculum:
    """A row of lessons.

    Attributes:
        name: name of the parameter, or of the behavior in a file of several; empty for the only curriculum of a file.
        criteria: ends of the lessons but the last.
        values: values of each parameter, one for each lesson.
    """

    name: str
    criteria: tuple[Criterion, ...]
    values: dict[str, tuple[Value, ...]]


@dataclass(frozen=True)
class EnvParameters:
    """Parameters of environments.

    Attributes:
        documents: content of the files.
        fixed: constants and samplers by name.
        curricula: the curricula.
        interval: steps of an environment between two draws; None draws for every episode.
    """

    documents: list[Any]
    fixed: dict[str, Value] = field(default_factory=dict)
    curricula: tuple[Curriculum, ...] = ()
    interval: int | None = None

    def values(self, lessons: Sequence[int] | None = None) -> dict[str, Value]:
        """Return the value of each parameter in a lesson of each curriculum; None for the last lessons."""
        numbers = [len(one.criteria) for one in self.curricula] if lessons is None else lessons
        found = dict(self.fixed)
        for one, number in zip(self.curricula, numbers, strict=True):
            found |= {name: values[number] for name, values in one.values.items()}
        return found

    def of_last_lesson(self) -> "EnvParameters":
        """Return the parameters of the task that is to be solved: of every curriculum the last lesson."""
        return EnvParameters(self.documents, self.values(), (), self.interval)

    def as_text(self) -> str:
        """Return the content of the files as JSON, which `env_parameters` accepts in place of their names."""
        return json.dumps(self.documents)


def read_parameters(given: Any) -> EnvParameters | None:
    """Read parameters of environments.

    Args:
        given: names of files, with commas or in a list; their content as a dict, or as JSON text of a list; or None.
    """
    if given is None or isinstance(given, EnvParameters):
        return given
    parameters = EnvParameters([])
    for place, document in _documents(given):
        if not isinstance(document, dict) or not document:
            raise UsageError(f"{place} has no parameters of environments: see docs/howto/curriculum.md")
        if "environment_parameters" in document:
            # The rest of a trainer file of ML-Agents is about trainers.
            document = {"environment_parameters": document["environment_parameters"]}
        parameters = _joined(parameters, _read(document, place), document)
    return parameters


def _documents(given: Any) -> Iterable[tuple[str, Any]]:
    if isinstance(given, dict):
        return [("env_parameters", given)]
    if isinstance(given, str) and given.lstrip()[:1] in ("[", "{"):
        try:
            document = json.loads(given)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"env_parameters is not JSON: {error!s:.200}") from None
        return [("env_parameters", one) for one in (document if isinstance(document, list) else [document])]
    names = [given] if isinstance(given, os.PathLike) else given.split(",") if isinstance(given, str) else given
    if not isinstance(names, list | tuple):
        raise UsageError(f"env_parameters={given!r:.100} is not valid: the name of a file, or several with commas")
    paths = [Path(str(name).strip()).expanduser() for name in names]
    return [(f"'{path}'", read_yaml(path)) for path in paths]


def _joined(first: EnvParameters, second: EnvParameters, document: Any) -> EnvParameters:
    both = first.values().keys() & second.values().keys()
    if both:
        raise UsageError(f"env_parameters: '{min(both)}' is in two files")
    intervals = [one.interval for one in (first, second) if one.interval is not None]
    if len(intervals) > 1:
        raise UsageError(f"env_parameters: '{INTERVAL}' is in two files")
    return EnvParameters(
        [*first.documents, document],
        first.fixed | second.fixed,
        (*first.curricula, *second.curricula),
        next(iter(intervals), None),
    )


def _read(document: dict[str, Any], place: str) -> EnvParameters:
    """Read a file of one of ML-Agents' forms, which its keys tell apart."""
    if "environment_parameters" in document:
        return _later_form(document["environment_parameters"], place)
    older = {"thresholds", "measure", "parameters"}
    if older & document.keys():
        return EnvParameters([], {}, (_curriculum("", document, place),))
    if all(isinstance(section, dict) and older & section.keys() for section in document.values()):
        curricula = [_curriculum(str(name), document[name], f"{place}, {name}") for name in document]
        return EnvParameters([], {}, tuple(curricula))
    interval = document.get(INTERVAL)
    if interval is not None and (type(interval) is not int or interval < 1):
        raise UsageError(f"{place}: {INTERVAL}={interval!r:.80} is not valid: a number of steps, at least 1")
    for name, section in document.items():
        if name != INTERVAL and not isinstance(section, dict):
            guess = nearest(str(name), [INTERVAL, "environment_parameters", "measure", "thresholds", "parameters"])
            hint = f"did you mean '{guess}'?" if guess else "a section of an argument has its 'sampler-type'"
            raise UsageError(f"{place}: unknown key '{name!s:.80}': {hint}")
    samplers = {
        str(name): _sampler(section, f"{place}, {name}", "sampler-type", section)
        for name, section in document.items()
        if name != INTERVAL
    }
    return EnvParameters([], samplers, (), interval)


def _later_form(section: Any, place: str) -> EnvParameters:
    if not isinstance(section, dict) or not section:
        raise UsageError(f"{place}: environment_parameters has no parameters")
    fixed: dict[str, Value] = {}
    curricula = []
    for name, content in section.items():
        where = f"{place}, {name}"
        if isinstance(content, dict) and "curriculum" in content:
            _check_keys(content, ("curriculum",), where)
            curricula.append(_lessons(str(name), content["curriculum"], where))
        else:
            fixed[str(name)] = _value(content, where)
    return EnvParameters([], fixed, tuple(curricula))


def _value(content: Any, place: str) -> Value:
    if isinstance(content, dict):
        _check_keys(content, ("sampler_type", "sampler_parameters"), place)
        parameters = content.get("sampler_parameters")
        if not isinstance(parameters, dict):
            raise UsageError(f"{place}: 'sampler_parameters' is missing: its numbers by name")
        return _sampler(content, place, "sampler_type", parameters)
    return _number(content, place, "a number, or a sampler with sampler_type and sampler_parameters")


def _lessons(name: str, lessons: Any, place: str) -> Curriculum:
    if not isinstance(lessons, list) or not lessons or not all(isinstance(lesson, dict) for lesson in lessons):
        raise UsageError(f"{place}: 'curriculum' is not a list of lessons, each with value and completion_criteria")
    criteria, values = [], []
    for number, lesson in enumerate(lessons):
        where = f"{place}, lesson {number}"
        _check_keys(lesson, ("name", "completion_criteria", "value"), where)
        if "value" not in lesson:
            raise UsageError(f"{where}: 'value' is missing")
        values.append(_value(lesson["value"], where))
        end = lesson.get("completion_criteria")
        if number < len(lessons) - 1:
            if not isinstance(end, dict):
                raise UsageError(f"{where}: 'completion_criteria' is missing: only the last lesson has none")
            criteria.append(_criterion(end, where))
    return Curriculum(name, tuple(criteria), {name: tuple(values)})


def _criterion(content: dict[str, Any], place: str) -> Criterion:
    keys = ("measure", "behavior", "threshold", "min_lesson_length", "signal_smoothing", "require_reset")
    _check_keys(content, keys, place)
    if "threshold" not in content:
        raise UsageError(f"{place}: 'threshold' is missing")
    return _checked_criterion(content, content["threshold"], place)


def _checked_criterion(content: Mapping[str, Any], threshold: Any, place: str) -> Criterion:
    measure = content.get("measure", REWARD)
    if measure not in (REWARD, PROGRESS):
        guess = nearest(str(measure), (REWARD, PROGRESS))
        hint = f"did you mean '{guess}'?" if guess else f"'{REWARD}' or '{PROGRESS}'"
        raise UsageError(f"{place}: measure={measure!r:.80} is not valid: {hint}")
    length, smoothing = content.get("min_lesson_length", 0), content.get("signal_smoothing", True)
    if type(length) is not int or length < 0:
        raise UsageError(f"{place}: min_lesson_length={length!r:.80} is not valid: a number of episodes")
    if not isinstance(smoothing, bool):
        raise UsageError(f"{place}: signal_smoothing={smoothing!r:.80} is not valid: true or false")
    threshold = _number(threshold, place, "a number", "threshold")
    if measure == PROGRESS and not 0 <= threshold <= 1:
        raise UsageError(f"{place}: threshold={threshold:g} is not valid: progress is between 0 and 1")
    return Criterion(threshold, measure, length, smoothing)


def _curriculum(name: str, content: dict[str, Any], place: str) -> Curriculum:
    """Read a curriculum of the older form."""
    _check_keys(content, ("measure", "thresholds", "min_lesson_length", "signal_smoothing", "parameters"), place)
    for key, kind in (("thresholds", list), ("parameters", dict)):
        if not isinstance(content.get(key), kind):
            raise UsageError(f"{place}: '{key}' is missing: a {'list' if kind is list else 'list a parameter'}")
    thresholds = content["thresholds"]
    values = {}
    for key, row in content["parameters"].items():
        if not isinstance(row, list) or len(row) != len(thresholds) + 1:
            count = len(row) if isinstance(row, list) else "no"
            raise UsageError(
                f"{place}: parameter '{key}' has {count} values for {len(thresholds)} thresholds: one for each of the "
                f"{len(thresholds) + 1} lessons"
            )
        values[str(key)] = tuple(_number(one, place, "a number", str(key)) for one in row)
    criteria = tuple(_checked_criterion(content, threshold, place) for threshold in thresholds)
    return Curriculum(name, criteria, values)


def _sampler(content: Mapping[str, Any], place: str, key: str, arguments: Mapping[str, Any]) -> Sampler:
    kind = content.get(key)
    if kind is None:
        guess = nearest(key, [str(name) for name in content])
        hint = f": did you mean it by '{guess}'?" if guess else f": {', '.join(SAMPLERS)}"
        raise UsageError(f"{place}: '{key}' is missing{hint}")
    if kind not in SAMPLERS:
        guess = nearest(str(kind), SAMPLERS)
        hint = f"did you mean '{guess}'?" if guess else f"choose from {', '.join(SAMPLERS)}"
        raise UsageError(f"{place}: unknown {key} {kind!r:.80}: {hint}")
    names = SAMPLERS[kind]
    # ML-Agents' later samplers may have a seed; draws here follow the run's.
    _check_keys(arguments, (*names, "seed") if arguments is not content else (*names, key), place)
    for name in names:
        if name not in arguments:
            raise UsageError(f"{place}: '{name}' of the sampler {kind} is missing")
    if kind == "multirange_uniform":
        return Sampler(kind, tuple(_ranges(arguments["intervals"], place)))
    numbers = tuple(_number(arguments[name], place, "a number", name) for name in names)
    wrong = numbers[0] > numbers[1] if kind == "uniform" else numbers[1] < 0
    if wrong:
        accepted = "not below min_value" if kind == "uniform" else "at least 0"
        raise UsageError(f"{place}: {names[1]}={numbers[1]:g} is not valid: {accepted}")
    return Sampler(kind, numbers)


def _ranges(intervals: Any, place: str) -> Iterable[tuple[float, float]]:
    if not isinstance(intervals, list) or not intervals:
        raise UsageError(f"{place}: 'intervals' is not a list of pairs")
    for pair in intervals:
        if not isinstance(pair, list) or len(pair) != 2:
            raise UsageError(f"{place}: intervals has {pair!r:.80} where it needs a pair of numbers")
        low, high = (_number(one, place, "a number", "intervals") for one in pair)
        if low > high:
            raise UsageError(f"{place}: intervals has {pair!r:.80}: the first number is above the second")
        yield low, high


def _number(content: Any, place: str, accepted: str, name: str = "value") -> float:
    if isinstance(content, bool) or not isinstance(content, int | float) or not math.isfinite(content):
        raise UsageError(f"{place}: {name}={content!r:.80} is not valid: {accepted}")
    return content


def _check_keys(content: Mapping[Any, Any], known: Sequence[str], place: str) -> None:
    for key in content:
        if key not in known:
            guess = nearest(str(key), known)
            hint = f"did you mean '{guess}'?" if guess else f"choose from {', '.join(known)}"
            raise UsageError(f"{place}: unknown key '{key!s:.80}': {hint}")
