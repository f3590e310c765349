"""Policies with every operation as C headers, compiled with all warnings as errors and run on test vectors."""

import shutil
import subprocess

import described
import pytest

from tfbaselines.export.c_code import header
from tfbaselines.export.c_target import prefix_of, write_example
from tfbaselines.export.vectors import write_rows

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


def test_every_operation(tmp_path):
    wrong = {name: text for name in described.COVERING if (text := compiled(name, False, tmp_path))}
    assert not wrong


def test_noise_and_memory_under_sanitizers(tmp_path):
    flags = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    for name, sampled in (("several choices", True), ("squashed", True), ("memory", False)):
        assert not compiled(name, sampled, tmp_path, flags)


ALLOWED = """
#include <stdio.h>
#include "p.h"
int main(void)
{
    static float obs[P_OBS], mask[P_MASK], one[P_ACTION], other[P_ACTION];
    int differ = 0;
    for (int i = 0; i < P_MASK; i++)
        mask[i] = 1.0f;
    for (int k = 0; k < 50; k++) {
        for (int i = 0; i < P_OBS; i++)
            obs[i] = (float)((k * 7 + i * 5) % 11 - 5);
        p_act(obs, NULL, one);
        p_act_masked(obs, mask, NULL, other);
        for (int i = 0; i < P_ACTION; i++)
            differ += one[i] != other[i];
    }
    return differ;
}
"""


def test_without_a_mask_every_action_is_allowed(tmp_path):
    _, program, weights = described.exported("masked")
    (tmp_path / "p.h").write_text(header("p", program, weights))
    (tmp_path / "main.c").write_text(ALLOWED)
    for command in ([GCC, *FLAGS], ["./main"]):
        subprocess.run(command, cwd=tmp_path, check=True)


def test_names_of_headers():
    names = {
        "LunarLander-v3": "lunarlander_v3",
        "ALE/Pong-v5": "pong_v5",
        "a.b:2048-v0": "policy_2048_v0",
        None: "policy",
    }
    assert {environment: prefix_of(environment) for environment in names} == names
