"""A config.json from a stranger: nothing of it is imported, none of its paths is used, its mistakes are one line."""

import copy
import json
import os
import sys

import numpy as np
import pytest

from tfbaselines.algs import ALGORITHMS, get
from tfbaselines.cli.command_line import parse, split
from tfbaselines.cli.stored import (
    NOT_KEPT,
    check_run,
    given_again,
    make_config,
    needs_trust,
    read_config,
    require_trust,
)
from tfbaselines.config.options import FILE_NAME, write_config
from tfbaselines.errors import UsageError
from tfbaselines.evaluate import evaluate
from tfbaselines.evaluate import main as evaluate_main
from tfbaselines.run import command as main

COMMAND = ["--env=CartPole-v1", "--seed=3", "--num_env=2", "--lr=linear_1e-3", "--nsteps", "16", "--play"]
EVIL = "import pathlib\npathlib.Path(__file__).with_name('ran').touch()\n"


@pytest.fixture
def config():
    return make_config(parse(split(COMMAND), ALGORITHMS))


@pytest.fixture
def evil(tmp_path, monkeypatch):
    """A directory with a module that notes when it is imported; the commands are started there."""
    (tmp_path / "evil.py").write_text(EVIL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop("evil", None)


def used(directory):
    """What is done with a config.json before TensorFlow is loaded, for a resumed and for an evaluated run."""
    config = read_config(directory)
    require_trust({"alg": config["alg"]}, trust=False)
    check_run(config, get(config["alg"]), trust=False)
    parse(given_again(config["given"], {}), ALGORITHMS)


def outcome(directory):
    """The error, or None; anything but a ValueError of one line fails."""
    try:
        used(directory)
    except UsageError as error:
        # Commands show errors on one line.
        assert len(" ".join(str(error).split())) < 5000
        return str(error)
    return None


def places(value, path=()):
    """Every place in a document."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, (*path, key))


def put(document, path, value):
    document = copy.deepcopy(document)
    if not path:
        return value
    at = document
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return document


WRONG = [None, True, -1, 0, 3, 1e308, -1e308, 10**400, float("nan"), float("inf"), "", "x", "evil:Env", ":", "\ud800\n"]
WRONG += ["x" * 10**5, "[" * 5000, "9" * 6000, "-" * 3000 + "1", [], {}, [[]], [1, "a"], [["evil:x"]], {"a": 1}]
WRONG += [{"class_name": "evil", "module": "evil", "config": {}}, [1] * 10**4, "../../x", "auto_-3", "linear_x"]


def test_what_is_written_is_accepted(tmp_path, config):
    write_config(tmp_path, config)
    assert outcome(tmp_path) is None
    for alg in ALGORITHMS:
        write_config(tmp_path, make_config(parse({"alg": alg, "env": "Pendulum-v1"}, ALGORITHMS)))
        assert outcome(tmp_path) is None


def test_wrong_values_everywhere_are_one_line(tmp_path, config, evil):
    config["learn"] |= {"num_hidden": 8, "value_network": "copy", "activation": "tanh"}
    refused = total = 0
    for path in places(config):
        for wrong in WRONG:
            (tmp_path / FILE_NAME).write_text(json.dumps(put(config, path, wrong)))
            total += 1
            refused += outcome(tmp_path) is not None
    assert refused > total / 2
    assert not (evil / "ran").exists()


def test_added_names_are_one_line(tmp_path, config, evil):
    names = ["x", "run", "comm", "eval_env", "model_fn", "seed", "load_path", "network_kwargs", "env", "logger_kwargs"]
    names += ["hidden_sizes", "value_network", "conv_fn", "env_kwargs", "trust", "total_timesteps", "__class__", ""]
    for path in ((), ("env",), ("learn",), ("given",)):
        for name in names:
            for wrong in WRONG:
                (tmp_path / FILE_NAME).write_text(json.dumps(put(config, (*path, name), wrong)))
                error = outcome(tmp_path)
                right = name in ("env", "seed") or (name == "env_kwargs" and isinstance(wrong, dict | None))
                assert error or right or path in (("learn",), ("given",))
    assert not (evil / "ran").exists()


def test_two_thousand_mutations_of_the_text(tmp_path, config):
    whole, rng, refused = json.dumps(config).encode(), np.random.default_rng(0), 0
    for number in range(2000):
        data = bytearray(whole)
        place, length = int(rng.integers(len(data))), int(rng.integers(1, 40))
        if number % 4 == 0:
            data[place] ^= 1 << int(rng.integers(8))
        elif number % 4 == 1:
            del data[place : place + length]
        elif number % 4 == 2:
            data[place:place] = data[: place // 2][-length:]
        else:
            data[place:place] = bytes(rng.choice(list(b'{}[]",:0123456789eE-.\\untf')) for _ in range(4))
        (tmp_path / FILE_NAME).write_bytes(data)
        refused += outcome(tmp_path) is not None
    assert refused > 1000


@pytest.mark.parametrize(
    "text",
    ["[" * 10**6, '{"a":' * 10**5, '{"alg": "' + "x" * 2**21 + '"}', "NaN", "1" * 5000, "\xff", "\x00" * 100],
)
def test_documents_that_are_none(tmp_path, text):
    (tmp_path / FILE_NAME).write_bytes(text.encode("latin-1"))
    assert outcome(tmp_path)


def test_a_pipe_is_no_document(tmp_path):
    os.mkfifo(tmp_path / FILE_NAME)
    assert "has no config.json" in outcome(tmp_path)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("env", "env"), "evil:Env"),
        (("env", "wrapper"), "evil:Env"),
        (("env", "wrapper"), "tfbaselines.envs.wrappers:TimeLimit,evil:Env"),
        (("network",), "evil:net"),
        (("learn", "value_network"), "evil:net"),
        (("given", "env"), "evil:Env"),
        (("given", "network"), "evil:net"),
        (("given", "value_network"), "evil:net"),
    ],
)
def test_no_module_of_it_is_imported(evil, config, path, value, capsys):
    write_config(evil, put(config, path, value))
    command, words = (main, [f"--resume={evil}"]) if path[0] == "given" else (evaluate_main, [str(evil)])
    if command is evaluate_main:
        (evil / "checkpoints").mkdir()
        (evil / "checkpoints/best").touch()
        words += ["--checkpoint=best"]
    assert command(words) == 2
    err = capsys.readouterr().err
    assert "--trust" in err and value in err and err.count("\n") == 1
    assert not (evil / "ran").exists()
    # Trusted, it is imported, and what it lacks is named.
    assert command([*words, "--trust"]) == 2
    assert (evil / "ran").exists() or path[-1] == "value_network"


def test_trust_in_it_is_no_trust(evil, config, capsys):
    write_config(evil, put(put(config, ("given", "env"), "evil:Env"), ("given", "trust"), True))
    assert main([f"--resume={evil}"]) == 2
    assert "--trust" in capsys.readouterr().err and not (evil / "ran").exists()


def test_a_module_that_is_typed_again_is_the_users_own(evil, config):
    write_config(evil, put(config, ("given", "env"), "evil:Env"))
    given = given_again(read_config(evil)["given"], {"env": "evil:Env"})
    assert given["env"] == "evil:Env" and given["nsteps"] == "16"


def test_processes_are_started_only_if_the_user_says_so_again(config):
    stored = config["given"] | {"cpu": "3"}
    with pytest.raises(UsageError, match="give --cpu=3 again, or --cpu=1"):
        given_again(stored, {"resume": "log"})
    assert given_again(stored, {"trust": True})["cpu"] == "3"
    assert given_again(stored, {"cpu": "2"})["cpu"] == "2"
    assert given_again(stored | {"cpu": "1"}, {})["cpu"] == "1"


def test_a_run_of_another_user_is_named(tmp_path, config, monkeypatch, capsys):
    write_config(tmp_path, config)
    assert main([f"--resume={tmp_path}", "--print_config"]) == 0
    assert "belongs to" not in capsys.readouterr().err
    monkeypatch.setattr(os, "geteuid", lambda: os.stat(tmp_path).st_uid + 1)
    assert main([f"--resume={tmp_path}", "--print_config"]) == 0
    assert f"the run in '{tmp_path}' belongs to the user " in capsys.readouterr().err


def test_this_packages_environments_need_no_trust():
    assert needs_trust({"env": "tfbaselines.envs.tiny:tfbaselines/Memory-v0"}) is None
    assert needs_trust({"env_kwargs": {"env_id": "tfbaselines.envs.tiny:tfbaselines/Memory-v0"}}) is None
    assert needs_trust({"env": "tfbaselines.__main__:x"}) == "env"


def test_no_path_of_it_is_used(tmp_path, config, capsys):
    paths = dict.fromkeys(("save_path", "log_path", "load_path", "resume"), str(tmp_path / "victim"))
    given = given_again(config["given"] | paths, {"resume": "here"})
    assert "victim" not in str(given) and given["resume"] == "here"
    assert given_again(paths, {"save_path": "mine"}) == {"save_path": "mine"}
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "log").mkdir()
    write_config(tmp_path / "log", config | {"given": config["given"] | paths})
    assert main([f"--resume={tmp_path / 'log'}", "--num_timesteps=32"]) == 2
    err = capsys.readouterr().err
    assert "save_path is not kept" in err and "cannot resume" in err
    assert (tmp_path / "victim").read_text() == "precious"


# Arguments of algorithms that are any text, but no path: words, modules, and those whose paths are asked for again.
NO_PATHS = {"value_network", "noise_type", "alpha", "pretraining", "reward_signals"}


def test_every_path_that_an_algorithm_takes_is_one_that_is_not_kept():
    texts = {
        name
        for algorithm in ALGORITHMS.values()
        for name, argument in algorithm.config.arguments().items()
        if argument.settable and "str" in argument.kinds and not argument.choices
    }
    assert {"load_path", "checkpoint_path"} <= texts
    assert texts - NO_PATHS <= set(NOT_KEPT)


def test_python_needs_trust_too(evil, config):
    write_config(evil, put(config, ("env", "env"), "evil:Env"))
    (evil / "checkpoints").mkdir()
    (evil / "checkpoints/best").touch()
    with pytest.raises(UsageError, match="trust=True"):
        evaluate(str(evil), checkpoint="best")
    with pytest.raises(UsageError, match="unknown environment 'Env'"):
        evaluate(str(evil), checkpoint="best", trust=True)


def test_a_file_that_an_environment_would_open_needs_trust(config):
    config["env"]["env_kwargs"] = {"map_name": "8x8", "size": 3}
    check_run(config, ALGORITHMS["ppo2"], trust=False)
    config["env"]["env_kwargs"] = {"xml_file": "/etc/passwd"}
    with pytest.raises(UsageError, match=r"env_kwargs.xml_file='/etc/passwd', and the environment may open that file"):
        check_run(config, ALGORITHMS["ppo2"], trust=False)
    config["env"]["env_kwargs"] = {"sizes": [1, 2], "files": {"model": ["a", "~/x.xml"]}}
    with pytest.raises(UsageError, match=r"env_kwargs.files='~/x.xml', and the environment may open that file"):
        check_run(config, ALGORITHMS["ppo2"], trust=False)
    config["env"]["env_kwargs"] = {"env_id": "evil:Env"}
    with pytest.raises(UsageError, match=r"env_kwargs.env_id='evil:Env', and the environment may import that module"):
        check_run(config, ALGORITHMS["ppo2"], trust=False)
    with pytest.raises(UsageError, match=r"may open that file: add --trust"):
        given_again(config["given"] | {"env_kwargs.xml_file": "../x.xml"}, {})
    check_run(config, ALGORITHMS["ppo2"], trust=True)


@pytest.mark.parametrize("name", ["demo_file", "demo_path", "offline"])
def test_files_that_a_run_reads_are_asked_for_again(name):
    stored = {"alg": "her", name: "goals.npz"}
    with pytest.raises(UsageError, match=rf"the path in the run's {name} is not kept: give --{name}='goals.npz' again"):
        given_again(stored, {"resume": "log"})
    both = stored | {"pretraining": "{}"}
    with pytest.raises(
        UsageError, match=rf"the paths in the run's {name} and pretraining are not kept: give --{name}="
    ):
        given_again(both, {})
    assert given_again(stored, {name: "here.npz"}) == {"alg": "her", name: "here.npz"}
    assert given_again(stored | {name: "None"}, {}) == {"alg": "her"}


def test_what_one_command_does_is_not_kept_for_others():
    assert given_again({"alg": "ppo2", "play": True, "overwrite": True}, {}) == {"alg": "ppo2"}
