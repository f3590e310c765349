"""The finals: the best trials are trained on as many seeds again, and their last policies are compared.

The best of many scores is too high, since luck with the seeds helped to choose it. New seeds correct that. The scores
of the trials are of policies during training: the last one may be better, if the learning rate falls, or worse.
"""

from statistics import fmean
from typing import Any, NamedTuple

from tfbaselines.search.board import SCORES, WORDS, Board
from tfbaselines.search.episodes import mean_returns
from tfbaselines.search.trials import cell_of, trained
from tfbaselines.study.cells import Cell
from tfbaselines.study.store import DONE, Study
from tfbaselines.study.worker import Command

FINALS = "finals"
# Seed of the finals' episodes. The judgement has others.
EPISODES_SEED = 2000


class Finalist(NamedTuple):
    """One of the best trials.

    Attributes:
        trial: Optuna's frozen trial.
        scores: scores of its seeds, the search's seeds first; the search's own scores where there were no finals.
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


def finals(board: Board, trials: list[Any], episodes: int, jobs: int, command: Command) -> list[Finalist] | int:
    """Train the best trials on new seeds and play the last policies; return the finalists, the best first.

    A trial with a run that fails is no finalist. The result is the status of a stop signal if one came.

    Args:
        board: the search's trials.
        trials: the best trials, the best first; one alone needs no finals, and keeps its score.
        episodes: episodes of the deterministic policy of each seed, whose mean return is the seed's score here.
        jobs: runs at once.
        command: returns the command of a run.
    """
    finalists = [Finalist(trial, list(trial.user_attrs[SCORES])) for trial in trials]
    if len(finalists) < 2:
        return finalists
    new = {one.number: _cells(board, one, board.settings.seeds) for one in finalists}
    study = trained(board, FINALS, [cell for cells in new.values() for cell in cells], jobs, command)
    if isinstance(study, int):
        return study
    first = Study(board.directory)
    complete = []
    for one in finalists:
        if all(study.state_of(cell.name) == DONE for cell in new[one.number]):
            runs = [first.place(cell) for cell in _cells(board, one, 0)]
            runs += [study.place(cell) for cell in new[one.number]]
            complete.append(one._replace(scores=mean_returns(runs, episodes, EPISODES_SEED, jobs)))
    return sorted(complete, key=lambda one: (-one.score, one.number)) or finalists[:1]


def _cells(board: Board, finalist: Finalist, first: int) -> list[Cell]:
    """Return the cells of as many seeds as a trial has, from number `first` on."""
    settings = board.settings
    seeds = range(settings.seed + first, settings.seed + first + settings.seeds)
    return [cell_of(finalist.number, seed, settings.run(finalist.words, seed)) for seed in seeds]
