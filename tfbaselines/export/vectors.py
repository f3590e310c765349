"""Test vectors of an export: inputs and expected outputs in one file, and their comparison with a target's answers."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

VECTORS_FILE = "vectors.npz"
EXPECTED = "expected_"

Answers = Mapping[str, np.ndarray]


def write_vectors(out: Path, inputs: Answers, outputs: Answers) -> None:
    """Write vectors.npz: the inputs by name, and the expected outputs as expected_NAME."""
    np.savez_compressed(out / VECTORS_FILE, **inputs, **{f"{EXPECTED}{name}": value for name, value in outputs.items()})


def read_vectors(out: Path) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Read inputs and expected outputs of an export."""
    with np.load(out / VECTORS_FILE, allow_pickle=False) as file:
        arrays = dict(file)
    inputs = {name: value for name, value in arrays.items() if not name.startswith(EXPECTED)}
    return inputs, {name.removeprefix(EXPECTED): arrays[name] for name in arrays if name not in inputs}


def largest_difference(out: Path, run: Callable[[dict[str, np.ndarray]], Answers]) -> float:
    """Answer the test vectors of an export by a function of a batch, and compare.

    The difference of a number is divided by its expected magnitude if that is above 1, as float32 has no more digits.
    """
    inputs, expected = read_vectors(out)
    return compare(run(inputs), expected)


def compare(answers: Answers, expected: Answers) -> float:
    """Return the largest difference of the expected outputs; infinite for a wrong shape or a number not finite."""
    return max(_difference(answers[name], value) for name, value in expected.items())


def _difference(answer: Any, expected: np.ndarray) -> float:
    answer = np.asarray(answer, np.float64)
    if answer.shape != expected.shape or not np.isfinite(answer).all():
        return float("inf")
    wanted = expected.astype(np.float64)
    return float((np.abs(answer - wanted) / np.maximum(1.0, np.abs(wanted))).max(initial=0.0))
