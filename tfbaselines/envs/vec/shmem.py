"""Environments in processes of their own, observations through shared memory."""

import ctypes
import multiprocessing
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Dict, Tuple

from tfbaselines.envs.vec.observations import Observations, named_parts_of
from tfbaselines.envs.vec.subproc import SubprocVecEnv
from tfbaselines.envs.vec.worker import Workers


class ShmemVecEnv(SubprocVecEnv):
    """As SubprocVecEnv, for large observations: they are written once, where the parent reads them.

    Args:
        env_fns: functions that make the environments.
        spaces: (observation_space, action_space); None makes one environment here to ask it.
        context: how processes are started.
        in_series: environments in each process.
        step_timeout: see SubprocVecEnv.
        restart_workers: see SubprocVecEnv.
    """

    def _start(
        self, env_fns: Sequence[Callable], spaces: Any, context: str, in_series: int, care: dict[str, Any]
    ) -> Workers:
        if spaces is None:
            env: gymnasium.Env = env_fns[0]()
            spaces = env.observation_space, env.action_space
            env.close()
        space = spaces[0]
        if isinstance(space, Dict | Tuple):
            # As workers show it.
            space = named_parts_of(space)
        spawner = multiprocessing.get_context(context)
        memory: list[Any] = []

        def allocate(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
            dtype = np.dtype(dtype)
            memory.append((spawner.RawArray(ctypes.c_byte, int(np.prod(shape)) * dtype.itemsize), dtype, shape))
            return _view(*memory[-1])

        self._buffer = Observations(len(env_fns), space, allocate)
        self._memory = memory
        return Workers(
            env_fns,
            context,
            in_series,
            shared=[(memory, space, first) for first in range(0, len(env_fns), in_series)],
            **care,
        )

    def _deliver(self, observations: Sequence[Any]) -> None:
        """Only None came through the pipe: the workers have written into the buffer."""


def _view(raw: Any, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    return np.frombuffer(raw, dtype).reshape(shape)


class SharedDelivery:
    """A worker's side: writes observations into the parent's buffer.

    Args:
        memory: (raw array, dtype, shape) of each of the buffer's arrays.
        space: of one observation.
        first: number of the worker's first environment.
    """

    def __init__(self, memory: list[Any], space: gymnasium.Space, first: int) -> None:
        views = iter([_view(*part) for part in memory])
        self._buffer = Observations(memory[0][2][0], space, lambda *_: next(views))
        self._first = first

    def __call__(self, i: int, obs: Any) -> None:
        """Write environment i's (of this worker's) observation."""
        self._buffer.put(self._first + i, obs)
