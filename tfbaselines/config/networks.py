"""Names of Keras's activations, for checks and --help without TensorFlow.

What networks take, read from the source text of policy/networks.py, without TensorFlow.
"""

import ast
import inspect
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from tfbaselines.config.argument import Argument
from tfbaselines.errors import unknown

ACTIVATIONS = (
    "celu",
    "elu",
    "exponential",
    "gelu",
    "hard_shrink",
    "hard_sigmoid",
    "hard_silu",
    "hard_swish",
    "hard_tanh",
    "leaky_relu",
    "linear",
    "log_sigmoid",
    "log_softmax",
    "mish",
    "relu",
    "relu6",
    "selu",
    "sigmoid",
    "silu",
    "soft_shrink",
    "softmax",
    "softplus",
    "softsign",
    "sparse_plus",
    "sparse_sigmoid",
    "sparsemax",
    "squareplus",
    "swish",
    "tanh",
    "tanh_shrink",
)


NETWORKS = Path(__file__).parents[1] / "policy" / "networks.py"

# Types by the names that network builders write.
_KINDS = {name: name for name in ("bool", "int", "float", "str", "None")}
_KINDS |= {"Sequence": "list", "list": "list", "tuple": "list", "Callable": "function"}


@dataclass(frozen=True)
class Network:
    """A network builder.

    Attributes:
        name: its registered name.
        summary: the first line of its docstring.
        arguments: its own arguments.
        open_ended: it takes any argument.
    """

    name: str
    summary: str
    arguments: dict[str, Argument] = field(default_factory=dict)
    open_ended: bool = False


@cache
def networks() -> dict[str, Network]:
    """The networks that policy/networks.py registers."""
    tree = ast.parse(NETWORKS.read_text(encoding="utf-8"))
    found = {}
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef):
            continue
        for decorator in node.decorator_list:
            if isinstance(decorator, ast.Call) and getattr(decorator.func, "id", "") == "register":
                name = ast.literal_eval(decorator.args[0])
                found[name] = Network(name, ast.get_docstring(node).splitlines()[0], _arguments(node))
    return found


def network_named(name: str) -> Network:
    """The network of some name; 'module:name' imports the module, and TensorFlow with it.

    ValueError names the nearest when there is none.
    """
    if ":" in name:
        return _imported(name)
    if name not in networks():
        raise unknown("network", name, networks())
    return networks()[name]


def _imported(name: str) -> Network:
    """A network of the user's own: the types of its arguments are those of their defaults."""
    from tfbaselines.policy.networks import get_network_builder

    arguments, open_ended = {}, False
    for parameter in inspect.signature(get_network_builder(name)).parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            open_ended = True
            continue
        default = None if parameter.default is parameter.empty else parameter.default
        literal = isinstance(default, bool | int | float | str | list | tuple)
        kinds = (_KINDS[type(default).__name__],) if literal else ("str", "float", "None")
        arguments[parameter.name] = _argument(parameter.name, kinds, default, "")
    return Network(name, "", arguments, open_ended)


def _argument(name: str, kinds: tuple[str, ...], default: Any, meaning: str) -> Argument:
    return Argument(name, kinds, default, meaning, choices=ACTIVATIONS if name == "activation" else ())


def _arguments(function: ast.FunctionDef) -> dict[str, Argument]:
    meanings = _meanings(ast.get_docstring(function) or "")
    arguments = function.args.args
    defaults = zip(arguments, function.args.defaults, strict=True)
    return {
        one.arg: _argument(one.arg, _kinds(one.annotation), ast.literal_eval(default), meanings.get(one.arg, ""))
        for one, default in defaults
    }


def _kinds(annotation: ast.expr) -> tuple[str, ...]:
    """Names of the types in an annotation such as ``str | Callable``; see Argument."""
    if isinstance(annotation, ast.BinOp):
        return _kinds(annotation.left) + _kinds(annotation.right)
    if isinstance(annotation, ast.Subscript):
        return _kinds(annotation.value)
    return (_KINDS.get(ast.unparse(annotation), "object"),)


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
            meanings[current] = text.removesuffix(".")
        elif current and line.strip():
            meanings[current] = f"{meanings[current]} {line.strip()}".removesuffix(".")
    return meanings
