"""README's examples and commands, as they stand there."""

import importlib
import re
import shlex
import shutil
from pathlib import Path

import commands
import pytest

import tfbaselines
from tfbaselines.algs.registry import ALGORITHMS
from tfbaselines.logs.logger import read_csv
from tfbaselines.settings.command_line import parse, split

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")

# Commands that are one file; others are packages with a __main__.
ONE_FILE = ("tfbaselines.evaluate", "tfbaselines.check_env", "tfbaselines.record")

ENTRY = """
ALGORITHMS["reinforce"] = {}
"""


def section(title):
    return README[README.index(f"### {title}\n") :].split("\n### ", 2)[0]


def example(title):
    """The first block of Python in a section."""
    return re.search(r"```python\n(.*?)```", section(title), re.DOTALL).group(1)


@pytest.mark.slow
def test_the_algorithm_passes_the_contract_suite(tmp_path):
    """Its file and its entry are put into a copy of the package, and nothing else is changed."""
    assert example("Add an algorithm").count("\n") <= 60
    shutil.copytree(Path(tfbaselines.__file__).parent, tmp_path / "tfbaselines")
    for name in ("pyproject.toml", "README.md", "setup.py"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "tests", tmp_path / "tests", ignore=shutil.ignore_patterns("golden", "data"))
    algs = tmp_path / "tfbaselines" / "algs"
    (algs / "reinforce.py").write_text(example("Add an algorithm"))
    entry = " ".join(re.search(r"Its entry: `(Algorithm\(.*?\))`\.", section("Add an algorithm"), re.DOTALL)[1].split())
    with open(algs / "registry.py", "a", encoding="utf-8") as file:
        file.write(ENTRY.format(entry))
    command = ("pytest", "-n", "0", "-q", "-x", "-m", "not slow", "-k", "reinforce", "tests/contract")
    status, out, err = commands.finish(commands.start(*command, cwd=tmp_path, PYTHONPATH=str(tmp_path)), timeout=900)
    assert status == 0, out + err
    assert int(re.search(r"(\d+) passed", out)[1]) > 40


@pytest.mark.slow
def test_the_algorithm_learns(tmp_path):
    (tmp_path / "reinforce.py").write_text(example("Add an algorithm"))
    script = """
import gymnasium, numpy as np
from reinforce import learn
from tfbaselines.envs.monitor import Monitor
from tfbaselines.envs.tiny import DiscreteIdentityEnv
from tfbaselines.envs.vec import DummyVecEnv
def make():
    return Monitor(DiscreteIdentityEnv(4, episode_len=10), None, allow_early_resets=True)
env = DummyVecEnv([make] * 4)
model = learn("mlp", env, total_timesteps=20000, seed=0, gamma=0.5, run=None)
obs, total = env.reset(), 0.0
for _ in range(100):
    obs, rewards, _, _ = env.step(model.act(obs)[0])
    total += rewards.mean()
print("reward per step", total / 100)
"""
    (tmp_path / "go.py").write_text(script)
    status, out, err = commands.run("go", cwd=tmp_path, PYTHONPATH=f"{tmp_path}:{ROOT}")
    assert status == 0, err
    assert float(out.split()[-1]) > 0.8


def test_the_network_is_found_by_name(tmp_path):
    (tmp_path / "my_module.py").write_text(example("Add a network"))
    flags = ("--network=my_module:two_towers", "--width=8", "--nsteps=16", "--num_timesteps=32", "--log_path=log")
    status, _, err = commands.run("tfbaselines.run", "--env=CartPole-v1", *flags, cwd=tmp_path)
    assert status == 0, err


def test_the_environment_is_learnt_from(tmp_path):
    (tmp_path / "corridor.py").write_text(example("Add an environment"))
    status, _, err = commands.run("corridor", cwd=tmp_path)
    assert status == 0, err
    flags = ("--env=corridor:Corridor-v0", "--nsteps=16", "--num_hidden=8", "--num_timesteps=32", "--log_path=log")
    status, _, err = commands.run("tfbaselines.run", *flags, cwd=tmp_path)
    assert status == 0, err


@pytest.mark.slow
def test_the_first_command_learns_and_names_the_next_ones(tmp_path):
    """Without its installation; then the commands as they are printed."""
    (line,) = re.findall(r'^pip install -e "\.\[all\]" && (python -m tfbaselines\.run .*)$', README, re.MULTILINE)
    status, out, err = commands.finish(commands.start_shell(f"{line} --seed=0", tmp_path), timeout=300)
    assert status == 0, err
    assert read_csv(tmp_path / "logs/cartpole/progress.csv")["eprewmean"].iloc[-1] >= 475
    following = [one.split(":", 1)[1].strip() for one in out.splitlines()[-3:]]
    assert [one.split()[2] for one in following] == [f"tfbaselines.{name}" for name in ("plot", "evaluate", "run")]
    for one in following[:2]:
        status, _, err = commands.finish(commands.start_shell(one, tmp_path))
        assert status == 0, err
    assert (tmp_path / "logs/cartpole/plot.png").exists() and list((tmp_path / "videos").glob("*.mp4"))
    assert following[2].endswith("--num_timesteps=400000 --max_total_reward=None")


def commands_of_readme():
    """Every command of the blocks for a shell, without comments, its lines joined."""
    for block in re.findall(r"```bash\n(.*?)```", README, re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            module = next((word for word in words if word.startswith("tfbaselines.")), None)
            if module is not None:
                yield pytest.param(module, words[words.index(module) + 1 :], id=" ".join(words[-4:]))


@pytest.mark.parametrize(("module", "words"), commands_of_readme())
def test_every_command_is_one_that_there_is(module, words, tmp_path, monkeypatch):
    """Hours of training are not done: the arguments are checked as the command checks them first."""
    monkeypatch.setattr("tfbaselines.settings.sections.read_sections", lambda path: {"default": {}})
    if module == "tfbaselines.run":
        typed = {name: value for name, value in split(words).items() if name != "resume"}
        if ":" not in typed.get("env", "") + typed.get("network", ""):
            parse(typed, ALGORITHMS)
        return
    command = importlib.import_module(module if module in ONE_FILE else f"{module}.__main__")
    # A parser that takes the words goes on to the command, which is not called.
    monkeypatch.setattr(command, "exit_status", lambda name, function: 0)
    assert command.main(words) == 0


def test_the_callbacks_are_called(tmp_path):
    (tmp_path / "stop.py").write_text(example("Ends, tests and checkpoints of a run"))
    status, out, err = commands.run("stop", cwd=tmp_path)
    assert status == 0, err
    assert len(re.findall(r"^2560 [\d.]+ [\d.]+$", out, re.MULTILINE)) == 1
