"""TensorFlow's SavedModel: for TensorFlow, TensorFlow Serving, and converters of other formats."""

import re
from pathlib import Path
from typing import Any

import numpy as np

from tfbaselines.export.interface import NEW_STATES, STATES, Options
from tfbaselines.export.vectors import Answers, largest_difference

REQUIRES: tuple[tuple[str, str], ...] = ()
PRECISIONS = ("float32",)

SAVED_MODEL, FINGERPRINT = "saved_model.pb", "fingerprint.pb"

# TensorFlow numbers the functions and the captured variables of a process.
FUNCTION = re.compile(r"\b(__inference_\w*_)(\d+)\b")
VARIABLE_NAME = "_user_specified_name"

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

    from tfbaselines.export.served import ServedPolicy

    served = ServedPolicy(model, options.interface)
    signatures = {"serving_default": served.function(_with_states)}
    if options.interface.recurrent:
        signatures["onnx"] = served.function(dict)
    tf.saved_model.save(served, str(out), signatures=signatures)
    make_reproducible(out)


def make_reproducible(out: Path) -> None:
    """Count a SavedModel's functions from 0, and remove its fingerprint, which holds a random number.

    TensorFlow loads a SavedModel without a fingerprint.
    """
    from google.protobuf import text_format
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

    saved = SavedModel()
    saved.ParseFromString((out / SAVED_MODEL).read_bytes())
    text = text_format.MessageToString(saved)
    numbers = sorted({int(match[2]) for match in FUNCTION.finditer(text)})
    new = {str(number): str(place) for place, number in enumerate(numbers)}
    renamed = text_format.Parse(FUNCTION.sub(lambda match: match[1] + new[match[2]], text), SavedModel())
    for graph in renamed.meta_graphs:
        graph.graph_def.library.function.sort(key=lambda function: function.signature.name)
        for function in graph.graph_def.library.function:
            for argument in function.arg_attr.values():
                if VARIABLE_NAME in argument.attr and argument.attr[VARIABLE_NAME].s.isdigit():
                    del argument.attr[VARIABLE_NAME]
    (out / SAVED_MODEL).write_bytes(renamed.SerializeToString(deterministic=True))
    (out / FINGERPRINT).unlink(missing_ok=True)


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
