"""Gymnasium's MuJoCo tasks, with the physics in threads and everything else computed for all environments at once.

Gymnasium's environments are made as for DummyVecEnv: they begin the episodes, and hold the simulations, the random
generators, the time limits and the monitors. A step goes past them. MuJoCo steps the simulations in a few threads
without Python's lock, and envs/mujoco has the tasks' formulas. The numbers are the same as DummyVecEnv's, bit for bit,
with any number of threads.
"""

import functools
import itertools
import math
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import gymnasium
import mujoco
import numpy as np
from gymnasium.wrappers import TimeLimit

from tfbaselines.envs import layers_of
from tfbaselines.envs.episode_limits import ReturnLimit
from tfbaselines.envs.monitor import Monitor
from tfbaselines.envs.mujoco import task_of
from tfbaselines.envs.vec.base import LAST, StepResult
from tfbaselines.envs.vec.vec_envs import DummyVecEnv
from tfbaselines.envs.vec.worker import failure
from tfbaselines.envs.wrappers import RewardScaler

# Waking a thread, waiting for it and taking turns with Python's lock pay for calls that take longer than this alone.
# The first calls are made alone and timed.
SECONDS_ALONE, CALLS_ALONE = 150e-6, 5


class NativeMujocoVecEnv(DummyVecEnv):
    """Steps MuJoCo tasks of `envs.mujoco.TASKS`; `envs.mujoco.obstacle` explains which arguments they may have.

    Args:
        env_fns: functions that make the environments with a Monitor and ClipActions, as make_env does.
        threads: number of threads that step simulations, this one included.
    """

    def __init__(self, env_fns: Sequence[Callable[[], gymnasium.Env]], threads: int = 1) -> None:
        super().__init__(env_fns)
        inner = [env.unwrapped for env in self.envs]
        self._task = task_of(inner)
        self._model = inner[0].model
        self._frames = inner[0].frame_skip
        self._datas = [env.data for env in inner]
        self._controls = [data.ctrl for data in self._datas]
        self._scales = [layer.scale for layer in layers_of(self.envs[0]) if isinstance(layer, RewardScaler)]
        self._low, self._high = self.action_space.low, self.action_space.high
        self._counts = Counts(self.envs)
        self._threads = Threads(min(threads, self.num_envs))

    def reset(self) -> np.ndarray:
        self._counts.give()
        obs = super().reset()
        self._counts.take(self.envs)
        return obs

    def limit_episodes(self, steps: int | None = None, reward: float | None = None) -> None:
        self._counts.give()
        super().limit_episodes(steps, reward)
        self._counts.take(self.envs)

    def step_async(self, actions: np.ndarray) -> None:
        self.check_actions(actions)
        self._actions = self._clipped(np.asarray(actions).reshape(self.num_envs, -1))

    def step_wait(self) -> StepResult:
        obs, rewards, terminated, infos = self._step()
        truncated = self._counts.count(rewards, self._awake)
        for scale in self._scales:
            rewards = rewards * scale
        self._rewards[:] = rewards
        np.logical_or(terminated, truncated, out=self._dones)
        self._buffer.put(slice(None), obs)
        for i in np.flatnonzero(self._dones):
            timed_out = bool(truncated[i] and not terminated[i])
            infos[i] = self._next_episode(i, infos[i], {LAST: obs[i].copy(), "TimeLimit.truncated": timed_out})
        self._checks.stepped(self._rewards, self._dones)
        return self._buffer.copy(), self._rewards.astype(np.float32), self._dones.copy(), infos

    def _step(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        """Step the environments that are not at rest; return observations, rewards, terminations and infos of all."""
        awake, actions = self._awake, self._actions
        before = self._task.before()
        self._threads.run(self._simulate, awake)
        try:
            obs, rewards, terminated, columns = self._task.after(before, actions)
        except Exception as error:
            raise failure(self._names[0], error) from error
        # Lists are read faster than arrays, and maps make dictionaries faster than a comprehension.
        rows = zip(*map(list, columns.values()), strict=False)
        infos = list(map(dict, map(zip, itertools.repeat(columns), rows))) or [{} for _ in range(self.num_envs)]
        if len(awake) < self.num_envs:
            resting = np.setdiff1d(np.arange(self.num_envs), awake)
            rewards[resting], terminated[resting] = 0, False
            for i in resting:
                infos[i] = {}
        return obs, rewards, terminated, infos

    def _simulate(self, numbers: Iterable[int]) -> None:
        step, model, datas, frames = mujoco.mj_step, self._model, self._datas, self._frames
        controls, actions, contacts = self._controls, self._actions, self._task.contacts
        for i in numbers:
            controls[i][:] = actions[i]
            try:
                step(model, datas[i], frames)
                if contacts:
                    mujoco.mj_rnePostConstraint(model, datas[i])
            except Exception as error:
                raise failure(self._names[i], error) from error

    def _next_episode(self, i: int, info: dict[str, Any], end: dict[str, Any]) -> dict[str, Any]:
        """Record the end of environment i's episode and begin the next one; return the info of the last step."""
        self._counts.give(i)
        info = self._counts.monitors[i].end_episode(info) | end
        self._checks.final(i, info)
        try:
            obs, info["reset_info"] = self.envs[i].reset()
        except Exception as error:
            raise failure(self._names[i], error) from error
        self._buffer.put(i, obs)
        self._counts.begin(i)
        return info

    def _clipped(self, actions: np.ndarray) -> np.ndarray:
        """Clip all actions as ClipActions clips one."""
        try:
            clipped = np.minimum(np.maximum(actions, self._low), self._high)
        except ValueError as error:
            raise failure(self._names[0], error) from error
        flat = clipped.reshape(-1)
        if not math.isfinite(flat.dot(flat)):
            clipped = np.clip(np.nan_to_num(actions), self._low, self._high)
        return clipped

    def close_extras(self) -> None:
        self._threads.end()
        super().close_extras()

    def state(self) -> dict[str, Any]:
        self._counts.give()
        return super().state()

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self._counts.take(self.envs)


class Counts:
    """Counts rewards and steps of all episodes in one place, and keeps the environments' monitors and time limits true.

    Attributes:
        monitors: the environments' monitors.
    """

    def __init__(self, envs: Sequence[gymnasium.Env]) -> None:
        self.take(envs)

    def take(self, envs: Sequence[gymnasium.Env]) -> None:
        """Continue from the counts of environments."""
        self.monitors = [next(one for one in layers_of(env) if isinstance(one, Monitor)) for env in envs]
        self._limits = [[one for one in layers_of(env) if isinstance(one, TimeLimit)] for env in envs]
        returns = [[one for one in layers_of(env) if isinstance(one, ReturnLimit)] for env in envs]
        self._return_limits = returns if any(returns) else None
        self._returns = [monitor.progress()[0] for monitor in self.monitors]
        self._lengths = np.array([monitor.progress()[1] for monitor in self.monitors])
        # Steps that the monitors and limits have counted, and those until the next truncation.
        self._known = self._lengths.copy()
        self._ends = np.array([self._end(i) for i in range(len(envs))])

    def _end(self, i: int) -> float:
        """Return the length at which a time limit ends environment i's episode."""
        left = [limit._max_episode_steps - (limit._elapsed_steps or 0) for limit in self._limits[i]]
        return self._lengths[i] + min(left, default=np.inf)

    def count(self, rewards: np.ndarray, awake: list[int]) -> np.ndarray:
        """Count a step; return which episodes reach a limit."""
        # Python's numbers: a monitor writes whole returns of whole rewards.
        numbers = rewards.tolist()
        self._returns = [total + reward for total, reward in zip(self._returns, numbers, strict=True)]
        if len(awake) == len(numbers):
            self._lengths += 1
            ended = self._lengths >= self._ends
        else:
            self._lengths[awake] += 1
            ended = np.zeros(len(numbers), bool)
            ended[awake] = self._lengths[awake] >= self._ends[awake]
        if self._return_limits is not None:
            for i in awake:
                for limit in self._return_limits[i]:
                    ended[i] |= limit.count(numbers[i])
        return ended

    def give(self, *numbers: int) -> None:
        """Give the counts to the monitors and time limits of some environments, by default of all."""
        for i in numbers or range(len(self.monitors)):
            self.monitors[i].set_progress(self._returns[i], int(self._lengths[i]))
            for limit in self._limits[i]:
                if limit._elapsed_steps is not None:
                    limit._elapsed_steps += int(self._lengths[i] - self._known[i])
            self._known[i] = self._lengths[i]

    def begin(self, i: int) -> None:
        """Count from the start of environment i's new episode."""
        self._returns[i], self._lengths[i] = self.monitors[i].progress()
        self._known[i] = self._lengths[i]
        self._ends[i] = self._end(i)


class Threads:
    """A few threads that share out work on numbers; the caller does light work alone."""

    def __init__(self, count: int) -> None:
        self._helpers = [_Helper() for _ in range(count - 1)]
        self._times: list[float] = []
        # Runs at the latest when nobody holds this object any more.
        self.end = weakref.finalize(self, _dismiss, self._helpers)

    def run(self, work: Callable[[Iterable[int]], None], numbers: Sequence[int]) -> None:
        """Call `work` in every thread with an iterator over numbers, of which each thread takes the next one."""
        if len(self._times) < CALLS_ALONE:
            start = time.perf_counter()
            work(numbers)
            self._times.append(time.perf_counter() - start)
            return
        helpers = self._helpers[: len(numbers) - 1]
        if not helpers or self._light:
            work(numbers)
            return
        shared = iter(numbers)
        for helper in helpers:
            helper.begin(work, shared)
        try:
            work(shared)
        finally:
            failures = [helper.wait() for helper in helpers]
        for error in filter(None, failures):
            raise error

    @functools.cached_property
    def _light(self) -> bool:
        return sorted(self._times)[CALLS_ALONE // 2] < SECONDS_ALONE


class _Helper:
    """A thread that works for another one. Two locks wake the threads sooner than a queue does."""

    def __init__(self) -> None:
        self._job: tuple[Callable[[Iterable[int]], None], Iterable[int]] | None = None
        self._error: Exception | None = None
        self._begun, self._done = threading.Lock(), threading.Lock()
        self._begun.acquire()
        self._done.acquire()
        threading.Thread(target=self._serve, daemon=True).start()

    def begin(self, work: Callable[[Iterable[int]], None], numbers: Iterable[int]) -> None:
        self._job = work, numbers
        self._begun.release()

    def wait(self) -> Exception | None:
        """Wait until the work is done; return its error."""
        # On a busy machine the thread may not have begun: there is nothing left for it to do.
        if not self._begun.acquire(blocking=False):
            self._done.acquire()
        # The work belongs to an object that may go while the thread waits.
        self._job = None
        error, self._error = self._error, None
        return error

    def dismiss(self) -> None:
        self._begun.release()

    def _serve(self) -> None:
        while True:
            self._begun.acquire()
            if self._job is None:
                return
            try:
                self._job[0](self._job[1])
            except Exception as error:
                self._error = error
            self._done.release()


def _dismiss(helpers: list[_Helper]) -> None:
    for helper in helpers:
        helper.dismiss()
