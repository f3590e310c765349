"""README's first command, as it stands there."""

import re

import commands
import pytest
from pages import README

from tfbaselines.logs.logger import read_csv
from tfbaselines.run import command as main


@pytest.mark.slow
def test_the_first_command_learns_and_names_the_next_ones(tmp_path):
    """Without its installation; then the commands as they are printed."""
    (line,) = re.findall(
        r'^pip install -e "\.\[all\]" && (python -m tfbaselines\.run .*)$',
        README.read_text(encoding="utf-8"),
        re.MULTILINE,
    )
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


@pytest.mark.slow
@pytest.mark.parametrize("seed", [103, 109])
def test_the_first_command_learns_with_other_seeds(seed, tmp_path, monkeypatch):
    """With these it did not where the value function's steps were clipped and it shared the policy's network."""
    monkeypatch.setenv("OPENAI_LOG_FORMAT", "csv")
    words = ["--alg=ppo2", "--env=CartPole-v1", "--tuned"]
    assert main([*words, f"--seed={seed}", f"--log_path={tmp_path}"]) == 0
    assert read_csv(tmp_path / "progress.csv")["eprewmean"].iloc[-1] >= 475
