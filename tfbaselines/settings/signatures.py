"""What algorithms and networks take, read from their source text: --help and argument errors never load TensorFlow."""

import ast
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from tfbaselines import ALGORITHMS
from tfbaselines.errors import unknown

PACKAGE = Path(__file__).parents[1]


@dataclass(frozen=True)
class Argument:
    """One argument of a function.

    Attributes:
        name: its name.
        annotation: its type as written.
        default: its default value, None when it is not a literal.
        meaning: what the docstring says of it.
    """

    name: str
    annotation: str
    default: Any
    meaning: str

    @property
    def settable(self) -> bool:
        """Whether text can stand for it: not a function, an environment or a communicator."""
        kinds = {kind.strip().split("[")[0] for kind in self.annotation.split("|")}
        return bool(kinds & {"bool", "int", "float", "str", "Sequence", "tuple", "list", "NetworkSpec"})


@dataclass(frozen=True)
class Algorithm:
    """What the source of an algorithm says of it.

    Attributes:
        name: its name.
        summary: the first line of its docstring.
        arguments: those of learn() that a user gives by name.
        defaults: per type of environment.
        schedules: names of the arguments that take schedules.
        normalized_environments: VecNormalize is put around MuJoCo environments, as baselines does.
        dict_observations: Dict observations are not flattened.
    """

    name: str
    summary: str
    arguments: dict[str, Argument]
    defaults: dict[str, dict[str, Any]]
    schedules: tuple[str, ...] = ()
    normalized_environments: bool = True
    dict_observations: bool = False

    def defaults_for(self, env_type: str) -> dict[str, Any]:
        """Of this algorithm, for any environment and for one of this type."""
        return self.defaults.get("all", {}) | self.defaults.get(env_type, {})


@dataclass(frozen=True)
class Network:
    """What the source of a network builder says of it.

    Attributes:
        name: its registered name.
        summary: the first line of its docstring.
        arguments: its own arguments.
    """

    name: str
    summary: str
    arguments: dict[str, Argument] = field(default_factory=dict)


# Given by the command line itself, under names of its own.
_OF_THE_RUN = ("network", "env", "total_timesteps", "seed", "eval_env", "run")


@cache
def algorithm(name: str) -> Algorithm:
    """Read an algorithm's file."""
    if name not in ALGORITHMS:
        raise unknown("algorithm", name, ALGORITHMS)
    tree = ast.parse((PACKAGE / "algs" / f"{name}.py").read_text(encoding="utf-8"))
    learn = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "learn")
    constants = _constants(tree)
    arguments = {key: value for key, value in _arguments(learn).items() if key not in _OF_THE_RUN}
    summary = ast.get_docstring(tree).splitlines()[0]
    return Algorithm(
        name,
        summary,
        arguments,
        constants.get("DEFAULTS", {}),
        constants.get("SCHEDULE_ARGUMENTS", ()),
        constants.get("NORMALIZED_ENVIRONMENTS", True),
        constants.get("DICT_OBSERVATIONS", False),
    )


@cache
def networks() -> dict[str, Network]:
    """Read the file of networks: those that are registered there."""
    tree = ast.parse((PACKAGE / "policy" / "networks.py").read_text(encoding="utf-8"))
    found = {}
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef):
            continue
        for decorator in node.decorator_list:
            if isinstance(decorator, ast.Call) and getattr(decorator.func, "id", "") == "register":
                name = ast.literal_eval(decorator.args[0])
                found[name] = Network(name, ast.get_docstring(node).splitlines()[0], _arguments(node))
    return found


def _constants(tree: ast.Module) -> dict[str, Any]:
    values = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            try:
                values[node.targets[0].id] = ast.literal_eval(node.value)
            except ValueError:
                continue
    return values


def _arguments(function: ast.FunctionDef) -> dict[str, Argument]:
    meanings = _meanings(ast.get_docstring(function) or "")
    positional = function.args.args
    defaults = [None] * (len(positional) - len(function.args.defaults)) + list(function.args.defaults)
    keyword_only = zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)
    return {
        arg.arg: Argument(
            arg.arg,
            ast.unparse(arg.annotation) if arg.annotation else "",
            _literal(default),
            meanings.get(arg.arg, ""),
        )
        for arg, default in [*zip(positional, defaults, strict=True), *keyword_only]
    }


def _literal(node: ast.expr | None) -> Any:
    try:
        return None if node is None else ast.literal_eval(node)
    except ValueError:
        return None


def _meanings(docstring: str) -> dict[str, str]:
    """The entries of a docstring's 'Args:' section."""
    meanings: dict[str, str] = {}
    inside, current = False, None
    for line in docstring.splitlines():
        if not inside:
            inside = line.strip() == "Args:"
            continue
        if line.strip() and not line.startswith("    "):
            break
        if line.startswith("    ") and not line.startswith("     "):
            current, _, text = line.strip().partition(": ")
            meanings[current] = text
        elif current and line.strip():
            meanings[current] += f" {line.strip()}"
    return meanings
