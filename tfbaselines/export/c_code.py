"""C code of a program: one header with weights as constants, the functions it needs, and their calls in order."""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tfbaselines.envs.vec.observations import MASK
from tfbaselines.export.memory import BLOCK, Place, placed
from tfbaselines.export.vectors import ordered

FILES = Path(__file__).parent / "files"

# Characters of a line of constants.
LINE = 110


def template(name: str) -> str:
    """Read a file that exports are made from."""
    return (FILES / name).read_text(encoding="utf-8")


def header(prefix: str, program: Mapping[str, Any], weights: Mapping[str, np.ndarray]) -> str:
    """Write the header of a program."""
    inputs, places = _inputs(program)
    endings = [one for one in (program["act"], program["sample"]) if one]
    operations = [*program["body"], *(operation for one in endings for operation in one["operations"])]
    results = [number for one in endings for number in (one["action"], one["state"]) if number is not None]
    memory = placed(operations, places, results, program["sizes"])
    code = _Code(prefix, memory.places, program["sizes"], {name: array.size for name, array in weights.items()})
    body = code.lines(program["body"])
    act, sample = (None if one is None else code.ending(one) for one in (program["act"], program["sample"]))
    sizes = _sizes(program, inputs, max(memory.size, 1))
    upper = prefix.upper()
    parts = [
        f"/* A policy as plain C99, written by tfbaselines. {prefix}_act computes an action; README.md has more. */",
        f"#ifndef {upper}_H\n#define {upper}_H",
        "#include <math.h>\n#include <stddef.h>",
        "\n".join(f"#define {upper}_{name} {size} /* {meaning} */" for name, (size, meaning) in sizes.items()),
        *(_constant(f"{prefix}_{name}", "float", array.ravel().tolist()) for name, array in weights.items()),
        *(_constant(f"{prefix}_{name}", "int", numbers) for name, numbers in code.lists.items()),
        *_functions(prefix, code.used),
        _run(prefix, body, act, sample),
        *_entries(prefix, program),
        "#endif",
    ]
    return "\n\n".join(parts) + "\n"


def _inputs(program: Mapping[str, Any]) -> tuple[int, dict[int, Place]]:
    """Return the count of numbers in an observation without its mask, and the places of all inputs."""
    places, count = {}, 0
    for one in ordered(program["inputs"]):
        masks = one["part"] == MASK
        places[one["value"]] = Place("mask", 0) if masks else Place("obs", count)
        count += 0 if masks else one["size"]
    for name in ("state", "noise"):
        if program[name]:
            places[program[name]["value"]] = Place(name, 0)
    return count, places


def _sizes(program: Mapping[str, Any], observed: int, memory: int) -> dict[str, tuple[int, str]]:
    mask = sum(one["size"] for one in program["inputs"] if one["part"] == MASK)
    state, noise = (program[name]["size"] if program[name] else 0 for name in ("state", "noise"))
    return {
        "OBS": (observed, "numbers in an observation"),
        "MASK": (mask, "numbers in an action mask"),
        "STATE": (state, "numbers in the memory of a policy"),
        "NOISE": (noise, "numbers in the noise of a sampled action"),
        "ACTION": (program["action"]["size"], "numbers in an action"),
        "MEMORY": (memory, "numbers on the stack during a call"),
    }


class _Code:
    """Write calls of functions, and remember what they need.

    Attributes:
        used: names of the functions called.
        lists: lists of whole numbers that calls take, by name.
    """

    def __init__(self, prefix: str, places: Mapping[int, Place], sizes: list[int], lengths: Mapping[str, int]) -> None:
        self._prefix = prefix
        self._lengths = lengths
        self._places = places
        self._sizes = sizes
        self.used: set[str] = set()
        self.lists: dict[str, list[int]] = {}

    def lines(self, operations: list[dict[str, Any]]) -> list[str]:
        """Write the calls of operations."""
        return [line for operation in operations for line in self._lines(operation)]

    def ending(self, end: Mapping[str, Any]) -> list[str]:
        """Write the calls of an ending; the results are copied last, as the state is an input too."""
        copies = [(end["action"], "action"), *([] if end["state"] is None else [(end["state"], "state")])]
        placed_last = [
            self._call("place", [number], target, [1, *[self._sizes[number]] * 2]) for number, target in copies
        ]
        return [*self.lines(end["operations"]), *placed_last]

    def _at(self, number: int) -> str:
        place = self._places[number]
        return f"{place.block} + {place.offset}" if place.offset else place.block

    def _call(self, function: str, inputs: list[int], target: str, numbers: list[Any], weights: Any = ()) -> str:
        self.used.add(function)
        arguments = [*map(self._at, inputs), *(f"{self._prefix}_{name}" for name in weights), target, *numbers]
        return f"{self._prefix}_{function}({', '.join(map(str, arguments))});"

    def _lines(self, operation: Mapping[str, Any]) -> Iterator[str]:
        kind, inputs, settings = operation["kind"], operation["inputs"], operation["settings"]
        if kind == "slice":
            return
        output, weights = operation["output"], operation["weights"].values()
        n = self._sizes[inputs[0]]
        if kind == "concat":
            start, wide = 0, sum(settings["widths"])
            for number, width in zip(inputs, settings["widths"], strict=True):
                target = f"{self._at(output)} + {start}" if start else self._at(output)
                yield self._call("place", [number], target, [settings["rows"], width, wide])
                start += width
            return
        name = settings.get("name", settings.get("how", kind)) if kind in ("activation", "combine") else kind
        lengths = [self._lengths[weight] for weight in weights]
        yield self._call(name, inputs, self._at(output), self._numbers(kind, output, n, settings, lengths), weights)

    def _numbers(
        self, kind: str, output: int, n: int, settings: Mapping[str, Any], lengths: Iterable[int]
    ) -> list[Any]:
        """Return the whole numbers and lists that a function takes after its arrays."""
        if kind == "dense":
            return [settings["rows"], settings["width"], settings["units"]]
        if kind in ("conv2d", "pool2d"):
            pools = kind == "pool2d"
            out = settings["out"][:2] if pools else settings["out"]
            windows = [settings["image"], out, settings["size"], settings["strides"], settings.get("dilation", [])]
            numbers = [number for part in (*windows, settings["pads"]) for number in part]
            return [int(settings["how"] == "average"), *numbers] if pools else numbers
        if kind in ("one_hot", "argmax"):
            return [len(settings["sizes"]), *(self._list(kind, output, name, settings) for name in ("sizes", "starts"))]
        if kind == "gather":
            return [len(settings["strides"]), self._list(kind, output, "strides", settings), settings["width"]]
        if kind in ("layer_norm", "softmax", "weighted_sum"):
            return [n, settings["width"]]
        # The weights of affine and clip may repeat: their lengths follow.
        return [n, *lengths]

    def _list(self, kind: str, output: int, name: str, settings: Mapping[str, Any]) -> str:
        key = f"{kind}{output}_{name}"
        self.lists[key] = settings[name]
        return f"{self._prefix}_{key}"


def _constant(name: str, kind: str, numbers: list[Any]) -> str:
    written = [f"{number:.9g}" if kind == "float" else str(number) for number in numbers]
    if kind == "float":
        written = [f"{text}f" if "." in text or "e" in text else f"{text}.0f" for text in written]
    lines, line = [], ""
    for text in written:
        if len(line) + len(text) > LINE:
            lines.append(line)
            line = ""
        line += f"{text}, "
    body = "\n".join(f"    {line.rstrip()}" for line in (*lines, line))
    return f"static const {kind} {name}[{len(numbers)}] = {{\n{body}\n}};"


def _functions(prefix: str, used: set[str]) -> list[str]:
    blocks = template("operations.h").strip().split("\n\n")
    return [block.replace("NAME_", f"{prefix}_") for block in blocks if re.search(r"NAME_(\w+)\(", block)[1] in used]


def _run(prefix: str, body: list[str], act: list[str], sample: list[str] | None) -> str:
    """Write the function behind all entries; `mask` and `noise` may be NULL."""
    names = ("obs", "mask", "noise", "state", "action")
    kinds = ("const float *", "const float *", "const float *", "float *", "float *")
    arguments = ", ".join(f"{kind}{name}" for kind, name in zip(kinds, names, strict=True))
    text = "\n".join([*body, *act, *(sample or [])])
    lines = [f"float {BLOCK}[{prefix.upper()}_MEMORY];"]
    lines += [f"(void){name};" for name in (BLOCK, *names) if not re.search(rf"\b{name}\b", text)]
    lines += body
    if sample is None:
        lines += act
    else:
        lines += [
            "if (noise) {",
            *(f"    {line}" for line in sample),
            "} else {",
            *(f"    {line}" for line in act),
            "}",
        ]
    inner = "\n".join(f"    {line}" for line in lines)
    return f"static inline void {prefix}_run({arguments})\n{{\n{inner}\n}}"


def _entries(prefix: str, program: Mapping[str, Any]) -> Iterator[str]:
    """Write the public functions: act, and those with a mask or noise where the policy has them."""
    masked = any(one["part"] == MASK for one in program["inputs"])
    for verb in ("act", *(["sample"] if program["sample"] else [])):
        noise = "noise" if verb == "sample" else "NULL"
        for suffix in ("_masked", "") if masked else ("",):
            given = ["obs", *(["mask"] if suffix else []), *(["noise"] if verb == "sample" else [])]
            arguments = ", ".join([*(f"const float *{name}" for name in given), "float *state", "float *action"])
            yield _entry(prefix, f"{verb}{suffix}", arguments, masked and not suffix, noise)


def _entry(prefix: str, name: str, arguments: str, allows_all: bool, noise: str) -> str:
    lines = []
    mask = "mask" if re.search(r"\bmask\b", arguments) else "NULL"
    if allows_all:
        mask = "allowed"
        size = f"{prefix.upper()}_MASK"
        lines += [f"float allowed[{size}];", f"for (int i = 0; i < {size}; i++)", "    allowed[i] = 1.0f;"]
    lines.append(f"{prefix}_run(obs, {mask}, {noise}, state, action);")
    inner = "\n".join(f"    {line}" for line in lines)
    return f"static inline void {prefix}_{name}({arguments})\n{{\n{inner}\n}}"
