"""The report of a search: DIR/report.md with its pictures."""

import datetime
from collections.abc import Iterable
from typing import Any

from tfbaselines.files import write_whole
from tfbaselines.search.board import REASON, SCORES, WORDS, Board, value_of
from tfbaselines.search.finals import Finalist
from tfbaselines.search.judge import Judged, in_words, verdict
from tfbaselines.search.plots import draw_all
from tfbaselines.search.race import LEVEL
from tfbaselines.search.settings import Settings

REPORT = "report.md"
TITLES = {
    "history.png": "History",
    "evaluations.png": "Evaluations in the first run of each trial",
    "importances.png": "Importances",
    "slices.png": "Slices",
    "contour.png": "The two most important numbers",
}
# Trials that the report lists.
MOST_TRIALS = 10
STATES = {"COMPLETE": "all seeds", "PRUNED": "ended early", "FAIL": "failed"}


def write_report(board: Board, finalists: list[Finalist], judged: Judged | None) -> None:
    """Write DIR/report.md and the pictures that it shows."""
    directory, settings = board.directory, board.settings
    trials = board.trials("COMPLETE", "PRUNED")
    importances = board.importances()
    pictures = draw_all(directory, settings, trials, importances)
    best = finalists[0]
    words = settings.words
    parts = [f"# Search: {words['alg']} on {words['env']}", _summary(board, settings)]
    parts += ["## Judgement on unseen seeds", _judgement(settings, judged)]
    changed = [(name, f"`{word}`") for name, word in best.words.items()]
    parts += ["## Best arguments", f"Trial {best.number}, in `best.yaml` for `--config`.", _table(("", ""), changed)]
    if len(finalists) > 1:
        parts += ["## Finals", _finals(settings, finalists)]
    parts += ["## Best trials", _best_trials(trials)]
    parts += [f"## {TITLES[name]}\n\n{_note(name, importances)}![{TITLES[name]}]({name})" for name in pictures]
    write_whole(directory / REPORT, "\n\n".join(parts) + "\n")


def _table(head: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    head = list(head)
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def _summary(board: Board, settings: Settings) -> str:
    everyone = [trial for trial in board.trials() if trial.user_attrs.get(WORDS)]
    counts = {text: sum(trial.state.name == name for trial in everyone) for name, text in STATES.items()}
    began = [trial.datetime_start for trial in everyone if trial.datetime_start]
    ended = [trial.datetime_complete for trial in everyone if trial.datetime_complete]
    took = max(ended) - min(began) if began and ended else datetime.timedelta()
    shown = ", ".join(f"{count} {text}" for text, count in counts.items() if count)
    return (
        f"{len(everyone)} trials ({shown}) of {settings.seeds} seeds and {settings.num_timesteps:,.0f} steps each, "
        f"from the first to the last in {took.total_seconds() / 60:.0f} minutes. The score of a run is the mean return "
        f"of its evaluations in the last fifth of training ({settings.evaluate_episodes} episodes each). A trial ends "
        f"early in its first run by the median rule, or between its seeds if Student's test with the variance pooled "
        f"over all trials puts it below the best one (one-sided, {LEVEL:g})."
    )


def _judgement(settings: Settings, judged: Judged | None) -> str:
    if judged is None:
        return "There was none (`--judge_seeds=0`). The best trial's score is too good: it was chosen for it."
    own = [f"{score:.4g}" for score in judged.defaults] or ["-"] * len(judged.seeds)
    rows = [(seed, f"{best:.4g}", word) for seed, best, word in zip(judged.seeds, judged.best, own, strict=True)]
    rows.append(("mean ± deviation", in_words(judged.best), in_words(judged.defaults)))
    return (
        f"{verdict(judged)} Each policy was trained for {settings.num_timesteps:,.0f} steps on a seed that no trial "
        f"had, and then played {judged.episodes} episodes without sampling.\n\n"
        + _table(("seed", "best arguments", "defaults"), rows)
    )


def _finals(settings: Settings, finalists: list[Finalist]) -> str:
    head = (
        f"The best trials were trained on {settings.seeds} more seeds each, since luck with its seeds helps to make a "
        "trial the best. A seed's score here is the mean return of its last policy without sampling, on other episodes "
        "than those of the judgement; a trial's is the mean of all its seeds."
    )
    rows = []
    for one in finalists:
        scores = [f"{score:.4g}" for score in one.scores]
        parts = scores[: settings.seeds], scores[settings.seeds :]
        rows.append((one.number, f"{one.score:.4g}", *map(", ".join, parts)))
    return f"{head}\n\n{_table(('trial', 'score', 'seeds of the search', 'more seeds'), rows)}"


def _best_trials(trials: list[Any]) -> str:
    known = [trial for trial in trials if value_of(trial) is not None]
    # Finished trials come first: the score of a trial that ended early does not cover all its seeds.
    ordered = sorted(known, key=lambda trial: (trial.state.name == "COMPLETE", value_of(trial)), reverse=True)[
        :MOST_TRIALS
    ]
    rows = []
    for trial in ordered:
        scores = ", ".join(f"{score:.4g}" for score in trial.user_attrs.get(SCORES, ()))
        arguments = " ".join(f"`{name}={word}`" for name, word in trial.user_attrs[WORDS].items())
        end = trial.user_attrs.get(REASON, "all seeds")
        rows.append((trial.number, f"{value_of(trial):.4g}", scores or "-", end, arguments))
    return _table(("trial", "score", "seeds", "end", "arguments"), rows)


def _note(name: str, importances: dict[str, float]) -> str:
    if name == "importances.png":
        top = ", ".join(f"{label} {share:.0%}" for label, share in list(importances.items())[:3])
        return f"How much each argument decides whether a trial is among the best ones: {top}.\n\n"
    if name == "slices.png":
        return "Each point is a trial, the darker the later. The worst tenth lies below the panels.\n\n"
    return ""
