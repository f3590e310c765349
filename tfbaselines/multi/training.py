"""Train and evaluate the behaviors of a PettingZoo environment."""

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from tfbaselines.config.options import RunOptions
from tfbaselines.errors import UsageError, check_at_least
from tfbaselines.evaluate import load, summary
from tfbaselines.logs import logger
from tfbaselines.logs.directory import holds_checkpoints, make_room
from tfbaselines.logs.formats import HumanOutputFormat
from tfbaselines.multi.agents import Agents
from tfbaselines.multi.behaviors import Behavior, behavior_of, chosen, naming
from tfbaselines.multi.lockstep import Trainer, run_together
from tfbaselines.multi.rows import BehaviorVecEnv
from tfbaselines.parallel import mpi
from tfbaselines.parallel.mpi import one_blas_thread
from tfbaselines.training.callbacks import SaveEvery
from tfbaselines.training.guards import Interrupted, StopSignals
from tfbaselines.training.testing import episodes as play

# Distance between the seeds of behaviors.
SEEDS_APART = 100

FORMATS = ("log", "csv")


def learn(
    env: Callable[[], Any],
    behaviors: Mapping[str, Any],
    *,
    behavior_of_agent: Callable[[str], str] | None = None,
    num_env: int = 1,
    seed: int | None = None,
    log_path: str | os.PathLike | None = None,
    resume: bool = False,
    overwrite: bool = False,
    formats: tuple[str, ...] = FORMATS,
    shows: bool = False,
) -> dict[str, Any]:
    """Train each behavior of an environment with its own algorithm; the agents of a behavior share its parameters.

    Args:
        env: makes an environment of PettingZoo's parallel form; each call makes another one.
        behaviors: settings of each behavior: 'alg' ('ppo2' or 'sac'), 'network', and arguments of its learn, such as
            total_timesteps; 'default' for behaviors without settings of their own.
        behavior_of_agent: returns an agent's behavior; None for the name of the agent without the number behind it.
        num_env: copies of the environment; each agent of each copy is a row of its behavior.
        seed: seed of the environments and, if they have none of their own, of the behaviors.
        log_path: directory with a log directory for each behavior; None for no files.
        resume: continue from the latest checkpoints.
        overwrite: delete the files of an earlier run.
        formats: formats of the logs.
        shows: print a short row of each behavior's logs.

    Returns:
        The trained model of each behavior.
    """
    check_at_least(1, num_env=num_env)
    if mpi.world().size > 1:
        raise UsageError("several behaviors train in one process, not on several ranks")
    given = {name: behavior_of(settings, name) for name, settings in behaviors.items()}
    signals = StopSignals()

    def work(trainer: Trainer, behavior: Behavior, number: int) -> Any:
        _configure(log_path, trainer.name, formats, resume, overwrite)
        if shows:
            logger.get_current().output_formats.append(_NamedRows(trainer.name))
        chosen_options = dict(behavior.options)
        every = chosen_options.pop("save_every", None)
        callback = [partial(_goes_on, signals), *([] if every is None else [SaveEvery(every)])]
        directory = None if log_path is None else str(Path(log_path) / trainer.name)
        if directory is not None:
            paths = [os.path.join(directory, f"0.{i}") for i in range(trainer.env.num_envs)]
            trainer.env.write_episodes(paths, append=resume)
        resumed = directory if resume and directory and holds_checkpoints(directory) else None
        options = RunOptions(**chosen_options, callback=callback, resume=resumed, progress=False)
        own = {"seed": None if seed is None else seed + SEEDS_APART * number} | _unlimited(behavior)
        return behavior.algorithm.learn(behavior.network, trainer.env, run=options, **own | behavior.arguments)

    with _together(env, given, behavior_of_agent, num_env, seed) as (agents, trainers, found):
        signals.catch()
        try:
            for number, trainer in enumerate(trainers):
                behavior = found[trainer.name]
                act_on = partial(_act_on, trainer.env, behavior)
                trainer.start(partial(work, trainer, behavior, number), act_on)
            run_together(agents, trainers, over=lambda: True)
        finally:
            signals.release()
    if signals.number:
        raise Interrupted(signals.number, None if log_path is None else os.fspath(log_path))
    return {trainer.name: trainer.model for trainer in trainers}


def evaluate(
    env: Callable[[], Any],
    models: Mapping[str, Any] | str | os.PathLike,
    *,
    behavior_of_agent: Callable[[str], str] | None = None,
    episodes: int = 20,
    deterministic: bool = False,
    seed: int = 0,
    checkpoint: str = "last",
) -> dict[str, dict[str, Any]]:
    """Let trained behaviors act together, and collect the returns of their agents.

    Args:
        env: makes an environment of PettingZoo's parallel form.
        models: the model of each behavior, or its log directory; or the directory that learn's log_path named.
        behavior_of_agent: see `learn`.
        episodes: least number of episodes of the agents of each behavior.
        deterministic: take the most likely actions instead of sampling.
        seed: seed of the environment.
        checkpoint: 'last', 'best', or the number of a checkpoint.

    Returns:
        For each behavior 'returns' and 'lengths' of its agents' episodes, and 'mean', 'std', 'min' and 'max' of the
        returns.
    """
    check_at_least(1, episodes=episodes)
    if isinstance(models, str | os.PathLike):
        models = {path.name: path for path in sorted(Path(models).expanduser().iterdir()) if holds_checkpoints(path)}
    loaded = {
        name: load(model, checkpoint=checkpoint) if isinstance(model, str | os.PathLike) else model
        for name, model in models.items()
    }
    given = {name: behavior_of({"alg": model.config["alg"]}, name) for name, model in loaded.items()}
    played: dict[str, list[dict[str, Any]]] = {name: [] for name in loaded}

    def act(trainer: Trainer, behavior: Behavior, model: Any) -> None:
        venv = behavior.algorithm.wrap(trainer.env)
        with model.acting_in(venv, model.rng):
            for episode in play(model, venv, deterministic):
                played[trainer.name].append(episode)

    with _together(env, given, behavior_of_agent, 1, seed) as (agents, trainers, found):
        for trainer in trainers:
            model = loaded[trainer.name]
            trainer.start(lambda model=model: model, partial(act, trainer, found[trainer.name]))
        run_together(agents, trainers, over=lambda: all(len(rows) >= episodes for rows in played.values()))
    return {
        name: summary([row["r"] for row in rows])
        | {"returns": [row["r"] for row in rows], "lengths": [row["l"] for row in rows]}
        for name, rows in played.items()
    }


@contextlib.contextmanager
def _together(
    env: Callable[[], Any],
    given: Mapping[str, Behavior],
    behavior_of_agent: Callable[[str], str] | None,
    num_env: int,
    seed: int | None,
) -> Iterator[tuple[Agents, list[Trainer], dict[str, Behavior]]]:
    """Make the environments, and a trainer with its rows for each behavior; close the environments afterwards."""
    agents = Agents(env, num_env, behavior_of_agent or naming(given), seed)
    try:
        found = chosen(given, agents.rows)
        trainers = []
        for name, behavior in found.items():
            trainer = Trainer(name)
            rows = [f"{agent} of environment {number}" for number, agent in agents.rows[name]]
            flatten = not behavior.algorithm.dict_observations
            trainer.env = BehaviorVecEnv(rows, agents.spaces(name), flatten, trainer.wait)
            trainers.append(trainer)
        with one_blas_thread():
            yield agents, trainers, found
    finally:
        agents.close()


def _configure(
    log_path: str | os.PathLike | None, name: str, formats: tuple[str, ...], resume: bool, overwrite: bool
) -> None:
    """Make the current logger, which is the one of this behavior's thread, write to the behavior's directory."""
    if log_path is None:
        logger.exchange(logger.Logger(None, []))
        return
    directory = str(Path(log_path).expanduser().absolute() / name)
    if not resume:
        make_room(directory, overwrite)
    logger.configure(directory, formats, resume=resume)


class _NamedRows(HumanOutputFormat):
    """Shows short rows and messages behind the name of their behavior."""

    def __init__(self, name: str) -> None:
        super().__init__(sys.stdout)
        self.rows = "short"
        self._name = name

    def _write_lines(self, text: str) -> None:
        super()._write_lines(f"{self._name}: {text}")


def _unlimited(behavior: Behavior) -> dict[str, Any]:
    """Return the arguments that are not the algorithm's defaults: the environment ends the episodes of its agents."""
    names = behavior.algorithm.config.arguments()
    unlimited = {"max_ep_len": None, "num_test_episodes": 0}
    return {name: value for name, value in unlimited.items() if name in names}


def _goes_on(signals: StopSignals, run: Any) -> bool:
    return not signals.number


def _act_on(env: BehaviorVecEnv, behavior: Behavior, model: Any) -> None:
    """Let a trained policy act until the other behaviors are trained."""
    for _ in play(model, behavior.algorithm.wrap(env)):
        pass
