"""Test vectors of an export: inputs and expected outputs in one file, and their comparison with a target's answers.

Programs in C and JavaScript cannot read that file: for them the vectors are float32 numbers in a row.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tfbaselines.envs.vec.observations import MASK
from tfbaselines.export.interface import ACTIONS, MASKS, NEW_STATES, NOISE, PREFIX, STATES

VECTORS_FILE = "vectors.npz"
EXPECTED = "expected_"
ROWS_FILE = "vectors.bin"
# Bytes of the file in an export: images have fewer vectors there than in vectors.npz.
LARGEST = 2**24

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


def ordered(inputs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a program's inputs with the action mask last."""
    return sorted(inputs, key=lambda one: one["part"] == MASK)


def write_rows(inputs: Answers, outputs: Answers, path: Path, largest: int | None = None) -> None:
    """Write observation, mask, state, noise, action and new state of each vector, where the policy has them.

    The state is zero where an episode begins. A file that would exceed `largest` bytes has fewer vectors.
    """
    count = len(next(iter(inputs.values())))
    observed = [name for name in inputs if name.startswith(PREFIX)]
    parts = [inputs[name] for name in sorted(observed, key=lambda name: name == f"{PREFIX}_{MASK}")]
    if STATES in inputs:
        parts.append(inputs[STATES] * (1.0 - inputs[MASKS][:, None]))
    parts += [inputs[name] for name in (NOISE,) if name in inputs]
    parts += [outputs[name] for name in (ACTIONS, NEW_STATES) if name in outputs]
    width = sum(int(np.prod(part.shape[1:])) for part in parts)
    most = count if largest is None else min(count, max(1, largest // (4 * width)))
    rows = [np.reshape(part[:most], (most, -1)).astype("<f4") for part in parts]
    path.write_bytes(np.concatenate(rows, axis=1).tobytes())
