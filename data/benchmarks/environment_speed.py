"""Steps a second of each worker: `python data/benchmarks/environment_speed.py [ENV ...]` prints a table for each.

Random actions, monitors included, without normalization. All workers of one row take turns, in ROUNDS rounds of SECONDS
each; a number is the median. Nothing else should run meanwhile.
"""

import functools
import statistics
import sys
import time

import gymnasium
import numpy as np

from tfbaselines.envs.make import make_vec_env
from tfbaselines.parallel.mpi import own_cores

ENVIRONMENTS = ("HalfCheetah-v5", "Hopper-v5", "Ant-v5")
COUNTS = (1, 4, 16, 64)
WORKERS = ("native", "envpool", "dummy", "subproc", "shmem")
ASYNC = "AsyncVectorEnv"
# MuJoCo's steps of the native environments without observations, rewards and ends: no worker can be faster.
PHYSICS = "physics alone"
# 'subproc' with a process for each core.
GROUPED = "subproc, in_series"
COLUMNS = (PHYSICS, *WORKERS, GROUPED, ASYNC)
SECONDS, ROUNDS = 1.5, 3


def make(env_id, worker, count):
    if worker == ASYNC:
        return gymnasium.make_vec(env_id, num_envs=count, vectorization_mode="async")
    if worker == GROUPED:
        series = max(1, count // own_cores())
        return make_vec_env(env_id, "mujoco", count, seed=0, worker="subproc", in_series=series)
    return make_vec_env(env_id, "mujoco", count, seed=0, worker="native" if worker == PHYSICS else worker)


def step_physics(env, actions):
    env.step_async(actions)
    env._threads.run(env._simulate, env._awake)


def steps_per_second(worker, env, actions, count):
    """Step for SECONDS, and return the steps of all environments in one second."""
    step = functools.partial(step_physics, env) if worker == PHYSICS else env.step
    if worker == PHYSICS:
        env.reset()
    steps, start = 0, time.perf_counter()
    while time.perf_counter() - start < SECONDS:
        for action in actions:
            step(action)
        steps += len(actions) * count
    return steps / (time.perf_counter() - start)


def row(env_id, count):
    """Return the median speed of each worker with `count` environments."""
    envs = {worker: make(env_id, worker, count) for worker in COLUMNS}
    space = envs["native"].action_space
    rng = np.random.default_rng(0)
    actions = rng.uniform(space.low, space.high, (50, count, *space.shape)).astype(np.float32)
    speeds = {worker: [] for worker in envs}
    for env in envs.values():
        env.reset()
    for _ in range(ROUNDS):
        for worker, env in envs.items():
            speeds[worker].append(steps_per_second(worker, env, actions, count))
    for env in envs.values():
        env.close()
    return {worker: statistics.median(found) for worker, found in speeds.items()}


if __name__ == "__main__":
    for name in sys.argv[1:] or ENVIRONMENTS:
        print(f"\n| {name} | {' | '.join(COLUMNS)} | native / dummy |")
        print(f"|{'---|' * (len(COLUMNS) + 2)}")
        for number in COUNTS:
            found = row(name, number)
            cells = [f"{speed:,.0f}" for speed in found.values()]
            print(f"| {number} | {' | '.join(cells)} | {found['native'] / found['dummy']:.2f} |", flush=True)
