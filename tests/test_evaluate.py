"""A saved run is evaluated from its directory alone, with the statistics it was trained with."""

import json
import shutil
import subprocess
from ctypes.util import find_library
from pathlib import Path

import numpy as np
import pytest
from commands import SMALL, run

import tfbaselines
from tfbaselines.evaluate import evaluate, main
from tfbaselines.run import command as train


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    directory = tmp_path_factory.mktemp("saved") / "log"
    assert train([*SMALL, "--num_timesteps=640", "--save_interval=5", f"--log_path={directory}"]) == 0
    return directory


def test_the_numbers_are_those_of_the_episodes(saved, capsys):
    assert main([str(saved), "--episodes", "7", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    returns = result["returns"]
    assert len(returns) == len(result["lengths"]) == 7
    assert [result[name] for name in ("mean", "std", "min", "max")] == pytest.approx(
        [np.mean(returns), np.std(returns), min(returns), max(returns)]
    )
    assert result["checkpoint"].endswith("00010")
    assert main([str(saved), "--episodes", "7"]) == 0
    out = capsys.readouterr().out
    assert f"mean {result['mean']:.4f}  std {result['std']:.4f}  min {result['min']:.4f}" in out
    assert "7 episodes, sampled actions\n" in out and result["deterministic"] is False
    assert main([str(saved), "--episodes", "1", "--deterministic"]) == 0
    assert "1 episodes, most likely actions\n" in capsys.readouterr().out


@pytest.mark.parametrize("command", [["evaluate", ".", "--episodes=1"], ["plot", "."], ["run", "--resume=."]])
def test_modules_in_the_directory_of_a_run_are_not_imported(saved, tmp_path, command):
    """A downloaded run may bring modules with the names of installed ones, and a git checkout that starts programs."""
    stranger = shutil.copytree(saved, tmp_path / "stranger")
    config = json.loads((stranger / "config.json").read_text())
    config["env"]["worker"] = config["given"]["worker"] = "subproc"
    (stranger / "config.json").write_text(json.dumps(config))
    for name in ("typing", "pickle", "numpy", "pandas", "matplotlib", "tensorflow_probability", "ale_py"):
        (stranger / f"{name}.py").write_text(f"open({str(tmp_path / 'executed')!r}, 'a').write({name!r})\n")
    subprocess.run(["git", "init", "-q", str(stranger)], check=True)
    subprocess.run(["git", "-C", str(stranger), "config", "core.fsmonitor", f"touch {tmp_path}/executed;"], check=True)
    module, *arguments = command
    top = str(Path(tfbaselines.__file__).parents[1])
    status, _, err = run(f"tfbaselines.{module}", *arguments, cwd=stranger, PYTHONPATH=top)
    assert status == 0, err
    assert not (tmp_path / "executed").exists()


def test_one_seed_gives_one_result(saved):
    first, again, other = (evaluate(str(saved), episodes=5, seed=seed)["returns"] for seed in (1, 1, 2))
    assert first == again != other


def test_most_likely_actions_leave_chance_to_the_environment(saved):
    sampled = evaluate(str(saved), episodes=20, seed=3, num_env=4)
    likely = evaluate(str(saved), episodes=20, seed=3, num_env=4, deterministic=True)
    assert sampled["returns"] != likely["returns"]


def test_checkpoints_are_chosen_by_name(saved, capsys):
    assert evaluate(str(saved), episodes=1, checkpoint="5")["checkpoint"].endswith("00005")
    assert evaluate(str(saved), episodes=1, checkpoint="best")["checkpoint"].endswith("best")
    assert main([str(saved), "--checkpoint", "7"]) == 2
    assert "00005, 00010" in capsys.readouterr().err


@pytest.mark.skipif(not find_library("EGL"), reason="needs an OpenGL without a display")
def test_a_video_of_mujoco_is_recorded_without_a_display(tmp_path, monkeypatch, capsys):
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "MUJOCO_GL", "TFBASELINES_WORKERS_GL"):
        monkeypatch.delenv(name, raising=False)
    log, videos = tmp_path / "pendulum", tmp_path / "videos"
    small = ["--nsteps=32", "--nminibatches=1", "--num_timesteps=32", "--seed=0", "--env=InvertedPendulum-v5"]
    assert train(["--alg=ppo2", *small, f"--log_path={log}"]) == 0
    for number, gl in enumerate((None, "egl")):
        if gl:
            monkeypatch.setenv("MUJOCO_GL", gl)
        assert main([str(log), "--episodes=1", f"--video={videos}"]) == 0
        film = videos / f"pendulum.00001.video.{number}.step0.mp4"
        assert f"video: {film}\n" in capsys.readouterr().out and film.stat().st_size > 1000


def test_a_video_is_recorded(saved, tmp_path):
    """One episode of several, unless more are asked for: drawing takes most of the time."""
    import imageio.v3

    for shown, most in ((None, 1), (2, 2)):
        own = {} if shown is None else {"video_episodes": shown}
        lengths = evaluate(str(saved), episodes=3, video=str(tmp_path / str(shown)), **own)["lengths"]
        (video,) = (tmp_path / str(shown)).iterdir()
        assert len(imageio.v3.imread(video)) == sum(lengths[:most]) + 1


def test_every_checkpoint_is_evaluated_and_filmed(saved, tmp_path, capsys):
    """Their steps name the films; a damaged checkpoint is left out with a warning."""
    run = shutil.copytree(saved, tmp_path / "pole")
    (run / "checkpoints/00007").write_bytes(b"cut short")
    flags = [str(run), "--every_checkpoint", "--episodes=2", "--deterministic", "--video_episodes=2"]
    assert main([*flags, "--video"]) == 0
    out = capsys.readouterr().out
    title, head, *rows = out.splitlines()
    assert title == "2 episodes of each checkpoint, most likely actions"
    assert head.split() == ["checkpoint", "steps", "mean", "std", "min", "max", "mean", "length"]
    # Updates of 64 steps.
    steps = {"00001": 64, "00005": 320, "00010": 640}
    alone = evaluate(run, episodes=2, deterministic=True, checkpoint="5")
    assert [row.split()[:2] for row in rows[:3]] == [[name, str(count)] for name, count in steps.items()]
    assert rows[1].split()[2] == f"{alone['mean']:.2f}"
    films = [run / f"videos/pole.{count}.video.0.step0.mp4" for count in steps.values()]
    assert rows[3:] == [f"video: {film}" for film in films] and all(film.stat().st_size > 1000 for film in films)
    assert main([*flags, "--json"]) == 0
    assert [one["steps"] for one in json.loads(capsys.readouterr().out)] == [64, 320, 640]
    assert main([*flags, "--checkpoint=5"]) == 2
    assert "give only one of them" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere"], "nowhere"),
        (["--episodes", "0"], "episodes=0"),
        (["--epsodes", "3"], "did you mean --episodes?"),
        (["--num_env", "many"], "invalid int"),
    ],
)
def test_a_mistake_is_one_line(arguments, words, saved, capsys):
    if arguments != ["nowhere"]:
        arguments = [str(saved), *arguments]
    try:
        status = main(arguments)
    except SystemExit as stop:
        status = stop.code
    err = capsys.readouterr().err
    assert status == 2
    assert words in err
    assert err.count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "flags",
    [
        ["--env=Pendulum-v1", "--normalize_observations=True", "--nsteps=64", "--value_network=copy"],
        ["--env=FrozenLake-v1", "--nsteps=64", "--network=lstm", "--nlstm=4", "--nminibatches=1"],
        ["--env=HalfCheetah-v5", "--nsteps=64", "--nminibatches=2", "--num_env=2"],
    ],
)
def test_every_kind_of_run_can_be_evaluated_elsewhere(flags, eager, tmp_path):
    assert train([*flags, "--num_timesteps=256", "--noptepochs=1", f"--log_path={tmp_path / 'log'}"]) == 0
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    status, out, err = run("tfbaselines.evaluate", tmp_path / "log", "--episodes", "2", cwd=elsewhere)
    assert status == 0, err
    assert "2 episodes" in out
    # MuJoCo warns, there and in a file of its own, of the attributes in Gymnasium's models.
    assert [line for line in err.splitlines() if line and "deprecated" not in line] == []
    assert {path.name for path in elsewhere.iterdir()} <= {"MUJOCO_LOG.TXT"}


ENDLESS = """
import gymnasium
from tfbaselines.envs.tiny import ConstantRewardEnv

gymnasium.register("Endless-v0", entry_point=lambda: ConstantRewardEnv(episode_len=10**9))
"""


def test_episodes_that_only_max_ep_len_ends_do_end(tmp_path, monkeypatch, capsys):
    (tmp_path / "endless.py").write_text(ENDLESS)
    monkeypatch.syspath_prepend(tmp_path)
    small = ["--hidden_sizes=[8]", "--start_steps=10", "--update_after=10", "--batch_size=4", "--num_test_episodes=1"]
    course = ["--max_ep_len=7", "--epochs=1", "--steps_per_epoch=50", "--update_every=50", "--num_update=1"]
    log = tmp_path / "log"
    assert train(["--alg=sac", "--env=endless:Endless-v0", *small, *course, f"--log_path={log}", "--play"]) == 0
    assert capsys.readouterr().out.count("episode_rew=7.0") == 10
    assert evaluate(str(log), episodes=3, trust=True)["lengths"] == [7, 7, 7]
