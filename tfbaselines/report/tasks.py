"""Tasks: runs of one environment by method, their scores, and conclusions from them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tfbaselines.report import statistics
from tfbaselines.report.measured import Measured

# With more methods, only pairs with the best one have a sentence.
FEW_METHODS = 4
# Sentences about pairs of a task.
MOST_SENTENCES = 8
# A larger estimate of seeds is shown as 'more than' this number.
MANY_SEEDS = 100


class Task(NamedTuple):
    """Runs of one environment.

    Attributes:
        env: id of the environment, empty if unknown.
        success: scores are rates of success.
        methods: runs by method, the best interquartile mean first.
    """

    env: str
    success: bool
    methods: Mapping[str, Sequence[Measured]]

    @property
    def name(self) -> str:
        """Title of the task."""
        return f"{self.env or 'unknown environment'}{' (success rate)' if self.success else ''}"

    def scores(self, method: str) -> np.ndarray:
        """Return a method's final scores: [R, 1]."""
        return np.array([[run.score] for run in self.methods[method]])

    def scores_by_method(self) -> dict[str, np.ndarray]:
        """Return the final scores of every method, [R, 1] each."""
        return {method: self.scores(method) for method in self.methods}


class Pair(NamedTuple):
    """A method that seems better than another on some tasks, the probability of improvement, and a test's result."""

    better: str
    worse: str
    counts: tuple[int, int]
    probability: float
    p_value: float
    tasks: int

    @property
    def significant(self) -> bool:
        """True if the test's p-value is below the significance level."""
        return self.p_value < statistics.ALPHA


def tasks_of(runs: Iterable[Measured]) -> list[Task]:
    """Sort runs into tasks by environment, and by method within them."""
    sorted_runs: dict[tuple[str, bool], dict[str, list[Measured]]] = {}
    for one in runs:
        sorted_runs.setdefault((one.run.env, one.success), {}).setdefault(one.run.label, []).append(one)
    return [
        Task(env, success, dict(sorted(methods.items(), key=lambda item: (-_iqm(item[1]), item[0]))))
        for (env, success), methods in sorted(sorted_runs.items())
    ]


def _iqm(runs: Sequence[Measured]) -> float:
    return float(statistics.interquartile_mean_of(np.array([run.score for run in runs])))


def pairs_of(scores: Mapping[str, np.ndarray]) -> list[Pair]:
    """Compare methods: all of a few, or else the first with each other one.

    Args:
        scores: [R, K] by method.
    """
    names = list(scores)
    chosen = [(one, two) for place, one in enumerate(names) for two in names[place + 1 :]]
    if len(names) > FEW_METHODS:
        chosen = [(names[0], other) for other in names[1:]]
    return [_pair(one, two, scores[one], scores[two]) for one, two in chosen]


def _pair(one: str, two: str, first: np.ndarray, second: np.ndarray) -> Pair:
    probability = float(statistics.probability_of_improvement(first, second))
    if probability < 1 / 2:
        return _pair(two, one, second, first)
    return Pair(one, two, (len(first), len(second)), probability, statistics.p_value(first, second), first.shape[1])


def sentences(pairs: Sequence[Pair]) -> list[tuple[str, bool]]:
    """Say which methods differ significantly, and how many seeds the other pairs would need.

    Returns:
        (sentence, whether the difference is significant) for each pair, or for several.
    """
    # On many tasks, one seed of each may do.
    if pairs and all(pair.counts == (1, 1) and not pair.significant for pair in pairs):
        needed = max(2, statistics.seeds_needed(1.0, pairs[0].tasks) or 0)
        return [(f"One seed each cannot tell any two methods apart; about {needed} can.", False)]
    found = [(_sentence(pair), pair.significant) for pair in pairs[:MOST_SENTENCES]]
    if len(pairs) > MOST_SENTENCES:
        others = pairs[MOST_SENTENCES:]
        count = sum(pair.significant for pair in others)
        found.append((f"Among the {len(others)} other pairs, {count} differ significantly.", count > 0))
    return found


def _sentence(pair: Pair) -> str:
    first, second = pair.counts
    seeds = f"These {first} and {second} seeds" if first != second else f"These {first} seeds"
    better = f"({pair.better} was better in {pair.probability:.0%} of the pairs of runs, p = {pair.p_value:.2g})"
    if pair.significant:
        return f"{pair.better} is better than {pair.worse} {better}."
    needed = statistics.seeds_needed(pair.probability, pair.tasks)
    these = f"{'One seed each' if first == second == 1 else seeds} cannot tell {pair.better} from {pair.worse}"
    if needed is None:
        return f"{these}: they are equal so far."
    if needed > MANY_SEEDS:
        return f"{these}; more than {MANY_SEEDS} would {better}."
    return f"{these}; about {max(needed, min(pair.counts) + 1)} would {better}."


def shared(tasks: Sequence[Task]) -> tuple[list[Task], list[str]]:
    """Choose the tasks and methods of comparisons over all tasks: each method has runs on each task.

    The choice has the most scores; without two methods on two tasks it is empty.
    """
    tasks_by_method: dict[str, frozenset[int]] = {}
    for place, task in enumerate(tasks):
        for method in task.methods:
            tasks_by_method[method] = tasks_by_method.get(method, frozenset()) | {place}
    choices = []
    for wanted in sorted(set(tasks_by_method.values()), key=sorted):
        methods = [method for method, own in tasks_by_method.items() if wanted <= own]
        if len(wanted) > 1 and len(methods) > 1:
            choices.append((len(wanted) * len(methods), sorted(wanted), methods))
    if not choices:
        return [], []
    _, places, methods = max(choices, key=lambda choice: choice[0])
    return [tasks[place] for place in places], methods


def normalized(tasks: Sequence[Task], methods: Sequence[str]) -> dict[str, np.ndarray]:
    """Return scores [R, K] by method, on each task between 0, the worst run, and 1, the best run of any method here.

    R is the smallest number of runs that the method has on a task; further ones are left out.
    """
    columns: dict[str, list[np.ndarray]] = {method: [] for method in methods}
    for task in tasks:
        scores = task.scores_by_method()
        every = np.concatenate(list(scores.values()))
        low, span = every.min(), np.ptp(every) or 1.0
        for method in methods:
            columns[method].append((scores[method][:, 0] - low) / span)
    matrices = {}
    for method, own in columns.items():
        count = min(map(len, own))
        matrices[method] = np.stack([column[:count] for column in own], axis=1)
    order = sorted(methods, key=lambda method: -float(statistics.interquartile_mean(matrices[method])))
    return {method: matrices[method] for method in order}
