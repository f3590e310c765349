"""The judgement: the best arguments and the defaults, trained anew on seeds that the search has not seen."""

import math
from statistics import fmean, stdev
from typing import NamedTuple

from tfbaselines.errors import UsageError
from tfbaselines.search.board import Board
from tfbaselines.search.episodes import mean_returns
from tfbaselines.search.finals import Finalist
from tfbaselines.search.race import tail
from tfbaselines.search.settings import JUDGES_APART
from tfbaselines.search.trials import trained
from tfbaselines.study.cells import Cell
from tfbaselines.study.process import last_error
from tfbaselines.study.store import FAILED, OUTPUT, Study
from tfbaselines.study.worker import Command

JUDGE = "judge"
DEFAULTS = "defaults"
# Seed of the judgement's episodes.
EPISODES_SEED = 1000


class Judged(NamedTuple):
    """Mean returns of the trained policies, one a seed.

    Attributes:
        seeds: the seeds.
        best: scores of the best arguments.
        defaults: scores of the defaults; empty if they cannot be run.
        episodes: episodes of each seed.
        problem: why the defaults cannot be run.
    """

    seeds: list[int]
    best: list[float]
    defaults: list[float]
    episodes: int
    problem: str = ""


def judge(board: Board, best: Finalist, seeds: int, episodes: int, jobs: int, command: Command) -> Judged | int:
    """Train and evaluate the best arguments and the defaults; return the scores, or the status of a stop signal.

    Args:
        board: the search's trials.
        best: the best trial.
        seeds: seeds of each.
        episodes: episodes of the deterministic policy for each seed.
        jobs: runs at once.
        command: returns the command of a run.
    """
    settings = board.settings
    chosen = [settings.seed + JUDGES_APART + index for index in range(seeds)]
    groups = {f"{best.number:05d}": best.words, DEFAULTS: {}}
    cells = {group: [_cell(group, seed, settings.run(own, seed)) for seed in chosen] for group, own in groups.items()}
    study = trained(board, JUDGE, [cell for own in cells.values() for cell in own], jobs, command)
    if isinstance(study, int):
        return study
    problems = {group: _problem(study, own) for group, own in cells.items()}
    if problem := problems[f"{best.number:05d}"]:
        raise UsageError(f"the best arguments cannot be judged: {problem}")
    sound = [cell for group, own in cells.items() if not problems[group] for cell in own]
    scores = mean_returns([study.place(cell) for cell in sound], episodes, EPISODES_SEED, jobs)
    return Judged(chosen, scores[:seeds], scores[seeds:], episodes, problems[DEFAULTS])


def _problem(study: Study, cells: list[Cell]) -> str:
    """Return the error of the first failed cell; empty if none failed."""
    failed = [cell for cell in cells if study.state_of(cell.name) == FAILED]
    return (last_error(study.place(failed[0]) / OUTPUT) or "a run failed") if failed else ""


def _cell(group: str, seed: int, words: dict[str, str]) -> Cell:
    name = f"{group}-s{seed}"
    return Cell(name, group, f"runs/{name}", words)


def verdict(judged: Judged) -> str:
    """Compare the best arguments with the defaults in a sentence: Welch's test, one-sided, of the seeds' scores."""
    if not judged.defaults:
        return f"The defaults cannot be run: {judged.problem}."
    gap = fmean(judged.best) - fmean(judged.defaults)
    if gap <= 0:
        return "The search has found nothing better than the defaults."
    if len(judged.best) < 2:
        return f"The best arguments are {gap:.4g} better on one seed, which proves nothing: use more --judge_seeds."
    errors = [stdev(scores) ** 2 / len(scores) for scores in (judged.best, judged.defaults)]
    if sum(errors) == 0:
        return f"The best arguments are {gap:.4g} better than the defaults on every seed."
    freedom = sum(errors) ** 2 / sum(error**2 / (len(judged.best) - 1) for error in errors)
    chance = tail(gap / math.sqrt(sum(errors)), max(1, int(freedom)))
    if chance < 0.05:
        return f"The best arguments are better than the defaults by {gap:.4g} (Welch's test: p = {chance:.2g})."
    return (
        f"The best arguments are {gap:.4g} better, but {len(judged.best)} seeds cannot tell them from the defaults "
        f"(Welch's test: p = {chance:.2g})."
    )


def in_words(scores: list[float]) -> str:
    """Format scores as mean and standard deviation."""
    if not scores:
        return "none"
    return f"{fmean(scores):.4g} ± {stdev(scores):.3g}" if len(scores) > 1 else f"{fmean(scores):.4g}"
