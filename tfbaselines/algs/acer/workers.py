"""Workers that collect rollouts, learn from them, and then from a replay of them; several are threads side by side.

The rows of ACER's logs, under the original's names.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from tfbaselines.algs.acer.replay import RolloutReplay, TraceReplay, TraceRunner
from tfbaselines.config.options import RunOptions
from tfbaselines.envs.normalize import share_normalization
from tfbaselines.envs.vec import VecEnv
from tfbaselines.errors import UsageError, bad_argument, check_at_least
from tfbaselines.logs import logger
from tfbaselines.logs.rows import Episodes
from tfbaselines.parallel import mpi
from tfbaselines.policy.actor import make_actor
from tfbaselines.training.run import Run


@contextmanager
def workers_environments(
    env: VecEnv | Sequence[VecEnv], num_workers: int, run: RunOptions, comm: mpi.Communicator
) -> Iterator[list[VecEnv]]:
    """The environments of each worker; those that are made here are closed at the end.

    Args:
        env: one worker's environments, or a list with every worker's.
        num_workers: how many workers there are; with a list, 1 stands for its length.
        run: its make_env makes what is missing.
        comm: ranks do not go together with several workers.
    """
    envs = list(env) if isinstance(env, list | tuple) else [env]
    check_at_least(1, num_workers=num_workers, workers=len(envs))
    count = len(envs) if num_workers == 1 else num_workers
    if count > 1 and comm.size > 1:
        raise bad_argument("num_workers", num_workers, "several workers are threads of one process: run without mpirun")
    if len(envs) != count and (len(envs) > 1 or run.make_env is None):
        raise bad_argument(
            "num_workers", num_workers, f"env has the environments of {len(envs)}: give a list of each's"
        )
    with ExitStack() as stack:
        for number in range(len(envs), count):
            envs.append(run.make_env(number))
            stack.callback(envs[-1].close)
        if any(one.num_envs != envs[0].num_envs for one in envs):
            raise UsageError(f"every worker needs as many environments, not {[one.num_envs for one in envs]}")
        share_normalization(envs)
        yield envs


@dataclass
class Worker:
    """Environments, a replay of what happened in them, and the learning from both into a model.

    Attributes:
        run: its model, which other workers may share, and its config: nsteps, replay_ratio, replay_start, reward_clip.
        env: the environments.
        replay: keeps their experience, or None.
        rng: generator of actions' noise and of what is replayed.
        own_actor: act by a copy of the parameters of this worker's own.
        lock: held while the model changes.
    """

    run: Run
    env: VecEnv
    replay: RolloutReplay | TraceReplay | None
    rng: np.random.Generator
    own_actor: bool
    lock: AbstractContextManager

    def __post_init__(self) -> None:
        model = self.run.model
        self._actor = make_actor(model.policy) if self.own_actor else model.actor
        self.runner = TraceRunner(self.env, model.policy, self._actor, self.run.config.nsteps, self.rng)

    def turn(self) -> tuple[dict[str, float], list[dict[str, Any]]]:
        """Collect and learn; the statistics of learning from what was collected, and the episodes that ended."""
        config, comm = self.run.config, self.run.comm
        if self.own_actor:
            # Other workers have changed the parameters since, and may be changing them now.
            with self.lock:
                self._actor.refresh()
        batch = self.runner.run()
        if config.reward_clip is not None:
            batch["rewards"] = np.clip(batch["rewards"], -config.reward_clip, config.reward_clip)
        statistics = self._train(batch)
        seen = batch["obs"][:, :-1]
        with self.lock:
            self.run.model.observe(lambda: seen.reshape(-1, *seen.shape[2:]))
        if self.replay is not None:
            words = self.replay.put(batch)
            if words:
                logger.info(words)
            # Every rank replays or none does: their gradients are averaged.
            if all(comm.gather(self.replay.has_atleast(config.replay_start))):
                for _ in range(comm.broadcast_object(int(self.rng.poisson(config.replay_ratio)))):
                    self._train(self.replay.sample(self.rng), replayed=True)
        return statistics, self.runner.episodes

    def state(self) -> dict[str, Any]:
        """Where the runner and the generator stand."""
        return self.runner.state() | {"rng": self.rng.bit_generator.state}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from there; an older version's checkpoint lacks the generator."""
        self.runner.restore({name: value for name, value in state.items() if name != "rng"})
        if "rng" in state:
            self.rng.bit_generator.state = state["rng"]

    def _train(self, batch: dict[str, np.ndarray], replayed: bool = False) -> dict[str, float]:
        with self.lock:
            return self.run.model.train(batch=batch, rng=self.rng, replayed=replayed, **self.run.rates())


def make_replay(env: VecEnv, config: Any) -> RolloutReplay | TraceReplay:
    """A replay of rollouts, or of buffer_len whole episodes where that is given.

    Args:
        env: the environments of one worker.
        config: with nsteps, buffer_size, buffer_len, batch_size, trace_length and comm.
    """
    if config.buffer_len is None:
        return RolloutReplay(env, config.buffer_size, config.nsteps)
    return TraceReplay(env, config.buffer_len, config.batch_size, config.trace_length, config.comm)


def make_workers(run: Run, envs: list[VecEnv], replays: list[RolloutReplay | TraceReplay | None]) -> list[Worker]:
    """A worker for each list entry; one alone acts through the model and draws from the run's generator."""
    alone = len(envs) == 1
    lock = threading.Lock() if run.config.lock and not alone else nullcontext()

    def worker(env: VecEnv, replay: RolloutReplay | TraceReplay | None) -> Worker:
        rng = run.rng if alone else np.random.default_rng(run.rng.integers(2**63))
        return Worker(run, env, replay, rng, own_actor=not alone, lock=lock)

    return [worker(env, replay) for env, replay in zip(envs, replays, strict=True)]


class ACERRows:
    """Collects what every worker had last.

    Args:
        run: the run, whose counters and episodes these are.
        workers: how many workers learn side by side.
    """

    def __init__(self, run: Any, workers: int) -> None:
        self._run = run
        self._episodes = [Episodes() for _ in range(workers)]
        self._latest: dict[int, dict[str, float]] = {}
        self._statistics: dict[str, float] = {}

    def add(self, number: int, statistics: dict[str, float], episodes: list[dict[str, Any]]) -> None:
        """Remember a turn of one worker: its statistics, and the infos' 'episode' entries of episodes that ended."""
        self._episodes[number].extend(episodes)
        self._statistics = statistics
        self._latest[number] = statistics | _of_episodes(self._episodes[number])

    def __call__(self) -> dict[str, Any]:
        """A row: the latest turn, and with several workers what each of them had last."""
        run, own = self._run, self._latest if len(self._latest) > 1 else {}
        counters = {"total_timesteps": run.timesteps, "fps": run.fps} | _of_episodes(run.episodes)
        workers = {
            f"worker{number}/{name}": value for number, row in sorted(own.items()) for name, value in row.items()
        }
        return self._statistics | counters | workers


def _of_episodes(episodes: Episodes) -> dict[str, float]:
    return {"mean_episode_length": episodes.mean_length, "mean_episode_reward": episodes.mean_reward}
