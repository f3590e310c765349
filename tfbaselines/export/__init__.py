"""Exports of policies: ``python -m tfbaselines.export RUN --to litert --out DIR``, and ``model.export(dir, to=...)``.

Every export has the files of its target, a card (README.md for people, export.json for programs) and test vectors:
observations of the environment with the actions expected. Each target is a module with

- REQUIRES: pairs of a Python module and the extra of setup.py that brings it,
- PRECISIONS: accepted values of `precision`,
- write(model, out, options): write the target's files into the empty directory `out`,
- check(out): run the test vectors in an export, without the model, and return the largest difference,
- load(out): return the function of the exported policy, from a batch of inputs to outputs by their names; only targets
  with several precisions need it,
- usage(card): the section "How to use it" of README.md, in Markdown.
"""

import importlib
import importlib.util
import os
import shutil
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

from tfbaselines.errors import UsageError, bad_argument, check_at_least, unknown, warn
from tfbaselines.files import replace_directory
from tfbaselines.loading import load_tensorflow

# Modules of the targets.
TARGETS = {
    "savedmodel": "tfbaselines.export.saved_model_target",
    "litert": "tfbaselines.export.litert_target",
    "onnx": "tfbaselines.export.onnx_target",
    "js": "tfbaselines.export.js_target",
    "c": "tfbaselines.export.c_target",
    "numpy": "tfbaselines.export.numpy_target",
}

# Numbers of a target's float32 policy differ at most this much from those of the model; other precisions are judged by
# their returns.
TOLERANCE = 1e-5

# Part of the mean return that other precisions may lose without a warning.
ACCEPTED_LOSS = 0.05

# Files of an export, one of which a directory must have to be replaced.
CARD, SAVED_MODEL = "export.json", "saved_model.pb"


def target(name: str) -> ModuleType:
    """Return the module of a target; UsageError if it is unknown or one of its packages is missing."""
    if name not in TARGETS:
        raise unknown("target", name, TARGETS)
    if importlib.util.find_spec(TARGETS[name]) is None:
        raise UsageError(f"to='{name}' is not available in this version")
    module = importlib.import_module(TARGETS[name])
    for package, extra in module.REQUIRES:
        if importlib.util.find_spec(package) is None:
            raise UsageError(f"to='{name}' needs the package {package}: pip install 'tfbaselines[{extra}]'")
    return module


def export(
    model: Any,
    directory: str | os.PathLike,
    to: str = "savedmodel",
    *,
    sampled: bool = False,
    precision: str = "float32",
    episodes: int = 20,
) -> None:
    """Write a model's policy, whole or not at all.

    Args:
        model: the model.
        directory, to, sampled, precision, episodes: see PolicyModel.export.
    """
    check_at_least(0, episodes=episodes)
    written = target(to)
    if precision not in written.PRECISIONS:
        raise bad_argument("precision", precision, f"to='{to}' has {', '.join(written.PRECISIONS)}")
    out = Path(os.path.abspath(os.path.expanduser(directory)))
    _check_replaceable(out)
    load_tensorflow()
    from tfbaselines.export.card import write_card
    from tfbaselines.export.describe import SEED, options_of
    from tfbaselines.export.play import returns_of_export

    options = options_of(model, to, sampled, precision, episodes)
    work = Path(tempfile.mkdtemp(prefix=".export-", dir=out.parent))
    try:
        written.write(model, work, options)
        returns = None if precision == "float32" else returns_of_export(model, written.load(work), options, SEED)
        if returns:
            _warn_of_loss(precision, sum(returns) / len(returns), sum(options.returns) / len(options.returns))
        write_card(model, work, options, written, returns)
        # The scratch directory is private, an export is not.
        work.chmod(0o777 & ~_umask())
        replace_directory(out, work)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _warn_of_loss(precision: str, mean: float, expected: float) -> None:
    if mean < expected - ACCEPTED_LOSS * abs(expected):
        warn(f"the mean return of the {precision} policy is {mean:.4g}, and {expected:.4g} with float32")


def check(directory: str | os.PathLike) -> tuple[float, float | None]:
    """Run the test vectors of an export; return the largest difference and its bound (None for float16 and int8)."""
    from tfbaselines.export.card import read_card

    out = Path(directory).expanduser()
    card = read_card(out)
    return float(target(card["target"]).check(out)), card["tolerance"]


def _check_replaceable(out: Path) -> None:
    if out.exists() and not any((out / name).is_file() for name in (CARD, SAVED_MODEL)):
        raise UsageError(f"cannot export to '{out}': it exists and is not an exported model")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise UsageError(f"cannot export to '{out}': a part of its path is a file") from None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
