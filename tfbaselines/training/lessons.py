"""The lessons of curricula: which one the environments are in, and when the next one begins."""

from collections import deque
from typing import Any

from tfbaselines.envs.parameters import PROGRESS, Criterion, Curriculum, EnvParameters
from tfbaselines.logs import logger
from tfbaselines.logs.statistics import safe_mean


class Lessons:
    """Go through the lessons of the environments' curricula; a callback of the run.

    The returns of all ranks count, so all ranks are in the same lesson. A new lesson counts its episodes anew, and an
    environment is in it from its next reset on. The logs get the number of the lesson, from 0.

    Args:
        parameters: parameters of the environments.
    """

    def __init__(self, parameters: EnvParameters) -> None:
        self._parameters = parameters
        self._counters = [_Counter(one) for one in parameters.curricula]
        # Episodes of the run so far.
        self._seen = 0

    def begin(self, run: Any) -> None:
        """Give the environments the parameters of the lesson; a resumed run is in a later one, and nothing acts yet."""
        self._assign(run)

    def __call__(self, run: Any) -> None:
        """Take in the episodes of an update, and begin the lessons that are due."""
        count = run.episodes.count - self._seen
        self._seen = run.episodes.count
        latest = run.episodes.rewards[-count:] if count else []
        if run.comm.size > 1 and not run.episodes_of_all_ranks:
            gathered = run.comm.gather((count, latest))
            count = sum(number for number, _ in gathered)
            latest = [reward for _, rewards in gathered for reward in rewards]
        advanced = [counter.advances(count, latest, 1.0 - run.fraction_left) for counter in self._counters]
        if any(advanced):
            with run.paused():
                self._assign(run)
            for counter in (one for one, news in zip(self._counters, advanced, strict=True) if news):
                logger.info(f"{counter.column} {counter.lesson} begins after {run.steps_of_all()} steps")

    def _assign(self, run: Any) -> None:
        values = self._parameters.values([counter.lesson for counter in self._counters])
        # Environments of workers in other processes are reached through the run's.
        reached = [run.env] if hasattr(run.env, "set_parameters") else run.envs
        for env in reached:
            env.set_parameters(values)
        run.columns |= {counter.column: counter.lesson for counter in self._counters}

    def state(self) -> dict[str, Any]:
        return {"seen": self._seen, "curricula": [counter.state() for counter in self._counters]}

    def restore(self, state: dict[str, Any]) -> None:
        self._seen = state["seen"]
        for counter, saved in zip(self._counters, state["curricula"], strict=True):
            counter.restore(saved)


def lessons_of(env: Any) -> list[Lessons]:
    """Return the callback that goes through the lessons of vector environments, if they have any."""
    parameters = getattr(env.unwrapped, "parameters", None)
    return [Lessons(parameters)] if parameters is not None and parameters.curricula else []


class _Counter:
    """The lesson of one curriculum.

    Attributes:
        lesson: number of the lesson, from 0.
        column: name of the lesson's number in the logs.
    """

    def __init__(self, curriculum: Curriculum) -> None:
        self.lesson = 0
        self.column = f"lesson/{curriculum.name}" if curriculum.name else "lesson"
        self._criteria = curriculum.criteria
        self._smoothed = 0.0
        self._begin()

    def _begin(self) -> None:
        """Begin a lesson without episodes."""
        self._episodes = 0
        least = self._criterion.min_lesson_length if self._criterion else 1
        self._returns: deque[float] = deque(maxlen=max(1, least))

    @property
    def _criterion(self) -> Criterion | None:
        """The end of this lesson; None in the last one."""
        return self._criteria[self.lesson] if self.lesson < len(self._criteria) else None

    def advances(self, episodes: int, latest: list[float], progress: float) -> bool:
        """Count the episodes that ended in an update; return whether the next lesson begins."""
        criterion = self._criterion
        if criterion is None:
            return False
        self._episodes += episodes
        self._returns.extend(latest)
        if self._episodes < criterion.min_lesson_length:
            return False
        measure = self._measure(criterion, bool(latest), progress)
        if measure is None or not measure > criterion.threshold:
            return False
        self.lesson += 1
        self._begin()
        return True

    def _measure(self, criterion: Criterion, news: bool, progress: float) -> float | None:
        """Return the measure; None if no return was added to it."""
        if criterion.measure == PROGRESS:
            return progress
        if not news:
            return None
        mean = safe_mean(self._returns)
        if criterion.signal_smoothing:
            # ML-Agents' weights, which its documentation has as 0.75 (new) and 0.25 (old).
            self._smoothed = 0.25 * self._smoothed + 0.75 * mean
            return self._smoothed
        return mean

    def state(self) -> dict[str, Any]:
        return {
            "lesson": self.lesson,
            "episodes": self._episodes,
            "smoothed": self._smoothed,
            "returns": list(self._returns),
        }

    def restore(self, state: dict[str, Any]) -> None:
        self.lesson = state["lesson"]
        self._begin()
        self._episodes = state["episodes"]
        self._smoothed = state["smoothed"]
        self._returns.extend(state["returns"])
