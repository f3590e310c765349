"""A policy in plain JavaScript: a page that plays it in the browser, offline, and a class for pages of one's own."""

import base64
import html
import json
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from tfbaselines.errors import UsageError
from tfbaselines.export.c_code import FILES, template
from tfbaselines.export.interface import NOISE, STATES, Options
from tfbaselines.export.vectors import LARGEST, ROWS_FILE, read_vectors, write_rows

REQUIRES: tuple[tuple[str, str], ...] = ()
PRECISIONS = ("float32",)

WEIGHTS_FILE = "weights.js"
CODE = ("policy.js", "tasks.js", "page.js", "check.js")

USAGE = """Open `index.html` by a double click: the policy plays CartPole or Pendulum. It needs no network.
In a page of your own (`example.html`):

```html
<script src="policy.js"></script>
<script src="weights.js"></script>
<script>
  const policy = new Policy(WEIGHTS);
  {call}
</script>
```

An observation is an array of numbers, or an object with an array for each part. `node check.js` answers `{rows}` and
prints the largest difference and the time of one action."""


def write(model: Any, out: Path, options: Options) -> None:
    """Write page, code, weights and vectors."""
    from tfbaselines.export.description import described

    program, weights = described(model, options)
    algorithm, environment = model.config.get("alg"), (model.config.get("env") or {}).get("env")
    origin = {"algorithm": algorithm, "environment": environment, "sampled": options.sampled}
    (out / WEIGHTS_FILE).write_text(weights_text(program, weights, **origin), encoding="utf-8")
    for name in CODE:
        (out / name).write_text(template(name), encoding="utf-8")
    title = html.escape(f"{algorithm or 'A policy'} on {environment or 'its environment'}")
    zeros = {one["part"]: [0] * one["size"] for one in program["inputs"]}
    shown = json.dumps(zeros if len(zeros) > 1 else next(iter(zeros.values())))
    for name, word, replacement in (("index.html", "TITLE", title), ("example.html", "OBSERVATION", shown)):
        (out / name).write_text(template(name).replace(f"@{word}@", replacement), encoding="utf-8")
    write_rows(options.inputs, options.outputs, out / ROWS_FILE, LARGEST)


def weights_text(program: dict[str, Any], weights: dict[str, np.ndarray], **origin: Any) -> str:
    """Write a program and its weights as one constant; `origin` is added to it."""
    texts = {name: base64.b64encode(array.astype("<f4").tobytes()).decode() for name, array in weights.items()}
    text = json.dumps(origin | {"program": program, "weights": texts}, separators=(",", ":"))
    return f"const WEIGHTS = {text};\n"


def check(out: Path) -> float:
    """Run node on all test vectors; this package's code reads the weights. UsageError without node."""
    node = shutil.which("node")
    if node is None:
        raise UsageError("the check of to='js' needs node (https://nodejs.org)")
    with tempfile.TemporaryDirectory() as work:
        rows = Path(work) / ROWS_FILE
        write_rows(*read_vectors(out), rows)
        done = subprocess.run([node, FILES / "check.js", rows, out / WEIGHTS_FILE], capture_output=True, text=True)
    found = re.search(r"largest difference (\S+),", done.stdout)
    return float(found[1].replace("Infinity", "inf")) if found else float("inf")


def usage(card: dict[str, Any]) -> str:
    """Return how to use the page and the class."""
    names = {port["name"] for port in card["inputs"]}
    recurrent = STATES in names
    arguments = ["observation", *(["state"] if recurrent else ["null"] if NOISE in names else [])]
    arguments += ["noise"] if NOISE in names else []
    first = "let state = null;  // where an episode begins\n  " if recurrent else ""
    call = f"policy.act({', '.join(arguments)})"
    line = f"({{ action, state }} = {call});" if recurrent else f"const {{ action }} = {call};"
    return USAGE.format(call=f"{'let action; ' if recurrent else ''}{first}{line}", rows=ROWS_FILE)
