"""The card of an export: README.md for people, export.json for programs, vectors.npz to check the policy."""

import hashlib
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from tfbaselines import __version__
from tfbaselines.errors import UsageError
from tfbaselines.export import CARD, TOLERANCE
from tfbaselines.export.interface import Options
from tfbaselines.export.vectors import write_vectors
from tfbaselines.files import read_document

FORMAT = "tfbaselines-export-1"
README = "README.md"
LARGEST_CARD = 2**22
# Parts of a card that a check reads.
NEEDED = {"target", "files", "tolerance"}


def write_card(model: Any, out: Path, options: Options, target: ModuleType, returns: list[float] | None = None) -> None:
    """Write README.md, export.json and vectors.npz into an export, beside the target's files.

    Args:
        returns: returns of the export's own episodes; None if its numbers are the model's.
    """
    files = {path.relative_to(out).as_posix(): _sha256(path) for path in sorted(out.rglob("*")) if path.is_file()}
    write_vectors(out, options.inputs, options.outputs)
    card = describe(model, options, files)
    if returns is not None:
        card["score_of_export"] = _score(returns)
    (out / CARD).write_text(json.dumps(card, indent=1) + "\n", encoding="utf-8")
    (out / README).write_text(readme(card, target.usage(card)), encoding="utf-8")


def describe(model: Any, options: Options, files: dict[str, str]) -> dict[str, Any]:
    """Describe an export as JSON; `files` are the target's, with their SHA-256."""
    environment = (model.config.get("env") or {}).get("env")
    ports = {
        kind: [
            {"name": port.name, "shape": list(port.shape), "dtype": port.dtype, "meaning": port.meaning}
            for port in getattr(options.interface, kind)
        ]
        for kind in ("inputs", "outputs")
    }
    return {
        "format": FORMAT,
        "tfbaselines": __version__,
        "target": options.to,
        "algorithm": model.config.get("alg"),
        "environment": environment,
        "actions": "sampled from the input noise" if options.sampled else "the most likely ones",
        "precision": options.precision,
        "score": _score(options.returns),
        **ports,
        "vectors": {"count": len(next(iter(options.inputs.values()))), "source": options.source},
        "tolerance": TOLERANCE if options.precision == "float32" else None,
        "files": files,
        "checksum": hashlib.sha256("".join(f"{name}\n{files[name]}\n" for name in files).encode()).hexdigest(),
    }


def _score(returns: list[float]) -> dict[str, float] | None:
    if not returns:
        return None
    return {"mean": float(np.mean(returns)), "std": float(np.std(returns)), "episodes": len(returns)}


def readme(card: dict[str, Any], usage: str) -> str:
    """Write README.md of an export."""
    rows = {
        "algorithm": card["algorithm"] or "unknown",
        "environment": card["environment"] or "not made from an id",
        "score": _in_words(card["score"]),
        "actions": card["actions"],
        "weights": card["precision"],
        "checksum": card["checksum"],
    }
    if "score_of_export" in card:
        rows["score of these weights"] = _in_words(card["score_of_export"])
    parts = [
        f"# {rows['algorithm']} on {rows['environment']}, for {card['target']}",
        "\n".join(["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows.items())]),
        "## Inputs and outputs",
        "N is the length of a batch. Observations are raw, as the environment gives them.",
        _table(card),
        "## How to use it",
        usage.strip(),
        "## How to check it",
        f"`vectors.npz` has {card['vectors']['count']} inputs with the outputs expected, from "
        f"{card['vectors']['source']}.",
        "```bash\npython -m tfbaselines.export --check .\n```",
    ]
    return "\n\n".join(parts) + "\n"


def _in_words(score: dict[str, float] | None) -> str:
    if score is None:
        return "not evaluated"
    return f"mean return {score['mean']:.2f}, deviation {score['std']:.2f}, {score['episodes']} episodes"


def _table(card: dict[str, Any]) -> str:
    lines = ["| | name | shape | type | meaning |", "|---|---|---|---|---|"]
    for kind in ("inputs", "outputs"):
        for port in card[kind]:
            shape = ", ".join(["N", *map(str, port["shape"])])
            lines.append(f"| {kind[:-1]} | `{port['name']}` | [{shape}] | {port['dtype']} | {port['meaning']} |")
    return "\n".join(lines)


def read_card(out: Path) -> dict[str, Any]:
    """Read export.json; UsageError if the directory is no export or a file of it has changed."""
    if not (out / CARD).is_file():
        raise UsageError(f"directory='{out}' is not valid: an export, with a file {CARD}")
    card = read_document(out / CARD, LARGEST_CARD)
    if not isinstance(card, dict) or card.get("format") != FORMAT or not card.keys() >= NEEDED:
        raise UsageError(f"'{out / CARD}' is not the card of an export")
    changed = [name for name, digest in card["files"].items() if not _is(out / name, digest)]
    if changed:
        raise UsageError(f"'{out}' is damaged: {', '.join(changed)} differ from the checksums in {CARD}")
    return card


def _is(path: Path, digest: str) -> bool:
    return path.is_file() and _sha256(path) == digest


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
