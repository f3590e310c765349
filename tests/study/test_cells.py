"""Cells: every combination once, checked before anything is written."""

import subprocess
import sys

import pytest

from tfbaselines.study.__main__ import main
from tfbaselines.study.cells import cell_of, combinations, read_study_file, split_settings
from tfbaselines.study.store import Study

ENV = ("--env", "CartPole-v1")


def test_every_combination_is_one_cell_and_seeds_come_first():
    settings = split_settings(["lr=1e-3,3e-4", "num_env=2", "num-hidden=[8, 8],8"])
    assert settings == {"lr": ["1e-3", "3e-4"], "num_env": ["2"], "num-hidden": ["[8, 8]", "8"]}
    settings = {"lr": ["1e-3", "3e-4"], "num-env": ["2"]}
    cells = combinations(["ppo2", "a2c"], ["CartPole-v1", "Acrobot-v1"], 3, settings, "1e4", "True")
    assert len(cells) == 24 and len({cell.directory for cell in cells}) == 24
    assert [cell.words["seed"] for cell in cells] == ["0"] * 8 + ["1"] * 8 + ["2"] * 8
    assert [cell.name for cell in cells] == sorted(cell.name for cell in cells)
    first = cells[0]
    assert first.directory == "runs/ppo2-CartPole-v1-lr=1e-3-s0" and first.group == "ppo2-CartPole-v1-lr=1e-3"
    assert first.words == {
        "alg": "ppo2",
        "env": "CartPole-v1",
        "num_timesteps": "1e4",
        "tuned": "True",
        "lr": "1e-3",
        "num_env": "2",
        "seed": "0",
    }
    assert cell_of(first.document()) == first


def test_a_file_says_the_same_as_flags(tmp_path):
    (tmp_path / "own.yaml").write_text("default: {lr: 0.002}\nCartPole-v1: {num_hidden: 8}\n")
    study = tmp_path / "study.yaml"
    study.write_text("alg: [ppo2, a2c]\nenv: CartPole-v1\nseeds: 2\nconfig: own.yaml\nset:\n  gamma: [0.9, 0.99]\n")
    from_file = combinations(**read_study_file(study))
    from_flags = combinations(
        ["ppo2", "a2c"], ["CartPole-v1"], 2, {"gamma": ["0.9", "0.99"]}, config=str(tmp_path / "own.yaml")
    )
    assert from_file == from_flags and len(from_file) == 8
    # The study does not need the file again.
    assert {"lr": "0.002", "num_hidden": "8"}.items() <= from_file[0].words.items()
    assert "config" not in from_file[0].words
    assert main(["new", str(tmp_path / "s"), "--from", str(study)]) == 0
    assert list(Study(tmp_path / "s").cells("open")) == from_file


MISTAKES = [
    (["--alg", "ppo3", *ENV], "unknown algorithm 'ppo3': did you mean 'ppo'"),
    (["--alg", "ppo2", "--env", "CarPole-v1"], "did you mean 'CartPole-v1'"),
    (["--alg", "ppo2", *ENV, "--set", "lrr=1"], "unknown argument --lrr of ppo2 with network mlp: did you mean --lr?"),
    (["--alg", "ppo2", *ENV, "--set", "gamma=2"], "gamma=2"),
    (["--alg", "ppo2", *ENV, "--set", "gamma"], "write NAME=VALUE,VALUE"),
    (["--alg", "ppo2", *ENV, "--set", "gamma="], "--set gamma= needs a value"),
    (["--alg", "ppo2", *ENV, "--set", "gamma=0.9,0.9"], "a value is there twice"),
    (["--alg", "ppo2", *ENV, "--set", "gamma=0.9", "gamma=1"], "--set gamma is there twice"),
    (["--alg", "ppo2", *ENV, "--set", "seed=1"], "give it as --seeds"),
    (["--alg", "ppo2", *ENV, "--set", "log_path=x"], "the study's workers choose it"),
    (["--alg", "ppo2", *ENV, "--seeds", "-1"], "seeds=-1 is not valid"),
    (["--alg", "ppo2", *ENV, "--seeds", "0"], "seeds=0 is not valid"),
    (["--alg", "ppo2", "--env", "Pusher-v5", "--tuned"], "no tuned settings of ppo2 for Pusher-v5"),
    (["--alg", "ppo2", *ENV, "--num_timesteps", "many"], "num_timesteps='many' is not valid"),
    (["--alg", "ppo2", *ENV, "--config", "nowhere.yaml"], "'nowhere.yaml' cannot be read"),
    (["--alg", "ppo2"], "--env is missing"),
    (["--from", "nowhere.yaml"], "'nowhere.yaml' cannot be read"),
    (["--from", "x.yaml", "--alg", "ppo2"], "--from has all arguments"),
]


def test_mistakes_are_one_line_and_nothing_is_written(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for words, line in MISTAKES:
        assert main(["new", "s", *words]) == 2, words
        err = capsys.readouterr().err
        assert line in err and err.count("\n") == 1, err
    for text, line in (
        ("algs: [ppo2]", "unknown entry of 'f.yaml' 'algs': did you mean 'alg'"),
        ("alg: ppo2", "'f.yaml' has no 'env:'"),
        ("[1]", "'f.yaml' does not describe a study"),
        ("{alg: ppo2, env: CartPole-v1, seeds: x}", "seeds='x' is not valid"),
        ("{alg: ppo2, env: CartPole-v1, set: [1]}", "'set' must have arguments by name"),
    ):
        (tmp_path / "f.yaml").write_text(text)
        assert main(["new", "s", "--from", "f.yaml"]) == 2
        assert line in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["f.yaml"]


def test_a_module_needs_trust(tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(tmp_path)
    own = "import gymnasium\ngymnasium.register('Own-v0', 'gymnasium.envs.classic_control:CartPoleEnv')\n"
    (tmp_path / "own_module_of_studies.py").write_text(own)
    directory = str(tmp_path / "s")
    assert main(["new", directory, "--alg", "ppo2", "--env", "own_module_of_studies:Own-v0"]) == 0
    assert capsys.readouterr().out.endswith("--jobs 2 --trust\n")
    for words in (["work", directory], ["submit", directory, "--dask"]):
        assert main(words) == 2
        assert "'ppo2-Own-v0-s0' has --env=own_module_of_studies:Own-v0" in capsys.readouterr().err


def test_tensorflow_is_not_loaded(tmp_path):
    code = "import sys; from tfbaselines.study.__main__ import main; import tfbaselines.study.worker\n"
    code += f"assert main(['new', {str(tmp_path / 's')!r}, '--alg', 'ppo2', '--env', 'CartPole-v1', '--tuned']) == 0\n"
    code += "assert 'tensorflow' not in sys.modules"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("directory", ["/etc", "../other", "runs/../../x", ""])
def test_no_cell_leaves_the_study(directory):
    words = {"alg": "ppo2"}
    with pytest.raises(ValueError, match="not inside of the study"):
        cell_of({"name": "n", "group": "g", "directory": directory, "words": words})
