"""Policies with every operation in JavaScript, run by node on test vectors."""

import json
import shutil
import subprocess

import described
import gymnasium
import numpy as np
import pytest

from tfbaselines.export.c_code import FILES
from tfbaselines.export.js_target import weights_text
from tfbaselines.export.vectors import write_rows

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


def test_every_operation(tmp_path):
    found = {name: wrong(name, False, tmp_path) for name in described.COVERING}
    assert not any(found.values()), found
    for name in ("categorical", "integers", "bits", "previous choice", "squashed"):
        assert not wrong(name, True, tmp_path)


STEPS = """
const { TASKS } = require(process.argv[1]);
const rows = JSON.parse(process.argv[2]).map(({ id, state, action }) => {
  const task = Object.assign(new TASKS[id](), state);
  const { reward, done } = task.step(action);
  return [...task.observation, reward, +done];
});
console.log(JSON.stringify(rows));
"""
NAMES = {"CartPole-v1": ("x", "speed", "angle", "turn"), "Pendulum-v1": ("angle", "turn")}


def test_the_tasks_of_the_page_are_those_of_gymnasium():
    rng, cases, expected = np.random.default_rng(0), [], []
    for task, names in NAMES.items():
        env = gymnasium.make(task).unwrapped
        for _ in range(20):
            env.reset(seed=0)
            state = rng.uniform(-0.25, 0.25, 4) if task == "CartPole-v1" else rng.uniform(-8, 8, 2)
            env.state = state
            action = int(rng.integers(2)) if task == "CartPole-v1" else [float(rng.uniform(-3, 3))]
            obs, reward, terminated, _, _ = env.step(action if task == "CartPole-v1" else np.array(action))
            cases.append({"id": task, "state": dict(zip(names, state.tolist(), strict=True)), "action": action})
            expected.append([*obs, reward, terminated])
    done = subprocess.run([NODE, "-e", STEPS, FILES / "tasks.js", json.dumps(cases)], capture_output=True, check=True)
    for row, wanted in zip(json.loads(done.stdout), expected, strict=True):
        np.testing.assert_allclose(row, np.array(wanted, float), rtol=1e-5, atol=1e-6)


WRONG = """
const { Policy } = require(process.argv[1]);
const text = require("fs").readFileSync("weights.js", "utf8");
const policy = new Policy(JSON.parse(text.slice(text.indexOf("{"), text.lastIndexOf("}") + 1)));
for (const observation of [{ all: [1, 2] }, { other: [1] }])
  try { policy.act(observation); } catch (error) { console.log(error.message); }
const ones = { all: [0.5, 1, -1], action_mask: [1, 1, 1, 1, 1] };
console.log(JSON.stringify(policy.act(ones).action) === JSON.stringify(policy.act({ all: ones.all }).action));
"""


def test_observations_of_another_size(tmp_path):
    _, program, weights = described.exported("masked")
    (tmp_path / "weights.js").write_text(weights_text(program, weights, sampled=False))
    command = [NODE, "-e", WRONG, FILES / "policy.js"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["all needs 3 numbers, not 2", "all needs 3 numbers, not none", "true"]
