"""TensorFlow's SavedModel: for TensorFlow, TensorFlow Serving, and converters of other formats."""

from pathlib import Path
from typing import Any

import numpy as np

from tfbaselines.export.interface import NEW_STATES, STATES, Options
from tfbaselines.export.vectors import Answers, largest_difference

REQUIRES: tuple[tuple[str, str], ...] = ()
PRECISIONS = ("float32",)

USAGE = """Any batch; TensorFlow alone:

```python
import tensorflow as tf

policy = tf.saved_model.load(".").signatures["serving_default"]
{call}
```

`values` are the policy's estimates of returns. TensorFlow Serving takes the directory as it is."""


def write(model: Any, out: Path, options: Options) -> None:
    """Write the SavedModel with its serving signature.

    The outputs are actions, values and, of a recurrent policy, new_states, which earlier exports named states. ONNX
    allows no output with the name of an input, so a second signature, "onnx", lacks that name.
    """
    import tensorflow as tf

    from tfbaselines.export.reproducible import make_reproducible
    from tfbaselines.export.served import ServedPolicy

    served = ServedPolicy(model, options.interface)
    signatures = {"serving_default": served.function(_with_states)}
    if options.interface.recurrent:
        signatures["onnx"] = served.function(dict)
    tf.saved_model.save(served, str(out), signatures=signatures)
    make_reproducible(out)


def _with_states(results: dict[str, Any]) -> dict[str, Any]:
    return results | ({STATES: results[NEW_STATES]} if NEW_STATES in results else {})


def load(out: Path) -> Any:
    """Return the function of an exported policy, from a batch of inputs to outputs, by their names."""
    from tfbaselines.loading import load_tensorflow

    load_tensorflow()
    import tensorflow as tf

    loaded = tf.saved_model.load(str(out))
    served = loaded.signatures["serving_default"]

    def act(inputs: Answers, kept: Any = loaded) -> dict[str, np.ndarray]:
        answers = served(**{name: tf.constant(value) for name, value in inputs.items()})
        return {name: value.numpy() for name, value in answers.items()}

    return act


def check(out: Path) -> float:
    """Return the largest difference over the test vectors."""
    return largest_difference(out, load(out))


def usage(card: dict[str, Any]) -> str:
    """Return how to use the SavedModel from Python."""
    arguments = ", ".join(f"{port['name']}={port['name']}" for port in card["inputs"])
    return USAGE.format(call=f'answers = policy({arguments})\nactions = answers["actions"]')
