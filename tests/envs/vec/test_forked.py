"""Workers that are forked from one server: what they share, and what they must not share."""

import os
import signal
import sys
from multiprocessing import forkserver

import numpy as np
import pytest
from worker_processes import all_gone, process_numbers, running, step

from tfbaselines.envs.tiny import ConstantRewardEnv
from tfbaselines.envs.vec import SubprocVecEnv
from tfbaselines.envs.vec.starting import START_METHOD

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="workers are forked from a server on Linux alone")


def rewarding(reward):
    """A function that makes environments with the reward that a function returns."""

    def make():
        env = ConstantRewardEnv()
        env.step = lambda _: (np.zeros(1, np.float32), float(reward()), False, False, {})
        return env

    return make


def rewards_of(reward, count=2, **kwargs):
    env = SubprocVecEnv([rewarding(reward)] * count, **kwargs)
    env.reset()
    rewards = step(env)[1].tolist()
    env.close()
    return rewards


def server_number():
    return forkserver._forkserver._forkserver_pid


def test_the_server_is_the_default_and_holds_no_library_that_starts_threads():
    assert START_METHOD == "forkserver"
    assert set(rewards_of(os.getppid)) == {server_number()}
    assert rewards_of(lambda: "tfbaselines.envs.vec.forked" in sys.modules) == [1, 1]
    assert rewards_of(lambda: {"tensorflow", "mpi4py", "mujoco"} & set(sys.modules) != set()) == [0, 0]


def test_workers_have_the_variables_of_their_parent_at_their_start(monkeypatch):
    def number():
        return os.environ.get("OF_THE_PARENT", -1)

    assert rewards_of(number) == [-1, -1]
    monkeypatch.setenv("OF_THE_PARENT", "7")
    assert rewards_of(number) == [7, 7]
    monkeypatch.delenv("OF_THE_PARENT")
    assert rewards_of(number) == [-1, -1]


def test_variables_are_set_before_the_environment_is_unpickled(monkeypatch):
    class Reading:
        def __reduce__(self):
            return eval, ("float(__import__('os').environ['AT_UNPICKLING'])",)

    found = Reading()
    monkeypatch.setenv("AT_UNPICKLING", "5")
    assert rewards_of(lambda: found) == [5, 5]


@pytest.mark.parametrize("context", ["forkserver", "fork"])
def test_no_two_workers_draw_the_same_numbers_of_numpys_global_generator(context):
    drawn = [reward for _ in range(2) for reward in rewards_of(lambda: np.random.random(), 3, context=context)]
    assert len(set(drawn)) == 6


def test_output_goes_where_the_parents_goes_at_the_start(capfd):
    def written():
        return os.write(1, b"out") + os.write(2, b"err")

    for _ in range(2):
        assert rewards_of(written, 1) == [6]
        assert capfd.readouterr() == ("out", "err")


def test_signals_to_the_process_group_do_not_end_the_server():
    rewards_of(lambda: 1)
    server = server_number()
    for sent in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        os.kill(server, sent)
    assert set(rewards_of(os.getppid)) == {server} and running(server)


def test_workers_outlive_a_server_that_is_killed_and_others_get_a_new_one():
    env = SubprocVecEnv([ConstantRewardEnv] * 2, restart_workers=1)
    env.reset()
    numbers, server = process_numbers(env), server_number()
    os.kill(server, signal.SIGKILL)
    assert step(env)[1].tolist() == [1, 1]
    os.kill(numbers[0], signal.SIGKILL)
    assert step(env)[2].tolist() == [True, False]
    assert step(env)[1].tolist() == [1, 1] and server_number() != server
    env.close()
    assert all_gone([*numbers, *process_numbers(env)])


def test_workers_start_while_their_server_is_ending(monkeypatch):
    """A killed server refuses connections some time before its parent can tell that it has ended."""
    server, wait = server_number(), os.waitpid
    not_yet = [(0, 0)] * 3

    def waitpid(number, options):
        return not_yet.pop() if number == server and not_yet else wait(number, options)

    os.kill(server, signal.SIGKILL)
    os.waitid(os.P_PID, server, os.WEXITED | os.WNOWAIT)
    monkeypatch.setattr(os, "waitpid", waitpid)
    assert set(rewards_of(os.getppid)) == {server_number()} and not not_yet and server_number() != server
