"""A policy as one C header without dependencies or allocation, with an example that reads the test vectors."""

import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tfbaselines.envs.vec.observations import MASK
from tfbaselines.errors import UsageError
from tfbaselines.export.c_code import header, template
from tfbaselines.export.interface import NOISE, PREFIX, STATES, Options
from tfbaselines.export.vectors import LARGEST, ROWS_FILE, read_vectors, write_rows

REQUIRES: tuple[tuple[str, str], ...] = ()
PRECISIONS = ("float32",)

COMPILERS = ("cc", "gcc", "clang")
USAGE = """C99 and its math library; one observation a call:

```c
#include "{prefix}.h"

float action[{upper}_ACTION];
{call}
```

`make` compiles the example main.c, which answers `{rows}` and prints the largest difference and the time of one action.
An observation has {upper}_OBS float numbers, the parts in the order of the table above without the mask; choices are
whole numbers. {upper}_MEMORY float numbers are on the stack during a call. Nothing else is allocated or shared, so that
threads may call it at once."""
STATE_USAGE = """ Set the {upper}_STATE numbers of `state` to 0 where an episode begins."""


def prefix_of(environment: str | None) -> str:
    """Return the prefix of all names in the header: the environment's id in small letters."""
    name = re.sub(r"\W+", "_", (environment or "").rsplit("/", 1)[-1].rsplit(":", 1)[-1]).lower().strip("_")
    return name if name and not name[0].isdigit() else f"policy_{name}".rstrip("_")


def write(model: Any, out: Path, options: Options) -> None:
    """Write header, example, Makefile and vectors."""
    from tfbaselines.export.description import described

    program, weights = described(model, options)
    prefix = prefix_of((model.config.get("env") or {}).get("env"))
    (out / f"{prefix}.h").write_text(header(prefix, program, weights), encoding="ascii")
    write_example(prefix, program, options.sampled, out)
    write_rows(options.inputs, options.outputs, out / ROWS_FILE, LARGEST)


def write_example(prefix: str, program: Mapping[str, Any], sampled: bool, out: Path) -> None:
    """Write main.c and the Makefile."""
    upper = prefix.upper()
    call = _call(prefix, program, sampled, "row", f"before + {upper}_STATE")
    words = {"PREFIX": prefix, "UPPER": upper, "SAMPLED": str(int(sampled)), "CALL": call}
    for name in ("main.c", "Makefile"):
        text = template(name)
        for word, replacement in words.items():
            text = text.replace(f"@{word}@", replacement)
        (out / name).write_text(text, encoding="ascii")


def _call(prefix: str, program: Mapping[str, Any], sampled: bool, obs: str, noise: str) -> str:
    masked = any(one["part"] == MASK for one in program["inputs"])
    return _written_call(prefix, masked, noise if sampled else None, bool(program["state"]), obs)


def _written_call(prefix: str, masked: bool, noise: str | None, recurrent: bool, obs: str) -> str:
    arguments = [obs, *(["mask"] if masked else []), *([noise] if noise else [])]
    arguments += ["state" if recurrent else "NULL", "action"]
    return f"{prefix}_{'sample' if noise else 'act'}{'_masked' if masked else ''}({', '.join(arguments)})"


def check(out: Path) -> float:
    """Compile the example and run it on all test vectors; UsageError without a compiler of C."""
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    if compiler is None:
        raise UsageError(f"the check of to='c' needs a compiler of C: {', '.join(COMPILERS)}")
    with tempfile.TemporaryDirectory() as work:
        program, rows = Path(work) / "main", Path(work) / ROWS_FILE
        write_rows(*read_vectors(out), rows)
        subprocess.run([compiler, "-std=c99", "-O1", "-o", program, out / "main.c", "-lm"], check=True)
        done = subprocess.run([program, rows], capture_output=True, text=True)
    found = re.search(r"largest difference (\S+),", done.stdout)
    return float(found[1]) if found else float("inf")


def usage(card: dict[str, Any]) -> str:
    """Return how to use the header."""
    prefix, names = prefix_of(card["environment"]), {port["name"] for port in card["inputs"]}
    upper = prefix.upper()
    masked, recurrent = f"{PREFIX}_{MASK}" in names, STATES in names
    call = _written_call(prefix, masked, "noise" if NOISE in names else None, recurrent, "obs") + ";"
    text = USAGE + (STATE_USAGE if recurrent else "")
    return text.format(prefix=prefix, upper=upper, call=call, rows=ROWS_FILE)
