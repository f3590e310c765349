"""An algorithm's Config without the rest of its file, which imports TensorFlow."""

import ast
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from tfbaselines.settings.config import Config

ALGORITHMS = Path(__file__).parents[1] / "algs"

# What a Config may be made of: modules that load at once.
LIGHT_MODULES = ("collections.abc", "dataclasses", "math", "typing", "tfbaselines.errors", "tfbaselines.settings")


@cache
def config_of(name: str) -> type[Config]:
    """The Config class of algs/NAME.py."""
    path = ALGORITHMS / f"{name}.py"
    return declared_config(path.read_text(encoding="utf-8"), str(path), f"tfbaselines.algs.{name}")


def declared_config(source: str, path: str, module: str) -> type[Config]:
    """Execute class Config alone, with the imports, constants and functions that it names.

    Args:
        source: text of a module with a class Config; trusted, it is executed.
        path: of its file, for tracebacks.
        module: its name.
    """
    statements = _needed(ast.parse(source, path), path)
    namespace = {"__name__": module}
    exec(compile(ast.Module(statements, []), path, "exec"), namespace)
    return namespace["Config"]


def _needed(tree: ast.Module, path: str) -> list[ast.stmt]:
    """Class Config and the statements that define the names in it, in their order."""
    definitions = {name: node for node in tree.body for name in _defined(node)}
    needed: set[ast.stmt] = set()
    queue = [definitions["Config"]]
    while queue:
        node = queue.pop()
        if node in needed:
            continue
        needed.add(node)
        for module in _imported(node):
            if not any(module == light or module.startswith(f"{light}.") for light in LIGHT_MODULES):
                raise ImportError(f"{path}, line {node.lineno}: Config must not need '{module}', which is slow to load")
        names = {child.id for child in ast.walk(node) if isinstance(child, ast.Name)}
        queue += [definitions[name] for name in names if name in definitions]
    return [node for node in tree.body if node in needed]


def _defined(node: ast.stmt) -> Iterable[str]:
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [(alias.asname or alias.name).split(".")[0] for alias in node.names]
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _imported(node: ast.stmt) -> Iterable[str]:
    if isinstance(node, ast.ImportFrom):
        return [node.module or ""]
    return [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
