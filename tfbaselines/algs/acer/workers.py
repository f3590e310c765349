"""Several workers of ACER: threads that collect trajectories and learn from them into one model.

processes.py has workers in processes.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from typing import Any, Protocol

import numpy as np

from tfbaselines.algs.acer import ALGORITHM, Config
from tfbaselines.algs.acer.acer import Model, make_replay, row, times_to_replay
from tfbaselines.algs.acer.replay import Trajectory, TrajectoryRunner, observations_of
from tfbaselines.config.config import NetworkSpec
from tfbaselines.config.options import RunOptions
from tfbaselines.envs.normalize import share_normalization
from tfbaselines.envs.vec import VecEnv
from tfbaselines.errors import UsageError, bad_argument, check_at_least
from tfbaselines.logs.statistics import Episodes
from tfbaselines.parallel import mpi
from tfbaselines.parallel.mpi import Together
from tfbaselines.policy.actor import make_actor
from tfbaselines.training.clock import Plan
from tfbaselines.training.run import Run


def learn_with_workers(network: NetworkSpec, env: VecEnv | Sequence[VecEnv], config: Config) -> Model:
    """Train a policy with several workers; `env` has one worker's environments, or is a list of every worker's."""
    if config.worker_kind == "processes":
        from tfbaselines.algs.acer.processes import learn_with_processes

        return learn_with_processes(network, env, config)
    with (
        workers_environments(env, config.num_workers, config.options, mpi.wrap(config.comm)) as envs,
        Run(ALGORITHM, envs, config, Plan.of(config, envs[0].num_envs), joined=Team) as run,
    ):
        model = Model(network, run.envs[0], config, run.comm, run.rng)
        workers = make_workers(run, model, run.envs)
        replays = [worker.replay for worker in workers]
        with Crew([worker.turn for worker in workers]) as crew:
            run.start(model, replay=replays if config.replay_ratio else None, paused=crew.paused)
            run.acts(*workers)
            take_turns(run, crew.results(run.num_updates - run.update), len(workers))
    return model


def take_turns(run: Run, turns: Iterator[tuple[int, Any]], workers: int) -> None:
    """Make an update of each turn of a worker: its number, and the result of `Worker.turn`."""
    rows = WorkerRows(run, workers)
    for _, (number, (statistics, episodes)) in zip(run.updates(), turns, strict=False):
        run.episodes.extend(episodes)
        rows.add(number, run.check(statistics), episodes)
        run.finish_update(rows)


@contextmanager
def workers_environments(
    env: VecEnv | Sequence[VecEnv], num_workers: int, run: RunOptions, comm: mpi.Communicator
) -> Iterator[list[VecEnv]]:
    """Provide the environments of each worker, and close those that were made here, by make_env, at the end.

    With a list of every worker's environments, num_workers=1 stands for its length.
    """
    envs = list(env) if isinstance(env, list | tuple) else [env]
    check_at_least(1, num_workers=num_workers, workers=len(envs))
    count = len(envs) if num_workers == 1 else num_workers
    if count > 1 and comm.size > 1:
        raise bad_argument("num_workers", num_workers, "several workers belong to one process: run without mpirun")
    if len(envs) != count and (len(envs) > 1 or run.make_env is None):
        accepted = f"env holds the environments of {len(envs)}: give a list with the environments of every worker"
        raise bad_argument("num_workers", num_workers, accepted)
    with ExitStack() as stack:
        for number in range(len(envs), count):
            envs.append(run.make_env(number))
            stack.callback(envs[-1].close)
        counts = [own.num_envs for own in envs]
        if len(set(counts)) > 1:
            raise UsageError(f"all workers need the same number of environments, not {counts}")
        share_normalization(envs)
        yield envs


class Access(Protocol):
    """Contexts in which a worker uses the model that all workers share.

    Attributes:
        apart: gradients are computed in another context than the one in which the parameters change.
    """

    apart: bool

    def reading(self) -> AbstractContextManager:
        """Return the context for a copy of the parameters."""

    def computing(self) -> AbstractContextManager:
        """Return the context for gradients."""

    def changing(self) -> AbstractContextManager:
        """Return the context for changes of the model."""

    def observe(self, observations: Callable[[], np.ndarray]) -> None:
        """Update the statistics of observations; see Model.observe."""


class Locks:
    """The Access of threads: one lock for gradients and one for changes, or a single one for both."""

    def __init__(self, model: Model, config: Config) -> None:
        lock_update = locks_update(config)
        self.apart = config.lock != lock_update
        self._model = model
        self._computing = threading.Lock() if config.lock else nullcontext()
        self._changing = threading.Lock() if lock_update else nullcontext()

    def reading(self) -> AbstractContextManager:
        return self._changing

    def computing(self) -> AbstractContextManager:
        return self._computing

    def changing(self) -> AbstractContextManager:
        return self._changing

    def observe(self, observations: Callable[[], np.ndarray]) -> None:
        with self._changing:
            self._model.observe(observations)


def locks_update(config: Config) -> bool:
    """Return whether workers change the parameters one at a time."""
    return config.lock if config.lock_update is None else config.lock_update


class Worker:
    """Collects trajectories with its own copy of the parameters, and learns from them into the shared model.

    `run` has the arguments, the communicator and the rates of the turn; `rng` draws the actions' noise and the replay.
    """

    def __init__(self, run: Any, model: Model, env: VecEnv, rng: np.random.Generator, access: Access) -> None:
        self._run = run
        self._model = model
        self._actor = make_actor(model.policy)
        self._access = access
        self.rng = rng
        config = run.config
        self.replay = make_replay(env, config)
        self.runner = TrajectoryRunner(
            env, model.policy, self._actor, config.nsteps, rng, reward_clip=config.reward_clip
        )

    def turn(self) -> tuple[dict[str, float], list[dict[str, Any]]]:
        """Learn from new experience, then from the replay; return the former's statistics, and episodes that ended."""
        run, rng, replay = self._run, self.rng, self.replay
        with self._access.reading():
            # Other workers have changed the parameters since, and may be changing them now.
            self._actor.refresh()
        trajectory = self.runner.run()
        statistics = self._train(trajectory)
        self._access.observe(partial(observations_of, trajectory))
        if replay is not None:
            replay.put(trajectory)
            for _ in range(times_to_replay(replay, run.config, run.comm, rng)):
                self._train(replay.sample(rng), replayed=True)
        return statistics, self.runner.episodes

    def state(self) -> dict[str, Any]:
        return self.runner.state() | {"rng": self.rng.bit_generator.state}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a state; a run with one worker saved no generator."""
        self.runner.restore({name: value for name, value in state.items() if name != "rng"})
        if "rng" in state:
            self.rng.bit_generator.state = state["rng"]

    def _train(self, batch: Trajectory, replayed: bool = False) -> dict[str, float]:
        access = self._access
        given = {"batch": batch, "rng": self.rng, "replayed": replayed} | self._run.rates()
        if access.apart:
            return self._model.train_apart(access.computing(), access.changing(), **given)
        with access.changing():
            return self._model.train(**given)


def make_workers(run: Run, model: Model, envs: list[VecEnv]) -> list[Worker]:
    """Make a worker for the environments of each list entry."""
    locks = Locks(model, run.config)
    return [Worker(run, model, env, np.random.default_rng(run.rng.integers(2**63)), locks) for env in envs]


class Team(Together):
    """The environments of all workers, saved and restored as one.

    The state is the first part's, as in a run with one worker, and holds the other states by number.
    """

    def state(self) -> dict[str, Any]:
        first, *others = super().state().items()
        return first[1] | dict(others)

    def restore(self, state: dict[str, Any]) -> None:
        super().restore({"0": state} | state)


class WorkerRows:
    """Rows of the logs: the latest turn, and the latest turn of each worker in columns of its own."""

    def __init__(self, run: Run, workers: int) -> None:
        self._run = run
        self._episodes = [Episodes() for _ in range(workers)]
        self._latest: dict[int, dict[str, float]] = {}
        self._statistics: dict[str, float] = {}

    def add(self, number: int, statistics: dict[str, float], episodes: list[dict[str, Any]]) -> None:
        """Remember a turn of one worker: its statistics, and the infos' 'episode' entries of episodes that ended."""
        own = self._episodes[number]
        own.extend(episodes)
        self._statistics = statistics
        means = {"mean_episode_length": own.mean_length, "mean_episode_reward": own.mean_reward}
        self._latest[number] = statistics | means

    def __call__(self) -> dict[str, Any]:
        latest = sorted(self._latest.items()) if len(self._latest) > 1 else []
        columns = {f"worker{number}/{name}": value for number, turn in latest for name, value in turn.items()}
        return row(self._run, self._statistics) | columns


class Crew:
    """Threads that repeat one job each; all can be paused between two turns.

    Args:
        jobs: functions without arguments; a single job runs in the caller's thread.
    """

    def __init__(self, jobs: Sequence[Callable[[], Any]]) -> None:
        self._jobs = list(jobs)
        self._threads: list[threading.Thread] = []
        self._change = threading.Condition()
        # Number of the job, result, and the exception in its place.
        self._results: deque[tuple[int, Any, BaseException | None]] = deque()
        self._turns = 0
        self._busy = 0
        self._held = False

    def __enter__(self) -> "Crew":
        return self

    def __exit__(self, *_: Any) -> None:
        with self._change:
            self._turns = 0
            self._held = False
            self._change.notify_all()
        for thread in self._threads:
            thread.join()

    def results(self, turns: int) -> Iterator[tuple[int, Any]]:
        """Yield the number of a job and its result, `turns` times, as the jobs finish.

        An exception in a job is raised here.
        """
        if len(self._jobs) == 1:
            for _ in range(turns):
                yield 0, self._jobs[0]()
            return
        self._turns = turns
        self._threads = [threading.Thread(target=self._work, args=(i,), daemon=True) for i in range(len(self._jobs))]
        for thread in self._threads:
            thread.start()
        for _ in range(turns):
            with self._change:
                self._change.wait_for(lambda: self._results)
                number, result, error = self._results.popleft()
                self._change.notify_all()
            if error is not None:
                raise error
            yield number, result

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Wait until every thread has ended its turn, and let none begin another inside the context."""
        with self._change:
            self._held = True
            self._change.wait_for(lambda: self._busy == 0)
        try:
            yield
        finally:
            with self._change:
                self._held = False
                self._change.notify_all()

    def _work(self, number: int) -> None:
        while self._begin():
            result = error = None
            try:
                result = self._jobs[number]()
            except BaseException as caught:
                error = caught
            with self._change:
                self._busy -= 1
                self._results.append((number, result, error))
                self._change.notify_all()
            if error is not None:
                return

    def _begin(self) -> bool:
        with self._change:
            # No thread runs ahead of a slow reader.
            self._change.wait_for(lambda: self._turns == 0 or (not self._held and len(self._results) < len(self._jobs)))
            if self._turns == 0:
                return False
            self._turns -= 1
            self._busy += 1
            return True
