"""SavedModels with the same bytes each time."""

import re
from pathlib import Path

SAVED_MODEL, FINGERPRINT = "saved_model.pb", "fingerprint.pb"

# TensorFlow numbers the functions and the captured variables of a process.
FUNCTION = re.compile(r"\b(__inference_\w*_)(\d+)\b")
VARIABLE_NAME = "_user_specified_name"


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
