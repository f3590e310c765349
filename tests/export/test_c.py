"""Policies of every kind as C headers, compiled with all warnings as errors and run on test vectors."""

import shutil
import subprocess

import described
import pytest

from tfbaselines.export.c_code import header
from tfbaselines.export.c_target import write_example
from tfbaselines.export.vectors_file import write_rows

GCC = shutil.which("gcc")
pytestmark = pytest.mark.skipif(GCC is None, reason="there is no gcc")
FLAGS = ["-Wall", "-Wextra", "-Werror", "-std=c99", "-O0", "main.c", "-lm", "-o", "main"]


def compiled(name, sampled, place, flags=()):
    """Compile and run the example of a policy; return what it printed if something is wrong."""
    options, program, weights = described.exported(name, sampled)
    (place / "p.h").write_text(header("p", program, weights))
    write_example("p", program, sampled, place)
    write_rows(options.inputs, options.outputs, place / "vectors.bin")
    for command in ([GCC, *flags, *FLAGS], ["./main"]):
        done = subprocess.run(command, cwd=place, capture_output=True, text=True)
        if done.returncode:
            return done.stdout + done.stderr
    return None


def test_policies_of_every_kind(tmp_path):
    wrong = {name: text for name in described.POLICIES if (text := compiled(name, False, tmp_path))}
    assert not wrong
