"""Runs of algorithms with iterations of whole episodes: of one agent, or of a population."""

from collections.abc import Callable, Iterator
from typing import Any

from tfbaselines.config.algorithm import Algorithm
from tfbaselines.config.bases import SearchConfig
from tfbaselines.envs.vec import VecEnv
from tfbaselines.training.clock import UNLIMITED, IterationClock, Plan
from tfbaselines.training.model import PolicyModel
from tfbaselines.training.run import Run
from tfbaselines.training.testing import Scores


class SearchRun(Run):
    """Make updates of whole episodes, test now and then, and end at the best score.

        with SearchRun(ALGORITHM, env, Config.of(kwargs)) as run:
            for _ in run.search(model):
                run.learned(steps, episodes, statistics)
        return model

    Args:
        algorithm: declaration of the algorithm.
        env: the environments.
        config: arguments of the algorithm.
        of_episodes: an iteration is an episode, and several may end in an update; otherwise it is an update.
        columns: makes the columns of a row of the logs from the run; `learned` adds others.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        env: VecEnv,
        config: SearchConfig,
        of_episodes: bool = False,
        columns: Callable[["SearchRun"], dict[str, Any]] | None = None,
    ) -> None:
        plan = Plan(
            total_timesteps=UNLIMITED if config.total_timesteps is None else int(config.total_timesteps),
            steps_per_update=1,
            log_interval=config.log_interval,
            save_interval=config.save_interval,
        )
        # Rows of the logs have the latest test alone.
        scores = Scores(tests=max(1, config.num_test_episodes))
        clock = IterationClock(plan, config.num_iterations, scores.training if of_episodes else None)
        super().__init__(algorithm, env, config, plan, clock=clock, scores=scores)
        self._columns = columns or search_columns
        self._row: dict[str, Any] = {}

    @property
    def iterations(self) -> int:
        """Finished iterations."""
        return self.clock.iterations

    def search(self, model: PolicyModel, *acting: Any, over: Callable[[], bool] = lambda: False) -> Iterator[int]:
        """Start the run, and yield the number of each update; the caller gives the result to `learned`.

        Args:
            model: model that learns.
            acting: objects that act in the environments; see Run.acts.
            over: returns whether training ends before its last iteration or step.
        """
        self.start(model)
        self.acts(*acting)
        clock = self.clock
        test_every = self.config.test_every
        # A model that was loaded from another run begins anew.
        if self.update and over():
            self.stop()
        clock.set_fraction_left(clock.own_fraction_left)
        for update in self.updates():
            tests = self.iterations // test_every
            yield update
            clock.finish_iterations()
            ends = self._agree_on_end(over())
            if ends:
                self.stop()
            if ends or self.iterations // test_every > tests:
                self.test()
            self.finish_update(lambda: self._columns(self) | self._row)

    def learned(self, steps: int, episodes: list[dict[str, Any]], statistics: dict[str, float]) -> None:
        """Store the result of an update.

        Args:
            steps: environment steps that it took.
            episodes: the infos' 'episode' entries of the episodes that ended.
            statistics: further columns of its row of the logs.
        """
        self.clock.add_steps(steps)
        self.episodes.extend(episodes)
        self._row = self.check(statistics)

    def _further_columns(self) -> dict[str, int]:
        columns = super()._further_columns()
        if "global_timesteps" in columns:
            # The lengths of episodes differ between ranks.
            columns["global_timesteps"] = self.clock.steps_of_all(self.comm.gather(self.timesteps))
        return columns

    def _agree_on_end(self, over: bool) -> bool:
        """Return whether the run ends on any rank; every rank takes over rank 0's progress.

        The lengths of episodes differ between ranks, but all ranks test at the end and follow one schedule.
        """
        clock = self.clock
        own = (clock.done >= clock.end or self._stopped or over, clock.own_fraction_left)
        every = self.comm.gather(own)
        clock.set_fraction_left(every[0][1])
        return any(ends for ends, _ in every)


def search_columns(run: SearchRun) -> dict[str, Any]:
    """Return the counters, and the means of the latest episodes and of the latest test."""
    training = {"eprewmean": run.episodes.mean_reward, "eplenmean": run.episodes.mean_length}
    return counter_columns(run) | training | test_columns(run)


def counter_columns(run: SearchRun) -> dict[str, Any]:
    """Return the counters."""
    return {
        "iterations": run.iterations,
        "total_timesteps": run.timesteps,
        "fps": run.fps,
        "time_elapsed": run.elapsed,
    }


def test_columns(run: SearchRun) -> dict[str, float]:
    """Return the means of the latest test, if the run has tests."""
    if run.eval_env is None:
        return {}
    return {
        "test_reward": run.eval_episodes.mean_reward,
        "test_reward_std": run.eval_episodes.std_reward,
        "test_length": run.eval_episodes.mean_length,
    }
