"""Short trainings with a run's own configuration, which write nothing."""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tfbaselines.algs import get
from tfbaselines.cli.stored import NOT_KEPT
from tfbaselines.config.algorithm import Algorithm
from tfbaselines.config.options import RunOptions
from tfbaselines.errors import NotFiniteError
from tfbaselines.logs import logger

# Arguments about tests, files, rows of the logs and ends, which a trial replaces where an algorithm has them.
REPLACED: dict[str, Any] = {
    "num_test_episodes": 0,
    "save_freq": 0,
    "save_interval": 0,
    "checkpoint_freq": None,
    "print_freq": None,
    "max_total_reward": None,
    "stop_max_score": None,
    "save_replay_buffer": False,
    "reward_signals": None,
    "max_ep_len": None,
    "max_ep_reward": None,
    "max_episodes": 0,
    "seconds": 0,
}
# Largest number of steps in an update of a trial whose episodes have a few steps.
STEPS_OF_EPOCH = 500
# Steps before learning starts: a trial waits for at most WAITED of them, or for a whole batch.
WAITING = ("learning_starts", "start_steps", "update_after", "replay_start", "buffer_init_steps")
WAITED = 200
# Arguments that make a trial learn from something else than its environment.
OTHER_SOURCES = ("offline", "pretraining", "demo_path", "expert_path")
# Steps in an update, by the arguments of different algorithms.
UPDATES = ("nsteps", "timesteps_per_batch", "timesteps_per_actorbatch", "steps_per_epoch")
LEAST_UPDATES = 40
# Why a configuration cannot be tried on other environments, by algorithm.
OBSTACLES = {
    "bc": "bc learns from demonstrations of this environment alone, and another one has none: see 'demonstrations'",
    "gail": "gail's rewards come from a discriminator of demonstrations of this environment, and another one has none: "
    "see 'demonstrations'",
}
OFFLINE = "it learns from a data set of this environment, and another one has none: see 'demonstrations'"


def obstacle(config: Mapping[str, Any]) -> str | None:
    """Return why a run's configuration cannot be tried on other environments; None if it can."""
    algorithm = get(config["alg"])
    if algorithm.name in OBSTACLES:
        return OBSTACLES[algorithm.name]
    if algorithm.goals or config["learn"].get("replay") == "hindsight":
        return "its environments have goals"
    if config["learn"].get("offline"):
        return OFFLINE
    return None


def arguments(algorithm: Algorithm, learn: Mapping[str, Any], steps: int) -> dict[str, Any]:
    """Return the arguments of `learn` for a trial.

    Args:
        algorithm: the algorithm.
        learn: arguments of the run.
        steps: environment steps of the trial.
    """
    own = algorithm.config.arguments()
    kept = {name: value for name, value in learn.items() if name not in (*NOT_KEPT, *OTHER_SOURCES)}
    kept |= {name: value for name, value in REPLACED.items() if name in own}
    least = max(WAITED, int(kept.get("batch_size") or 0))
    for name in WAITING:
        value = kept.get(name, own[name].default if name in own else None)
        if value is not None and value > least:
            kept[name] = least
    if "train_v_iters" in own:
        # Spinning Up's epochs have one rollout of thousands of steps.
        kept["steps_per_epoch"] = min(kept.get("steps_per_epoch") or STEPS_OF_EPOCH, STEPS_OF_EPOCH)
    interval = kept.get("target_network_update_freq", 0)
    total = kept.get("total_timesteps") or learn.get("total_timesteps")
    if "target_network_update_freq" in own and total and interval <= 0.25 * total:
        kept["target_network_update_freq"] = max(1, min(interval, steps // 30))
    return kept | {"total_timesteps": steps}


def steps_of_update(algorithm: Algorithm, learn: Mapping[str, Any], num_env: int) -> int:
    """Return the environment steps that an on-policy algorithm collects for an update; 1 for others."""
    own = algorithm.config.arguments()
    if {"replay_size", "buffer_size"} & own.keys() and "nsteps" not in own:
        return 1
    names = [name for name in UPDATES if name in own]
    sizes = [int(learn.get(name, own[name].default) or 1) * (num_env if name == "nsteps" else 1) for name in names]
    return max(sizes, default=1)


class Watch:
    """A callback that judges a trial in intervals, and ends it when it is judged or its time is over.

    Attributes:
        failure: the number that was not finite, or "".

    Args:
        judge: function of the run; anything but None ends the trial.
        seconds: seconds of the processor after the first update until the end.
        every: environment steps between two judgements; 0 for every update.
    """

    def __init__(self, judge: Callable[[Any], Any], seconds: float, every: int = 0) -> None:
        self._judge = judge
        self._seconds = seconds
        self._every = every
        self._due = every
        self._ends: float | None = None
        self._result: Any = None
        self.failure = ""

    def __call__(self, run: Any) -> bool:
        if self._ends is None:
            # Compilation of the first update does not count.
            self._ends = time.process_time() + self._seconds
        if run.timesteps >= self._due:
            self._due = run.timesteps + self._every
            self._result = self._judge(run)
        return self._result is None and time.process_time() < self._ends


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Log nothing, and write no file."""
    before = logger.exchange(logger.Logger(None, []))
    try:
        yield
    finally:
        logger.exchange(before)


def try_out(config: Mapping[str, Any], env: Any, learn: Mapping[str, Any], watch: Watch) -> Any:
    """Train with arguments of `arguments`; return the model, or None if a number was not finite."""
    algorithm = get(config["alg"])
    options = RunOptions(callback=watch, progress=False, save_minutes=None)
    with quiet():
        try:
            return algorithm.learn(config["network"], env, run=options, **{"seed": 0, **learn})
        except NotFiniteError as error:
            watch.failure = " ".join(str(error).split())[:120]
            return None
