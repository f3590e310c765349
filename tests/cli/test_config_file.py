import json
import re
import subprocess
import sys

import numpy as np
import pytest

import tfbaselines
from tfbaselines.algs import ALGORITHMS
from tfbaselines.cli.command_line import parse, split
from tfbaselines.cli.stored import env_config, make_config, read_config
from tfbaselines.config.options import FILE_NAME, write_config
from tfbaselines.envs.make import build_env
from tfbaselines.errors import UsageError

COMMAND = ["--env=CartPole-v1", "--seed=3", "--num_env=2", "--lr=linear_1e-3", "--nsteps", "16", "--play"]


@pytest.fixture
def args():
    return parse(split(COMMAND), ALGORITHMS)


def git(directory, *words):
    author = ["-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", "-C", str(directory), *author, *words], check=True, capture_output=True)


def test_a_run_is_described_and_read_back(tmp_path, args, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["run.py", *COMMAND])
    args.learn["convs"] = (np.int64(8), (4, 4))
    config = make_config(args, ranks=2)
    write_config(tmp_path, config)
    assert read_config(tmp_path) == config == json.loads((tmp_path / FILE_NAME).read_text())
    assert config["alg"] == "ppo2" and config["network"] == "mlp" and config["ranks"] == 2
    assert config["learn"] == {"lr": "linear_1e-3", "nsteps": 16, "convs": [8, [4, 4]]}
    assert config["command"] == [sys.executable, "run.py", *COMMAND]
    assert config["versions"]["tfbaselines"] == tfbaselines.__version__
    assert config["versions"]["numpy"] == np.__version__
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d", config["started"])


def test_the_command_can_be_repeated_from_it(tmp_path, args):
    write_config(tmp_path, make_config(args))
    again = parse(read_config(tmp_path)["given"], ALGORITHMS)
    assert (again.flags, again.learn, again.given) == (args.flags, args.learn, args.given)


def test_the_environments_can_be_rebuilt_from_it(tmp_path, args):
    write_config(tmp_path, make_config(args))
    first, second = (build_env(config) for config in (env_config(args), read_config(tmp_path)["env"]))
    np.testing.assert_array_equal(first.reset(), second.reset())
    assert first.num_envs == 2
    first.close(), second.close()


def test_the_commit_of_the_working_directory(tmp_path, args, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    commit = lambda: make_config(args)["git_commit"]["working_directory"]
    assert commit() is None
    git(tmp_path, "init")
    (tmp_path / "file").write_text("one")
    git(tmp_path, "add", "file")
    git(tmp_path, "commit", "-m", "one")
    clean = commit()
    (tmp_path / "file").write_text("two")
    assert re.fullmatch("[0-9a-f]{40}", clean) and commit() == f"{clean}-dirty"


def test_learns_arguments_are_rebuilt_from_it(tmp_path, args):
    args.learn["num_hidden"] = 8
    write_config(tmp_path, make_config(args))
    config = args.algorithm.config.of(read_config(tmp_path)["learn"])
    assert (config.lr, config.nsteps, config.network_kwargs) == ("linear_1e-3", 16, {"num_hidden": 8})


@pytest.mark.parametrize(
    ("alg", "normalize", "flatten"),
    [("ppo2", True, True), ("ddpg", True, True), ("td3", False, False), ("sac", False, False)],
)
def test_environments_are_those_that_the_algorithm_takes(alg, normalize, flatten):
    config = env_config(parse({"alg": alg}, ALGORITHMS))
    assert (config["normalize"], config["flatten"]) == (normalize, flatten)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, f"has no {FILE_NAME}: it is not the log directory of a run"),
        ('{"alg": "ppo2", "env', "is damaged"),
        ("", "is damaged"),
        ("[1, 2]", "does not describe a run"),
        ('{"alg": "ppo2"}', "does not describe a run"),
    ],
)
def test_a_directory_without_a_run_is_named_in_one_line(tmp_path, text, message):
    if text is not None:
        (tmp_path / FILE_NAME).write_text(text)
    with pytest.raises(UsageError, match=message) as caught:
        read_config(tmp_path)
    assert str(tmp_path) in str(caught.value) and len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("name", ["missing", "file"])
def test_what_is_no_directory(tmp_path, name):
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=rf"directory='.*{name}' is not valid: the log directory of a run"):
        read_config(tmp_path / name)
