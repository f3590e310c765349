"""Short runs on a run's own environment, each with one argument set to its known value."""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tfbaselines.algs import get
from tfbaselines.doctor.findings import number
from tfbaselines.probes.settings import Difference, cause_of
from tfbaselines.probes.signs import Sign
from tfbaselines.probes.trial import Watch, arguments, steps_of_update, try_out
from tfbaselines.probes.vectors import copies_of

# Steps and updates of a short run, and the largest number of environments in it.
REPLAY_STEPS, ROLLOUT_STEPS, UPDATES = 2500, 15_000, 15
MOST_ENVS = 16
# Least episodes for a comparison, and the number of deviations that is a difference.
LEAST, CLEAR = 6, 2.0
# Largest certainty of an effect: another fault may remain.
SUREST = 0.88


class Score(NamedTuple):
    """Returns of the last third of a short run's episodes: mean, error of the mean, and number."""

    mean: float
    error: float
    count: int


def short_run(config: Mapping[str, Any], change: Difference | None, seconds: float) -> Score:
    """Train on the run's environment, with the known setting in the place of a different one if that is given."""
    algorithm = get(config["alg"])
    known = {} if change is None else {change.name: change.known}
    of_env = change is not None and change.of_env
    config = {**config, "env": config["env"] | known} if of_env else {**config, "learn": config["learn"] | known}
    env = copies_of(config, max(1, min(MOST_ENVS, int(config["env"].get("num_env") or 1))))
    returns: list[float] = []

    def judge(run: Any) -> None:
        returns[:] = [float(one) for one in run.episodes.rewards]

    try:
        of_update = steps_of_update(algorithm, config["learn"], env.num_envs)
        steps = REPLAY_STEPS if of_update == 1 else max(ROLLOUT_STEPS, UPDATES * of_update)
        try_out(config, env, arguments(algorithm, config["learn"], steps), Watch(judge, seconds))
    finally:
        env.close()
    late = np.array(returns[-max(1, len(returns) // 3) :])
    return (
        Score(float(late.mean()), float(late.std() / np.sqrt(len(late))), len(late))
        if len(late)
        else Score(0.0, 0.0, 0)
    )


def effects(
    config: Mapping[str, Any], known: Sequence[Difference], seconds: float, end: float
) -> Iterator[tuple[Difference, Score, Score]]:
    """Yield each difference with the scores of a short run as it is and of one with the known setting."""
    if not known:
        return
    base = short_run(config, None, seconds)
    for difference in known:
        if time.process_time() + seconds > end or base.count < LEAST:
            return
        yield difference, base, short_run(config, difference, seconds)


def effect_signs(found: Sequence[tuple[Difference, Score, Score]]) -> Iterator[Sign]:
    """Name the argument with the largest difference in effect, if the known setting is clearly better."""
    sized = []
    for difference, base, better in found:
        error = np.hypot(base.error, better.error)
        if better.count >= LEAST and error > 0:
            sized.append(((better.mean - base.mean) / error, difference, base, better))
    if not sized:
        return
    size, difference, base, better = max(sized, key=lambda one: one[0])
    if size > CLEAR:
        value = (
            f"{number(base.mean)} with {difference.name}={difference.value}, {number(better.mean)} with "
            f"{difference.known} ({difference.origin}), {size:.1f} standard errors apart"
        )
        causes = tuple(dict.fromkeys((cause_of(difference), "settings")))
        # A measured effect says more than a sign that has several causes.
        certainty = min(SUREST, 0.4 + 0.075 * (size - CLEAR))
        yield Sign("effect", value, certainty, causes, f"--{difference.name}={difference.known}")
