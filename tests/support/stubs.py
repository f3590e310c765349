"""Stubs of the package, from what the Configs declare: `python tests/support/stubs.py` writes them.

Editors and type checkers read in them every learn's arguments, and the names that tfbaselines imports on first use.
"""

import inspect
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Union, get_args, get_origin

import tfbaselines
from tfbaselines.algs import NAMES, get

PACKAGE = Path(tfbaselines.__file__).parent
HEAD = '"""Written by `python tests/support/stubs.py`."""\n'
# Places of the names in annotations.
PLACES = {
    "Callable": "collections.abc",
    "Sequence": "collections.abc",
    "Any": "typing",
    "RunOptions": "tfbaselines.config.options",
    "VecEnv": "tfbaselines.envs.vec",
    "Algorithm": "tfbaselines.config.algorithm",
    "PolicyModel": "tfbaselines.training.model",
    "Env": "gymnasium",
    "VectorEnv": "gymnasium.vector",
}
ENVIRONMENTS = "VecEnv | Env[Any, Any] | VectorEnv[Any, Any, Any] | str | Callable[..., Any] | Sequence[Any]"
# Modules that tfbaselines imports on first use, and their places.
PUBLIC = {"callbacks": "tfbaselines.training.callbacks", "logger": "tfbaselines.logs.logger"}


def annotation(value):
    """Write an annotation by short names."""
    if get_origin(value) is Union:
        return " | ".join(map(annotation, get_args(value)))
    return re.sub(r"\b[a-z][\w.]*\.(?=[A-Z])", "", inspect.formatannotation(value))


def imports(text):
    """Write the imports of the names that a stub uses."""
    used = {name: place for name, place in PLACES.items() if re.search(rf"\b{name}\b", text)}
    return "".join(f"from {place} import {name}\n" for name, place in used.items())


def learn_stub(name):
    """Write the stub of an algorithm's package."""
    learn = get(name).learn
    signature = inspect.signature(learn)
    arguments = ["network: str | Callable[..., Any]", f"env: {ENVIRONMENTS}"]
    for one in list(signature.parameters.values())[2:-1]:
        arguments.append(f"{one.name}: {annotation(one.annotation)} = {one.default!r}")
    arguments.append("**network_kwargs: Any")
    returned = signature.return_annotation
    # A class that stands below learn in its file is annotated by its name.
    model = returned if isinstance(returned, str) else returned.__name__
    place = learn.__module__ if isinstance(returned, str) else returned.__module__
    first = inspect.getdoc(learn).splitlines()[0]
    body = f"ALGORITHM: Algorithm\n\ndef learn({', '.join(arguments)}) -> {model}:\n    "
    body += f'"""{first}"""\n\ndef __getattr__(name: str) -> Any: ...\n'
    own = "" if model in PLACES else f"from {place} import {model}\n"
    return HEAD + imports(body) + own + "\n" + body


def package_stub():
    """Write the stub of tfbaselines itself."""
    signature = inspect.signature(tfbaselines.load)
    arguments = ", ".join(map(str, signature.parameters.values()))
    body = "__version__: str\nALGORITHMS: tuple[str, ...]\nLEFT_OUT: list[str]\n\n"
    body += f"def load({arguments}) -> PolicyModel:\n    '''{tfbaselines.load.__doc__.splitlines()[0]}'''\n\n"
    body += "def __getattr__(name: str) -> Any: ...\n"
    modules = [f"from tfbaselines.algs import {name} as {name}\n" for name in sorted(NAMES)]
    modules += [f"from {place.rpartition('.')[0]} import {name} as {name}\n" for name, place in PUBLIC.items()]
    return HEAD + imports(body) + "".join(modules) + "\n" + body


def stubs():
    """Return the text of every stub by its path."""
    found = {PACKAGE / "algs" / name / "__init__.pyi": learn_stub(name) for name in NAMES}
    found[PACKAGE / "__init__.pyi"] = package_stub()
    # A module that is no file.
    own = [name for name, one in vars(import_module(PUBLIC["callbacks"])).items() if is_own(name, one)]
    exported = "".join(f"from {PUBLIC['callbacks']} import {name} as {name}\n" for name in own)
    found[PACKAGE / "callbacks.pyi"] = HEAD + exported
    return {path: formatted(path, text) for path, text in found.items()}


def is_own(name, value):
    return not name.startswith("_") and getattr(value, "__module__", "") == PUBLIC["callbacks"]


def formatted(path, text):
    for words in (["check", "--select=I", "--fix", "-q"], ["format", "-q"]):
        command = [sys.executable, "-m", "ruff", *words, "--stdin-filename", str(path), "-"]
        text = subprocess.run(command, input=text, stdout=-1, text=True, check=True, cwd=PACKAGE.parent).stdout
    return text


if __name__ == "__main__":
    for path, text in stubs().items():
        path.write_text(text, encoding="utf-8")
