"""Print the walk of one run, file by file: `python tests/support/walk.py a2c`, or sac or acer.

The walk has the files on the call stacks at a few places, from the command to the end of the first update. The page
docs/architecture.md shows it.
"""

import os
import runpy
import sys
import tempfile
from types import FrameType
from typing import Any

ROOT = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "tfbaselines", "")
PLACES = {
    "the command": "cli/command_line.py:parse",
    "the arguments": "config/config.py:of",
    "the environment": "envs/make.py:make_env",
    "the network": "policy/networks.py:network_fn",
    "an action": "policy/copies.py:forward",
}
EPISODE = {"a step": "cartpole.py:step"}
RUNS = {
    "a2c": (
        "CartPole-v1 --num_timesteps=40 --num_env=4",
        EPISODE | {"returns": "rollout/rollout.py:n_step_returns", "the loss": "a2c/a2c.py:loss"},
    ),
    "sac": (
        "Pendulum-v1 --num_timesteps=200 --start_steps=100 --update_after=150",
        {
            "a step": "pendulum.py:step",
            "the replay": "replay/storage.py:put",
            "a batch": "replay/__init__.py:sample",
            "the loss": "sac/loss.py:critic_loss",
        },
    ),
    "acer": (
        "CartPole-v1 --num_timesteps=80 --num_env=4",
        EPISODE | {"returns": "acer/loss.py:retrace", "the loss": "acer/loss.py:bounded_gradient"},
    ),
}
GRADIENT_STEP = {"the gradient step": "learn/optimizers.py:apply"}


class Walk:
    """Remembers the call stack at the first call of each place; prints the files when the first update has ended."""

    def __init__(self, places: dict[str, str]) -> None:
        self._names = {place: name for name, place in places.items()}
        self._stacks: dict[str, list[tuple[str, str]]] = {}

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """Take a call or a return; sys.setprofile expects this signature."""
        code = frame.f_code
        place = "/".join(code.co_filename.split(os.sep)[-2:]) + ":" + code.co_name
        if event == "return" and place.startswith("learn/engine.py") and code.co_name in ("minibatches", "block"):
            sys.setprofile(None)
            self._print()
        if event == "call":
            for known in (place, place.partition("/")[2]):
                if known in self._names and known not in self._stacks:
                    self._stacks[known] = stack_of(frame)

    def _print(self) -> None:
        files: dict[str, str] = {}
        for place, name in self._names.items():
            before = len(files)
            for file, function in self._stacks[place]:
                files.setdefault(file, function)
            new = [f"{file} ({function})" for file, function in list(files.items())[before:]]
            print(f"{name}: {', '.join(new)}", file=sys.stderr)
        print(f"{len(files)} files", file=sys.stderr)


def stack_of(frame: FrameType | None) -> list[tuple[str, str]]:
    """List files of tfbaselines and their functions, from the command to the frame."""
    found = []
    while frame is not None:
        code = frame.f_code
        if code.co_filename.startswith(ROOT) and code.co_name != "<module>":
            found.append((code.co_filename.removeprefix(ROOT), code.co_name))
        frame = frame.f_back
    return found[::-1]


if __name__ == "__main__":
    algorithm = sys.argv[1]
    arguments, places = RUNS[algorithm]
    sys.argv = [
        "run",
        f"--alg={algorithm}",
        "--seed=0",
        *f"--env={arguments}".split(),
        "--log_path",
        tempfile.mkdtemp(),
    ]
    sys.setprofile(Walk(PLACES | places | GRADIENT_STEP))
    runpy.run_module("tfbaselines.run", run_name="__main__", alter_sys=True)
