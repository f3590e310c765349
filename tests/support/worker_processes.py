"""What tests of workers look at: their processes."""

import time

import numpy as np

from tfbaselines.envs.vec import SubprocVecEnv

# ShmemVecEnv is the same by another name.
KINDS = [SubprocVecEnv]


def unmade():
    raise OSError("no licence")


def step(env):
    return env.step(np.zeros(env.num_envs, np.int64))


def process_numbers(env):
    return [process.pid for process in env._workers._processes]


def running(number):
    """Whether a process is there and not only waiting for its parent to ask how it ended."""
    try:
        with open(f"/proc/{number}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def all_gone(numbers, seconds=8.0):
    """Whether no process is left within some seconds."""
    until = time.monotonic() + seconds
    while any(map(running, numbers)) and time.monotonic() < until:
        time.sleep(0.02)
    return not any(map(running, numbers))
