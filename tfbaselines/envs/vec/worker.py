"""What the environments in processes of their own share: the worker's loop, starting, talking and ending."""

import contextlib
import multiprocessing
import os
import signal
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any

import gymnasium
import numpy as np

from tfbaselines.envs.vec.base import CloudpickleWrapper
from tfbaselines.envs.vec.stepping import limited, picture, random_state, restore_random_state, step_same
from tfbaselines.errors import WorkerError
from tfbaselines.parallel import mpi

# How a worker hands on an observation: given the environment's number within the worker's share and the observation.
Deliver = Callable[[int, Any], Any]

SECONDS_TO_END = 5.0


def serve(pipe: Connection, parents_end: Connection, makers: CloudpickleWrapper, shared: tuple | None) -> None:
    """Run a worker's environments until the pipe closes, which it also does when the parent is killed.

    Args:
        pipe: carries (command, data) in, (True, answer) or (False, error's text) out.
        parents_end: of the pipe; a forked worker has a copy, which would keep the pipe open.
        makers: functions that make the worker's environments.
        shared: arguments of SharedDelivery, which hands on observations; None sends them through the pipe.
    """
    # Ctrl-C reaches the whole group of processes; the parent decides when the workers end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parents_end.close()
    envs: list[gymnasium.Env] = []
    try:
        envs.extend(make() for make in makers.x)
        hand_on = _delivery(shared)
        pipe.send((True, (envs[0].observation_space, envs[0].action_space)))
        while True:
            command, data = pipe.recv()
            if command == "close":
                break
            pipe.send((True, _obey(command, data, envs, hand_on)))
    except Exception as error:
        # Nobody listens when the error is that the parent is gone.
        _send_quietly(pipe, (False, f"{type(error).__name__}: {error}"))
    finally:
        for env in envs:
            env.close()
        pipe.close()


def _delivery(shared: tuple | None) -> Deliver:
    if shared is None:
        return lambda _, obs: obs
    from tfbaselines.envs.vec.shmem import SharedDelivery

    return SharedDelivery(*shared)


def _obey(command: str, data: Any, envs: list[gymnasium.Env], hand_on: Deliver) -> Any:
    if command == "step":
        results = []
        for i, (env, action) in enumerate(zip(envs, data, strict=True)):
            obs, reward, done, info = step_same(env, action)
            results.append((hand_on(i, obs), float(reward), done, info))
        return results
    if command == "reset":
        begun = [env.reset() for env in envs]
        return [(hand_on(i, obs), info) for i, (obs, info) in enumerate(begun)]
    if command == "limit":
        envs[:] = [limited(env, steps) for env, steps in zip(envs, data, strict=True)]
        return None
    if command == "render":
        return [picture(env) for env in envs]
    if command == "state":
        return [random_state(env) for env in envs]
    if command == "restore":
        for env, state in zip(envs, data, strict=False):
            restore_random_state(env, state)
        return None
    raise ValueError(f"unknown command {command!r}")


def _send_quietly(pipe: Connection, message: Any) -> None:
    with contextlib.suppress(BrokenPipeError, OSError):
        pipe.send(message)


class Workers:
    """The processes of a vector environment, each with a share of its environments.

    Args:
        env_fns: functions that make the environments.
        context: 'spawn', 'fork' or 'forkserver'.
        in_series: environments in each process; must divide their number.
        shared: for each process the arguments of its SharedDelivery, or None.
    """

    def __init__(
        self,
        env_fns: Sequence[Callable[[], gymnasium.Env]],
        context: str,
        in_series: int = 1,
        shared: Sequence[tuple] | None = None,
    ) -> None:
        if in_series < 1 or len(env_fns) % in_series:
            raise ValueError(f"in_series={in_series!r} is not valid: a divisor of the {len(env_fns)} environments")
        self._in_series = in_series
        shares = [env_fns[i : i + in_series] for i in range(0, len(env_fns), in_series)]
        spawner = multiprocessing.get_context(context)
        self._pipes, self._processes = [], []
        environment = dict(os.environ)
        try:
            # A worker must not take itself for a rank of the job that its parent belongs to.
            os.environ.clear()
            os.environ.update(mpi.without_launcher(environment))
            for number, share in enumerate(shares):
                self._start(spawner, share, shared[number] if shared else None)
        finally:
            os.environ.update(environment)
        told = [self.receive(number) for number in range(len(shares))]
        self.spaces = told[0]

    def _start(self, spawner: Any, share: Sequence[Callable], shared: tuple | None) -> None:
        ours, theirs = spawner.Pipe()
        arguments = (theirs, ours, CloudpickleWrapper(list(share)), shared)
        process = spawner.Process(target=serve, args=arguments, daemon=True)
        process.start()
        theirs.close()
        self._pipes.append(ours)
        self._processes.append(process)

    def __len__(self) -> int:
        return len(self._pipes)

    def shares(self, values: Any) -> list[Any]:
        """One value per environment, cut into one list per process."""
        return [values[i : i + self._in_series] for i in range(0, len(values), self._in_series)]

    def send(self, number: int, command: str, data: Any = None) -> None:
        """Tell a worker something."""
        pipe = self._pipe(number)
        try:
            pipe.send((command, data))
        except (BrokenPipeError, OSError):
            self.receive(number)

    def receive(self, number: int) -> Any:
        """A worker's answer; when it failed, every worker is ended and a WorkerError says which and why."""
        pipe = self._pipe(number)
        try:
            fine, answer = pipe.recv()
        except (EOFError, ConnectionResetError, OSError):
            self._processes[number].join(SECONDS_TO_END)
            fine, answer = False, f"its process ended without a word (exit code {self._processes[number].exitcode})"
        if not fine:
            self.end()
            raise WorkerError(f"environment worker {number} failed: {answer}")
        return answer

    def _pipe(self, number: int) -> Connection:
        if self._pipes[number].closed:
            raise WorkerError("the environment workers have ended, by close() or after an error")
        return self._pipes[number]

    def ask_all(self, command: str, data: list[Any] | None = None) -> list[Any]:
        """Tell every worker, then collect one answer per environment."""
        for number in range(len(self)):
            self.send(number, command, data[number] if data else None)
        answers = [self.receive(number) for number in range(len(self))]
        return [answer for share in answers for answer in (share or [])]

    def end(self) -> None:
        """End every process, by force when it does not listen."""
        for pipe in self._pipes:
            _send_quietly(pipe, ("close", None))
            # A worker whose answer nobody will read does not wait for a reader any longer.
            pipe.close()
        for process in self._processes:
            process.join(SECONDS_TO_END)
            if process.is_alive():
                process.kill()
                process.join()


def stack_infos(results: list[tuple]) -> tuple[list[Any], np.ndarray, np.ndarray, list[dict[str, Any]]]:
    """Observations, rewards [N], dones [N] and infos from one (obs, reward, done, info) per environment."""
    obs, rewards, dones, infos = zip(*results, strict=True)
    return list(obs), np.array(rewards, np.float32), np.array(dones, bool), list(infos)
