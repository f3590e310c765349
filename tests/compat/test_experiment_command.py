"""Spinning Up's command line: every combination of values, plots, and the playing of a saved run."""

import os
import re
import signal
import subprocess
import sys

import commands
import pytest
from pages import ROOT, section

from tfbaselines.compat import experiment_command, experiments
from tfbaselines.compat.experiment_cells import arguments_of
from tfbaselines.compat.experiment_command import split
from tfbaselines.errors import UsageError
from tfbaselines.run import command as main

ENV = ("--env", "CartPole-v1")
PAGE, TITLE = ROOT / "docs/migration/scripts.md", "Spinning Up's command line"
# One short epoch.
SHORT = "--steps_per_epoch 50 --epochs 1 --num_test_episodes 0 --train_pi_iters 1 --train_v_iters 1"


@pytest.fixture
def calls(monkeypatch):
    """Runs that would be: (name, arguments)."""
    made = []

    def carry_out(cells, data_dir, jobs):
        for cell in cells:
            own = {"env_name": cell.words["env"], "seed": int(cell.words["seed"]), "data_dir": data_dir, "jobs": jobs}
            own |= {"directory": cell.directory, "num_cpu": cell.words.get("num_cpu")}
            made.append((cell.group, own | arguments_of(cell.words)))

    monkeypatch.setattr(experiments, "carry_out", carry_out)
    return made


def test_flags_and_their_values():
    words = "--env A-v0 B-v0 --hid[h] [32,32] (8,) --act tf.nn.relu torch.nn.Tanh nn.LeakyReLU --dt --seed=0 10"
    given, shorthands = split([*words.split(), "--ac_kwargs:x", "text", "--lr", "-1e-3", "None", "--exp-name", "10"])
    assert given == {
        "env_name": ["A-v0", "B-v0"],
        "ac_kwargs:hidden_sizes": [[32, 32], (8,)],
        "ac_kwargs:activation": ["relu", "tanh", "leaky_relu"],
        "datestamp": [True],
        "seed": [0, 10],
        "ac_kwargs:x": ["text"],
        "lr": [-1e-3, None],
        "exp_name": ["10"],
    }
    assert shorthands == {"ac_kwargs:hidden_sizes": "h"}


def test_every_combination_runs(calls, capsys):
    words = (
        "--exp_name foo --seed 0 10 20 --clip_ratio 0.1 0.2 --hid[h] [32,32] [64,32] --act tanh --data_dir d --cpu 2"
    )
    words += " --jobs 3"
    assert main(["ppo", *ENV, *words.split()]) == 0
    assert len(calls) == 12 and len({(name, kwargs["seed"]) for name, kwargs in calls}) == 12
    assert calls[1] == (
        "foo_cli0-1_h64-32",
        {
            "env_name": "CartPole-v1",
            "seed": 0,
            "clip_ratio": 0.1,
            "ac_kwargs": {"hidden_sizes": [64, 32], "activation": "tanh"},
            "data_dir": "d",
            "directory": "foo_cli0-1_h64-32/foo_cli0-1_h64-32_s0",
            "num_cpu": "2",
            "jobs": 3,
        },
    )
    out = capsys.readouterr().out
    names = "d/foo_cli0-1_h32-32 d/foo_cli0-1_h64-32 d/foo_cli0-2_h32-32 d/foo_cli0-2_h64-32"
    assert f"results:  {names}\n" in out and f"run plot {names}\n" in out
    assert "test_policy d/foo_cli0-2_h64-32/foo_cli0-2_h64-32_s20" in out


@pytest.mark.parametrize("name", ["vpg", "trpo", "ppo_tf1", "ddpg", "td3_pytorch", "sac"])
def test_the_algorithms_of_spinning_up(name, calls):
    env = "Pendulum-v1" if name in ("ddpg", "td3_pytorch") else "CartPole-v1"
    assert main([name, "--env_name", env, "--steps_per_epoch", "1e3", "--gamma", "0.9", "--dt"]) == 0
    ((exp_name, kwargs),) = calls
    assert exp_name == f"cmd_{name}" and kwargs["data_dir"] == "data" and kwargs["num_cpu"] is None
    assert re.fullmatch(r"[\d-]{10}_cmd_\w+/[\d_-]{20}cmd_\w+_s0", kwargs["directory"])


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("pppo --env CartPole-v1", "unknown algorithm 'pppo': did you mean 'ppo'"),
        ("ppo", "there is no --env"),
        ("ppo CartPole-v1", "'CartPole-v1' is not a flag"),
        ("ppo --env CarPole-v1", "did you mean 'CartPole-v1'"),
        ("ppo --env", "--env_name needs a value"),
        ("ppo --env CartPole-v1 --clip_rato 0.1", "did you mean '--clip_ratio'"),
        ("ppo --env CartPole-v1 --data_dri d", "did you mean '--data_dir'"),
        ("ppo --env CartPole-v1 --ac_kwargs:hiden_sizes [8]", "did you mean '--ac_kwargs:hidden_sizes'"),
        ("ddpg --env Pendulum-v1 --q_lrr 1", "did you mean '--q_lr'"),
        ("ppo --env CartPole-v1 --steps 100", "unknown flag of ppo '--steps': did you mean '--steps_per_epoch'?"),
        ("ppo --env CartPole-v1 --l 2", "give every layer's size, as in --hid [64,64]"),
        ("ppo --env CartPole-v1 --gae_lambda 0.9", "Stable-Baselines3's gae_lambda is --lam here"),
        ("ddpg --env Pendulum-v1 --nb_epochs 1", "did you mean '--epochs'"),
        ("ppo --env CartPole-v1 --[h] 3", "'--[h]' is not a flag"),
        ("ppo --env CartPole-v1 --clip_ratio 0.1 foo", "clip_ratio='foo' is not valid"),
        ("ppo --env CartPole-v1 --seed", "seed=True is not valid"),
        ("ppo --env CartPole-v1 --hid 32", "--hid=32 is not valid"),
        ("ppo --env CartPole-v1 --act rleu", "did you mean 'relu'"),
        ("ppo --env CartPole-v1 --exp_name a b", "--exp_name has one value, not 2: a b"),
        ("ppo --env CartPole-v1 --cpu", "--cpu=True is not valid"),
        ("ppo --env CartPole-v1 --cpu many", "--cpu='many' is not valid"),
        ("ppo --env CartPole-v1 --dt 3", "--dt=3 is not valid"),
        ("ppo --env CartPole-v1 --jobs 0", "--jobs=0 is not valid"),
        ("test_policy nowhere", "the log directory of a run"),
        ("test_policy nowhere --episodes 0", "episodes=0 is not valid"),
    ],
)
def test_mistakes_are_one_line_and_nothing_runs(words, line, calls, capsys):
    assert main(words.split()) == 2
    err = capsys.readouterr().err
    assert line in err and err.count("\n") == 1 and not calls


def test_no_experiments_inside_of_an_mpirun(calls, monkeypatch):
    monkeypatch.setattr(experiment_command.mpi, "launched", lambda: True)
    with pytest.raises(UsageError, match="give --cpu N in place of mpirun"):
        experiment_command.main(["ppo", *ENV])
    assert not calls


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("--exp_name=foo", "it belongs to python -m tfbaselines.run ALG --exp_name VALUE"),
        ("--hid=[8]", "ALG --hid VALUE"),
        ("--num_cpu=2", "did you mean --cpu?"),
        ("--env_name=CartPole-v1", "did you mean --env?"),
        ("--seed 0 10", "'10' is not an argument: write --name=value (several values of one argument, with an"),
    ],
)
def test_the_ordinary_form_names_the_other_one(words, line, capsys):
    assert main(["--alg=ppo", "--env=CartPole-v1", *words.split()]) == 2
    assert line in capsys.readouterr().err


def test_help(capsys):
    assert main(["ddpg", "--help"]) == 0
    out = capsys.readouterr().out
    assert "--env ID" in out and "Arguments of ddpg" in out and "q_lr" in out and max(map(len, out.splitlines())) < 100
    with pytest.raises(SystemExit) as ended:
        main(["test_policy", "--episods", "3"])
    assert ended.value.code == 2
    for tool in ("plot", "test_policy"):
        with pytest.raises(SystemExit):
            main([tool, "--help"])
        assert "DIR" in capsys.readouterr().out


def test_tensorflow_is_not_loaded():
    code = "import sys, tfbaselines.run as r; assert r.command(['ppo']) == 2; assert 'tensorflow' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


@pytest.mark.slow
def test_the_commands_of_the_page_as_typed(tmp_path):
    lines = re.search("```bash\n(.*?)```", section(PAGE, TITLE), re.DOTALL)[1].splitlines()
    for line, last in zip(lines, ("see it:", "Wrote data/plot.png", "EpLen"), strict=True):
        status, out, err = commands.finish(commands.start_shell(line, tmp_path), timeout=300)
        assert status == 0 and out.splitlines()[-1].startswith(last), err
        following = dict(line.split(":", 1) for line in out.splitlines()[-3:] if ":" in line)
        if last == "see it:":
            assert following["results"].split() == ["data/hidden_h32-32", "data/hidden_h64-32"]
            assert following["plot it"].endswith(following["results"].lstrip())
    assert len(list(tmp_path.glob("data/hidden_h*/hidden_h*_s0/config.json"))) == 2


@pytest.mark.slow
def test_a_run_that_fails_ends_the_others(tmp_path):
    words = ("ddpg", *ENV, "--seed", 0, 1)
    status, out, err = commands.run("tfbaselines.run", *words, cwd=tmp_path)
    assert status == 1 and "seed 1" not in out
    refused, failed = err.splitlines()
    assert refused.startswith("tfbaselines ddpg: error: continuous actions need bounds")
    assert failed == "tfbaselines: error: experiment 'cmd_ddpg' with seed 0 failed with status 2"


@pytest.mark.slow
@pytest.mark.parametrize(
    # A terminal's Ctrl-C is of all processes of its group, the signal of a service manager of the first alone.
    ("number", "send", "said"),
    [(signal.SIGINT, os.killpg, "tfbaselines: interrupted\n"), (signal.SIGTERM, os.kill, "")],
)
def test_signals_reach_the_run_which_saves(tmp_path, number, send, said):
    words = ("ppo", *ENV, "--exp_name", "e", "--seed", "0", "1", *SHORT.split(), "--epochs", "100000")
    command = [sys.executable, "-m", "tfbaselines.run", *words]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, cwd=tmp_path, stdout=pipe, stderr=pipe, text=True, start_new_session=True)
    progress = tmp_path / "data/e/e_s0/progress.txt"
    try:
        commands.wait_for(lambda: progress.exists() and progress.read_text().count("\n") > 2, process)
        send(process.pid, number)
        status, out, err = commands.finish(process)
    finally:
        process.kill()
    assert status == 128 + number and err == said
    assert "checkpoint saved in" in out and "--resume=data/e/e_s0" in out and "seed 1" not in out
