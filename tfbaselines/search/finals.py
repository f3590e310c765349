"""The finals: the best trials are trained on as many seeds again before one of them is chosen.

The best of many scores is too high, since luck with the seeds helped to choose it. New seeds correct that.
"""

from statistics import fmean
from typing import Any, NamedTuple

from tfbaselines.search.board import SCORES, WORDS, Board
from tfbaselines.search.trials import cell_of, evaluations, score_of, trained
from tfbaselines.study.store import DONE
from tfbaselines.study.worker import Command

FINALS = "finals"


class Finalist(NamedTuple):
    """One of the best trials.

    Attributes:
        trial: Optuna's frozen trial.
        scores: scores of its seeds; those of the search come first.
    """

    trial: Any
    scores: list[float]

    @property
    def number(self) -> int:
        """The trial's number."""
        return self.trial.number

    @property
    def words(self) -> dict[str, str]:
        """The trial's arguments, as they would be typed."""
        return self.trial.user_attrs[WORDS]

    @property
    def score(self) -> float:
        """Mean of the scores."""
        return fmean(self.scores)


def finals(board: Board, trials: list[Any], jobs: int, command: Command) -> list[Finalist] | int:
    """Train the best trials on new seeds; return the finalists, the best first, or the status of a stop signal.

    A trial with a run that fails is no finalist.

    Args:
        board: the search's trials.
        trials: the best trials, the best first; one alone needs no new seeds.
        jobs: runs at once.
        command: returns the command of a run.
    """
    finalists = [Finalist(trial, list(trial.user_attrs[SCORES])) for trial in trials]
    if len(finalists) < 2:
        return finalists
    settings = board.settings
    seeds = range(settings.seed + settings.seeds, settings.seed + 2 * settings.seeds)
    cells = {
        one.number: [cell_of(one.number, seed, settings.run(one.words, seed)) for seed in seeds] for one in finalists
    }
    study = trained(board, FINALS, [cell for own in cells.values() for cell in own], jobs, command)
    if isinstance(study, int):
        return study
    complete = []
    for one in finalists:
        found = [evaluations(study.place(cell), settings.every) for cell in cells[one.number]]
        if all(found) and all(study.state_of(cell.name) == DONE for cell in cells[one.number]):
            complete.append(one._replace(scores=[*one.scores, *map(score_of, found)]))
    return sorted(complete, key=lambda one: (-one.score, one.number)) or finalists[:1]
