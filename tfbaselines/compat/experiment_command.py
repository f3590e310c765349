"""Spinning Up's command line: runs for every combination of values, plots, and the playing of a saved run.

`python -m tfbaselines.run ppo --env CartPole-v1 --seed 0 10 --clip_ratio 0.1 0.2` runs four experiments.
"""

import contextlib
import os
import re
import shlex
import sys
import textwrap
from typing import Any

from tfbaselines.algs import get
from tfbaselines.cli import Parser
from tfbaselines.cli.stored import read_config
from tfbaselines.compat import spinup
from tfbaselines.compat.experiments import DEFAULT_DATA_DIR, ExperimentGrid
from tfbaselines.compat.helpers import literal
from tfbaselines.compat.spinup import SPINNING_UP
from tfbaselines.config.groups import ACTIVATIONS, network_named
from tfbaselines.config.stable_baselines3 import name_here
from tfbaselines.errors import UsageError, bad_argument, check_at_least, complain, unknown
from tfbaselines.loading import load_tensorflow
from tfbaselines.parallel import mpi

COMMAND = "python -m tfbaselines.run"
TOOLS = ("plot", "test_policy")

HIDDEN_SIZES, ACTIVATION = "ac_kwargs:hidden_sizes", "ac_kwargs:activation"
SHORT = {"env": "env_name", "hid": HIDDEN_SIZES, "act": ACTIVATION, "cpu": "num_cpu", "dt": "datestamp"}
# Arguments of the whole experiment, with one value.
OF_THE_EXPERIMENT = ("exp_name", "num_cpu", "data_dir", "datestamp", "jobs")
# Flags of Spinning Up's scripts.
OF_SCRIPTS = {"steps": "did you mean '--steps_per_epoch'?", "l": "give every layer's size, as in --hid [64,64]"}
# Arguments that are text and never evaluated.
TEXTS = ("exp_name", "data_dir", "env_name")

FLAG = re.compile(r"--(?P<name>[^\[\]=]+)(\[(?P<shorthand>\w*)\])?(=(?P<value>.*))?", re.DOTALL)

HELP = f"""usage: {COMMAND} ALG --env ID ... [--NAME VALUE ...] ...

Runs an algorithm of Spinning Up ({", ".join(SPINNING_UP)}) for every combination of
the values, each in a process of its own. The directory of a run is
DATA_DIR/EXP_NAME.../EXP_NAME..._sSEED; flags with several values are in its name.
The same command again continues the runs that are not done.

  --env ID ...       environments (or --env_name)
  --seed N ...       seeds (default: 0)
  --hid SIZES ...    hidden layers, such as '[64,64]' (or --{HIDDEN_SIZES})
  --act NAME ...     their activation, such as tanh (or --{ACTIVATION})
  --NAME VALUE ...   any argument of the algorithm; True without a value
  --NAME[SHORT] ...  SHORT stands for NAME in directories; quote it in a shell
  --exp_name NAME    name of the experiment (default: cmd_ALG)
  --data_dir DIR     directory of the results (default: {DEFAULT_DATA_DIR})
  --cpu N            number of MPI ranks in each run, or auto (or --num_cpu)
  --jobs N           runs at once, which share the cores (default: 1)
  --dt               date and time in the directories' names (or --datestamp)

{COMMAND} {"|".join(TOOLS)} --help: curves of runs, and the playing of one.
"""


class _Checked(Exception):
    """The arguments of a run are valid."""


def main(words: list[str]) -> int:
    """Run the command that the first word names.

    Args:
        words: an algorithm of Spinning Up, 'plot' or 'test_policy', and the words after it.

    Returns:
        The exit status: 0, or 1 when a run failed. A user's mistake is a UsageError before the first run.
    """
    name, *rest = words
    if name == "plot":
        from tfbaselines.plot.__main__ import main as plot

        return plot(rest)
    return test_policy(rest) if name == "test_policy" else run(name, rest)


def run(name: str, words: list[str]) -> int:
    """Run an algorithm for every combination of values; return the exit status.

    Args:
        name: name of the algorithm, with Spinning Up's suffix _tf1 or _pytorch or without.
        words: flags and their values.
    """
    alg = re.sub("_(tf1|pytorch)$", "", name)
    if alg not in SPINNING_UP:
        raise unknown("algorithm", name, (*SPINNING_UP, *TOOLS))
    if {"--help", "-h", "help"} & set(words):
        sys.stdout.write(f"{HELP}\n{_arguments_page(alg)}\n")
        return 0
    if mpi.launched():
        raise UsageError("experiments start their own ranks: give --cpu N in place of mpirun -np N")
    given, shorthands = split(words)
    experiment = {"exp_name": f"cmd_{name}"} | checked(alg, given)
    grid = ExperimentGrid(experiment.pop("exp_name"))
    for key, values in given.items():
        if key not in OF_THE_EXPERIMENT:
            grid.add(key, values, shorthands.get(key))
    for variant in grid.variants():
        _check_run(alg, **variant)
    try:
        directories = grid.run(getattr(spinup, alg), **experiment)
    except RuntimeError as error:
        complain(f"tfbaselines: error: {error}")
        return 1
    _name_results(directories)
    return 0


def split(words: list[str]) -> tuple[dict[str, list[Any]], dict[str, str]]:
    """Split the command line into values by the flags' long names, and the shorthands in brackets.

    Args:
        words: '--name value value', '--name' (True), '--name[shorthand] value'; the last of a repeated flag counts.
    """
    texts: dict[str, list[str]] = {}
    shorthands: dict[str, str] = {}
    name = None
    for word in words:
        if word.startswith("--"):
            flag = FLAG.fullmatch(word)
            if flag is None:
                raise UsageError(f"'{word}' is not a flag: write --name value, or --name[shorthand] value")
            name = flag["name"].replace("-", "_")
            name = SHORT.get(name, name)
            texts[name] = [] if flag["value"] is None else [flag["value"]]
            if flag["shorthand"] is not None:
                shorthands[name] = flag["shorthand"]
        elif name is None:
            raise UsageError(f"'{word}' is not a flag: write --name value, as in --env CartPole-v1")
        else:
            texts[name].append(word)
    return {name: [_value(name, text) for text in own] or [True] for name, own in texts.items()}, shorthands


def _value(name: str, text: str) -> Any:
    """Parse a Python literal; other text is itself."""
    if name in TEXTS:
        return text
    if name == ACTIVATION:
        return _activation(text)
    return literal(text)


def _activation(text: str) -> str:
    """Return Keras's name of an activation: tanh for torch.nn.Tanh, leaky_relu for torch.nn.LeakyReLU."""
    last = text.rpartition(".")[2]
    return {name.replace("_", ""): name for name in ACTIVATIONS}.get(last.replace("_", "").lower(), last)


def checked(alg: str, given: dict[str, list[Any]]) -> dict[str, Any]:
    """Check the flags, and return the arguments of the experiment.

    Args:
        alg: name of the algorithm.
        given: values by long names.
    """
    from tfbaselines.envs import env_type_of

    known = {*arguments_of(alg), *OF_THE_EXPERIMENT, *SHORT}
    for name in given:
        if name not in known:
            hint = OF_SCRIPTS.get(name) or name_here(name, known, "--{}")
            if hint is not None:
                raise UsageError(f"unknown flag of {alg} '--{name}': {hint}")
            raise unknown(f"flag of {alg}", f"--{name}", [f"--{one}" for one in known])
    if "env_name" not in given:
        raise UsageError("there is no --env: give the id of an environment, as in --env CartPole-v1")
    for name in TEXTS:
        if True in given.get(name, ()):
            raise UsageError(f"--{name} needs a value: --{name} VALUE")
    for env_name in given["env_name"]:
        env_type_of(env_name)
    for sizes in given.get(HIDDEN_SIZES, ()):
        if not isinstance(sizes, list | tuple) or not all(isinstance(size, int) for size in sizes):
            raise bad_argument("--hid", sizes, "a list of whole numbers, such as [64,64]")
    experiment = {}
    for name in given.keys() & set(OF_THE_EXPERIMENT):
        if len(given[name]) > 1:
            raise UsageError(f"--{name} has one value, not {len(given[name])}: {shlex.join(map(str, given[name]))}")
        (experiment[name],) = given[name]
    ranks = experiment.get("num_cpu", 1)
    if ranks != "auto" and (type(ranks) is not int or ranks < 1):
        raise bad_argument("--cpu", ranks, "at least 1, or auto")
    if type(experiment.get("jobs", 1)) is not int or experiment.get("jobs", 1) < 1:
        raise bad_argument("--jobs", experiment["jobs"], "at least 1")
    if not isinstance(experiment.get("datestamp", False), bool):
        raise bad_argument("--dt", experiment["datestamp"], "True or False; True without a value")
    if "data_dir" in experiment:
        experiment["data_dir"] = os.path.expanduser(experiment["data_dir"])
    return experiment


def arguments_of(alg: str) -> set[str]:
    """Return the names of the arguments of an algorithm's runs."""
    own = {name for name, argument in get(alg).config.arguments().items() if argument.settable}
    if alg == "ddpg":
        own -= {*spinup.DDPG_NAMES.values(), "nb_epoch_cycles"}
        own |= {*spinup.DDPG_NAMES, *spinup.DDPG_DEFAULTS, "steps_per_epoch"}
    return own | {f"ac_kwargs:{name}" for name in network_named(spinup.NETWORK).arguments} | {"env_name"}


def _arguments_page(alg: str) -> str:
    names = textwrap.wrap(", ".join(sorted(arguments_of(alg))), 80, break_on_hyphens=False)
    return "\n  ".join([f"Arguments of {alg} ({COMMAND} --alg={alg} --help describes them):", *names])


def _check_run(alg: str, env_name: str, **kwargs: Any) -> None:
    """Raise the algorithm's UsageError for wrong arguments."""

    def env_fn() -> None:
        # The algorithm checks its arguments before it makes an environment.
        raise _Checked

    with contextlib.suppress(_Checked):
        getattr(spinup, alg)(env_fn, **kwargs)


def _name_results(directories: list[str]) -> None:
    """Print the directories of the runs, without seeds, and the next commands."""
    experiments = shlex.join(dict.fromkeys(map(os.path.dirname, directories)))
    with contextlib.suppress(OSError):
        print(
            f"\nresults:  {experiments}"
            f"\nplot it:  {COMMAND} plot {experiments}"
            f"\nsee it:   {COMMAND} test_policy {shlex.quote(directories[-1])} --episodes 5",
            flush=True,
        )


def test_policy(words: list[str]) -> int:
    """Play a saved run, print episodes and statistics, and return the exit status."""
    parser = Parser(prog=f"{COMMAND} test_policy", description="Play the policy of a saved run.")
    parser.add_argument("fpath", metavar="DIR", help="directory of the run")
    parser.add_argument("--len", "-l", type=int, default=0, help="most steps of an episode (default: 0, no limit)")
    parser.add_argument("--episodes", "-n", type=int, default=100, help="number of episodes (default: 100)")
    parser.add_argument("--norender", "-nr", action="store_true", help="without a window")
    parser.add_argument("--itr", "-i", type=int, default=-1, help="number of a checkpoint (default: -1, the last)")
    parser.add_argument("--deterministic", "-d", action="store_true", help="most likely actions")
    parser.add_argument("--trust", action="store_true", help="import the modules named in config.json")
    args = parser.parse_args(words)
    check_at_least(1, episodes=args.episodes)
    check_at_least(0, len=args.len)
    # Refuse a wrong directory before TensorFlow loads.
    read_config(args.fpath)
    load_tensorflow()
    itr = "last" if args.itr < 0 else args.itr
    render = not args.norender
    env, get_action = spinup.load_policy_and_env(args.fpath, itr, args.deterministic, args.trust, render)
    try:
        row = spinup.run_policy(env, get_action, args.len or None, args.episodes, render)
    finally:
        env.close()
    for name, value in row.items():
        print(f"{name:<16}{value:.6g}")
    return 0
