"""Blocks of README and of the pages in docs/, as they stand there."""

import contextlib
import importlib
import re
import shutil
import sys
from pathlib import Path

import commands
import numpy as np
import pytest
import tensorflow as tf
from pages import DOCS, README, ROOT, blocks, commands_of, example, pages, shortened

import tfbaselines

# Commands that are one file; others are packages with a __main__.
ONE_FILE = ("tfbaselines.run", "tfbaselines.evaluate", "tfbaselines.check_env", "tfbaselines.record")

# Lengths of training in blocks of Python.
SHORTER = {
    "total_timesteps=1e5": "total_timesteps=1024",
    "steps_per_epoch=1000, epochs=5": "steps_per_epoch=100, epochs=1, train_pi_iters=2, train_v_iters=2",
}

# Files that a page's commands leave.
LEFT = {
    "howto/command-line.md": ("logs/pong/plot.png", "models/cheetah"),
    "howto/plots.md": ("all.png",),
    "howto/reports.md": ("cartpole.html", "logs/report.html", "report.html"),
    "howto/es-and-qlearning.md": ("logs/car/table.png",),
    "howto/python.md": ("served/cartpole/saved_model.pb",),
}


@contextlib.contextmanager
def whole_functions():
    """What is exported is compiled, in a test whose operations are taken one by one."""
    tf.config.run_functions_eagerly(False)
    yield
    tf.config.run_functions_eagerly(True)


def goal_demonstrations(path, episodes=2, steps=20):
    """Demonstrations as baselines' script for FetchPush writes them."""
    goals = {"observation": 25, "achieved_goal": 3, "desired_goal": 3}
    obs = [[{k: np.zeros(n) for k, n in goals.items()} for _ in range(steps + 1)] for _ in range(episodes)]
    acs = [[np.zeros(4) for _ in range(steps)] for _ in range(episodes)]
    # Of objects, which numpy pickles.
    arrays = {"acs": np.empty(episodes, object), "obs": np.empty(episodes, object)}
    for name, rows in (("acs", acs), ("obs", obs)):
        arrays[name][:] = rows
    np.savez(path, **arrays)


def file_name(text, default):
    """The name of a file in a block's first line, as in '# my.yaml'."""
    found = re.match(r"# ([\w/]+\.\w+)\n", text)
    return found[1] if found else default


def run_python(code, directory):
    """A block in a module of its own; lengths of training are shorter."""
    for long, short in SHORTER.items():
        code = code.replace(long, short)
    path = directory / file_name(code, "my_module.py")
    path.write_text(code)
    sys.modules.pop(path.stem, None)
    importlib.invalidate_caches()
    with whole_functions() if "export" in code else contextlib.nullcontext():
        importlib.import_module(path.stem)


def run_command(module, words):
    words = shortened(module, words)
    own = importlib.import_module(module if module in ONE_FILE else f"{module}.__main__")
    whole = module == "tfbaselines.export"
    with whole_functions() if whole else contextlib.nullcontext():
        assert getattr(own, "command", own.main)(words) == 0, f"{module} {' '.join(words)}"


def run_once(text, done):
    """Run the commands of a text that the page has not run yet."""
    for command in commands_of(text):
        if command not in done:
            run_command(*command)
            done.append(command)


def run_block(block, directory, done):
    run_once("\n".join(block.before), done)
    if block.language == "python":
        run_python(block.text, directory)
    elif block.language == "yaml":
        (directory / file_name(block.text, "my.yaml")).write_text(block.text)
        if file_name(block.text, None) is None:
            run_command("tfbaselines.run", ["--config=my.yaml", "--env=Pendulum-v1", "--alg=ppo2"])
    else:
        run_once(block.text, done)


WITH_BLOCKS = [page for page in pages() if any(block.reason is None for block in blocks(page))]


@pytest.mark.slow
@pytest.mark.parametrize("page", WITH_BLOCKS, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_of_a_page_runs_in_an_empty_directory(page, tmp_path, monkeypatch, eager, capfd):
    """As typed, one after the other; only what SHORT and SHORTER name is changed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delenv("DISPLAY", raising=False)
    # What pages name and their readers bring: demonstrations of the repository, and those of baselines.
    (tmp_path / "data").mkdir()
    (tmp_path / "data/demos").symlink_to(ROOT / "data/demos")
    goal_demonstrations(tmp_path / "old.npz")
    done = []
    for block in blocks(page):
        if block.reason is None:
            run_block(block, tmp_path, done)
    for path in LEFT.get(str(page.relative_to(DOCS)) if page != README else "README.md", ()):
        assert (tmp_path / path).exists(), path
    if page.name == "callbacks.md":
        # The callback of the page.
        assert len(re.findall(r"^1280 [\d.]+ [\d.]+$", capfd.readouterr().out, re.MULTILINE)) == 1


def test_what_pages_name_is_found_by_name(tmp_path, monkeypatch, eager):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "towers.py").write_text(example(DOCS / "howto/networks.md", "Add a network"))
    (tmp_path / "corridor.py").write_text(example(DOCS / "howto/environments.md", "Add an environment"))
    flags = ("--network=towers:two_towers", "--width=8", "--env=corridor:Corridor-v0", "--log_path=log")
    run_command("tfbaselines.run", ["--alg=ppo2", *flags])


@pytest.mark.slow
def test_the_algorithm_passes_the_contract_suite(tmp_path):
    """Its file and its name are put into a copy of the package, and nothing else is changed."""
    code = example(DOCS / "architecture.md", "Add an algorithm")
    assert code.count("\n") <= 60
    shutil.copytree(Path(tfbaselines.__file__).parent, tmp_path / "tfbaselines")
    for name in ("pyproject.toml", "README.md", "setup.py"):
        shutil.copy(ROOT / name, tmp_path)
    ignored = shutil.ignore_patterns("_build", "golden", "data")
    for name in ("docs", "tests"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=ignored)
    algs = tmp_path / "tfbaselines" / "algs"
    (algs / "reinforce.py").write_text(code)
    names = algs / "__init__.py"
    names.write_text(names.read_text().replace("NAMES = (", 'NAMES = (\n    "reinforce",', 1))
    command = ("pytest", "-n", "0", "-q", "-x", "-m", "not slow", "-k", "reinforce", "tests/contract")
    status, out, err = commands.finish(commands.start(*command, cwd=tmp_path, PYTHONPATH=str(tmp_path)), timeout=900)
    assert status == 0, out + err
    assert int(re.search(r"(\d+) passed", out)[1]) > 30


@pytest.mark.slow
def test_the_algorithm_learns(tmp_path):
    (tmp_path / "reinforce.py").write_text(example(DOCS / "architecture.md", "Add an algorithm"))
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
