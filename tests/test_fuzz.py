"""Random input to what reads a stranger's files and to the command line: one line or what was asked for.

TFBASELINES_FUZZ=10000 tries as many inputs of each kind; by default a few.
"""

import json
import os
import shlex
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from gymnasium import spaces
from mutations import mutations, refused_or_read

from tfbaselines import run
from tfbaselines.algs import ALGORITHMS, get
from tfbaselines.cli.command_line import parse
from tfbaselines.cli.sections import read_sections
from tfbaselines.cli.stored import given_again, read_config
from tfbaselines.demos import load_demonstrations
from tfbaselines.plot.__main__ import main as plot
from tfbaselines.replay import Replay

COUNT = int(os.environ.get("TFBASELINES_FUZZ", 150))

BOX, ACTIONS = spaces.Box(-1.0, 1.0, (3,), np.float32), spaces.Discrete(4)
PLACE = SimpleNamespace(observation_space=BOX, action_space=ACTIONS, num_envs=2)
DEMONSTRATIONS = Path(__file__).parent.parent / "data" / "demos" / "cartpole.npz"
SPACES = spaces.Box(-np.inf, np.inf, (4,), np.float32), spaces.Discrete(2)
SECTIONS = """
default:
  lr: 1e-3
  num_env: 4
CartPole-v1:
  nsteps: 32
  hidden_sizes: [64, 64]
classic_control: {gamma: 0.98, ent_coef: linear_0.01}
"""
CONFIG = {
    "alg": "ppo2",
    "network": "mlp",
    "env": {"env": "CartPole-v1", "num_env": 1, "seed": 0, "normalize": False, "flatten": True},
    "learn": {"nsteps": 32, "lr": "linear_3e-4"},
    "arguments": {"env": "CartPole-v1", "num_timesteps": 1000.0},
    "given": {"env": "CartPole-v1", "nsteps": "32", "num_timesteps": "1e3", "env_kwargs.length": "3"},
    "ranks": 1,
}


def try_all(path, load, count=COUNT, fewest=0):
    """Load `count` mutations of a file."""
    whole, read = path.read_bytes(), 0
    for data in mutations(whole, count):
        path.write_bytes(data)
        read += refused_or_read(load, path)
    path.write_bytes(whole)
    load(path)
    assert fewest <= read < count


def test_demonstrations(tmp_path):
    path = tmp_path / "demo.npz"
    path.write_bytes(DEMONSTRATIONS.read_bytes())
    try_all(path, lambda file: load_demonstrations(file, *SPACES))


def test_replays(tmp_path):
    directory, rng = tmp_path / "replay", np.random.default_rng(0)
    replay = Replay(PLACE, 40, 0.9)
    for t in range(30):
        obs, following = rng.uniform(-1, 1, (2, 2, 3)).astype(np.float32)
        done = np.array([t % 7 == 6, t % 11 == 10])
        infos = [{"final_observation": obs[0]} if one else {} for one in done]
        replay.put(obs, rng.integers(4, size=2), np.ones(2, np.float32), following, done, infos)
    replay.save(directory)
    files = sorted(directory.iterdir())
    assert len(files) > 4
    for file in files:
        try_all(file, lambda _: Replay(PLACE, 40, 0.9).load(directory), -(-COUNT // len(files)))
    # As it lies beside a checkpoint.
    state, items = replay.state(), replay.items(*replay.span())
    Replay(PLACE, 40, 0.9).rebuild(state, [(10, items)], True)
    for number in range(COUNT):
        arrays = items["arrays"] | {name: items[name] for name in ("ends", "last")}
        name = sorted(arrays)[number % len(arrays)]
        wrong = VALUES[rng.integers(len(VALUES))]
        changed = items | {name: wrong} if name in items else items | {"arrays": items["arrays"] | {name: wrong}}
        with pytest.raises((ValueError, LookupError, TypeError, AttributeError)):
            Replay(PLACE, 40, 0.9).rebuild(state, [(10, changed)], True)


def test_configurations(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG))

    def resumed(_):
        config = read_config(tmp_path)
        args = parse(given_again(config["given"], {}), ALGORITHMS, {})
        args.algorithm.config.of(args.learn)

    try_all(path, resumed)
    # Values of another type in every place.
    places = [(name,) for name in CONFIG] + [
        (name, key) for name, part in CONFIG.items() if isinstance(part, dict) for key in part
    ]
    rng = np.random.default_rng(0)
    for number in range(COUNT):
        config = json.loads(json.dumps(CONFIG))
        *outer, last = places[number % len(places)]
        (config[outer[0]] if outer else config)[last] = VALUES[rng.integers(len(VALUES))]
        path.write_text(json.dumps(config))
        refused_or_read(resumed, path)


def test_files_of_settings(tmp_path):
    path = tmp_path / "settings.yaml"
    path.write_text(SECTIONS)
    try_all(path, read_sections)


MONITOR = '#{"t_start": 1.0, "env_id": "CartPole-v1"}\nr,l,t\n' + "".join(f"{i}.5,{i + 3},{2 * i}\n" for i in range(30))
PROGRESS = "total_timesteps,loss/policy\n" + "".join(f"{100 * i},{-0.01 * i}\n" for i in range(30))


def test_tables_of_runs_under_plot(tmp_path, monkeypatch, capsys):
    """Everything but the picture itself."""
    log, out = tmp_path / "log", ["--out", str(tmp_path / "p.png")]
    log.mkdir()
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", lambda *_, **__: None)
    tables = {"0.0.monitor.csv": (MONITOR, []), "progress.csv": (PROGRESS, ["--value", "loss/policy"])}
    for name, (whole, flags) in tables.items():
        drawn, path = 0, log / name
        for data in (whole.encode(), *mutations(whole.encode(), COUNT // 5)):
            path.write_bytes(data)
            status, err = plot([str(log), *out, *flags]), capsys.readouterr().err
            # The error, and before it the file that cannot be read.
            *before, last = err.splitlines() or [""]
            assert status == 0 or (status == 2 and "error: " in last and len(before) <= 1), (data, err)
            drawn += status == 0
        assert drawn > 1
        path.write_text(whole)


VALUES = (
    *(None, True, -1, 0, 1e308, float("nan"), 10**30, "", "x" * 10_000, "\x00", "__import__('os').system('false')"),
    *([], [1, "a"], {}, {"a": {"b": {"c": {}}}}, [[[[1]]]], "linear_", "1e3", "None", "auto_", "/etc/passwd", "a:b"),
)
WORDS = ("", "-", "--", "---", "=", "--=", "--=3", "x", "--no_such=1", "--lr", "--env_kwargs.=1", "--env_kwargs.a.b=1")
TEXTS = (
    *("", "0", "-1", "1", "2", "nan", "inf", "-inf", "1e999", "1e-400", "None", "True", "x", "linear_1e-3", "[1,2]"),
    *(
        "[64, 64]",
        "[",
        "{",
        "{}",
        '{"a": 1}',
        "'",
        '"',
        "lambda: 0",
        "os.system('false')",
        "a" * 5000,
        "\x00",
        "é",
        "../..",
    ),
    *("CartPole-v1", "PongNoFrameskip-v4", "mlp", "cnn", "auto", "uniform", "adaptive-param_0.2", "--", "1,2", "0x10"),
)
# They start other processes, or run what a file names.
LEFT_OUT = {"cpu", "resume", "load_path", "config", "play"}


def random_command(rng):
    algorithm = str(rng.choice(list(ALGORITHMS)))
    names = [*get(algorithm).config.arguments(), *FLAGS]
    words = [f"--alg={algorithm}"] if rng.random() < 0.9 else []
    for _ in range(rng.integers(0, 6)):
        name = str(rng.choice(names))
        if name in LEFT_OUT:
            continue
        words.append(f"--{name}={TEXTS[rng.integers(len(TEXTS))]}" if rng.random() < 0.9 else f"--{name}")
    if rng.random() < 0.1:
        words.insert(int(rng.integers(len(words) + 1)), WORDS[rng.integers(len(WORDS))])
    return words


FLAGS = (
    *("env", "env_type", "seed", "num_timesteps", "network", "num_env", "reward_scale", "save_path", "log_path"),
    *("save_video_interval", "save_video_length", "keep_checkpoints", "save_minutes", "precision", "on_nan"),
    *(
        "step_timeout",
        "restart_workers",
        "in_series",
        "env_threads",
        "stop_at",
        "evaluate_every",
        "log_format",
        "env_kwargs.size",
        "worker",
        "tuned",
    ),
)


def test_command_lines(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    # All that a command line asks for is read and checked; nothing is trained.
    monkeypatch.setattr(run, "_run", lambda args: args.algorithm.config.of(args.learn) and run.Ended(0))
    rng = np.random.default_rng(0)
    good = 0
    for _ in range(max(COUNT // 5, 200)):
        words = random_command(rng)
        status = run.command(words)
        err = capsys.readouterr().err
        assert status in (0, 2), shlex.join(words)
        if status == 2:
            assert err.startswith("tfbaselines: error: ") and err.count("\n") == 1, shlex.join(words)
        good += status == 0
    assert good
