"""A process counts the cores that it may use."""

import os

from tfbaselines.parallel.mpi import usable_cores


def test_the_cores_that_a_process_was_left(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 5}, raising=False)
    assert usable_cores() == {0, 5}


def test_all_of_the_machine_where_the_system_does_not_bind(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    assert usable_cores() == {0, 1, 2}
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert usable_cores() == {0}
