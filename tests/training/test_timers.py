"""Learning rates and seconds of phases in a run's rows and last line."""

import re

import pytest
from small_environments import identity
from small_runs import rows, train

from tfbaselines.config.options import RunOptions
from tfbaselines.training import timers
from tfbaselines.training.timers import Timers


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(timers.time, "perf_counter", lambda: now[0])

    def wait(seconds):
        now[0] += seconds

    return wait


def test_an_updates_phases_add_up(clock):
    timed = Timers(steps=True)
    clock(1.0)
    for _ in range(2):
        timed.begin_update()
        with timed.phase("collect"):
            clock(0.5)
            with timed.phase("environment"):
                clock(1.5)
        clock(3.0)
        timed.end_update()
        with timed.phase("save"):
            clock(0.5)
    expected = {"collect": 4.0, "update": 6.0, "save": 1.0, "other": 1.0, "environment": 3.0, "act": 1.0}
    assert timed.phases() == pytest.approx(expected)
    columns = timed.columns()
    assert columns["timers/update"] == 6.0 and columns["timers/update_share"] == 0.5
    assert set(columns) == {f"timers/{name}{end}" for name in expected for end in ("", "_share")}
    text = "time: 12.0 s: collect 4.0 s (33 %) with act 1.0 s, environment 3.0 s, update 6.0 s (50 %), save 1.0 s (8 %)"
    assert timed.text() == f"{text}, other 1.0 s (8 %)"
    assert Timers(steps=False).columns() == {}


def last_line(directory):
    """The only line of a run's log with its phases, the last one but for blank ones."""
    line = (directory / "log.txt").read_text().rstrip().rpartition("\n")[2]
    assert line.startswith("time: ")
    return line


def test_rows_have_the_rates_that_were_given_as_schedules(eager, tmp_path):
    """The columns of a run with its defaults stay the original's."""
    for name, alg, kwargs, columns in (
        ("a", "ppo2", {"lr": "linear_1e-3", "cliprange": 0.2}, {"lr"}),
        ("b", "a2c", {}, set()),
        ("c", "a2c", {"lrschedule": "double_linear_con"}, {"lr"}),
        ("d", "vpg", {"vf_lr": lambda left: 0.5 * left}, {"vf_lr"}),
    ):
        train(tmp_path / name, alg, identity(), 4, **kwargs)
        table = rows(tmp_path / name)
        assert {column for column in table if column.endswith("lr") or column == "cliprange"} == columns
        for column in columns:
            assert table[column].iloc[0] > table[column].iloc[-1] > 0
        line = last_line(tmp_path / name)
        assert "update" in line and "collect" in line and "act" not in line
    assert rows(tmp_path / "a")["lr"].tolist() == pytest.approx([1e-3, 7.5e-4, 5e-4, 2.5e-4])


def test_timers_add_columns_and_no_other_numbers(eager, tmp_path):
    train(tmp_path / "plain", "ppo2", identity(), 4)
    train(tmp_path / "timed", "ppo2", identity(), 4, run=RunOptions(timers=True))
    assert "act" in last_line(tmp_path / "timed")
    plain, timed = (rows(tmp_path / name) for name in ("plain", "timed"))
    added = [column for column in timed if column.startswith("timers/")]
    assert timed.drop(columns=added).equals(plain)
    last = timed.iloc[-1]
    assert last["timers/collect"] == pytest.approx(last["timers/act"] + last["timers/environment"])
    shares = [name for name in added if name.endswith("_share") and not re.search("act|environment", name)]
    assert sum(last[name] for name in shares) == pytest.approx(1.0, abs=0.05)
