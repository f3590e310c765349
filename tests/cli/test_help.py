import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from loops import for_each

import tfbaselines
from tfbaselines.algs import ALGORITHMS
from tfbaselines.cli import help as page
from tfbaselines.cli.command_line import FLAGS
from tfbaselines.config.groups import NETWORKS
from tfbaselines.errors import UsageError

HEAVY = {"tensorflow", "keras", "tensorflow_probability", "tf_keras", "pandas", "matplotlib", "mpi4py", "cv2", "scipy"}


def run(*words):
    code = (
        "import json, sys; from tfbaselines.run import command as main; status = main(sys.argv[1:]);"
        "print(json.dumps([status, sorted({name.split('.')[0] for name in sys.modules})]))"
    )
    root = next(iter(tfbaselines.__path__)) + "/.."
    done = subprocess.run([sys.executable, "-c", code, *words], cwd=root, capture_output=True, text=True, check=True)
    *lines, last = done.stdout.splitlines()
    return "\n".join(lines) + "\n", *json.loads(last)


def entries(text):
    """The heads of the entries: --flags and names, each with the words after it."""
    lines = [line for line in text.splitlines() if line.startswith("  ") and not line.startswith("   ")]
    return {line.split()[0]: line.split()[1:] for line in lines}


def help_text(*names):
    return page.help_text(ALGORITHMS, *names)


def arguments_of(name):
    """What a user gives by --name in place of Python."""
    return [one for one in ALGORITHMS[name].config.arguments().values() if one.name not in (*page.OF_THE_RUN, *FLAGS)]


@for_each(
    ("words", "names"),
    [
        (["--help"], ()),
        (["-h"], ()),
        (["help"], ()),
        (["--alg=ppo2", "--help"], ("ppo2",)),
        (["--alg=sac", "--network=mlp", "--help"], ("sac", "mlp")),
        (["--network", "cnn", "--help"], (None, "cnn")),
        (["--env=A-v0", "--help"], ()),
    ],
)
def test_help_loads_no_tensorflow_(words, names):
    text, status, modules = run(*words)
    assert status == 0
    assert HEAVY.isdisjoint(modules)
    assert text == help_text(*names)


@for_each("words", [["--nsteps=0"], ["--gamma=2"], ["--lr=linaer_1"], ["--qqq"], ["--activation=x"]])
def test_a_mistake_is_found_before_tensorflow_is_loaded(words):
    _, status, modules = run(*words)
    assert status == 2
    assert HEAVY.isdisjoint(modules)


def test_everything_there_is_is_mentioned():
    text = help_text()
    assert entries(text).keys() == {*(f"--{name}" for name in FLAGS), *ALGORITHMS, *NETWORKS}
    flat = " ".join(text.split())
    for flag in FLAGS.values():
        assert flag.meaning in flat and all(choice in flat for choice in flag.choices)
    for algorithm in ALGORITHMS.values():
        assert f"{algorithm.summary}. Actions: {', '.join(algorithm.actions)}. Network: " in flat
    assert "--alg=ALG --help" in text and "--network=NAME --help" in text


@for_each(
    ("name", "words"),
    [("ppo2", "mlp, cnn for atari and retro"), ("sac", "dense, cnn for atari"), ("td3", "dense")],
)
def test_the_default_network_is_named(name, words):
    assert f"Network: {words} " in " ".join(help_text().split())
    assert f"Default network: {words}." in " ".join(help_text(name).split())


@for_each("name", ALGORITHMS)
def test_an_algorithms_help_has_every_argument_that_can_be_set_and_no_others(name):
    text = help_text(name)
    flat = " ".join(text.split())
    settable = [one for one in arguments_of(name) if one.settable]
    assert entries(text).keys() == {*(f"--{one.name}" for one in settable), *NETWORKS}
    for one in settable:
        assert f"--{one.name} {one.meaning} (" in flat
    only_python = [one.name for one in ALGORITHMS[name].config.arguments().values() if not one.settable]
    assert f"From Python only: {', '.join(only_python)}." in flat
    for network in NETWORKS.values():
        defaults = [f"--{one.name}={one.default}".replace(" ", "") for one in network.arguments.values()]
        assert f" {network.name} {' '.join(defaults) or 'none'} " in flat


@for_each("alg", [None, "ppo2"])
@for_each("name", NETWORKS)
def test_a_networks_help_has_its_arguments(alg, name):
    text = help_text(alg, name)
    own = {f"--{one}" for one in NETWORKS[name].arguments}
    of_algorithm = {f"--{one.name}" for one in arguments_of(alg) if one.settable} if alg else set()
    assert entries(text).keys() - {"none"} == own | of_algorithm
    for one in NETWORKS[name].arguments.values():
        assert f"--{one.name} {one.meaning} (" in " ".join(text.split())


@for_each(
    "entry",
    [
        "--nsteps steps of each environment in a rollout (int, at least 1; default 2048; atari: 128) --ent",
        "--lr learning rate (schedule, at least 0; default 0.0003; atari: linear_2.5e-4; mujoco: linear_3e-4)",
        "--max_grad_norm gradient clipping by the global norm; None for none (float or None, above 0; default 0.5)",
        "--gamma discount factor (schedule, between 0 and 1; default 0.99)",
        "--load_path saved model to start from (str or None)",
        "--num_layers=2 --num_hidden=64 --activation=tanh --layer_norm=False",
    ],
)
def test_types_bounds_and_defaults_are_named(entry):
    assert entry in " ".join(help_text("ppo2").split())


@for_each(
    "entry",
    [
        "--env environment id; 'module:id' imports the module first (str; default CartPole-v1)",
        "--num_timesteps environment steps of training; 0 trains nothing (float, at least 0; default 1e6)",
        "(one of float32, bfloat16; default float32)",
    ],
)
def test_flags_have_types_bounds_and_defaults(entry):
    assert entry in " ".join(help_text().split())


@for_each("names", [(), *((name,) for name in ALGORITHMS), ("sac", "mlp"), (None, "cnn_lstm")])
@for_each(("columns", "most"), [(70, 70), (80, 80), (110, 110), (300, 110)])
def test_lines_fit_the_terminal(names, columns, most, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    text = help_text(*names)
    longest = max(map(len, text.splitlines()))
    assert longest <= most
    # The width is used.
    assert longest > most - 15
    assert text.endswith("\n") and not text.endswith("\n\n")


@for_each(
    ("names", "words"),
    [(("pp02",), "unknown algorithm 'pp02': did you mean 'ppo2'"), ((None, "mpl"), "unknown network 'mpl'")],
)
def test_an_unknown_name_is_an_error(names, words):
    with pytest.raises(UsageError, match=words):
        help_text(*names)


def test_help_and_errors_end_with_a_page_that_exists():
    root = Path(tfbaselines.__file__).parents[1]
    for names in ((), *((name,) for name in ALGORITHMS), (None, "cnn"), ("ppo2", "cnn")):
        last = help_text(*names).splitlines()[-1]
        assert (root / last.removeprefix("Read on: ")).is_file(), last
    for path in root.glob("tfbaselines/**/*.py"):
        for page_named in re.findall(r"\((docs/[\w/-]+\.md)\)", path.read_text(encoding="utf-8")):
            assert (root / page_named).is_file(), f"{path}: {page_named}"
