"""Search for hyper-parameters: trials by Optuna, raced over seeds, and judged on seeds that they have not seen.

    DIR/search.json       what is searched, and the budget of a run
    DIR/journal.log       Optuna's journal of the trials
    DIR/cells, trials     one cell of a study for each seed of a trial (tfbaselines/study), and the log directories
    DIR/finals            the study that gives the best trials more seeds
    DIR/judge             the study that judges the best arguments and the defaults
    DIR/best.yaml         the best arguments, for --config; DIR/report.md what mattered

`space.py` reads the ranges of arguments, `settings.py` keeps what a search is about, `board.py` owns the journal,
`race.py` has the test between trials, `trials.py` takes each trial's next step; `finals.py`, `judge.py` and `report.py`
end it, and `episodes.py` plays the policies for them.
"""

from typing import Any


def __getattr__(name: str) -> Any:
    if name not in ("search", "Found"):
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    from tfbaselines.search import command

    return getattr(command, name)
