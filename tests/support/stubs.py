"""Stubs of the package, from what the Configs declare: `python tests/support/stubs.py` writes them.

Editors and type checkers read in them every learn's arguments, and the names that tfbaselines imports on first use. A
signature is one line: nobody edits it.
"""

import inspect
import re
from importlib import import_module
from pathlib import Path
from typing import Union, get_args, get_origin

import tfbaselines
from tfbaselines.algs import NAMES, get

PACKAGE = Path(tfbaselines.__file__).parent
HEAD = '"""Written by `python tests/support/stubs.py`."""\n\n# ruff: noqa\n# fmt: off\n'
REST = "def __getattr__(name: str) -> Any: ...\n"
FUNCTION = "collections.abc.Callable[..., Any]"
ENVIRONMENT = "tfbaselines.envs.vec.VecEnv | gymnasium.Env[Any, Any] | gymnasium.vector.VectorEnv[Any, Any, Any]"
MODEL = "tfbaselines.training.model.PolicyModel"
CALLBACKS = "tfbaselines.training.callbacks"


def annotation(value):
    """Write an annotation with the modules of its names."""
    if get_origin(value) is Union:
        return " | ".join(map(annotation, get_args(value)))
    return inspect.formatannotation(value).replace("typing.", "")


def with_imports(body):
    """Put the imports of the modules that a stub names in front of it."""
    modules = sorted(set(re.findall(r"\b((?:[a-z_]\w*\.)+)[A-Z]", body)))
    imported = ", ".join(module.rstrip(".") for module in modules)
    return f"{HEAD}from typing import Any\nimport {imported}\n\n{body}"


def learn_stub(name):
    """Write the stub of an algorithm's package."""
    learn = get(name).learn
    signature = inspect.signature(learn)
    arguments = [f"network: str | {FUNCTION}", f"env: {ENVIRONMENT} | str | {FUNCTION} | collections.abc.Sequence[Any]"]
    for one in list(signature.parameters.values())[2:-1]:
        arguments.append(f"{one.name}: {annotation(one.annotation)} = {one.default!r}")
    arguments.append("**network_kwargs: Any")
    returned = signature.return_annotation
    # A class that stands below learn in its file is annotated by its name.
    model = f"{learn.__module__}.{returned}" if isinstance(returned, str) else annotation(returned)
    first = inspect.getdoc(learn).splitlines()[0]
    lines = ["ALGORITHM: tfbaselines.config.algorithm.Algorithm\n", f"def learn({', '.join(arguments)}) -> {model}:"]
    return with_imports("\n".join([*lines, f'    """{first}"""\n', REST]))


def package_stub():
    """Write the stub of tfbaselines itself."""
    arguments = ", ".join(map(str, inspect.signature(tfbaselines.load).parameters.values()))
    lines = [
        f"from tfbaselines.algs import {', '.join(f'{name} as {name}' for name in sorted(NAMES))}",
        "from tfbaselines.logs import logger as logger",
        "from tfbaselines.training import callbacks as callbacks\n",
        "__version__: str",
        "ALGORITHMS: tuple[str, ...]",
        "LEFT_OUT: list[str]\n",
        f"def load({arguments}) -> {MODEL}:",
        f'    """{tfbaselines.load.__doc__.splitlines()[0]}"""\n',
        REST,
    ]
    return with_imports("\n".join(lines))


def callbacks_stub():
    """Write the stub of tfbaselines.callbacks, a module that is no file."""
    own = [name for name, one in vars(import_module(CALLBACKS)).items() if getattr(one, "__module__", "") == CALLBACKS]
    names = ", ".join(f"{name} as {name}" for name in own if not name.startswith("_"))
    return f"{HEAD}from {CALLBACKS} import {names}\n"


def stubs():
    """Return the text of every stub by its path."""
    found = {PACKAGE / "algs" / name / "__init__.pyi": learn_stub(name) for name in NAMES}
    return found | {PACKAGE / "__init__.pyi": package_stub(), PACKAGE / "callbacks.pyi": callbacks_stub()}


if __name__ == "__main__":
    for path, text in stubs().items():
        path.write_text(text, encoding="utf-8")
