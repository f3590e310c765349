"""The signals that stop a run are taken over, and given back as they were."""

import gc
import os
import signal
import weakref

import pytest

from tfbaselines.training import guards
from tfbaselines.training.guards import STOPPING, StopSignals, heed


@pytest.fixture(autouse=True)
def as_before():
    """Every handler is put back."""
    handlers = {number: signal.getsignal(number) for number in STOPPING}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)


def test_the_first_signal_is_kept_and_a_second_ctrl_c_does_not_wait():
    signals = StopSignals()
    signals.catch()
    for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGUSR1):
        os.kill(os.getpid(), number)
    assert signals.number == signal.SIGUSR1
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT])
def test_what_is_ignored_stays_ignored(number):
    """As nohup and shells without job control leave it."""
    signal.signal(number, signal.SIG_IGN)
    signals = StopSignals()
    signals.catch()
    os.kill(os.getpid(), number)
    assert signals.number == 0
    signals.release()
    assert signal.getsignal(number) == signal.SIG_IGN


def test_a_handler_that_python_does_not_know_is_left_alone(monkeypatch):
    taken = []
    monkeypatch.setattr(signal, "getsignal", lambda number: None)
    monkeypatch.setattr(signal, "signal", lambda *args: taken.append(args))
    signals = StopSignals()
    signals.catch()
    signals.release()
    assert taken == []


def test_a_program_may_undo_what_is_ignored():
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, print)
    heed()
    handlers = [signal.getsignal(number) for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)]
    assert handlers == [signal.SIG_DFL, signal.default_int_handler, print]


def test_a_run_frees_what_earlier_ones_left_once_memory_has_grown(monkeypatch):
    class Cycle:
        def __init__(self):
            self.me = self

    sizes = iter([100, 100, 200, 100 + 2 * guards.MOST_GROWTH, 300])
    monkeypatch.setattr(guards, "_settled", 100 - guards.MOST_GROWTH - 1)
    monkeypatch.setattr(guards, "_resident_bytes", lambda: next(sizes))
    guards.release_earlier_runs()
    left = weakref.ref(Cycle())
    gc.disable()
    try:
        guards.release_earlier_runs()
        assert left() is not None
        guards.release_earlier_runs()
        assert left() is None and guards._settled == 300
    finally:
        gc.enable()
