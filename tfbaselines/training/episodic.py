"""The run of algorithms whose iterations are whole episodes: of one agent, or of a population."""

from collections.abc import Callable, Iterator
from typing import Any

from tfbaselines.config.bases import SearchConfig
from tfbaselines.envs.vec import VecEnv
from tfbaselines.envs.vec.packed import with_packed_observations
from tfbaselines.logs.rows import Episodes, search_columns
from tfbaselines.training.model import PolicyModel
from tfbaselines.training.plan import UNLIMITED, Plan
from tfbaselines.training.run import Run
from tfbaselines.training.testing import Tester


class SearchRun(Run):
    """Updates that take as many steps as their episodes have, tests now and then, and an end at the best score.

        with SearchRun("name", env, Config.of(kwargs)) as run:
            for _ in run.search(model):
                run.learnt(steps, episodes, statistics)
        return model

    Attributes:
        iterations: done so far.
        eval_env: environments for tests, or None.

    Args:
        name: the algorithm's name.
        env: the environments.
        config: the algorithm's arguments.
        of_episodes: an iteration is an episode, of which several environments may end more than one in an update;
            otherwise it is an update.
        columns: makes a row of the logs but for what `learnt` adds.
    """

    ends_otherwise = True

    def __init__(
        self,
        name: str,
        env: VecEnv,
        config: SearchConfig,
        of_episodes: bool = False,
        columns: Callable[[Run], dict[str, Any]] = search_columns,
    ) -> None:
        self._num_iterations = config.num_iterations
        self._most_steps = None if config.total_timesteps is None else int(config.total_timesteps)
        plan = Plan(
            total_timesteps=UNLIMITED if self._most_steps is None else self._most_steps,
            steps_per_update=1,
            log_interval=config.log_interval,
            save_interval=config.save_interval,
        )
        env, eval_env = with_packed_observations(env), config.eval_env and with_packed_observations(config.eval_env)
        super().__init__(name, env, config, plan, with_packed_observations)
        self._of_episodes, self._columns = of_episodes, columns
        self._tester = Tester(env, eval_env, config, self.options, self.wrap)
        self.eval_env = self._tester.env
        # Those of the latest test.
        self.eval_episodes = Episodes(max(1, config.num_test_episodes))
        self._row: dict[str, Any] = {}
        self._left = 1.0
        self.go_on_from(0, 0)

    def __exit__(self, *error: Any) -> None:
        try:
            super().__exit__(*error)
        finally:
            self._tester.close()

    def search(self, model: PolicyModel, *acting: Any, over: Callable[[], bool] = lambda: False) -> Iterator[int]:
        """Start the run, and give the number of each update; hand what came of it to `learnt`.

        Args:
            model: what learns.
            acting: parts that act in the environments; see Run.acts.
            over: whether training is to end before its last iteration or step.
        """
        self.start(model)
        self.acts(*acting)
        # A model from another run begins anew.
        if self.update and over():
            self.stop()
        self._left = self._own_fraction_left()
        for update in self.updates():
            tests = self.iterations // self.config.test_every
            yield update
            self.iterations = self._iterations_after(update)
            ends = self._agree_on_end(over())
            if ends:
                self.stop()
            if ends or self.iterations // self.config.test_every > tests:
                self.eval_episodes.extend(self._tester.run(self.model))
            self.finish_update(lambda: self._columns(self) | self._row)

    def learnt(self, steps: int, episodes: list[dict[str, Any]], statistics: dict[str, float]) -> None:
        """Take in what came of an update.

        Args:
            steps: environment steps that it took.
            episodes: the infos' 'episode' entries of the episodes that ended.
            statistics: further columns of its row of the logs.
        """
        self._timesteps += steps
        self.episodes.extend(episodes)
        self._row = self.check(statistics)

    @property
    def timesteps(self) -> int:
        """See Run."""
        return self._timesteps

    @property
    def unit(self) -> str:
        """See Run."""
        return "iteration" if self._most_steps is None else "step"

    @property
    def done(self) -> int:
        """See Run."""
        return self.iterations if self._most_steps is None else self.timesteps

    @property
    def fraction_left(self) -> float:
        """1 in the first update, going down to nearly 0 in the last; rank 0's on every rank."""
        return self._left

    def _further_columns(self) -> dict[str, int]:
        columns = super()._further_columns()
        if "global_timesteps" in columns:
            # Episodes differ in their lengths from rank to rank.
            columns["global_timesteps"] = self.steps_of_all(*self.comm.gather(self.timesteps))
        return columns

    def _own_fraction_left(self) -> float:
        return max(0.0, 1.0 - self.done / max(1, self._end()))

    def _agree_on_end(self, over: bool) -> bool:
        """Whether the run is over on any rank; every rank takes over rank 0's progress.

        Episodes differ in their lengths from rank to rank, but all test at the end, and follow one schedule.
        """
        own = self.done >= self._end() or self._stopped or over, self._own_fraction_left()
        ends, left = zip(*self.comm.gather(own), strict=True)
        self._left = left[0]
        return any(ends)

    def _end(self) -> int:
        return self._num_iterations if self._most_steps is None else self._most_steps

    def go_on_from(self, update: int, timesteps: int) -> None:
        self.update, self._timesteps = update, timesteps
        self.iterations = self._iterations_after(update)
        # Every update has at least an iteration and a step.
        self.num_updates = update + max(0, self._end() - self.done)

    def _iterations_after(self, update: int) -> int:
        return self.episodes.count if self._of_episodes else update
