"""Test vectors as float32 numbers in a row, for programs that cannot read vectors.npz: C and JavaScript."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tfbaselines.envs.vec.observations import MASK
from tfbaselines.export.interface import ACTIONS, MASKS, NEW_STATES, NOISE, PREFIX, STATES
from tfbaselines.export.vectors import Answers

ROWS_FILE = "vectors.bin"
# Bytes of the file in an export: images have fewer vectors there than in vectors.npz.
LARGEST = 2**24


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
