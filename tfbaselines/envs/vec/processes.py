"""The processes of a vector environment: start workers, send them commands, replace failed ones and end them.

worker.py has the other side, which runs in these processes.
"""

import contextlib
import mmap
import multiprocessing
import multiprocessing.util
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import reduction
from multiprocessing.connection import Connection
from typing import Any

import gymnasium
from gymnasium import spaces

from tfbaselines.envs.vec.base import CloudpickleWrapper
from tfbaselines.envs.vec.observations import observation_bytes
from tfbaselines.envs.vec.starting import (
    FORKED,
    Surroundings,
    start_process,
    without_a_missing_script,
    workers_environment,
)
from tfbaselines.envs.vec.worker import SECONDS_TO_END, environment_name, send_quietly, serve
from tfbaselines.errors import ObservationError, UsageError, WorkerError, warn
from tfbaselines.files import MIB, require_memory

# The least memory that a worker takes for itself.
WORKER_BYTES = 24 * MIB

# Commands with a time limit, `step_timeout`.
TIMED = ("step", "reset")


class Workers:
    """The processes of a vector environment, each with a share of its environments.

    Args:
        env_fns: functions that make the environments. A method `again(number)` returns a function for the worker that
            replaces this one; a method `example()` makes the environment without files.
        context: 'spawn', 'fork' or 'forkserver'.
        in_series: environments in each process; must divide their number.
        step_timeout: seconds after which a worker without an answer to a step or reset counts as hung; None waits.
        replacements: total number of workers that are replaced if they crash, raise or hang.

    Attributes:
        names: the environments' names in errors.
        spaces: (observation_space, action_space).
        render_fps: frame rate of the first environment's metadata.
        steps: number of the current step, for errors.
    """

    def __init__(
        self,
        env_fns: Sequence[Callable[[], gymnasium.Env]],
        context: str,
        in_series: int = 1,
        step_timeout: float | None = None,
        replacements: int = 0,
    ) -> None:
        if in_series < 1 or len(env_fns) % in_series:
            raise UsageError(f"in_series={in_series!r} is not valid: a divisor of the {len(env_fns)} environments")
        self._in_series = in_series
        self._timeout = step_timeout
        self._replaced = 0
        self._replacements = replacements
        self._makers = self.shares(list(env_fns))
        self._spawner = multiprocessing.get_context(context)
        if context == "forkserver":
            self._spawner.set_forkserver_preload([FORKED])
        count = len(self._makers)
        require_memory(count * WORKER_BYTES, "num_env", f"{count} worker processes")
        self._pipes: list[Any] = [None] * count
        self._processes: list[Any] = [None] * count
        self._memory: list[int] = []
        self._batch: tuple[int, spaces.Space] | None = None
        # Runs at the latest when the program ends. Only a finalizer with a priority precedes multiprocessing's wait for
        # its processes, and these wait for their pipes to close.
        self._ending = multiprocessing.util.Finalize(
            self, _end, (self._pipes, self._processes, self._memory), exitpriority=0
        )
        # The last command to each worker, its data, and the time it was sent.
        self._asked: list[tuple[str, Any, float]] = [("", None, 0.0)] * count
        # Latest data of the commands that a worker's replacement gets too.
        self._standing: dict[str, Any] = {}
        self.steps = 0
        self.names = [environment_name(i, None) for i in range(len(env_fns))]
        if getattr(multiprocessing.current_process(), "_inheriting", False):
            # A worker is running a script that has no guard; the parent reports it.
            sys.exit(1)
        with workers_environment():
            for number, makers in enumerate(self._makers):
                self._start(number, makers)
        described = [self.receive(number) for number in range(count)]
        *self.spaces, self.render_fps, _ = described[0]
        ids = [env_id for *_, share in described for env_id in share]
        self.names = [environment_name(i, env_id) for i, env_id in enumerate(ids)]

    def _start(self, number: int, makers: list[Callable]) -> None:
        ours, theirs = self._spawner.Pipe()
        parents = Surroundings() if self._spawner.get_start_method() == "forkserver" else None
        arguments = (theirs, ours, parents, CloudpickleWrapper(makers), number * self._in_series)
        process = self._spawner.Process(target=serve, args=arguments, daemon=True)
        try:
            with without_a_missing_script():
                start_process(process)
        except (OSError, EOFError) as error:
            self.end()
            reason = f"worker process {number} of {len(self)} does not start ({error})"
            raise UsageError(f"{reason}: lower num_env") from None
        self._pipes[number] = ours
        self._processes[number] = process
        theirs.close()

    def __len__(self) -> int:
        return len(self._makers)

    def example(self) -> gymnasium.Env:
        """Make an environment like the workers' in this process; it writes no files."""
        make = self._makers[0][0]
        return make.example() if hasattr(make, "example") else make()

    def shares(self, values: Any) -> list[Any]:
        """Cut one value per environment into one list per process."""
        return [values[i : i + self._in_series] for i in range(0, len(values), self._in_series)]

    def share_memory(self, space: spaces.Space) -> mmap.mmap | None:
        """Let the workers write observations into memory that this process maps; None where that is not possible."""
        self._batch = len(self.names), space
        descriptor = shared_file(observation_bytes(*self._batch))
        if descriptor is None:
            return None
        self._memory.append(descriptor)
        for number in range(len(self)):
            self._send_memory(number)
        for number in range(len(self)):
            self.receive(number)
        return mmap.mmap(descriptor, 0)

    def _send_memory(self, number: int) -> None:
        self.send(number, "map", self._batch)
        # The answer shows if the worker has ended.
        with contextlib.suppress(OSError, RuntimeError):
            reduction.send_handle(self._pipes[number], self._memory[0], self._processes[number].pid)

    def send(self, number: int, command: str, data: Any = None) -> None:
        """Send a command to a worker; the answer shows if the worker has ended."""
        pipe = self._pipe(number)
        self._asked[number] = command, data, time.monotonic()
        send_quietly(pipe, (command, data))

    def receive(self, number: int) -> Any:
        """Return a worker's answer; if it failed, end every worker and name the environment and the reason."""
        try:
            return self._answer(number)
        except WorkerError:
            self.end()
            raise

    def ask_all(self, command: str, data: list[Any] | None = None) -> list[Any]:
        """Send every worker a command, then collect one answer per environment."""
        for number in range(len(self)):
            self.send(number, command, data[number] if data else None)
        answers = [self.receive(number) for number in range(len(self))]
        return [answer for share in answers for answer in (share or [])]

    def limit(self, steps: int | None, reward: float | None) -> None:
        """Cut episodes after `steps` steps, and at a return."""
        self._tell("limit", [(steps, reward)] * self._in_series)

    def set_parameters(self, values: Mapping[str, Any]) -> None:
        """Give parameters to the environments, from their next resets on."""
        self._tell("set_parameters", dict(values))

    def _tell(self, command: str, data: Any) -> None:
        """Send every worker a command with the same data, and every replacement of a worker later."""
        self._standing[command] = data
        self.ask_all(command, [data] * len(self))

    def reset(self, number: int) -> list[tuple[Any, dict[str, Any]]]:
        """Return the answer to 'reset', of the worker or of its replacement."""
        try:
            return self._answer(number)
        except WorkerError as error:
            return self._replace(number, error)

    def step(self, number: int, last_seen: Callable[[int], Any]) -> list[tuple[Any, float, bool, dict[str, Any]]]:
        """Return a worker's answer to 'step'.

        If it failed and is replaced, its episodes are truncated: `last_seen` returns an environment's last observation.
        """
        try:
            return self._answer(number)
        except WorkerError as error:
            ends = []
            for i, (obs, info) in enumerate(self._replace(number, error), number * self._in_series):
                end = {"final_observation": last_seen(i), "TimeLimit.truncated": True}
                ends.append((obs, 0.0, True, end | {"worker_replaced": str(error), "reset_info": info}))
            return ends

    def _answer(self, number: int) -> Any:
        pipe = self._pipe(number)
        command, _, sent = self._asked[number]
        if self._timeout is not None and command in TIMED and not pipe.poll(sent + self._timeout - time.monotonic()):
            self._processes[number].kill()
            raise WorkerError(f"{self._named(number)} failed: no answer to {self._doing(number)}")
        try:
            kind, answer = pipe.recv()
        except (EOFError, ConnectionResetError, OSError):
            self._processes[number].join(SECONDS_TO_END)
            code = self._processes[number].exitcode
            reason = f"its process ended with exit code {code}"
            if not command and code == 1:
                reason += '; a script that starts workers needs if __name__ == "__main__": before what it runs'
            raise WorkerError(f"{self._named(number)} failed: {reason}") from None
        if kind == ObservationError.__name__:
            self.end()
            raise ObservationError(answer)
        if kind is not None:
            raise WorkerError(answer)
        return answer

    def _named(self, number: int) -> str:
        first = number * self._in_series
        last = first + self._in_series - 1
        return self.names[first] if first == last else f"one of environments {first} to {last}"

    def _doing(self, number: int) -> str:
        command, data, _ = self._asked[number]
        if command == "step":
            action = " ".join(str(data[0] if len(data) == 1 else data).split())
            command = f"step {self.steps} with action {action}"
        return f"{command} in {self._timeout:g} seconds"

    def _replace(self, number: int, error: WorkerError) -> list[tuple[Any, dict[str, Any]]]:
        """Start and reset another process for a failed worker's environments; raise the error if none is left."""
        while self._replaced < self._replacements:
            self._replaced += 1
            left = self._replacements - self._replaced
            warn(f"{error}; a new process replaces it, its episode is truncated (replacements left: {left})")
            self._pipes[number].close()
            self._processes[number].kill()
            self._processes[number].join()
            try:
                return self._started_again(number)
            except WorkerError as again:
                error = again
        self.end()
        raise error

    def _started_again(self, number: int) -> list[tuple[Any, dict[str, Any]]]:
        makers = [make.again(self._replaced) if hasattr(make, "again") else make for make in self._makers[number]]
        with workers_environment():
            self._start(number, makers)
        self._asked[number] = "", None, 0.0
        self._answer(number)
        if self._memory:
            self._send_memory(number)
            self._answer(number)
        for command, data in self._standing.items():
            self.send(number, command, data)
            self._answer(number)
        self.send(number, "reset")
        return self._answer(number)

    def _pipe(self, number: int) -> Connection:
        if self._pipes[number].closed:
            raise WorkerError("the environment workers have ended, by close() or after an error")
        return self._pipes[number]

    def end(self) -> None:
        """End every process, by force if it does not respond; a second call does nothing."""
        self._ending()

    @property
    def ended(self) -> bool:
        """True once `end` was called, also because of an error."""
        return not self._ending.still_active()


def shared_file(nbytes: int) -> int | None:
    """Return the descriptor of a file without a name that processes can map; None where that is not possible."""
    if not (reduction.HAVE_SEND_HANDLE and os.name == "posix"):
        return None
    try:
        if hasattr(os, "memfd_create"):
            descriptor = os.memfd_create("tfbaselines")
        else:
            descriptor, name = tempfile.mkstemp()
            os.unlink(name)
        os.truncate(descriptor, max(1, nbytes))
    except OSError:
        return None
    return descriptor


def _end(pipes: list[Any], processes: list[Any], memory: list[int]) -> None:
    started = [process for process in processes if process is not None]
    for pipe in filter(None, pipes):
        send_quietly(pipe, ("close", None))
        # A worker must not wait for a reader of its answer any longer.
        pipe.close()
    until = time.monotonic() + SECONDS_TO_END
    for process in started:
        process.join(max(0.0, until - time.monotonic()))
    hanging = [process for process in started if process.is_alive()]
    for process in hanging:
        process.kill()
    for process in hanging:
        process.join()
    for descriptor in memory:
        os.close(descriptor)
