"""Policies of every kind in JavaScript, run by node on test vectors."""

import shutil
import subprocess

import described
import pytest

from tfbaselines.export.c_code import FILES
from tfbaselines.export.js_target import weights_text
from tfbaselines.export.vectors_file import write_rows

NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="there is no node")


def wrong(name, sampled, place):
    """What is wrong with a policy's answers; empty if nothing is."""
    options, program, weights = described.exported(name, sampled)
    (place / "weights.js").write_text(weights_text(program, weights, sampled=sampled))
    write_rows(options.inputs, options.outputs, place / "vectors.bin")
    command = [NODE, FILES / "check.js", "vectors.bin", "weights.js"]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True)
    return done.stdout + done.stderr if done.returncode else ""


def test_policies_of_every_kind(tmp_path):
    found = {name: wrong(name, False, tmp_path) for name in described.POLICIES}
    assert not any(found.values()), found
    for name in ("categorical", "integers", "bits", "previous choice", "squashed"):
        assert not wrong(name, True, tmp_path)
