"""The trials of a search: Optuna's study in DIR/journal.log, changed by one process at a time under a file's lock.

The journal is a file of lines that only grows, so that no process can undo what another one has written. A line that
a crash has cut off is dropped.
"""

import contextlib
import importlib.util
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from tfbaselines.errors import InUseError, UsageError
from tfbaselines.files import drop_torn_line
from tfbaselines.logs.directory import locked
from tfbaselines.search.settings import Settings

JOURNAL, LOCK = "journal.log", ".board"
# Name of the study in the journal, for optuna's own tools.
STUDY = "search"
# Attributes of a trial: its arguments, the scores of its seeds, and why it ended early.
WORDS, SCORES, REASON = "words", "scores", "reason"
# Trials of random arguments before the sampler learns.
STARTUP = 10
# Finished trials before a run is pruned, and share of a run in which it is not.
BEFORE_PRUNING, WARM_UP = 5, 0.3
SECONDS_BETWEEN_TRIES = 0.02
FEWEST_FOR_IMPORTANCES = 4


def load_optuna() -> Any:
    """Import Optuna; UsageError if it is not installed."""
    try:
        import optuna
        import optuna.importance
        import optuna.storages.journal
    except ImportError:
        raise UsageError('a search needs Optuna: pip install "tfbaselines[search]"') from None
    if importlib.util.find_spec("matplotlib") is None:
        # Raise now, not only when the report is written.
        raise UsageError('the report of a search needs matplotlib: pip install "tfbaselines[search]"')
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
    return optuna


@contextlib.contextmanager
def alone_in(directory: Path) -> Iterator[None]:
    """Wait for the lock of a directory that other processes may hold, and hold it."""
    with contextlib.ExitStack() as stack:
        while True:
            try:
                stack.enter_context(locked(directory))
                break
            except InUseError:
                time.sleep(SECONDS_BETWEEN_TRIES)
        yield


class Board:
    """The trials of a search.

    Attributes:
        directory: the search's directory.
        settings: the search's settings.
    """

    def __init__(self, directory: Path, settings: Settings) -> None:
        self._optuna = load_optuna()
        self.directory = directory
        self.settings = settings
        self._thread = threading.RLock()
        self._holders = 0
        with self.alone():
            self._study = self._open()

    def _open(self) -> Any:
        optuna, settings = self._optuna, self.settings
        pruner = optuna.pruners.MedianPruner(BEFORE_PRUNING, int(WARM_UP * settings.evaluations))
        journal = str(self.directory / JOURNAL)
        backend = optuna.storages.journal.JournalFileBackend(
            journal, optuna.storages.journal.JournalFileOpenLock(journal)
        )
        try:
            self._storage = optuna.storages.JournalStorage(backend)
            begun = any(one.study_name == STUDY for one in self._storage.get_all_studies())
            # Optuna would write a line for each attempt to begin a study again.
            make = optuna.load_study if begun else partial(optuna.create_study, direction="maximize")
            return make(storage=self._storage, pruner=pruner, study_name=STUDY)
        except (ValueError, KeyError, TypeError, AssertionError) as error:
            raise UsageError(f"'{journal}' is damaged: {' '.join(str(error).split())[:200]}") from None

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other processes and threads from changing the trials; may be entered again inside."""
        with self._thread, contextlib.ExitStack() as stack:
            if not self._holders:
                stack.enter_context(alone_in(self.directory / LOCK))
                # Nobody else holds Optuna's own lock now: a killed process has left it.
                (self.directory / f"{JOURNAL}.lock").unlink(missing_ok=True)
                drop_torn_line(self.directory / JOURNAL)
            self._holders += 1
            try:
                yield
            finally:
                self._holders -= 1

    def trials(self, *states: str) -> list[Any]:
        """Return Optuna's frozen trials, in all states or in those given by name."""
        wanted = [self._optuna.trial.TrialState[state] for state in states] or None
        return self._study.get_trials(deepcopy=False, states=wanted)

    def ask(self, first: bool) -> int:
        """Begin a trial; the first one has the defaults as far as the space has them. Return its number."""
        optuna, settings = self._optuna, self.settings
        with self.alone():
            if first:
                self._study.enqueue_trial(settings.defaults())
            # Seed the sampler for each trial, so that a resumed search samples as an uninterrupted one does.
            seed = (settings.seed * 1_000_003 + len(self.trials())) % 2**32
            self._study.sampler = optuna.samplers.TPESampler(n_startup_trials=STARTUP, seed=seed, constant_liar=True)
            trial = self._study.ask()
            trial.set_user_attr(WORDS, settings.sample(trial))
            return trial.number

    def report(self, number: int, values: dict[int, float]) -> bool:
        """Report a run's evaluations so far by their numbers; return True if the run should end here."""
        with self.alone():
            trial = self._live(number)
            reported = set(self.trials()[number].intermediate_values)
            for step in sorted(values.keys() - reported):
                trial.report(values[step], step)
            return bool(values) and trial.should_prune()

    def note(self, number: int, name: str, value: Any) -> None:
        """Set an attribute of a trial."""
        with self.alone():
            self._live(number).set_user_attr(name, value)

    def finish(self, number: int, scores: Sequence[float]) -> None:
        """End a trial after all its seeds."""
        self._end(number, scores, "COMPLETE", fmean(scores))

    def end_early(self, number: int, scores: Sequence[float], reason: str) -> None:
        """End a trial that is worse than others."""
        self._end(number, scores, "PRUNED", None, reason)

    def fail(self, number: int, reason: str) -> None:
        """End a trial with arguments that cannot be used."""
        self._end(number, (), "FAIL", None, reason)

    def _end(self, number: int, scores: Sequence[float], state: str, value: float | None, reason: str = "") -> None:
        with self.alone():
            trial = self._live(number)
            trial.set_user_attr(SCORES, list(scores))
            if reason:
                trial.set_user_attr(REASON, reason)
            self._study.tell(number, value, state=self._optuna.trial.TrialState[state])

    def _live(self, number: int) -> Any:
        """Return a running trial, which another process may have begun."""
        study = self._storage.get_study_id_from_name(STUDY)
        return self._optuna.trial.Trial(
            self._study, self._storage.get_trial_id_from_study_id_trial_number(study, number)
        )

    def best(self) -> Any | None:
        """Return the best finished trial; None before the first."""
        return next(iter(self.best_trials(1)), None)

    def best_trials(self, count: int) -> list[Any]:
        """Return the `count` best finished trials, the best first."""
        return sorted(self.trials("COMPLETE"), key=lambda trial: (-trial.value, trial.number))[:count]

    def importances(self) -> dict[str, float]:
        """Compute the importance of each sampled number (PED-ANOVA) from all trials with a score.

        Trials that ended early count with their last score: they are what the better ones differ from.
        """
        optuna = self._optuna
        ended = self.trials("COMPLETE", "PRUNED")
        scored = [(trial, value) for trial in ended if (value := value_of(trial)) is not None]
        if len(scored) < FEWEST_FOR_IMPORTANCES:
            return {}
        study = optuna.create_study(direction="maximize")
        create = optuna.trial.create_trial
        study.add_trials(
            [create(params=trial.params, distributions=trial.distributions, value=value) for trial, value in scored]
        )
        evaluator = optuna.importance.PedAnovaImportanceEvaluator()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return optuna.importance.get_param_importances(study, evaluator=evaluator)


def value_of(trial: Any) -> float | None:
    """Return the mean of a trial's seeds, or its last evaluation if its first run did not end; None without any."""
    if trial.user_attrs.get(SCORES):
        return fmean(trial.user_attrs[SCORES])
    return trial.intermediate_values[max(trial.intermediate_values)] if trial.intermediate_values else None
