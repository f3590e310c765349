"""A user's own parts on the command line: an algorithm, wrappers of the environment, entries of infos in the logs."""

import json
import sys

import pytest
from pages import DOCS, example

from tfbaselines.algs import get
from tfbaselines.config.options import RunOptions
from tfbaselines.envs.make import make_vec_env
from tfbaselines.errors import UsageError
from tfbaselines.evaluate import main as evaluate
from tfbaselines.logs import logger
from tfbaselines.logs.logger import read_csv
from tfbaselines.run import command as main

WRAPPERS = """
import gymnasium

class Counts(gymnasium.Wrapper):
    def reset(self, **kwargs):
        self.steps = 0
        return self.env.reset(**kwargs)

    def step(self, action):
        self.steps += 1
        obs, reward, terminated, truncated, info = self.env.step(action)
        return obs, 2 * reward, terminated, truncated, info | {"steps": self.steps, "even": self.steps % 2 == 0}

class Pays(gymnasium.RewardWrapper):
    def __init__(self, env, factor, plus=0.0, names=()):
        super().__init__(env)
        self.factor, self.plus = factor, plus
        assert names == ["a,b", "c)"] or not names, names

    def reward(self, reward):
        return self.factor * reward + self.plus

def plain(env):
    return env

def nothing(env):
    return None
"""
SMALL = ["--env=CartPole-v1", "--nsteps=32", "--num_timesteps=320", "--log_interval=1", "--num_hidden=4", "--seed=1"]


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A directory with the user's modules: the algorithm of docs/architecture.md, and wrappers."""
    (tmp_path / "my_algorithm.py").write_text(example(DOCS / "architecture.md", "Add an algorithm"))
    (tmp_path / "my_wrappers.py").write_text(WRAPPERS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in ("my_algorithm", "my_wrappers"):
        sys.modules.pop(name, None)


def test_an_algorithm_of_ones_own_runs_resumes_and_is_evaluated_by_those_who_trust_it(own, capsys):
    alg = "--alg=my_algorithm:learn"
    assert main([alg, *SMALL, "--log_path=log"]) == 0
    config = json.loads((own / "log/config.json").read_text())
    assert config["alg"] == "my_algorithm:learn" and config["learn"]["nsteps"] == 32
    assert len(read_csv(own / "log/progress.csv")) == 10
    assert "--trust" in capsys.readouterr().out
    assert main([alg, "--help"]) == 0
    assert "--vf_coef" in capsys.readouterr().out
    for command, words in ((main, ["--resume=log"]), (evaluate, ["log"])):
        assert command(words) == 2
        untrusted = "alg='my_algorithm:learn', and importing that module runs its code: add --trust"
        assert untrusted in capsys.readouterr().err
    assert main(["--resume=log", "--trust", "--num_timesteps=640"]) == 0
    assert len(read_csv(own / "log/progress.csv")) == 20
    assert evaluate(["log", "--episodes=2", "--trust"]) == 0
    assert "2 episodes" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nomodule:learn", "module 'nomodule' cannot be imported"),
        ("my_wrappers:plain", "my_wrappers needs ALGORITHM = Algorithm(Config, ...)"),
        ("my_algorithm:lern", "a function with @takes(ALGORITHM)"),
    ],
)
def test_a_module_without_an_algorithm_is_one_line(own, capsys, name, words):
    assert main([f"--alg={name}", *SMALL]) == 2
    err = capsys.readouterr().err
    assert words in err and err.count("\n") == 1
    with pytest.raises(UsageError, match="alg="):
        get(name)


@pytest.mark.parametrize("worker", ["dummy", "subproc"])
def test_wrappers_and_entries_of_infos_reach_the_monitor_and_the_logs(own, worker):
    flags = [*SMALL, f"--worker={worker}", "--num_env=2", "--nminibatches=1", "--noptepochs=1"]
    given = ["--wrapper=my_wrappers:plain, my_wrappers:Counts", "--monitor_keys=steps,even"]
    assert main([*flags, *given, "--log_path=log"]) == 0
    lines = (own / "log/0.0.monitor.csv").read_text().splitlines()
    assert lines[1] == "r,l,t,steps,even"
    first = dict(zip(lines[1].split(","), lines[2].split(","), strict=True))
    assert float(first["r"]) == 2 * int(first["l"]) == 2 * int(first["steps"])
    assert first["even"] == str(int(first["l"]) % 2 == 0)
    rows = read_csv(own / "log/progress.csv")
    last = rows.iloc[-1]
    assert last["episode/steps"] == pytest.approx(last["eplenmean"]) and 0 <= last["episode/even"] <= 1


def test_a_resumed_run_keeps_the_entries_of_its_episodes(own):
    assert main([*SMALL, "--wrapper=my_wrappers:Counts", "--monitor_keys=steps", "--log_path=log"]) == 0
    assert main(["--resume=log", "--num_timesteps=640", "--trust"]) == 0
    rows = read_csv(own / "log/progress.csv")
    assert len(rows) == 20 and rows["episode/steps"].tolist() == rows["eplenmean"].tolist()


def test_wrappers_with_arguments_are_given_several_times_and_are_kept(own, capsys):
    """In worker processes, in evaluation and in a resumed run too: each step pays 3 x 1 + 0.5."""
    given = ["--worker=subproc", "--wrapper=my_wrappers:Counts", '--wrapper=my_wrappers:Pays(1.5, names=["a,b", "c)"])']
    given += ["--wrapper", "my_wrappers:Pays(factor=1, plus=0.5)", "--log_path=log"]
    assert main([*SMALL, *given]) == 0
    wrapper = json.loads((own / "log/config.json").read_text())["env"]["wrapper"]
    assert wrapper == ",".join(word.removeprefix("--wrapper=") for word in [*given[1:3], given[4]])
    assert main(["--resume=log", "--num_timesteps=352"]) == 2
    assert "importing that module runs its code: add --trust" in capsys.readouterr().err
    assert main(["--resume=log", "--num_timesteps=352", "--trust"]) == 0
    lines = (own / "log/0.0.monitor.csv").read_text().splitlines()[2:]
    assert len(lines) > 3 and all(float(r) == 3.5 * int(steps) for r, steps, _ in (line.split(",") for line in lines))
    capsys.readouterr()
    assert evaluate(["log", "--episodes=2", "--trust", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["returns"] == [3.5 * length for length in result["lengths"]]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("--wrapper=my_wrappers:Pays", "(NAME=VALUE, ...) (missing a required argument: 'factor')"),
        ("--wrapper=my_wrappers:Pays(facto=1)", "my_wrappers:Pays(facto=1)' is not valid: arguments of Pays"),
        ("--wrapper=my_wrappers:Pays(1,2", "is not valid: 'module:Wrapper(NAME=VALUE, ...)' () is missing)"),
        ("--wrapper=my_wrappers:Pays(plus=1,2)", "'2' has no name, behind arguments with names"),
        ("--wrapper=nomodule:Wrapper", "wrapper='nomodule:Wrapper' is not valid"),
        ("--wrapper=my_wrappers:Missing", "'module:Wrapper', with a module that has it"),
        ("--wrapper=Counts", "wrapper='Counts' is not valid"),
        ("--wrapper=my_wrappers:nothing", "it returns a Gymnasium environment, not NoneType"),
        ("--monitor_keys=steps", "not in the last step's info, 'steps'"),
    ],
)
def test_a_mistake_in_them_is_one_line(own, capsys, given, words):
    assert main([*SMALL, given]) == 2
    err = [line for line in capsys.readouterr().err.splitlines() if "error" in line]
    assert len(err) == 1 and words in err[0]


def test_both_from_python(own, tmp_path):
    from my_wrappers import Counts

    env = make_vec_env("CartPole-v1", num_env=2, seed=0, wrapper=Counts, monitor_keys=("steps",))
    logger.configure(str(tmp_path / "python"), ["csv"])
    options = RunOptions(monitor_keys=("steps",))
    get("a2c").learn("mlp", env, total_timesteps=200, log_interval=10, seed=0, run=options, num_hidden=4)
    assert "episode/steps" in read_csv(tmp_path / "python/progress.csv")
    with pytest.raises(UsageError, match=r"info\['missing'\] must be a number, not None"):
        options = RunOptions(monitor_keys=("missing",))
        get("a2c").learn("mlp", env, total_timesteps=500, seed=0, run=options, num_hidden=4)
