"""ONNX: one file for onnxruntime and every other runtime of the format; any batch."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tfbaselines.errors import UsageError
from tfbaselines.export.interface import Interface, Options
from tfbaselines.export.vectors import Answers, largest_difference

REQUIRES = (("onnx", "onnx"), ("tf2onnx", "onnx"), ("onnxruntime", "onnx"))
PRECISIONS = ("float32",)
FILE = "policy.onnx"
OPSET = 18

USAGE = """Any batch, with onnxruntime alone; the file has opset {opset}:

```python
import onnxruntime

policy = onnxruntime.InferenceSession("{file}")
answers = policy.run(None, {{{feeds}}})
{names} = answers
```"""


def write(model: Any, out: Path, options: Options) -> None:
    """Write policy.onnx; UsageError if the network has an operation that ONNX lacks."""
    import tf2onnx

    from tfbaselines.export.served import ServedPolicy, of_interface

    served = ServedPolicy(model, options.interface)
    function = served.positional(lambda results: of_interface(results, options.interface))
    try:
        # Its own set_level would silence TensorFlow's logger as well.
        logging.getLogger("tf2onnx").setLevel(logging.ERROR)
        proto, _ = tf2onnx.convert.from_function(function, served.signature, opset=OPSET)
        rename(proto, options.interface)
        _session(proto.SerializeToString(deterministic=True))
    except Exception as error:  # The converter and the runtime raise almost anything.
        reason = " ".join(str(error).split())[:300]
        raise UsageError(f"to='onnx' cannot express this policy ({type(error).__name__}: {reason})") from error
    (out / FILE).write_bytes(proto.SerializeToString(deterministic=True))


def rename(proto: Any, interface: Interface) -> None:
    """Replace the names inside the graph by numbers, and sort its constants: both differ between conversions."""
    ports = [port.name for port in (*interface.inputs, *interface.outputs)]
    shown = {value.name for value in (*proto.graph.input, *proto.graph.output)}
    if shown != set(ports):
        raise UsageError(f"its inputs and outputs are {', '.join(sorted(shown))}")
    names = {name: name for name in ["", *ports]}
    for graph in _graphs(proto.graph):
        for number, node in enumerate(graph.node):
            node.name = f"node{number}"
            node.input[:] = [names.setdefault(name, f"value{len(names)}") for name in node.input]
            node.output[:] = [names.setdefault(name, f"value{len(names)}") for name in node.output]
        del graph.value_info[:]
        for kind in (graph.initializer, graph.input, graph.output):
            for value in kind:
                value.name = names.setdefault(value.name, f"value{len(names)}")
        # The converter's optimizers keep the constants in sets, whose order differs from one conversion to the next.
        order = {name: number for number, name in enumerate(names.values())}
        constants = sorted(graph.initializer, key=lambda constant: order[constant.name])
        del graph.initializer[:]
        graph.initializer.extend(constants)
        graph.name = "policy"
        graph.doc_string = ""
    proto.doc_string = ""
    for value in (*proto.graph.input, *proto.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "N"


def _graphs(graph: Any) -> Iterator[Any]:
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _graphs(attribute.g)


def _session(content: bytes | str) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def load(out: Path) -> Any:
    """Return the function of an exported policy, from a batch of inputs to outputs, by their names."""
    session = _session(str(out / FILE))
    names = [output.name for output in session.get_outputs()]

    def act(inputs: Answers) -> dict[str, np.ndarray]:
        return dict(zip(names, session.run(names, dict(inputs)), strict=True))

    return act


def check(out: Path) -> float:
    """Return the largest difference over the test vectors."""
    return largest_difference(out, load(out))


def usage(card: dict[str, Any]) -> str:
    """Return how to use the file from Python."""
    feeds = ", ".join(f'"{port["name"]}": {port["name"]}' for port in card["inputs"])
    names = ", ".join(port["name"] for port in card["outputs"]) + ("," if len(card["outputs"]) == 1 else "")
    return USAGE.format(opset=OPSET, file=FILE, feeds=feeds, names=names)
