"""Bad input: each mistake is one line that names it, the exit status is 2, and nothing that was there is lost."""

import os
import re
import subprocess
import sys

import numpy as np
import pytest
from commands import SMALL

from tfbaselines.run import command as main
from tfbaselines.training.checkpoint import load_tree, save_tree

ONE_STEP = [*SMALL, "--num_timesteps=64"]


POISONED = """
import gymnasium
import numpy as np


class Poisoned(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (4,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(4, np.float32), {}

    def step(self, action):
        self.steps += 1
        return np.full(4, np.nan if self.steps > 20 else 0.0, np.float32), 1.0, False, False, {}


gymnasium.register("Poisoned-v0", entry_point=Poisoned)
"""


def error_of(arguments, capsys, status=2):
    """The one line that a command with a mistake in it prints."""
    capsys.readouterr()
    assert main(arguments) == status
    err = capsys.readouterr().err
    assert err.startswith("tfbaselines: error: ")
    assert err.count("\n") == 1, err
    return err


@pytest.mark.parametrize(
    "arguments",
    [
        ["--env=Cart\x1b[31mPole-v1"],
        ["--alg=\x1b]0;title\x07"],
        ["--env=CartPole-v1", "--\x1b[2Jnsteps=1"],
        ["--env=CartPole-v1", "--network=\x9b31mmlp"],
        ["--env=CartPole-v1", "--config=\x1b[2J.yaml"],
        ["--resume=\x1b[2J"],
        ["--env=CartPole-v1", "--num_timesteps=\x1b[2J"],
        ["--env=CartPole-v1", "--log_format=\x1b[2J"],
    ],
)
def test_a_terminal_obeys_nothing_in_an_error(arguments, capsys):
    err = error_of(arguments, capsys)
    assert err.removesuffix("\n").isprintable() and ("x1b" in err or "x9b" in err)


def test_a_terminal_obeys_nothing_in_a_lock(tmp_path, capsys):
    hold = """
import fcntl, sys, time
file = open(sys.argv[1], "w")
file.write("\\x1b[2J")
file.flush()
fcntl.flock(file, fcntl.LOCK_EX)
print(flush=True)
time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", hold, str(tmp_path / ".lock")], stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        err = error_of(["--env=CartPole-v1", "--num_timesteps=64", f"--log_path={tmp_path}"], capsys)
        process.kill()
    assert "is in use" in err and err.removesuffix("\n").isprintable()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--alg=pp0"], ["unknown algorithm 'pp0'", "ppo"]),
        (["--alg=gial"], ["unknown algorithm 'gial'", "gail"]),
        (["--env=CartPoel-v1"], ["unknown environment", "CartPole-v1"]),
        (["--env=CartPole-v7"], ["unknown environment", "CartPole-v1"]),
        (["--env=MiniGrod-Empty-5x5-v0"], ["unknown environment 'MiniGrod-Empty-5x5-v0'; if your module registers it"]),
        (["--num_timesteps=1000", "--nsteps=2048"], ["one update of 2048; raise --num_timesteps", "--nsteps=2048"]),
        (["--alg=a2c", "--env=CartPole-v1", "--seed", "0", "10"], ["with an algorithm of Spinning Up"]),
        (["--env=nomodule:CartPole-v1"], ["nomodule", "cannot be imported"]),
        (["--env_type=attari"], ["unknown env_type", "atari"]),
        (["--env=Pong-v5", "--env_type=atari"], ["Pong"]),
        (["--env_type=retro"], ["stable-retro"]),
        (["--network=mpl"], ["unknown network 'mpl'", "mlp"]),
        (["--network=nomodule:net"], ["nomodule", "cannot be imported"]),
        (["--network=cnn"], ["convolutional network needs images"]),
        (["--nstep=3"], ["--nstep", "--nsteps"]),
        (["--num_hiden=3"], ["--num_hiden", "--num_hidden"]),
        (["--network=lstm", "--num_hidden=3"], ["--num_hidden", "lstm"]),
        (["--activation=thanh"], ["unknown activation", "tanh"]),
        (["--nsteps=many"], ["nsteps='many'", "a whole number"]),
        (["--nsteps=1.5"], ["nsteps='1.5'", "a whole number"]),
        (["--gamma=high"], ["gamma='high'", "a number"]),
        (["--nsteps"], ["--nsteps needs a value"]),
        (["--play=perhaps"], ["play='perhaps'", "True or False"]),
        (["--lr=quick_3e-4"], ["lr", "linear"]),
        (["--model_fn=print"], ["--model_fn takes a Python object"]),
        (["--value_network=cpoy"], ["unknown network 'cpoy'"]),
        (["--normalize_observations=True", "--env=FrozenLake-v1"], ["normalize_observations", "Box"]),
        (["--nminibatches=7"], ["nminibatches=7", "divisor of the 64"]),
        (["--network=lstm", "--nlstm=4", "--nminibatches=4"], ["nminibatches=4", "recurrent"]),
        (["--num_timesteps=-1"], ["num_timesteps=-1", "at least 0"]),
        (["--num_env=0"], ["num_env=0", "at least 1"]),
        (["--gamma=1.5"], ["gamma=1.5", "between 0 and 1"]),
        (["--precision=float16"], ["unknown precision", "bfloat16"]),
        (["--keep_checkpoints=0"], ["keep_checkpoints=0", "at least 1"]),
        (["--save_video_length=0"], ["save_video_length=0", "at least 1"]),
        (["--worker=thread"], ["unknown worker"]),
        (["--worker=native"], ["worker='native' is not valid: native environments are Gymnasium's MuJoCo tasks"]),
        (["--env_threads=0", "--env=HalfCheetah-v5"], ["env_threads=0 is not valid: at least 1"]),
        (["--gamestate=Level1"], ["gamestate"]),
        (["--log_path="], ["log_path=''", "path"]),
        (["--save_path="], ["save_path=''", "path"]),
        (["--resume=nowhere"], ["nowhere"]),
        (["--load_path=nowhere"], ["there is no file 'nowhere'"]),
        (["stray"], ["'stray' is not an argument"]),
        (["-x=1"], ["'-x=1' is not an argument"]),
    ],
)
def test_a_mistake_is_one_line(arguments, words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small = [
        word for word in ONE_STEP if not ("num_hidden" in word and re.search(r"--network|Pong", " ".join(arguments)))
    ]
    err = error_of([*small, *arguments], capsys)
    for word in words:
        assert word in err


def test_a_wrong_log_format_is_named(capsys, monkeypatch):
    monkeypatch.setenv("OPENAI_LOG_FORMAT", "stdout,cvs")
    assert "csv" in error_of(ONE_STEP, capsys)


def test_a_file_where_the_log_directory_should_be(capsys, tmp_path):
    file = tmp_path / "log"
    file.write_text("precious")
    assert str(file) in error_of([*ONE_STEP, f"--log_path={file}"], capsys)
    assert file.read_text() == "precious"


def test_a_directory_where_the_model_should_go(capsys, tmp_path):
    assert "a directory, give the name of a file" in error_of([*ONE_STEP, f"--save_path={tmp_path}"], capsys)


def test_a_file_in_the_way_of_the_models_directory(capsys, tmp_path):
    (tmp_path / "file").write_text("precious")
    assert "file" in error_of([*ONE_STEP, f"--save_path={tmp_path / 'file' / 'model'}"], capsys)
    assert (tmp_path / "file").read_text() == "precious"


@pytest.mark.parametrize("flag", ["--log_path", "--save_path"])
def test_a_directory_that_cannot_be_written_to(flag, capsys, tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    if os.access(closed, os.W_OK):
        # The superuser may write everywhere, but not here.
        closed = next(path for path in ("/proc", "/sys") if os.path.isdir(path))
    assert str(closed) in error_of([*ONE_STEP, f"{flag}={closed}/below/model"], capsys)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    directory = tmp_path_factory.mktemp("saved")
    assert main([*ONE_STEP, f"--save_path={directory / 'model'}", f"--log_path={directory / 'log'}"]) == 0
    return directory


def test_a_truncated_model_is_refused(saved, capsys, tmp_path):
    whole = (saved / "model").read_bytes()
    for length in (0, 10, len(whole) // 2, len(whole) - 5):
        (tmp_path / "cut").write_bytes(whole[:length])
        assert "cut" in error_of([*ONE_STEP, f"--load_path={tmp_path / 'cut'}"], capsys)


def test_a_foreign_file_is_refused(saved, capsys, tmp_path):
    (tmp_path / "text").write_text("not a model")
    np.savez(tmp_path / "arrays.npz", a=np.zeros(3))
    save_tree(tmp_path / "tree", {"format": "another", "model": {}})
    for name in ("text", "arrays.npz", "tree"):
        assert name in error_of([*ONE_STEP, f"--load_path={tmp_path / name}"], capsys)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--env=Acrobot-v1"], "another observation space"),
        (["--num_hidden=9"], "another network"),
        (["--value_network=copy"], "another network"),
        (["--normalize_observations=True"], "normalize_observations"),
    ],
)
def test_a_model_that_does_not_fit_is_refused(arguments, words, saved, capsys):
    before = (saved / "model").read_bytes()
    assert words in error_of([*ONE_STEP, f"--load_path={saved / 'model'}", *arguments], capsys)
    assert (saved / "model").read_bytes() == before


def test_resuming_with_another_network_loses_nothing(saved, capsys):
    before = {path.name: path.read_bytes() for path in (saved / "log/checkpoints").iterdir()}
    rows = (saved / "log/progress.csv").read_text()
    assert "another network" in error_of(
        [f"--resume={saved / 'log'}", f"--save_path={saved / 'model'}", "--num_hidden=9"], capsys
    )
    assert {path.name: path.read_bytes() for path in (saved / "log/checkpoints").iterdir()} == before
    assert (saved / "log/progress.csv").read_text() == rows


@pytest.mark.parametrize("worker", ["dummy", "subproc"])
def test_an_environment_that_returns_nan_is_named(worker, capsys, tmp_path, monkeypatch):
    (tmp_path / "poison.py").write_text(POISONED)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    flags = [f"--worker={worker}", "--save_interval=1", "--nsteps=16", f"--log_path={tmp_path / 'log'}"]
    err = error_of([*ONE_STEP, "--env=poison:Poisoned-v0", *flags], capsys, status=3)
    assert "environment 0" in err
    assert "not a finite number" in err
    # What was done before is kept.
    assert load_tree(tmp_path / "log/checkpoints/00001")["training"]["update"] == 1
    sys.modules.pop("poison", None)
