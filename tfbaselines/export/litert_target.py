"""LiteRT, formerly TensorFlow Lite: one file for phones, microcontrollers and browsers; any batch."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tfbaselines.errors import UsageError
from tfbaselines.export.interface import Options
from tfbaselines.export.vectors import Answers, largest_difference

REQUIRES = (("ai_edge_litert", "litert"),)
PRECISIONS = ("float32", "float16", "int8")
FILE = "policy.tflite"

# Observations that calibrate int8.
CALIBRATION = 500

USAGE = """Any batch, with the LiteRT runtime alone (`pip install ai-edge-litert`):

```python
from ai_edge_litert.interpreter import Interpreter

policy = Interpreter("{file}").get_signature_runner()
answers = policy({arguments})
actions = answers["actions"]
```

{precision}"""
WORDS = {
    "float32": "Weights and activations are float32.",
    "float16": "Weights are float16, computation is float32.",
    "int8": "Weights are int8 and activations int16 where LiteRT can, calibrated with the observations of vectors.npz.",
}


def write(model: Any, out: Path, options: Options) -> None:
    """Write policy.tflite; UsageError if the network has an operation that LiteRT lacks."""
    import tensorflow as tf

    from tfbaselines.export.served import ServedPolicy, of_interface
    from tfbaselines.loading import silent_stderr

    served = ServedPolicy(model, options.interface)
    function = served.function(lambda results: of_interface(results, options.interface))
    plain = [tf.lite.OpsSet.TFLITE_BUILTINS]
    attempts = [plain]
    if options.precision == "int8":
        # With activations of int8 too, steps of observations and of continuous actions are coarse. Some operations,
        # such as one-hot encodings, have no other ones.
        attempts.insert(0, [tf.lite.OpsSet.EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8, *plain])
    for operations in attempts:
        converter = tf.lite.TFLiteConverter.from_concrete_functions([function], served)
        converter.target_spec.supported_ops = operations
        _set_precision(converter, options)
        try:
            with silent_stderr():
                content = converter.convert()
            _runner(content)(**{name: value[:1] for name, value in options.inputs.items()})
            break
        except Exception as error:  # The converter and the runtime raise almost anything.
            reason = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    else:
        raise UsageError(f"to='litert' cannot express this policy ({reason})")
    (out / FILE).write_bytes(content)


def _set_precision(converter: Any, options: Options) -> None:
    import tensorflow as tf

    if options.precision != "float32":
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if options.precision == "float16":
        converter.target_spec.supported_types = [tf.float16]
    if options.precision == "int8":
        converter.representative_dataset = lambda: _calibration(options)


def _calibration(options: Options) -> Iterator[tuple[str, dict[str, np.ndarray]]]:
    for row in range(CALIBRATION):
        yield "serving_default", {name: value[row : row + 1] for name, value in options.inputs.items()}


def _runner(content: bytes) -> Any:
    from ai_edge_litert.interpreter import Interpreter

    return Interpreter(model_content=content).get_signature_runner()


def load(out: Path) -> Any:
    """Return the function of an exported policy, from a batch of inputs to outputs, by their names."""
    runner = _runner((out / FILE).read_bytes())

    def act(inputs: Answers) -> dict[str, np.ndarray]:
        return {name: np.array(value) for name, value in runner(**inputs).items()}

    return act


def check(out: Path) -> float:
    """Return the largest difference over the test vectors."""
    return largest_difference(out, load(out))


def usage(card: dict[str, Any]) -> str:
    """Return how to use the file from Python."""
    arguments = ", ".join(f"{port['name']}={port['name']}" for port in card["inputs"])
    return USAGE.format(file=FILE, arguments=arguments, precision=WORDS[card["precision"]])
