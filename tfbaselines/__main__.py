"""The command `tfbaselines`, or `python -m tfbaselines`: one name for every command.

`tfbaselines run` may be left out: flags alone, or an algorithm as the first word, start a run.
"""

import importlib
import sys

from tfbaselines import __version__
from tfbaselines.algs import NAMES
from tfbaselines.cli import exit_status
from tfbaselines.errors import unknown
from tfbaselines.run import command as run
from tfbaselines.run import console

# Modules of the commands, and what they do.
COMMANDS = {
    "run": ("", "train an agent, save it, play it"),
    "evaluate": ("evaluate", "returns of a saved run, and videos of it"),
    "plot": ("plot.__main__", "learning curves of runs as a PNG"),
    "report": ("report.__main__", "curves, scores and comparisons of runs as one HTML page"),
    "multi": ("multi.__main__", "several behaviors of a PettingZoo environment, each with its trainer"),
    "record": ("record", "demonstrations by a saved run"),
    "check_env": ("check_env", "faults of an environment, and the algorithms for it"),
    "export": ("export.__main__", "a saved run for SavedModel, LiteRT, ONNX, JavaScript, C or numpy"),
    "study": ("study.__main__", "many runs in one directory, by any number of workers and machines"),
    "doctor": ("doctor.__main__", "what keeps a run from learning"),
    "serve": ("serve.__main__", "actions of a saved run over HTTP"),
    "search": ("search.__main__", "hyper-parameters by Optuna, raced over seeds and judged on unseen ones"),
    "bench": ("bench.__main__", "speed, scores and tables of results"),
}
# First words of Spinning Up's form of `run`.
FIRST_WORDS = {*NAMES, "test_policy"}

HELP = f"""usage: tfbaselines COMMAND ... (or python -m tfbaselines COMMAND ...)

{chr(10).join(f"  {name.ljust(10)} {purpose}" for name, (_, purpose) in COMMANDS.items())}

tfbaselines COMMAND --help describes a command, tfbaselines --version prints the version. The first run:

  tfbaselines run --alg=ppo2 --env=CartPole-v1 --tuned --log_path=logs/cartpole
"""


def main(argv: list[str] | None = None) -> int:
    """Run a command and return its exit status; without words, list the commands."""
    words = sys.argv[1:] if argv is None else argv
    if words in ([], ["help"], ["-h"], ["--help"]):
        sys.stdout.write(HELP)
        return 0
    if words in (["--version"], ["-V"]):
        print(f"tfbaselines {__version__}")
        return 0
    name = words[0].replace("-", "_")
    if name == "run":
        return run(words[1:])
    if name in COMMANDS:
        return importlib.import_module(f"tfbaselines.{COMMANDS[name][0]}").main(words[1:])
    if name.isidentifier() and name.removesuffix("_tf1").removesuffix("_pytorch") not in FIRST_WORDS:

        def refuse() -> int:
            raise unknown("command", words[0], [*COMMANDS, *FIRST_WORDS])

        return exit_status("tfbaselines", refuse)
    return run(words)


def start() -> None:
    """Run the command of the process's words and leave the process."""
    console(main)


if __name__ == "__main__":
    start()
