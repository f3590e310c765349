"""A search from its first trial to its report."""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from tfbaselines.errors import UsageError, bad_argument, check_at_least
from tfbaselines.files import write_whole
from tfbaselines.search import settings as settings_of
from tfbaselines.search.board import SCORES, Board, load_optuna
from tfbaselines.search.finals import Finalist, finals
from tfbaselines.search.judge import Judged, in_words, judge, verdict
from tfbaselines.search.report import write_report
from tfbaselines.search.settings import Settings
from tfbaselines.search.trials import Trials
from tfbaselines.study.store import Study
from tfbaselines.study.worker import Command, run_command, work
from tfbaselines.words import literal

BEST = "best.yaml"
Say = Callable[[str], None]


class Found(NamedTuple):
    """The result of a search.

    Attributes:
        directory: the search's directory, with best.yaml and report.md.
        arguments: the best arguments by name, as they would be typed; empty without a score.
        score: score of the best trial; None if a signal stopped the search before it was chosen.
        judged: scores on unseen seeds; None without a judgement.
        status: 0, or 128 + the number of the signal that stopped the search.
    """

    directory: Path
    arguments: dict[str, str]
    score: float | None
    judged: Judged | None
    status: int = 0


class Plan(NamedTuple):
    """Extent of a search, which the next command may change: arguments of `search` by these names."""

    trials: int = 50
    jobs: int = 1
    timeout: float | None = None
    finalists: int = 4
    judge_seeds: int = 5
    judge_episodes: int = 100

    def check(self) -> None:
        """Raise a UsageError for numbers out of bounds."""
        check_at_least(1, trials=self.trials, jobs=self.jobs)
        check_at_least(1, finalists=self.finalists, judge_episodes=self.judge_episodes)
        check_at_least(0, judge_seeds=self.judge_seeds)
        if self.timeout is not None and not self.timeout > 0:
            raise bad_argument("timeout", self.timeout, "minutes above 0")


def default_directory(alg: str, env: str) -> Path:
    """Return the directory of a search without --log_path."""
    return Path("logs") / "search" / f"{alg.rpartition(':')[2]}-{env.rpartition(':')[2]}".replace("/", "_")


def search(
    alg: str,
    env: str,
    trials: int = 50,
    *,
    jobs: int = 1,
    num_timesteps: float = 1e5,
    seeds: int = 3,
    space: str | Path | Mapping[str, Any] | None = None,
    log_path: str | Path | None = None,
    timeout: float | None = None,
    finalists: int = 4,
    judge_seeds: int = 5,
    judge_episodes: int = 100,
    seed: int = 0,
    evaluations: int = 20,
    evaluate_episodes: int = 10,
    say: Say = print,
    **arguments: Any,
) -> Found:
    """Search for the arguments of an algorithm, judge the best ones on unseen seeds, and write best.yaml and report.md.

    A search that was stopped or killed continues when it is called again with the same arguments.

    Args:
        alg, env: algorithm, and environment id; 'module:id' imports the module first.
        trials: number of trials in all.
        jobs: runs at once, which share the cores.
        num_timesteps: environment steps of each run.
        seeds: seeds of a trial.
        space: YAML file or content of the search space; None for the algorithm's own.
        log_path: directory of the search; None for logs/search/ALG-ENV.
        timeout: minutes after which no trial goes on; finals and judgement follow. None for no limit.
        finalists: number of the best trials that are trained on as many seeds again before one is chosen; 1 for no
            finals.
        judge_seeds: seeds of the judgement; 0 for no judgement.
        judge_episodes: episodes of the finals and of the judgement for each seed.
        seed: first seed of the trials, and seed of the sampler.
        evaluations, evaluate_episodes: evaluations in each run, and episodes of each.
        say: takes lines about the progress.
        arguments: further arguments of every run, which are not searched.
    """
    budget = {"num_timesteps": float(num_timesteps), "seeds": seeds, "seed": seed}
    budget |= {"evaluations": evaluations, "evaluate_episodes": evaluate_episodes}
    plan = Plan(trials, jobs, timeout, finalists, judge_seeds, judge_episodes)
    plan.check()
    load_optuna()
    settings = settings_of.make(alg, env, arguments, space, **budget)
    directory = Path(log_path).expanduser() if log_path else default_directory(alg, env)
    return carry_out(directory, settings, plan, say)


def carry_out(directory: Path, settings: Settings, plan: Plan, say: Say, command: Command = run_command) -> Found:
    """Run the trials that are not done, then the finals and the judgement, and write the report.

    Args:
        directory: the search's directory; UsageError if it has another search.
        settings, plan: what is searched, and how far.
        say: takes lines about the progress.
        command: returns the command of a run.
    """
    settings_of.keep(directory, settings)
    with suppress(UsageError):
        Study.create(directory)
    board, study = Board(directory, settings), Study(directory)
    end = None if plan.timeout is None else time.monotonic() + 60 * plan.timeout
    trials = _Writing(study, board, plan.trials, end, say)
    say(
        f"search in '{directory}': {len(settings.space)} arguments, {trials.progress().ended}/{plan.trials} trials done"
    )
    status = 0
    # Work again if another worker was killed before it ended its trial.
    while not status and not trials.finished():
        status = work(study, plan.jobs, command, say=trials.hear, guide=trials)
    if status:
        say(f"stopped: the same command continues the search in '{directory}'")
        return Found(directory, {}, None, None, status)
    return _judged(directory, board, plan, say, command)


class _Writing(Trials):
    """Trials with a file of the best arguments so far."""

    def fill(self, idle: int) -> None:
        super().fill(idle)
        best = self.board.best()
        if best is not None and best.number != self._written:
            write_best(self.study.directory, self.board.settings, Finalist(best, best.user_attrs[SCORES]))
            self._written = best.number

    _written: int | None = None


def write_best(directory: Path, settings: Settings, best: Finalist, judged: Judged | None = None) -> None:
    """Write the best arguments as a file that --config reads."""
    words = {**settings.words, "num_timesteps": f"{settings.num_timesteps:.0f}", **best.words}
    lines = [f"# trial {best.number}: mean return {best.score:.6g} over {len(best.scores)} seeds of the search"]
    if judged is None:
        lines += ["# not judged on unseen seeds"]
    else:
        lines += [f"# on {len(judged.seeds)} unseen seeds: {in_words(judged.best)}"]
        lines += [f"# defaults on the same seeds: {in_words(judged.defaults)}"]
    lines += [f"# python -m tfbaselines.run --config={directory / BEST}"]
    values = {name: _plain(word) for name, word in words.items()}
    text = yaml.safe_dump({"default": values}, sort_keys=False, allow_unicode=True)
    write_whole(directory / BEST, "\n".join([*lines, text]))


def _plain(word: str) -> Any:
    """Return a word as a YAML value that --config reads as the same word."""
    value = literal(word)
    return value if isinstance(value, bool | int | float) or word == "None" else word


def _judged(directory: Path, board: Board, plan: Plan, say: Say, command: Command) -> Found:
    trials = board.best_trials(plan.finalists)
    if not trials:
        raise UsageError("no trial is finished: the same command continues the search, with a longer --timeout if any")
    finalists = _finalists(board, trials, plan, say, command)
    if isinstance(finalists, int):
        say(f"stopped: the same command continues the finals in '{directory}'")
        return Found(directory, {}, None, None, finalists)
    best, judged = finalists[0], None
    if plan.judge_seeds:
        say(f"judging trial {best.number} and the defaults on {plan.judge_seeds} unseen seeds")
        judged = judge(board, best, plan.judge_seeds, plan.judge_episodes, plan.jobs, command)
        if isinstance(judged, int):
            say(f"stopped: the same command continues the judgement in '{directory}'")
            return Found(directory, best.words, best.score, None, judged)
        say(f"best: {in_words(judged.best)}; defaults: {in_words(judged.defaults)}. {verdict(judged)}")
    write_best(directory, board.settings, best, judged)
    write_report(board, finalists, judged)
    say(f"arguments: {directory / BEST}\nreport:    {directory / 'report.md'}")
    return Found(directory, best.words, best.score, judged)


def _finalists(board: Board, trials: list[Any], plan: Plan, say: Say, command: Command) -> list[Finalist] | int:
    if len(trials) > 1:
        numbers = ", ".join(str(trial.number) for trial in trials)
        say(f"finals: trials {numbers} on {board.settings.seeds} more seeds each")
    found = finals(board, trials, plan.judge_episodes, plan.jobs, command)
    if len(trials) > 1 and not isinstance(found, int):
        say(f"finals: {', '.join(f'trial {one.number} has {one.score:.4g}' for one in found)}")
    return found
