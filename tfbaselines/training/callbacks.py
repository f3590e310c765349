"""Callbacks: functions of the Run that are called after every update; returning False ends the run.

    from tfbaselines.callbacks import EvaluateEvery, StopAt

    ppo2.learn("mlp", env, run=RunOptions(callback=[EvaluateEvery(1e4, "CartPole-v1"), StopAt(475)]))

A callback may use run.timesteps, run.update, run.mean_reward, run.judged_return, run.episodes, run.model, run.config,
run.save(), run.stop(), run.columns and run.row; see Run in training/run.py. A callback may have further methods:
begin(run) is called before the first update, close() at the end; state() and restore(state) let a resumed run continue
as if it had never stopped.
"""

import math
import numbers
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

import numpy as np
from gymnasium import spaces

from tfbaselines.config.algorithm import EVAL_SEEDS_APART
from tfbaselines.config.options import Callback, callbacks_of
from tfbaselines.doctor.watch import Watch
from tfbaselines.envs.adapt import as_vec_env, check_apart
from tfbaselines.envs.vec import VecEnv
from tfbaselines.errors import UsageError, bad_argument, check_at_least
from tfbaselines.logs import logger
from tfbaselines.logs.statistics import safe_mean
from tfbaselines.policy.encoding import describe_space, in_words
from tfbaselines.training.testing import Tester

# Name of the environments of EvaluateEvery, for errors.
EVALUATED = "env of EvaluateEvery"
# Columns of EvaluateEvery in the logs.
RETURN, LENGTH = "evaluation/return", "evaluation/length"


class Callbacks:
    """Call several callbacks as one: those that are given, and `further` ones that the run adds."""

    def __init__(self, given: Callback | Sequence[Callback] | None, *further: Callback) -> None:
        self._callbacks = [*callbacks_of(given), *further]

    def __call__(self, run: Any) -> bool:
        """Call each callback, also after one that ends the run; return False if any ends it."""
        answers = [callback(run) for callback in self._callbacks]
        return not any(isinstance(answer, bool | np.bool_) and not answer for answer in answers)

    def begin(self, run: Any) -> None:
        """Call begin(run) of each callback that has it, before the first update."""
        self._each("begin", run)

    def close(self) -> None:
        """Call close() of each callback that has it."""
        self._each("close")

    def _each(self, method: str, *arguments: Any) -> None:
        for callback in self._callbacks:
            if hasattr(callback, method):
                getattr(callback, method)(*arguments)

    def state(self) -> dict[str, Any]:
        """Return the states of the callbacks that have one, by class and number."""
        return {name: callback.state() for name, callback in self._stateful()}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore each callback that the saved run had."""
        for name, callback in self._stateful():
            if name in state:
                callback.restore(state[name])

    def _stateful(self) -> list[tuple[str, Any]]:
        stateful = [callback for callback in self._callbacks if hasattr(callback, "state")]
        return [(f"{type(callback).__name__} {number}", callback) for number, callback in enumerate(stateful)]


class StopAt:
    """End the run when its mean return reaches a bound: of the latest test, or of training if there are no tests.

    Args:
        mean_return: the bound.
    """

    def __init__(self, mean_return: float) -> None:
        if not isinstance(mean_return, numbers.Real):
            raise bad_argument("mean_return", mean_return, "a number")
        self._bound = mean_return

    def __call__(self, run: Any) -> bool:
        if not run.judged_return >= self._bound:
            return True
        logger.info(f"the mean return is {run.judged_return:.4g}, at least {self._bound:g}: training stops")
        return False


def stops_of(config: Any) -> list[StopAt]:
    """Return the callbacks that end a run at the scores in its arguments."""
    bounds = (getattr(config, name, None) for name in ("max_total_reward", "stop_max_score"))
    return [StopAt(bound) for bound in bounds if bound is not None]


class StopWithoutGain:
    """End the run when its mean return stops rising.

    Args:
        steps: environment steps without a new best mean return after which the run ends.
        at_least: smallest improvement that counts as a new best.
    """

    def __init__(self, steps: float, at_least: float = 0.0) -> None:
        check_at_least(1, steps=steps)
        self._steps = steps
        self._at_least = at_least
        self._best = -math.inf
        # Environment step of the best mean return.
        self._since = 0

    def __call__(self, run: Any) -> bool:
        if run.judged_return > self._best + self._at_least:
            self._best = run.judged_return
            self._since = run.timesteps
        if self._best == -math.inf or run.timesteps - self._since < self._steps:
            return True
        logger.info(f"the mean return has not risen above {self._best:.4g} for {self._steps:g} steps: training stops")
        return False

    def state(self) -> dict[str, Any]:
        return {"best": self._best if math.isfinite(self._best) else None, "since": self._since}

    def restore(self, state: dict[str, Any]) -> None:
        self._best = -math.inf if state["best"] is None else state["best"]
        self._since = state["since"]


class Doctor:
    """Apply the doctor's rules to the columns of the logs as they come; warn once of each sign that is sure.

    The rules are applied at the 8th row of the logs, and then after half as many rows again.

    Args:
        stop: end the run at the first warning; its checkpoint is saved.
    """

    def __init__(self, stop: bool = False) -> None:
        self._stop = stop
        self._watch: Watch | None = None
        self._saved: dict[str, Any] | None = None

    def begin(self, run: Any) -> None:
        """Take the run's settings."""
        arguments = run.algorithm.config.arguments()
        defaults = {name: argument.default for name, argument in arguments.items()}
        given = {name: getattr(run.config, name) for name in defaults if getattr(run.config, name) != defaults[name]}
        # A run from Python may have no description.
        config = {"alg": run.name, "learn": given} | run.model.config
        self._watch = Watch(config, defaults, logger.configured_dir() or "RUN", sum(env.num_envs for env in run.envs))
        self._watch.count = run.episodes.count
        if self._saved is not None:
            self._watch.restore(self._saved)

    def __call__(self, run: Any) -> bool:
        new = self._watch.look(run.row, run.timesteps, run.episodes)
        for finding in new:
            logger.warn(f"doctor, at step {run.timesteps:,}: {finding.title}: {finding.seen}; see {finding.page}")
        return not (new and self._stop)

    def state(self) -> dict[str, Any]:
        return self._watch.state()

    def restore(self, state: dict[str, Any]) -> None:
        self._saved = state


class Every:
    """Call a function of the run at a fixed interval, at the end of an update.

    Args:
        steps: environment steps between two calls.
        action: function of the run.
        count: function of the run that counts another thing than environment steps, such as iterations.
    """

    def __init__(
        self, steps: float, action: Callable[[Any], None], count: Callable[[Any], int] = attrgetter("timesteps")
    ) -> None:
        check_at_least(1, steps=steps)
        self._steps = int(steps)
        self._action = action
        self._count = count
        # Intervals that have passed.
        self._seen = 0

    def __call__(self, run: Any) -> None:
        before, self._seen = self._seen, self._count(run) // self._steps
        if self._seen > before:
            self._action(run)

    def state(self) -> dict[str, Any]:
        return {"seen": self._seen}

    def restore(self, state: dict[str, Any]) -> None:
        self._seen = state["seen"]


class SaveEvery(Every):
    """Write a checkpoint each time that `steps` environment steps are done; see Every for `count`."""

    def __init__(self, steps: float, count: Callable[[Any], int] = attrgetter("timesteps")) -> None:
        super().__init__(steps, lambda run: run.save(), count)


class Schedule:
    """Let an argument follow a schedule, as the text in ``ent_coef="linear_0.01"`` does.

    Args:
        argument: an argument that --help lists as a schedule.
        schedule: a function of the fraction of training left, which goes from 1 to 0; or text such as linear_0.01.
    """

    def __init__(self, argument: str, schedule: Callable[[float], float] | str) -> None:
        self._argument = argument
        self._schedule = schedule

    def begin(self, run: Any) -> None:
        """Give the schedule to the run."""
        run.schedule(self._argument, self._schedule)

    def __call__(self, run: Any) -> None:
        """Do nothing: the run evaluates the schedule."""


class EvaluateEvery(Every):
    """Test the deterministic policy at a fixed interval; the logs get its mean return and length.

    These tests choose the best checkpoint and end the run (StopAt), unless the algorithm has tests of its own.

    Args:
        steps: environment steps between two tests.
        env: environments for the tests, in any form that learn takes.
        episodes: episodes of a test.
        count: see Every.
    """

    def __init__(
        self,
        steps: float,
        env: Any,
        episodes: int = 10,
        count: Callable[[Any], int] = attrgetter("timesteps"),
    ) -> None:
        check_at_least(1, episodes=episodes)
        super().__init__(steps, self._test, count)
        self._given = env
        self._episodes = episodes
        self._tester: Tester | None = None
        self._result = {RETURN: math.nan, LENGTH: math.nan}
        self._saved: dict[str, Any] | None = None
        self._counts = False

    def begin(self, run: Any) -> None:
        """Make the environments for the tests."""
        # Networks for observations of several parts get the parts.
        flatten = not isinstance(run.model.policy.observation_space, spaces.Dict)
        seed = None if run.config.seed is None else run.config.seed + EVAL_SEEDS_APART
        env = run.algorithm.wrap(as_vec_env(self._given, seed, flatten, EVALUATED))
        check_apart(run.normalized, env, EVALUATED)
        trained, tested = run.normalized.observation_space, env.observation_space
        if trained.shape != tested.shape or type(trained) is not type(tested):
            trained, tested = (in_words(describe_space(space)) for space in (trained, tested))
            raise UsageError(f"{EVALUATED} has the observations {tested}, those of training are {trained}")
        if self._saved is not None:
            env.restore(self._saved)
        self._tester = Tester(run.normalized, env, self._episodes, run.config)
        self._counts = run.scores.judge_by_tests(self._episodes)
        run.columns |= self._result

    def _test(self, run: Any) -> None:
        episodes = self._tester.run(run.model)
        returns, lengths = zip(*((episode["r"], episode["l"]) for episode in episodes), strict=True)
        self._result = {RETURN: safe_mean(returns), LENGTH: safe_mean(lengths)}
        run.columns |= self._result
        if self._counts:
            run.eval_episodes.extend(episodes)

    def state(self) -> dict[str, Any]:
        return super().state() | {"result": list(self._result.values()), "env": self._tester.env.state()}

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self._result = dict(zip(self._result, state["result"], strict=True))
        self._saved = state["env"]

    def close(self) -> None:
        """Close the environments that `begin` made."""
        if self._tester is not None and not isinstance(self._given, VecEnv):
            self._tester.env.close()
