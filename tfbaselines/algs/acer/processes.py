"""Workers of ACER in processes, which share the numbers of one model in memory.

    this process                                        process.py, one for each worker
    results: "turn" and the rates -------------------->  read the numbers, collect, learn, write the numbers
             <------ statistics, episodes, messages ---
    checkpoints: "state", "env_state", "replay" ------>  (between turns)

This process logs, saves and handles signals; its model takes the numbers over before every checkpoint, and at the end.
"""

import multiprocessing.util
import os
import signal
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing import connection, reduction
from pathlib import Path
from typing import Any

from tfbaselines.algs.acer import ALGORITHM, Config
from tfbaselines.algs.acer.acer import Model
from tfbaselines.algs.acer.process import NAMED, Job, serve
from tfbaselines.algs.acer.shared import SharedNumbers
from tfbaselines.algs.acer.workers import take_turns
from tfbaselines.config.config import NetworkSpec
from tfbaselines.config.options import RunOptions, callbacks_of
from tfbaselines.envs.vec import VecEnv
from tfbaselines.envs.vec.base import CloudpickleWrapper
from tfbaselines.envs.vec.processes import shared_file
from tfbaselines.envs.vec.starting import without_a_missing_script, workers_environment
from tfbaselines.envs.vec.worker import SECONDS_TO_END, send_quietly
from tfbaselines.errors import LostWorkerError, UsageError, bad_argument
from tfbaselines.logs import logger
from tfbaselines.parallel import mpi
from tfbaselines.training.checkpoint import Checkpoints
from tfbaselines.training.clock import Plan
from tfbaselines.training.run import Run

ERRORS = {kind.__name__: kind for kind in NAMED}


def learn_with_processes(network: NetworkSpec, env: VecEnv | Sequence[VecEnv], config: Config) -> Model:
    """Train a policy with workers in processes of their own; the environments given here are never stepped."""
    env, make_env = _checked(env, config)
    plan = Plan.of(config, env.num_envs)
    with (
        Crew(network, config, make_env) as crew,
        Run(ALGORITHM, [env], config, plan, joined=lambda _: crew.environments) as run,
    ):
        crew.check_environments(run.normalized)
        model = Model(network, run.normalized, config, run.comm, run.rng)
        numbers = SharedNumbers(model, run.normalized)
        crew.join(numbers, [int(run.rng.integers(2**63)) for _ in range(len(crew))])
        replays = [RemoteReplay(crew, number) for number in range(len(crew))]
        run.start(model, replay=replays if config.replay_ratio else None, paused=crew.paused)
        run.acts(*(RemoteWorker(crew, number) for number in range(len(crew))))
        numbers.write()
        crew.ask_all("normalize", run.normalized.normalization())
        # Callbacks and tests see the present policy.
        watched = bool(callbacks_of(config.options.callback)) or run.eval_env is not None
        turns = crew.results(run.num_updates - run.update, run.rates, watched)
        take_turns(run, turns, len(crew))
    return model


def _checked(env: VecEnv | Sequence[VecEnv], config: Config) -> tuple[VecEnv, Callable[[int], VecEnv]]:
    """Return the environments and the function that makes a worker's; UsageError for what processes cannot do."""
    if mpi.wrap(config.comm).size > 1:
        raise bad_argument("worker_kind", "processes", "run without mpirun, whose ranks are processes already")
    make_env = config.options.make_env
    if isinstance(env, list | tuple) or make_env is None:
        accepted = "give one env, and run=RunOptions(make_env=...), a function from a worker's number to its own"
        raise bad_argument("worker_kind", "processes", accepted)
    return env, make_env


class Crew:
    """The processes of the workers.

    Attributes:
        environments: environments of all workers, for the run.

    Args:
        network, config: network and arguments of the model.
        make_env: function from a worker's number to its environments.
    """

    def __init__(self, network: NetworkSpec, config: Config, make_env: Callable[[int], VecEnv]) -> None:
        count = config.num_workers
        own = replace(config, run=RunOptions(precision=config.options.precision))
        threads = max(1, len(mpi.usable_cores()) // count)
        spawner = multiprocessing.get_context("spawn")
        self._pipes: list[Any] = []
        self._processes: list[Any] = []
        self._descriptors: list[int] = []
        self._busy: set[int] = set()
        self._waiting = deque(range(count))
        # Results of turns that ended during a pause.
        self._finished: deque[tuple[int, Any]] = deque()
        self.environments = RemoteEnvironments(self)
        ending = self._pipes, self._processes, self._descriptors
        self._end = multiprocessing.util.Finalize(self, _end, ending, exitpriority=0)
        with workers_environment(), without_a_missing_script():
            for number in range(count):
                ours, theirs = spawner.Pipe()
                job = CloudpickleWrapper(Job(network, own, make_env, number, threads))
                # A daemon could not have processes of environments.
                process = spawner.Process(target=serve, args=(theirs, ours, job), name=f"acer-{number}")
                process.start()
                theirs.close()
                self._pipes.append(ours)
                self._processes.append(process)

    def __len__(self) -> int:
        return len(self._processes)

    def __enter__(self) -> "Crew":
        self._described = [self._receive(number) for number in range(len(self))]
        shown = ", ".join(f"{number} is {process.pid}" for number, process in enumerate(self._processes))
        logger.info(f"processes of the workers: {shown}")
        return self

    def __exit__(self, *_: Any) -> None:
        self._end()

    def check_environments(self, env: VecEnv) -> None:
        """Raise a UsageError unless every worker has environments like these."""
        own = env.num_envs, f"{env.observation_space}, {env.action_space}"
        for number, described in enumerate(self._described):
            if described != own:
                raise UsageError(f"worker {number} has environments {described}, the run has {own}")

    def join(self, numbers: SharedNumbers, seeds: list[int]) -> None:
        """Let all workers share the numbers of a model."""
        descriptor = shared_file(numbers.nbytes)
        if descriptor is None:
            raise bad_argument("worker_kind", "processes", "this system has no shared memory: take threads")
        self._descriptors.append(descriptor)
        self._numbers = numbers
        numbers.map(descriptor)
        for number, seed in enumerate(seeds):
            self._send(number, "join", seed)
            reduction.send_handle(self._pipes[number], descriptor, self._processes[number].pid)
        for number in range(len(self)):
            self._receive(number)

    def results(
        self, turns: int, rates: Callable[[], dict[str, float]], watched: bool = False
    ) -> Iterator[tuple[int, Any]]:
        """Yield the number of a worker and the result of its turn, `turns` times, as the turns end.

        Args:
            turns: number of turns.
            rates: returns the present rates, for turns that begin.
            watched: take over the policy's parameters before each result.
        """
        for left in range(turns, 0, -1):
            while self._waiting and len(self._busy) + len(self._finished) < left:
                number = self._waiting.popleft()
                self._busy.add(number)
                self._send(number, "turn", rates())
            number, (result, lines) = self._finished.popleft() if self._finished else self._next()
            for line in lines:
                logger.info(line)
            if watched:
                self._numbers.read_policy()
            yield number, result

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Wait until every worker has ended its turn; the model of this process has the shared numbers inside."""
        while self._busy:
            self._finished.append(self._next())
        self.ask_all("merge")
        self._numbers.merge_statistics()
        self._numbers.read()
        yield
        self._numbers.write()

    def ask(self, number: int, command: str, *arguments: Any) -> Any:
        """Return the answer of a worker that is not in a turn."""
        self._send(number, command, *arguments)
        return self._receive(number)

    def ask_all(self, command: str, *arguments: Any) -> list[Any]:
        """Return the answers of all workers, as `ask` does."""
        for number in range(len(self)):
            self._send(number, command, *arguments)
        return [self._receive(number) for number in range(len(self))]

    def rebuild(self, number: int, state: Any, pieces: Iterable[Any], episodes_continue: bool) -> None:
        """Send a worker the pieces of its replay, one at a time."""
        self._send(number, "rebuild", state, episodes_continue)
        pieces = iter(pieces)
        while self._receive(number) == "next":
            try:
                piece = next(pieces, None)
            except ValueError:
                # The worker keeps the replay that it had.
                self._pipes[number].send(None)
                self._receive(number)
                raise
            self._pipes[number].send(piece)

    def _next(self) -> tuple[int, Any]:
        """Wait for the end of a turn, and return the worker's number and its answer."""
        ready = connection.wait([self._pipes[number] for number in self._busy])
        number = self._pipes.index(ready[0])
        self._busy.discard(number)
        self._waiting.append(number)
        return number, self._receive(number)

    def _send(self, number: int, command: str, *arguments: Any) -> None:
        """Send a command; the answer shows if the worker has ended."""
        send_quietly(self._pipes[number], (command, arguments))

    def _receive(self, number: int) -> Any:
        try:
            kind, answer = self._pipes[number].recv()
        except (EOFError, OSError):
            raise LostWorkerError(self._lost(number)) from None
        if kind is not None:
            raise ERRORS[kind](answer)
        return answer

    def _lost(self, number: int) -> str:
        process = self._processes[number]
        process.join(SECONDS_TO_END)
        code = process.exitcode
        killed = code is not None and code < 0
        how = f"was killed by {signal.Signals(-code).name}" if killed else f"ended with exit code {code}"
        directory = logger.configured_dir()
        last = None if directory is None else Checkpoints(Path(directory) / "checkpoints").latest()
        again = f"--resume={directory} goes on from checkpoint {last.name}" if last else "there is no checkpoint yet"
        return f"worker {number} (process {process.pid}) {how}: {again}"


def _end(pipes: list[Any], processes: list[Any], descriptors: list[int]) -> None:
    """End all processes, by force if they do not respond."""
    for pipe in pipes:
        send_quietly(pipe, ("close", ()))
        pipe.close()
    until = time.monotonic() + SECONDS_TO_END
    for process in processes:
        process.join(max(0.0, until - time.monotonic()))
    for process in processes:
        if process.is_alive():
            process.kill()
            process.join()
    for descriptor in descriptors:
        os.close(descriptor)


class RemoteEnvironments:
    """The environments of all workers, saved and restored as one; see workers.Team."""

    def __init__(self, crew: Crew) -> None:
        self._crew = crew
        self.restored = False

    def state(self) -> dict[str, Any]:
        first, *others = self._crew.ask_all("env_state")
        return first | {str(number): state for number, state in enumerate(others, 1)}

    def restore(self, state: dict[str, Any]) -> None:
        states = [state, *(state.get(str(number)) for number in range(1, len(self._crew)))]
        continued = [
            own is not None and self._crew.ask(number, "restore_env", own) for number, own in enumerate(states)
        ]
        self.restored = all(continued)

    def set_parameters(self, values: Mapping[str, Any]) -> None:
        """Give parameters to the environments of all workers, from their next resets on."""
        self._crew.ask_all("set_parameters", dict(values))

    def merge_statistics(self, comm: Any) -> None:
        """Do nothing: the workers merge their statistics themselves."""


class RemoteWorker:
    """The state of a worker's runner and generator."""

    def __init__(self, crew: Crew, number: int) -> None:
        self._crew = crew
        self._number = number

    def state(self) -> dict[str, Any]:
        return self._crew.ask(self._number, "state")

    def restore(self, state: dict[str, Any]) -> None:
        self._crew.ask(self._number, "restore", state)


class RemoteReplay:
    """A worker's replay; training/kept_replay.py describes the methods."""

    def __init__(self, crew: Crew, number: int) -> None:
        self._crew = crew
        self._number = number

    @property
    def item_nbytes(self) -> int:
        return self._crew.ask(self._number, "item_nbytes")

    def span(self) -> tuple[int, int]:
        return self._crew.ask(self._number, "replay", "span")

    def items(self, first: int, last: int) -> dict[str, Any]:
        return self._crew.ask(self._number, "replay", "items", first, last)

    def state(self) -> dict[str, Any]:
        return self._crew.ask(self._number, "replay", "state")

    def rebuild(self, state: dict[str, Any], pieces: Iterable[Any], episodes_continue: bool) -> None:
        self._crew.rebuild(self._number, state, pieces, episodes_continue)
