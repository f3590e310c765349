"""A policy for numpy alone: policy.npz, and policy.py, a short module that computes with it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tfbaselines.export import numpy_policy
from tfbaselines.export.interface import ACTIONS, MASKS, NEW_STATES, NOISE, STATES, Options
from tfbaselines.export.vectors import Answers, largest_difference

REQUIRES: tuple[tuple[str, str], ...] = ()
PRECISIONS = ("float32",)

# Observations in one batch of the check: images need memory.
ROWS = 64

ARRAYS, MODULE = "policy.npz", "policy.py"

USAGE = """Any batch, or one observation; numpy alone:

```python
from policy import load

policy = load("policy.npz")
{call}
```
"""


def write(model: Any, out: Path, options: Options) -> None:
    """Write arrays and module."""
    from tfbaselines.export.description import described

    program, weights = described(model, options)
    text = json.dumps(program, separators=(",", ":"))
    np.savez(out / ARRAYS, program=np.frombuffer(text.encode(), np.uint8), **weights)
    source = Path(numpy_policy.__file__).read_text(encoding="utf-8")
    (out / MODULE).write_text(source, encoding="utf-8")


def answers(policy: numpy_policy.Policy, inputs: Answers) -> dict[str, np.ndarray]:
    """Act on a batch of inputs by name; return outputs by name."""
    count = len(next(iter(inputs.values())))
    chunks = [{name: rows[k : k + ROWS] for name, rows in inputs.items()} for k in range(0, count, ROWS)]
    results = [_answer(policy, chunk) for chunk in chunks]
    return {name: np.concatenate([result[name] for result in results]) for name in results[0]}


def _answer(policy: numpy_policy.Policy, inputs: Answers) -> dict[str, np.ndarray]:
    observations = {part["part"]: inputs[part["name"]] for part in policy.program["inputs"]}
    actions, states = policy.act(observations, inputs.get(STATES), inputs.get(MASKS), inputs.get(NOISE))
    return {ACTIONS: actions} if states is None else {ACTIONS: actions, NEW_STATES: states}


def load(out: Path) -> Callable[[Answers], Answers]:
    """Return the function of an exported policy; this package's module reads the arrays."""
    policy = numpy_policy.load(out / ARRAYS)
    return lambda inputs: answers(policy, inputs)


def check(out: Path) -> float:
    """Return the largest difference over the test vectors."""
    return largest_difference(out, load(out))


def usage(card: dict[str, Any]) -> str:
    """Return how to use the policy from Python."""
    return USAGE.format(call=_call(card))


def _call(card: dict[str, Any]) -> str:
    names = {port["name"] for port in card["inputs"]}
    arguments = ["observations"]
    result = "actions, _"
    if STATES in names:
        arguments += ["states", "masks"]
        result = "actions, states"
    if NOISE in names:
        arguments.append("noise=noise")
    return f"{result} = policy.act({', '.join(arguments)})"
