"""Threads that work side by side: every turn counts once, errors come out, all stand still when asked, none is left."""

import itertools
import threading
import time
from contextlib import suppress

import pytest

from tfbaselines.algs.acer.workers import Crew
from tfbaselines.parallel.mpi import Together
from tfbaselines.training.checkpoint import load_tree, save_tree

# What takes longer than this has hung.
PATIENCE = 10


@pytest.fixture(autouse=True)
def _no_thread_is_left():
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) <= before


def in_time(function):
    """What the function returns, unless it hangs."""
    results = []
    thread = threading.Thread(target=lambda: results.append(function()), daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert results, "it hung"
    return results[0]


def wait_for(condition):
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.001)


class Jobs:
    """Jobs that count their turns and know who is in the middle of one."""

    def __init__(self, count, seconds=0.001):
        self.turns, self.inside, self.threads = [0] * count, [False] * count, [None] * count
        self.functions = [lambda number=number: self._turn(number, seconds) for number in range(count)]

    def _turn(self, number, seconds):
        self.inside[number], self.threads[number] = True, threading.current_thread()
        time.sleep(seconds)
        self.turns[number] += 1
        self.inside[number] = False
        return number, self.turns[number]


def fail(error):
    def job():
        raise error

    return job


def test_one_job_runs_in_the_callers_thread_when_its_result_is_asked_for():
    jobs = Jobs(1)
    with Crew(jobs.functions) as crew:
        results = crew.results(3)
        assert jobs.turns == [0]
        assert next(results) == (0, (0, 1)) and jobs.turns == [1]
        assert list(results) == [(0, (0, 2)), (0, (0, 3))]
    assert jobs.threads == [threading.current_thread()]


def test_several_jobs_run_at_once_each_in_a_thread_of_its_own():
    """Nobody passes the barrier alone."""
    barrier = threading.Barrier(3, timeout=PATIENCE)

    def job():
        barrier.wait()
        return threading.get_ident()

    with Crew([job] * 3) as crew:
        results = list(crew.results(9))
    assert sorted(number for number, _ in results) == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert len(set(results)) == len({thread for _, thread in results}) == 3
    assert threading.get_ident() not in {thread for _, thread in results}


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("turns", [0, 1, 3, 50])
def test_there_are_as_many_turns_and_results_as_asked_for(count, turns):
    jobs = Jobs(count, seconds=0)
    with Crew(jobs.functions) as crew:
        results = list(crew.results(turns))
    assert len(results) == sum(jobs.turns) == turns
    # Each job's own come in their order, with its number.
    for number in range(count):
        own = [result for job, result in results if job == number]
        assert own == [(number, turn) for turn in range(1, jobs.turns[number] + 1)]


def test_results_come_in_the_order_in_which_they_finish():
    begun, release = threading.Event(), threading.Event()

    def slow():
        begun.set()
        return release.wait(PATIENCE)

    with Crew([slow, lambda: begun.wait(PATIENCE)]) as crew:
        results = crew.results(2)
        assert next(results)[0] == 1
        release.set()
        assert next(results) == (0, True)


@pytest.mark.parametrize("others", [0, 1, 3])
@pytest.mark.parametrize("kind", [KeyError, SystemExit])
def test_what_a_job_raises_is_raised_where_results_are_read(kind, others):
    jobs = Jobs(others)

    def run():
        with pytest.raises(kind, match="broken"), Crew([*jobs.functions, fail(kind("broken"))]) as crew:
            for number, _ in crew.results(10**6):
                assert number < others
        return True

    assert in_time(run)
    assert sum(jobs.turns) < 10**5


def test_results_before_an_error_are_not_lost():
    read = threading.Event()

    def fails_later():
        read.wait(PATIENCE)
        raise KeyError("broken")

    with Crew([lambda: "done", fails_later]) as crew:
        results = crew.results(10**6)
        assert next(results) == (0, "done")
        read.set()
        with pytest.raises(KeyError, match="broken"):
            list(results)


def test_a_job_that_failed_does_not_keep_the_others_from_being_held():
    jobs = Jobs(1)
    with Crew([*jobs.functions, fail(KeyError("broken"))]) as crew:
        with pytest.raises(KeyError):
            list(crew.results(10**6))

        def hold():
            with crew.paused():
                return not any(jobs.inside)

        assert in_time(hold)


def test_all_threads_stand_still_while_they_are_paused_and_then_go_on():
    jobs = Jobs(3)
    with Crew(jobs.functions) as crew:
        results = crew.results(10**6)
        for _ in range(5):
            next(results)
            with crew.paused():
                assert not any(jobs.inside)
                before = list(jobs.turns)
                time.sleep(0.03)
                assert jobs.turns == before
            while not all(now > then for now, then in zip(jobs.turns, before, strict=True)):
                next(results)


def test_a_pause_waits_for_the_turns_that_have_begun():
    release, paused = threading.Event(), threading.Event()

    def job():
        return release.wait(PATIENCE)

    with Crew([job, job]) as crew:
        results = crew.results(2)

        def pause():
            with crew.paused():
                paused.set()

        reader = threading.Thread(target=lambda: list(results), daemon=True)
        reader.start()
        wait_for(lambda: crew._busy == 2)
        pauser = threading.Thread(target=pause, daemon=True)
        pauser.start()
        assert not paused.wait(0.05)
        release.set()
        assert paused.wait(PATIENCE)
        reader.join(PATIENCE)
        pauser.join(PATIENCE)


def test_an_error_inside_of_a_pause_lets_the_threads_go_on():
    jobs = Jobs(2)
    with Crew(jobs.functions) as crew:
        results = crew.results(20)
        next(results)
        with suppress(OSError), crew.paused():
            raise OSError("the disk is full")
        assert in_time(lambda: len(list(results))) == 19


@pytest.mark.parametrize("count", [1, 2])
def test_a_pause_is_nothing_before_the_start_and_after_the_end(count):
    crew = Crew(Jobs(count).functions)
    with crew.paused():
        pass
    with crew:
        assert len(list(crew.results(3))) == 3
        with crew.paused():
            pass
    with crew.paused():
        pass


@pytest.mark.parametrize("read", [0, 1, 5])
def test_leaving_early_ends_the_threads_after_their_turns(read):
    jobs = Jobs(3)

    def run():
        with Crew(jobs.functions) as crew:
            return len(list(itertools.islice(crew.results(10**6), read)))

    assert in_time(run) == read
    assert not any(jobs.inside)
    after = list(jobs.turns)
    time.sleep(0.02)
    assert jobs.turns == after


@pytest.mark.parametrize("where", ["outside", "inside of a pause", "waiting for a pause"])
def test_leaving_by_an_error_ends_the_threads(where, monkeypatch):
    jobs = Jobs(3)

    def run():
        with suppress(KeyboardInterrupt), Crew(jobs.functions) as crew:
            next(crew.results(10**6))
            if where == "waiting for a pause":
                interrupt_waiting(crew, monkeypatch)
            if where != "outside":
                with crew.paused():
                    raise KeyboardInterrupt
            raise KeyboardInterrupt
        return True

    assert in_time(run)
    assert not any(thread and thread.is_alive() for thread in jobs.threads)


def interrupt_waiting(crew, monkeypatch):
    """From now on this thread's waiting for the others ends as by a second Ctrl-C."""
    me, wait = threading.current_thread(), crew._change.wait_for

    def wait_for(condition):
        if threading.current_thread() is me:
            raise KeyboardInterrupt
        return wait(condition)

    monkeypatch.setattr(crew._change, "wait_for", wait_for)


class Part:
    """Remembers one thing."""

    def __init__(self, value):
        self.value, self.merged = value, []

    def state(self):
        return {"value": self.value}

    def restore(self, state):
        self.value = state["value"]

    def merge_statistics(self, comm):
        self.merged.append(comm)


def test_parts_are_saved_and_restored_as_one(tmp_path):
    assert Together([Part(3), Part(5)]).state() == {"0": {"value": 3}, "1": {"value": 5}}
    many = [Part(number) for number in range(12)]
    save_tree(tmp_path / "tree", Together(many).state())
    parts = [Part(None) for _ in range(12)]
    Together(parts).restore(load_tree(tmp_path / "tree"))
    assert [part.value for part in parts] == list(range(12))


@pytest.mark.parametrize(("count", "expected"), [(1, [3]), (2, [3, 5]), (4, [3, 5, "own 2", "own 3"])])
def test_more_or_fewer_parts_than_were_saved(count, expected):
    parts = [Part(f"own {number}") for number in range(count)]
    Together(parts).restore(Together([Part(3), Part(5)]).state())
    assert [part.value for part in parts] == expected


def test_statistics_of_all_parts_are_merged():
    parts, comm = [Part(0), Part(1)], object()
    Together(parts).merge_statistics(comm)
    assert [part.merged for part in parts] == [[comm], [comm]]


def test_what_one_part_saved_alone_is_the_first_parts():
    parts = [Part(1), Part(2)]
    Together(parts).restore(Part(9).state())
    assert [part.value for part in parts] == [9, 2]


def test_nobody_runs_ahead_of_a_slow_reader():
    done = []
    with Crew([lambda: done.append(0), lambda: done.append(1)]) as crew:
        results = crew.results(1000)
        next(results)
        time.sleep(0.2)
        # One was read, two wait to be read, and two may have been under way.
        assert len(done) <= 5
        assert len(list(results)) == 999
    assert len(done) == 1000
