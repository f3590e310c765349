"""Recording a saved run: its own observations, below VecNormalize, and actions within bounds."""

import runpy
import sys

import numpy as np
import pytest
from commands import SMALL, run
from gymnasium import spaces
from helpers import vec
from small_environments import Counting, Seeing

from tfbaselines.demos import load_demonstrations
from tfbaselines.demos.recording import record_below_normalization
from tfbaselines.envs.make import make_vec_env
from tfbaselines.envs.normalize import VecNormalize
from tfbaselines.errors import UsageError
from tfbaselines.evaluate import evaluate
from tfbaselines.record import main, record
from tfbaselines.run import command as train

IN_PARTS = """
import gymnasium
import numpy as np
from gymnasium import spaces
from small_environments import Seeing

PARTS = spaces.Dict(a=spaces.Box(-1.0, 1.0, (2,), np.float32), {})
gymnasium.register("InParts-v0", entry_point=lambda: Seeing(PARTS, spaces.Discrete(2)))
"""


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    directory = tmp_path_factory.mktemp("saved") / "log"
    assert train([*SMALL, "--num_timesteps=640", f"--log_path={directory}"]) == 0
    return directory


@pytest.fixture
def cartpole():
    env = make_vec_env("CartPole-v1")
    yield env
    env.close()


def test_a_run_is_recorded_from_the_command_line(saved, cartpole, tmp_path, capsys):
    path = tmp_path / "demo.npz"
    assert main([str(saved), "--episodes", "7", "--seed", "3", "--out", str(path)]) == 0
    out, err = capsys.readouterr()
    assert "7 episodes" in out and str(path) in out and "7 of 7 episodes" in err
    read = load_demonstrations(path, cartpole.observation_space, cartpole.action_space)
    evaluated = evaluate(str(saved), episodes=7, seed=3)
    assert read.lengths.tolist() == evaluated["lengths"] and read.returns.tolist() == evaluated["returns"]
    assert read.terminated.all() and read.about == {
        "env": "CartPole-v1",
        "alg": "ppo2",
        "deterministic": False,
        "seed": 3,
    }


def test_several_environments_record_whole_episodes(saved, cartpole, tmp_path):
    record(str(saved), str(tmp_path / "demo.npz"), episodes=5, num_env=3)
    read = load_demonstrations(tmp_path / "demo.npz", cartpole.observation_space, cartpole.action_space)
    assert len(read.lengths) == 5
    # An episode goes on where it stood: a step changes little, a reset more.
    same = np.delete(np.arange(len(read) - 1), read.ends[:-1] - 1)
    assert np.abs(read.obs[same + 1] - read.obs[same]).max() < 1.0
    np.testing.assert_allclose(read.obs[same + 1, 0], read.obs[same, 0] + 0.02 * read.obs[same, 1], atol=1e-5)


def test_what_is_recorded_is_below_normalisation():
    env = VecNormalize(vec(lambda: Counting(length=3, timeout=True)))
    env, recorder = record_below_normalization(env)
    env.reset()
    for _ in range(7):
        env.step(np.array([[-5.0, 2.0]], np.float32))
    read = recorder.demonstrations({})
    assert read.obs.ravel().tolist() == [0, 1, 2, -3, 4, 5] and read.last_obs.ravel().tolist() == [3, 6]
    assert read.rewards.tolist() == [0, 1, 2, 3, 4, 5] and not read.terminated.any()
    assert read.actions.tolist() == [[-1.0, 2.0]] * 6


def test_dict_observations_are_recorded_flat():
    space = spaces.Dict(
        matrix=spaces.Box(-2.0, 2.0, (2, 2), np.float32), vector=spaces.Box(-1.0, 1.0, (3,), np.float32)
    )
    env, recorder = record_below_normalization(vec(lambda: Seeing(space, spaces.Discrete(2)), 2))
    shown = [env.reset(), *(env.step(np.zeros(2, np.int64))[0] for _ in range(2))]
    env.step(np.zeros(2, np.int64))
    read = recorder.demonstrations({})
    assert recorder.recorded_space.shape == (7,) and read.obs.shape == (6, 7) and read.terminated.all()
    wanted = [spaces.flatten(space, {name: part[i] for name, part in obs.items()}) for i in range(2) for obs in shown]
    np.testing.assert_allclose(read.obs, np.float32(wanted))


@pytest.mark.parametrize(
    ("part", "names"),
    [
        ("image=spaces.Box(0, 255, (12, 12, 1), np.uint8)", {"obs/image", "obs/a"}),
        ("action_mask=spaces.Box(1, 1, (2,), np.int8)", {"obs/action_mask", "obs/a"}),
        ("other=spaces.Box(0, 1, (2,), np.float32)", {"obs"}),
    ],
    ids=["image", "mask", "vector"],
)
def test_parts_with_an_image_or_a_mask_are_arrays_of_the_file(part, names, tmp_path, monkeypatch):
    (tmp_path / "in_parts.py").write_text(IN_PARTS.format(part))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "in_parts", raising=False)
    words = ["--alg=ppo2", "--env=in_parts:InParts-v0", "--num_timesteps=16", "--nsteps=16", "--nminibatches=1"]
    assert train([*words, f"--log_path={tmp_path / 'log'}"]) == 0
    out = tmp_path / "demo.npz"
    assert main([str(tmp_path / "log"), "--trust", "--episodes", "1", "--out", str(out)]) == 0
    with np.load(out) as file:
        assert {name for name in file if name.startswith("obs")} == names


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere", "--out", "x.npz"], "nowhere"),
        (["{log}", "--episodes", "0", "--out", "x.npz"], "episodes=0"),
        (["{log}", "--epsodes", "3", "--out", "x.npz"], "did you mean --episodes?"),
        (["{log}"], "--out"),
        (["{log}", "--out", "{log}"], "a directory, give the name of a file"),
        (["{log}", "--episodes", "1", "--out", "/proc/none/x.npz"], "cannot write"),
    ],
)
def test_a_mistake_is_one_line(arguments, words, saved, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    try:
        status = main([one.format(log=saved) for one in arguments])
    except SystemExit as stop:
        status = stop.code
    err = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("record: ")]
    assert status == 2 and len(err) == 1 and words in err[0]


@pytest.mark.parametrize("where", ["/proc/none", "{tmp}/file"])
def test_a_file_that_cannot_be_written_is_found_out_before_an_episode(where, saved, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    made = []
    monkeypatch.setattr("tfbaselines.evaluate.environments", lambda *_, **__: made.append(1))
    where = where.format(tmp=tmp_path)
    with pytest.raises(UsageError, match=f"out='{where}/x.npz' is not valid: cannot write in '{where}'"):
        record(str(saved), f"{where}/x.npz")
    assert made == []


def test_the_process_ends_as_the_other_commands_do(monkeypatch):
    """Whatever C++ libraries would do at the very end."""
    left = []
    monkeypatch.setattr("tfbaselines.cli.leave", left.append)
    monkeypatch.delitem(sys.modules, "tfbaselines.record")
    monkeypatch.setattr(sys, "argv", ["record", "nowhere", "--out", "x.npz"])
    runpy.run_module("tfbaselines.record", run_name="__main__")
    assert left == [2]


@pytest.mark.slow
def test_as_a_user_types_it(saved, tmp_path):
    status, out, err = run("tfbaselines.record", saved, "--episodes", "2", "--out", "demo.npz", cwd=tmp_path)
    assert status == 0, err
    assert "2 episodes" in out and {path.name for path in tmp_path.iterdir()} == {"demo.npz"}
    status, out, err = run("tfbaselines.record", "--help", cwd=tmp_path)
    assert status == 0 and "--deterministic" in out
