"""A worker's side of environments in processes of their own: obeys commands until its parent closes the pipe."""

import contextlib
import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import gymnasium

from tfbaselines.envs.vec.base import CloudpickleWrapper
from tfbaselines.envs.vec.checks import AFTER_RESET, Fit, Misfit, environment_name, id_of
from tfbaselines.envs.vec.dummy import full_state, limited, picture, restore_full_state, step_same
from tfbaselines.envs.vec.failures import begin, why
from tfbaselines.envs.vec.observations import with_named_parts

# How a worker hands on an observation: given the environment's number within the worker's share and the observation.
Deliver = Callable[[int, Any], Any]

SECONDS_TO_END = 5.0

# Signals that reach the whole group of processes: the parent decides when the workers end.
LEFT_TO_PARENT = ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2")


def serve(
    pipe: Connection, parents_end: Connection, makers: CloudpickleWrapper, first: int, shared: tuple | None
) -> None:
    """Run a worker's environments until the pipe closes, which it also does when the parent is killed.

    Args:
        pipe: carries (command, data) in, (None, answer) or (kind of error, its text) out.
        parents_end: of the pipe; a forked worker has a copy, which would keep the pipe open.
        makers: functions that make the worker's environments.
        first: number of the worker's first environment.
        shared: arguments of SharedDelivery, which hands on observations; None sends them through the pipe.
    """
    _leave_signals_to_parent()
    _end_with_parent()
    # An environment that touches the logger begins no log of this process's own.
    os.environ |= dict.fromkeys(("OPENAI_LOG_FORMAT", "OPENAI_LOG_FORMAT_MPI"), "")
    parents_end.close()
    share = _Share(first)
    try:
        share.make(makers.x)
        share.deliver = _delivery(shared)
        pipe.send((None, share.describe()))
        while True:
            command, data = pipe.recv()
            if command == "close":
                break
            pipe.send((None, getattr(share, command)(data)))
    except Exception as error:
        # Nobody listens when the error is that the parent is gone.
        send_quietly(pipe, share.describe_error(error))
    finally:
        for env in share.envs:
            env.close()
        pipe.close()


def send_quietly(pipe: Connection, message: Any) -> None:
    """Send, unless nobody reads."""
    with contextlib.suppress(BrokenPipeError, OSError):
        pipe.send(message)


def _leave_signals_to_parent() -> None:
    for name in LEFT_TO_PARENT:
        if hasattr(signal, name):
            # Not SIG_IGN, which programs that an environment starts would inherit.
            signal.signal(getattr(signal, name), lambda *_: None)


def _end_with_parent() -> None:
    """End this process some seconds after its parent, even in the middle of a step that never ends."""
    parent = multiprocessing.parent_process()

    def watch() -> None:
        multiprocessing.connection.wait([parent.sentinel])
        time.sleep(SECONDS_TO_END)
        os._exit(1)

    if parent is not None:
        threading.Thread(target=watch, daemon=True).start()


def _delivery(shared: tuple | None) -> Deliver:
    if shared is None:
        return lambda _, obs: obs
    from tfbaselines.envs.vec.shmem import SharedDelivery

    return SharedDelivery(*shared)


class _Share:
    """A worker's environments. Public methods but for `make`, `describe` and `describe_error` are commands."""

    def __init__(self, first: int) -> None:
        self._first, self._present = first, 0
        self.envs: list[gymnasium.Env] = []
        self._fits: list[Fit] = []
        self.deliver: Deliver = lambda _, obs: obs

    def make(self, makers: list[Callable[[], gymnasium.Env]]) -> None:
        for i, make in enumerate(makers):
            self._present = i
            self.envs.append(with_named_parts(make()))
            self._fits.append(Fit(self.envs[-1].observation_space))

    def describe(self) -> tuple[gymnasium.Space, gymnasium.Space, list[str]]:
        """Spaces, and the environments' ids."""
        return self.envs[0].observation_space, self.envs[0].action_space, [id_of(env) for env in self.envs]

    def describe_error(self, error: Exception) -> tuple[str, str]:
        """The error's kind, and its text with the environment at which it happened."""
        if isinstance(error, Misfit):
            return "ObservationError", f"{self._name(self._present)}: {error}"
        return "WorkerError", f"{self._name(self._present)} failed: {why(error)}"

    def step(self, actions: Any) -> list[tuple[Any, float, bool, dict[str, Any]]]:
        results = []
        for i, (env, action) in enumerate(zip(self.envs, actions, strict=True)):
            self._present = i
            obs, reward, done, info = step_same(env, action)
            self._fits[i].step(obs, done, info)
            results.append((self.deliver(i, obs), float(reward), done, info))
        return results

    def reset(self, _: Any) -> list[tuple[Any, dict[str, Any]]]:
        begun = []
        for i, env in enumerate(self.envs):
            self._present = i
            obs, info = begin(env)
            self._fits[i](obs, AFTER_RESET)
            begun.append((self.deliver(i, obs), info))
        return begun

    def limit(self, steps: list[int]) -> None:
        self.envs = [limited(env, most) for env, most in zip(self.envs, steps, strict=True)]

    def render(self, _: Any) -> list[Any]:
        return [picture(env) for env in self.envs]

    def state(self, _: Any) -> list[dict[str, Any]]:
        return [full_state(env) for env in self.envs]

    def restore(self, states: list[dict[str, Any]]) -> list[bool]:
        return [restore_full_state(env, state) for env, state in zip(self.envs, states, strict=True)]

    def _name(self, i: int) -> str:
        return environment_name(self._first + i, id_of(self.envs[i]) if i < len(self.envs) else None)
