"""The doctor beside a run: it warns once of what is sure, ends the run only if asked, and goes on after a resume."""

import csv
from types import SimpleNamespace

import numpy as np
import pytest
from small_runs import own_identity, train

from tfbaselines.callbacks import Doctor
from tfbaselines.config.options import RunOptions
from tfbaselines.doctor.watch import FIRST_ROWS, Watch
from tfbaselines.run import command as main

CONFIG = {"alg": "ppo2", "env": {"env": "CartPole-v1"}, "learn": {"lr": 1e-3}}
DEFAULTS = {"lr": 3e-4, "gamma": 0.99}


def run_of(rows, rewards=lambda step: 1.0):
    """Rows of a run with an episode of ten steps in each."""
    episodes = SimpleNamespace(count=0, rewards=[], lengths=[])
    for number in range(1, rows + 1):
        episodes.count = number
        episodes.rewards = [*episodes.rewards, 10 * rewards(number)][-100:]
        episodes.lengths = [*episodes.lengths, 10][-100:]
        row = {
            "misc/total_timesteps": 10 * number,
            "loss/approxkl": np.float32(0.01),
            "eprewmean": episodes.rewards[-1],
        }
        yield row, 10 * number, episodes


def warned(watch, rows):
    return [(row["misc/total_timesteps"], found.rule) for row, *more in rows for found in watch.look(row, *more)]


def test_a_run_is_warned_of_once_and_goes_on_after_a_restore():
    rows = list(run_of(60, lambda number: -1.0))
    whole = Watch(CONFIG, DEFAULTS, "logs/x", 1)
    assert warned(whole, rows) == [(10 * FIRST_ROWS, "sign_turned")]
    # The same row twice is looked at once.
    assert whole.look(*rows[-1]) == []
    for split in (5, 20):
        half, again = Watch(CONFIG, DEFAULTS, "logs/x", 1), Watch(CONFIG, DEFAULTS, "logs/x", 1)
        first = warned(half, rows[:split])
        again.restore(half.state())
        assert first + warned(again, rows[split:]) == [(10 * FIRST_ROWS, "sign_turned")]
        assert again.state()["latest"].tolist() == whole.state()["latest"].tolist()
    assert warned(Watch(CONFIG, DEFAULTS, "logs/x", 1), run_of(60, lambda number: 1.0 + number % 3)) == []


def test_a_run_ends_only_if_asked(eager, tmp_path):
    for name, callback, updates in (("on", Doctor(), 12), ("stop", Doctor(stop=True), FIRST_ROWS + 1)):
        train(tmp_path / name, "ppo2", own_identity("ppo2"), 12, gamma=0.0, run=RunOptions(callback=callback))
        with open(tmp_path / name / "progress.csv") as file:
            assert len(list(csv.DictReader(file))) == updates
        (line,) = [one for one in (tmp_path / name / "log.txt").read_text().splitlines() if "doctor" in one]
        assert "The discount sees a few steps only: gamma is 0" in line
        assert "see docs/doctor.md#discount-low" in line
    assert (tmp_path / "stop" / "checkpoints" / f"{FIRST_ROWS + 1:05d}").exists()


def test_the_flag_takes_stop_alone(capsys):
    with pytest.raises(SystemExit) as ended:
        raise SystemExit(main(["--doctor=end", "--num_timesteps=0"]))
    assert ended.value.code == 2
    assert "unknown doctor 'end': choose from stop" in capsys.readouterr().err
