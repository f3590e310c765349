import json
import subprocess
import sys

import pytest

import tfbaselines
from tfbaselines import ALGORITHMS
from tfbaselines.settings.command_line import FLAGS
from tfbaselines.settings.help import WIDTH, help_text
from tfbaselines.settings.signatures import algorithm, networks

HEAVY = {"tensorflow", "keras", "tensorflow_probability", "tf_keras", "pandas", "matplotlib", "mpi4py", "cv2", "scipy"}


def run(*words):
    code = (
        "import json, sys, time; from tfbaselines.run import main; status = main(sys.argv[1:]);"
        "print(json.dumps([status, time.process_time(), sorted({name.split('.')[0] for name in sys.modules})]))"
    )
    root = next(iter(tfbaselines.__path__)) + "/.."
    done = subprocess.run([sys.executable, "-c", code, *words], cwd=root, capture_output=True, text=True, check=True)
    *lines, last = done.stdout.splitlines()
    return "\n".join(lines) + "\n", *json.loads(last)


def entries(text):
    """The heads of the entries: --flags and names, each with the words after it."""
    lines = [line for line in text.splitlines() if line.startswith("  ") and not line.startswith("   ")]
    return {line.split()[0]: line.split()[1:] for line in lines}


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["-h"],
        ["help"],
        ["--alg=ppo2", "--help"],
        ["--env=A-v0", "--help"],
    ],
)
def test_help_loads_no_tensorflow_and_answers_at_once(words):
    text, status, seconds, modules = run(*words)
    assert status == 0
    assert HEAVY.isdisjoint(modules)
    # Half a second on an idle machine; a second is promised, and this one may be busy.
    assert seconds < 3
    assert text == help_text("ppo2" if "--alg=ppo2" in words else None)


def test_everything_there_is_is_mentioned():
    text = help_text(None)
    assert entries(text).keys() == {*(f"--{name}" for name in FLAGS), *ALGORITHMS, *networks()}
    flat = " ".join(text.split())
    for flag in FLAGS.values():
        assert flag.meaning in flat and all(choice in flat for choice in flag.choices)
    for name in ALGORITHMS:
        assert " ".join(algorithm(name).summary.split()) in flat
    assert "--alg=ALG --help" in text


@pytest.mark.parametrize("name", ALGORITHMS)
def test_an_algorithms_help_has_every_argument_that_can_be_set(name):
    text = help_text(name)
    arguments = algorithm(name).arguments.values()
    of_networks = [argument for network in networks().values() for argument in network.arguments.values()]
    flat = " ".join(text.split())
    for argument in [*arguments, *of_networks]:
        assert (f"\n  --{argument.name}" in text and argument.meaning in flat) == argument.settable
    only_python = ", ".join(argument.name for argument in arguments if not argument.settable)
    assert f"From Python only: {only_python}." in flat


def test_a_name_does_not_run_into_its_meaning():
    for name in ALGORITHMS:
        settable = {argument.name for argument in algorithm(name).arguments.values() if argument.settable}
        assert {f"--{name}" for name in settable} <= entries(help_text(name)).keys()


@pytest.mark.parametrize(
    "entry",
    [
        "--nsteps steps of each environment in an update. (default 2048; atari: 128; mujoco: 2048)",
        "--env environment id; 'module:id' imports the module first (default CartPole-v1)",
        "--activation a Keras activation's name, or a function. (default tanh)",
        "--play run the trained policy afterwards, showing it --resume",
        "--ent_coef weight of the policy's entropy in the loss. (default 0.0; atari: 0.01; mujoco: 0.0)",
    ],
)
def test_defaults_are_told(entry):
    assert entry in " ".join(help_text("ppo2").split())


@pytest.mark.parametrize("alg", [None, *ALGORITHMS])
def test_lines_fit(alg):
    assert max(map(len, help_text(alg).splitlines())) <= WIDTH + 5
    assert help_text(alg).endswith("\n")


def test_an_unknown_algorithm_names_the_nearest():
    with pytest.raises(ValueError, match="unknown algorithm 'pp02': did you mean 'ppo2'"):
        help_text("pp02")
