"""The command `tfbaselines`: its list of commands, its version, and where it sends words."""

import json
import tempfile

import pytest
from commands import SMALL

import tfbaselines
from tfbaselines import __main__ as command
from tfbaselines.__main__ import COMMANDS, main
from tfbaselines.training.checkpoint import Checkpoints


@pytest.fixture
def ran(monkeypatch):
    """Collect the words that reach `run`."""
    words = []
    monkeypatch.setattr(command, "run", lambda given: words.append(given) or 0)
    return words


@pytest.mark.parametrize("words", [[], ["help"], ["-h"], ["--help"]])
def test_without_a_command_nothing_trains_and_the_commands_are_listed(words, ran, capsys):
    assert main(words) == 0
    out = capsys.readouterr().out
    assert all(f"  {name} " in out and purpose in out for name, (_, purpose) in COMMANDS.items())
    assert not ran


def test_the_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"tfbaselines {tfbaselines.__version__}\n"


@pytest.mark.parametrize(
    "name", ["evaluate", "plot", "report", "record", "check_env", "check-env", "export", "serve", "bench"]
)
def test_every_command_has_help(name, capsys):
    with pytest.raises(SystemExit) as end:
        main([name, "--help"])
    assert end.value.code == 0
    assert name.replace("-", "_") in capsys.readouterr().out


@pytest.mark.parametrize("words", [["--alg=a2c", "--seed=1"], ["ppo", "--env", "X"], ["vpg_tf1"], ["test_policy", "d"]])
def test_flags_and_algorithms_are_words_of_run(words, ran):
    assert main(words) == 0
    assert ran == [words]


def test_run_is_a_command_too(capsys):
    assert main(["run", "--alg=a2c", "--help"]) == 0
    assert "--normalize_advantages" in capsys.readouterr().out


def test_an_unknown_command_names_the_nearest(capsys):
    assert main(["evalute", "logs"]) == 2
    assert capsys.readouterr().err == "tfbaselines: error: unknown command 'evalute': did you mean 'evaluate'?\n"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["deepq", "--env", "Pendulum-v1"], "deepq needs Discrete actions, not Box(-2.0, 2.0, (1,), float32): ppo2"),
        (["--alg=deepq", "--env=Pendulum-v1"], "deepq needs Discrete actions, not Box(-2.0, 2.0, (1,), float32): ppo2"),
    ],
)
def test_what_an_algorithm_does_not_do_names_what_does(words, says, capsys):
    assert main(words) == 2
    assert says in capsys.readouterr().err


def test_a_run_without_a_directory_of_its_own_can_be_found_and_exported(tmp_path, monkeypatch, capsys):
    """From the first command to the last, each as it was printed."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.delenv("OPENAI_LOGDIR", raising=False)
    assert main([*SMALL, "--num_timesteps=128"]) == 0
    (place,) = tmp_path.glob("openai-*")
    out = capsys.readouterr().out
    assert out.startswith(f"Logging to {place}\n") and f"\nthe run is in:  {place} (" in out
    assert f"python -m tfbaselines.plot {place}" in out and f"--resume={place} --num_timesteps=256" in out
    assert json.loads((place / "config.json").read_text())["alg"] == "ppo2" and Checkpoints(place / "checkpoints")
    served = tmp_path / "served"
    assert main(["export", str(place), str(served)]) == 0
    assert capsys.readouterr().out.endswith(f"Wrote {served}\n") and (served / "saved_model.pb").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["evaluate", "nowhere"], "directory='nowhere' is not valid: the log directory of a run"),
        (["record", "nowhere", "--out=demo.npz"], "directory='nowhere' is not valid"),
        (["export", "nowhere", "served"], "directory='nowhere' is not valid"),
        (["run", "--load_path=nowhere"], "there is no file 'nowhere'"),
        (["run", "--resume=nowhere"], "directory='nowhere' is not valid"),
        (["run", "--alg=bc", "--demo_path=nowhere.npz"], "demo_path='nowhere.npz' is not valid: there is no such file"),
        (["run", "--alg=td3", "--env=Pendulum-v1", "--offline=nowhere.npz"], "offline='nowhere.npz' is not valid"),
    ],
)
def test_what_is_not_there_is_found_missing_before_tensorflow_is_loaded(words, says, capsys, monkeypatch):
    for module in ("tfbaselines.run", "tfbaselines.evaluate", "tfbaselines.record"):
        monkeypatch.setattr(f"{module}.load_tensorflow", lambda: pytest.fail("TensorFlow is loaded"))
    assert main(words) == 2
    assert says in capsys.readouterr().err
