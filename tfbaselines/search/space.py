"""Search spaces: YAML files with ranges and choices of arguments, checked against the arguments' declarations.

A file has sections as the files of `--config` have: `default`, types of environments, environments. The more specific
section takes precedence, and `null` removes an argument. An argument has one of these forms:

    gamma: {low: 0.9, high: 0.9999, scale: from_one}     numbers; scale: linear, log, or log of the distance from one
    nsteps: {low: 32, high: 2048, scale: powers}         powers of two
    lr: {low: 1e-5, high: 1e-2, scale: log, shape: [constant, linear]}      a schedule with one of the shapes
    activation: [tanh, relu]                             choices, as they would be typed
    nminibatches: {rows_of: [nsteps, num_env], low: 32, high: 512}          product of the arguments / a power of two
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tfbaselines.algs import ALGORITHMS, get
from tfbaselines.cli.command_line import FLAGS, Arguments, argument_of, parse_value
from tfbaselines.cli.sections import DEFAULT, own_sections
from tfbaselines.config.argument import Argument
from tfbaselines.config.groups import network_named
from tfbaselines.config.schedules import FRACTION_SCHEDULES
from tfbaselines.errors import UsageError, bad_argument, unknown
from tfbaselines.yaml_files import read_yaml

SPACES = Path(__file__).parent / "spaces"
SCALES = ("linear", "log", "from_one", "powers")
KEYS = ("low", "high", "scale", "shape", "rows_of")
# Flags of the command that are hyper-parameters.
SEARCHED_FLAGS = ("num_env", "reward_scale", "normalize", "network", "precision")
LARGEST_EXPONENT = 30
MOST_CHOICES = 100


class Dimension(NamedTuple):
    """One argument of a search space.

    Attributes:
        name: name of the argument.
        choices: values as they would be typed; empty for a range.
        low, high: bounds of a range.
        scale: one of SCALES.
        whole: the argument is a whole number.
        shapes: shapes of a schedule; empty for a number.
        rows_of: arguments whose product is divided by a power of two between low and high.
    """

    name: str
    choices: tuple[str, ...] = ()
    low: float = 0.0
    high: float = 0.0
    scale: str = "linear"
    whole: bool = False
    shapes: tuple[str, ...] = ()
    rows_of: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """Name of the sampled number, for the sampler and the report."""
        if self.rows_of:
            return f"log2 rows of {self.name}"
        return {"powers": f"log2 {self.name}", "from_one": f"1 - {self.name}"}.get(self.scale, self.name)

    @property
    def shape_label(self) -> str:
        """Name of the sampled shape."""
        return f"shape of {self.name}"

    def suggest(self, trial: Any, words: Mapping[str, str]) -> str:
        """Sample a value, as it would be typed.

        Args:
            trial: an Optuna trial.
            words: the arguments of the run so far.
        """
        if self.choices:
            return trial.suggest_categorical(self.name, self.choices)
        word = self._number(trial, words)
        if not self.shapes:
            return word
        shape = trial.suggest_categorical(self.shape_label, self.shapes)
        return word if shape == "constant" else f"{shape}_{word}"

    def _number(self, trial: Any, words: Mapping[str, str]) -> str:
        if self.scale == "powers":
            power = 2 ** trial.suggest_int(self.label, int(math.log2(self.low)), int(math.log2(self.high)))
            rows = math.prod(int(float(words[name])) for name in self.rows_of)
            return str(max(1, rows // power) if self.rows_of else power)
        if self.whole:
            return str(trial.suggest_int(self.label, int(self.low), int(self.high), log=self.scale == "log"))
        if self.scale == "from_one":
            return f"{1 - trial.suggest_float(self.label, 1 - self.high, 1 - self.low, log=True):.6g}"
        return f"{trial.suggest_float(self.label, self.low, self.high, log=self.scale == 'log'):.4g}"

    def stored(self, value: Any, values: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the sampled numbers that stand for a value of the argument; None if the space does not have it.

        Args:
            value: the value.
            values: values of all arguments, for rows_of.
        """
        value = list(value) if isinstance(value, tuple) else value
        if self.choices:
            own = [word for word in self.choices if word == str(value) or _number(word) == _number(value) is not None]
            return {self.name: own[0]} if own else None
        shapes = {}
        if self.shapes:
            shape, separator, rest = value.rpartition("_") if isinstance(value, str) else ("constant", "_", value)
            if not separator or shape not in self.shapes:
                return None
            shapes, value = {self.shape_label: shape}, _number(rest)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        if self.rows_of:
            value = math.prod(int(values[name]) for name in self.rows_of) / value
        if not self.low <= value <= self.high:
            return None
        return self._coordinate(value, shapes)

    def _coordinate(self, value: float, shapes: dict[str, Any]) -> dict[str, Any] | None:
        if self.scale == "powers":
            exponent = math.log2(value)
            return {self.label: int(exponent)} if exponent.is_integer() else None
        return {self.label: 1 - value if self.scale == "from_one" else value} | shapes


def _number(word: Any) -> float | None:
    try:
        return float(word)
    except (TypeError, ValueError):
        return None


Space = dict[str, Dimension]


def read_space(file: str | Path | Mapping[str, Any] | None, words: Mapping[str, str]) -> Space:
    """Read and check the search space for a run; UsageError for an unknown argument or a bad range.

    Args:
        file: path of a YAML file, its content, or None for the space that comes with the algorithm.
        words: arguments that every run has, with `alg` and `env`; they are not searched.
    """
    alg = words["alg"]
    if file is None and not (SPACES / f"{alg}.yaml").exists():
        raise UsageError(f"there is no search space for {alg!r:.200}: give one by --space FILE (docs/howto/search.md)")
    shipped = file is None
    path = SPACES / f"{alg}.yaml" if shipped else file
    document = path if isinstance(path, Mapping) else read_yaml(Path(path).expanduser())
    place = "space" if isinstance(path, Mapping) else str(path)
    entries = _entries(document, words, place)
    network = _network(words)
    if shipped:
        # Arguments of the usual network, which another network may not have.
        entries = {name: entry for name, entry in entries.items() if _is_known(name, alg, network)}
    space = {name: _dimension(name, entry, alg, network, place) for name, entry in entries.items() if name not in words}
    if not space:
        raise UsageError(f"{place}: no argument is left to search for {words['env']}")
    for one in space.values():
        _check_rows(one, {*FLAGS, *get(alg).config.arguments()}, place)
    # An argument that depends on others is sampled after them.
    return dict(sorted(space.items(), key=lambda item: bool(item[1].rows_of)))


def _entries(document: Any, words: Mapping[str, str], place: str) -> dict[str, Any]:
    """Merge the sections that count for the environment."""
    if not isinstance(document, Mapping) or not all(isinstance(section, Mapping) for section in document.values()):
        raise UsageError(f"{place} has no sections: write 'default:', and the arguments below it, indented")
    own = [name for name in (DEFAULT, *own_sections(words)) if name in document]
    if not own:
        raise UsageError(f"{place} has no section for {words['env']}: write 'default:', and the arguments indented")
    merged: dict[str, Any] = {}
    for section in own:
        merged |= {str(name).replace("-", "_"): entry for name, entry in document[section].items()}
    return {name: entry for name, entry in merged.items() if entry is not None}


def _network(words: Mapping[str, str]) -> str:
    return words.get("network") or get(words["alg"]).default_network(own_sections(words)[0])


def _is_known(name: str, alg: str, network: str) -> bool:
    try:
        _argument(name, alg, network)
    except UsageError:
        return False
    return True


def _argument(name: str, alg: str, network: str) -> Argument:
    if name in FLAGS:
        if name not in SEARCHED_FLAGS:
            raise UsageError(f"'{name}' is no hyper-parameter: of the command's flags {', '.join(SEARCHED_FLAGS)} are")
        return FLAGS[name]
    return argument_of(name, get(alg), network_named(network), ALGORITHMS)


def _dimension(name: str, entry: Any, alg: str, network: str, place: str) -> Dimension:
    try:
        argument = _argument(name, alg, network)
        if isinstance(entry, Sequence) and not isinstance(entry, str):
            return _choice(argument, entry)
        if not isinstance(entry, Mapping):
            raise UsageError(f"{name}={entry!r:.100} is no range: write {{low: ..., high: ...}} or a list of choices")
        return _range(argument, dict(entry))
    except ValueError as error:
        raise UsageError(f"{place}: {error}") from None


def _choice(argument: Argument, values: Sequence[Any]) -> Dimension:
    words = tuple(str(value) for value in values)
    if not words or len(words) > MOST_CHOICES or len(set(words)) < len(words):
        raise bad_argument(argument.name, list(values), f"between 1 and {MOST_CHOICES} different choices")
    for word in words:
        argument.checked(parse_value(argument, word))
    return Dimension(argument.name, words)


def _range(argument: Argument, entry: dict[str, Any]) -> Dimension:
    for key in entry:
        if key not in KEYS:
            raise unknown(f"entry of {argument.name}", str(key), KEYS)
    low, high = (_bound(argument, entry, key) for key in ("low", "high"))
    rows_of, shapes = (tuple(map(str, entry.get(key) or ())) for key in ("rows_of", "shape"))
    scale = "powers" if rows_of else entry.get("scale", "linear")
    if scale not in SCALES:
        raise unknown(f"scale of {argument.name}", str(scale), SCALES)
    if not low < high:
        raise bad_argument(argument.name, f"{low:g} to {high:g}", "low must be below high")
    _check_scale(argument, scale, low, high)
    if not {"int", "float", "schedule"} & set(argument.kinds):
        raise bad_argument(argument.name, f"{low:g} to {high:g}", "it is not a number: list its choices")
    if shapes and "schedule" not in argument.kinds:
        raise bad_argument(argument.name, list(shapes), "only a schedule has a shape")
    for shape in shapes:
        if shape not in FRACTION_SCHEDULES:
            raise unknown(f"shape of {argument.name}", shape, FRACTION_SCHEDULES)
    whole = "int" in argument.kinds and not {"float", "schedule"} & set(argument.kinds)
    for bound in (low, high) if not rows_of else ():
        argument.checked(int(bound) if whole and bound == int(bound) else bound)
    return Dimension(argument.name, (), low, high, scale, whole, shapes, rows_of)


def _bound(argument: Argument, entry: Mapping[str, Any], key: str) -> float:
    # PyYAML reads 1e-5 as text.
    bound = _number(entry.get(key)) if not isinstance(entry.get(key), bool) else None
    if bound is None or not math.isfinite(bound):
        raise bad_argument(f"{argument.name}: {key}", entry.get(key), "a number")
    return bound


def _check_scale(argument: Argument, scale: str, low: float, high: float) -> None:
    shown = f"{low:g} to {high:g}"
    if scale == "log" and low <= 0:
        raise bad_argument(argument.name, shown, "scale: log needs low above 0")
    if scale == "from_one" and high >= 1:
        raise bad_argument(argument.name, shown, "scale: from_one needs high below 1")
    if scale == "powers":
        exponents = [math.log2(bound) if bound > 0 else math.nan for bound in (low, high)]
        if not all(exponent.is_integer() and 0 <= exponent <= LARGEST_EXPONENT for exponent in exponents):
            raise bad_argument(argument.name, shown, "scale: powers needs bounds that are powers of two")


def _check_rows(one: Dimension, known: Collection[str], place: str) -> None:
    for name in one.rows_of:
        if name not in known:
            raise unknown(f"argument in rows_of of {one.name} in {place}", name, known)


def defaults(space: Space, args: Arguments) -> dict[str, Any]:
    """Return the sampled numbers that stand for the defaults, without those that the space does not have."""
    network = network_named(args.network)
    values = {name: args.flags[name] for name in SEARCHED_FLAGS}
    values |= {name: one.default for name, one in network.arguments.items()}
    values |= {name: one.default for name, one in args.algorithm.config.arguments().items()} | args.learn
    stored: dict[str, Any] = {}
    for name, one in space.items():
        stored |= one.stored(values.get(name), values) or {}
    return stored


def sample(space: Space, trial: Any, words: Mapping[str, str], default_of: Callable[[str], str]) -> dict[str, str]:
    """Sample every argument of a space, as it would be typed.

    Args:
        space: the search space.
        trial: an Optuna trial.
        words: arguments that every run has.
        default_of: returns the value of an argument that is neither searched nor in `words`.
    """
    found: dict[str, str] = {}
    for name, one in space.items():
        others = {other: words.get(other, found.get(other)) or default_of(other) for other in one.rows_of}
        found[name] = one.suggest(trial, others)
    return found
