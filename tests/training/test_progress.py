import io
import types

import pytest

from tfbaselines.training import clock as progress
from tfbaselines.training.clock import NoProgress, ProgressBar, ProgressLines, make_progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    now = types.SimpleNamespace(seconds=0.0)
    monkeypatch.setattr(progress, "time", types.SimpleNamespace(monotonic=lambda: now.seconds))
    return now


@pytest.mark.parametrize(
    ("show", "total", "stream", "kind"),
    [
        (True, 10, Terminal, ProgressBar),
        (True, 10, io.StringIO, ProgressLines),
        (False, 10, Terminal, NoProgress),
        (True, 0, Terminal, NoProgress),
    ],
)
def test_the_display_fits_the_stream(monkeypatch, show, total, stream, kind):
    monkeypatch.setattr("sys.stderr", stream())
    display = make_progress(show, "ppo2", 0, total)
    display.close()
    assert type(display) is kind


def test_nothing_is_shown_when_nothing_is_asked_for(capsys):
    display = make_progress(False, "ppo2", 0, 10)
    display.update(10, lambda: 1.0)
    display.close()
    assert capsys.readouterr() == ("", "")


def test_a_line_every_half_minute(clock):
    stream = io.StringIO()
    display = ProgressLines("ppo2", 1000, 5000, stream)
    for clock.seconds, steps in ((29.9, 1500), (100.0, 3000), (129.9, 4000), (160.0, 4250)):
        display.update(steps, lambda: 12.34567)
    assert stream.getvalue() == (
        "ppo2: 3,000 of 5,000 steps (60%), 20 steps/s, reward 12.35, 1:40 left\n"
        "ppo2: 4,250 of 5,000 steps (85%), 20 steps/s, reward 12.35, 0:36 left\n"
    )


def test_the_last_line_does_not_wait(clock):
    stream = io.StringIO()
    display = ProgressLines("ppo2", 0, 50, stream)
    clock.seconds = 2.0
    display.update(50, lambda: float("nan"))
    display.close()
    assert stream.getvalue() == "ppo2: 50 of 50 steps (100%), 25 steps/s, reward nan, 0:00 left\n"


def test_no_time_at_all_is_no_division_by_zero(clock):
    stream = io.StringIO()
    ProgressLines("ppo2", 50, 50, stream).update(50, lambda: 0.0)
    assert "0 steps/s" in stream.getvalue()


def test_the_bar_shows_where_a_resumed_run_begins_and_ends():
    stream = Terminal()
    bar = ProgressBar("ppo2", 100, 400, stream)
    bar.update(250, lambda: -1.0)
    bar.update(400, lambda: 1.23456)
    bar.close()
    first, last = stream.getvalue().split("\r")[1], stream.getvalue().split("\r")[-1]
    assert "ppo2:  25%" in first and "100/400" in first
    assert "ppo2: 100%" in last and "400/400" in last and "reward=1.235" in last
