"""Evaluate a saved run: ``python -m tfbaselines.evaluate DIR --episodes 20``.

config.json describes the environments and the policy; a checkpoint has the weights and the frozen normalization.
"""

import contextlib
import itertools
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tfbaselines.algs import get
from tfbaselines.cli import Parser, exit_status, leave
from tfbaselines.cli.stored import (
    NOT_KEPT,
    OF_THE_MODEL,
    check_config,
    check_is_run,
    check_run,
    read_config,
    require_trust,
)
from tfbaselines.config.options import FILE_NAME
from tfbaselines.errors import UsageError, check_at_least, warn
from tfbaselines.loading import load_tensorflow
from tfbaselines.training.checkpoint import Checkpoints, DamagedError, load_tree


def evaluate(
    run: Any,
    env: Any = None,
    episodes: int = 20,
    deterministic: bool = False,
    seed: int = 0,
    num_env: int = 1,
    checkpoint: str = "last",
    video: str | None = None,
    trust: bool = False,
    video_episodes: int = 1,
    video_name: str | None = None,
) -> dict[str, Any]:
    """Run a policy and collect the episodes.

    Args:
        run: a model, or the log directory or a file of a saved run.
        env: the environments, in any form that learn takes; None for the run's own.
        episodes: number of episodes.
        deterministic: take the most likely actions instead of sampling.
        seed: seed of the environments and of sampling.
        num_env: number of parallel environments; several favor short episodes, which end first.
        checkpoint: 'last', 'best', or the number of a checkpoint.
        video: directory for a video of the first episodes; None for none. An environment that is given needs
            render_mode='rgb_array'.
        trust: import the modules named in config.json, which runs their code.
        video_episodes: number of episodes in the video; rendering them takes most of the time.
        video_name: beginning of the video's name; None for RUN.CHECKPOINT.

    Returns:
        'returns' and 'lengths' of the episodes; 'mean', 'std', 'min' and 'max' of the returns, 'mean_length', and
        'checkpoint', the file that was evaluated, or None for a model, and 'deterministic'; with `video` also
        'videos', their paths.
    """
    check_at_least(1, episodes=episodes, num_env=num_env, video_episodes=video_episodes)
    played: list[dict[str, Any]] = []
    with acting(run, env, num_env, seed, checkpoint, trust, "rgb_array" if video else None) as (model, venv, path):
        from tfbaselines.envs.vec import VecVideoRecorder
        from tfbaselines.training.testing import episodes as play

        videos: list[str] = []
        if video:
            name = video_name or ("model" if path is None else film_name(Path(path)))
            venv = VecVideoRecorder(venv, video, lambda step: step == 0, sys.maxsize, name, announce=videos.append)
        try:
            for episode in itertools.islice(play(model, venv, deterministic), episodes):
                played.append(episode)
                if video and len(played) == video_episodes:
                    venv.end_video()
        finally:
            if video:
                venv.end_video()
    about = {"checkpoint": path, "deterministic": deterministic} | ({"videos": videos} if video else {})
    return _results(played) | about


def evaluate_checkpoints(run: str | os.PathLike, **arguments: Any) -> list[dict[str, Any]]:
    """Evaluate every numbered checkpoint of a run, the oldest first.

    Args:
        run: log directory of the run.
        arguments: arguments of `evaluate`; videos are named by the steps of training, RUN.STEPS.

    Returns:
        The results of `evaluate`, each with 'steps', the environment steps of training on all ranks.
    """
    directory = Path(run).expanduser().resolve()
    checkpoints = Checkpoints(directory / "checkpoints")
    if not checkpoints.numbers:
        raise UsageError(checkpoints.describe())
    results = []
    for number in checkpoints.numbers:
        try:
            steps = load_tree(checkpoints.named(number))["training"]["timesteps_of_all"]
        except (DamagedError, KeyError, TypeError) as error:
            warn(f"checkpoint {number} is left out: {error}")
            continue
        name = f"{directory.name}.{int(steps)}"
        results.append(evaluate(directory, checkpoint=number, video_name=name, **arguments) | {"steps": int(steps)})
    if not results:
        raise UsageError(checkpoints.describe())
    return results


def film_name(saved: Path) -> str:
    """Return the beginning of a video's name for a saved model: RUN.CHECKPOINT, or the model's own name."""
    saved = saved.resolve()
    return f"{saved.parents[1].name}.{saved.name}" if saved.parent.name == "checkpoints" else saved.name


def _results(played: list[dict[str, Any]]) -> dict[str, Any]:
    returns = [float(episode["r"]) for episode in played]
    lengths = [int(episode["l"]) for episode in played]
    found = {"mean_length": float(np.mean(lengths)), "returns": returns, "lengths": lengths}
    return summary(returns) | found


def summary(returns: list[float]) -> dict[str, float]:
    """Compute mean, standard deviation, minimum and maximum of returns."""
    return {name: float(getattr(np, name)(returns)) for name in ("mean", "std", "min", "max")}


class Saved(NamedTuple):
    """A saved run: its checked description, the file of its model, and that file's content if it was read."""

    config: dict[str, Any]
    path: Path
    tree: dict[str, Any] | None


def load(path: str | Path, env: Any = None, checkpoint: str = "last", trust: bool = False) -> Any:
    """Load a saved run; tfbaselines.load documents the arguments."""
    saved = find_run(path, checkpoint, trust)
    return load_model(saved, None if env is None else _prepared(env, saved.config))


def load_model(saved: Saved, env: Any = None) -> Any:
    """Load the trained model of a run.

    Args:
        saved: the run.
        env: environments with the run's spaces; they get the run's normalization. None for none.
    """
    load_tensorflow()
    from tfbaselines.training.build import saved_model
    from tfbaselines.training.observations import Spaces

    config = saved.config
    kept = config["learn"].keys() - (set(NOT_KEPT) - set(OF_THE_MODEL))
    learn = {name: value for name, value in config["learn"].items() if name in kept}
    tree = load_tree(saved.path) if saved.tree is None else saved.tree
    try:
        made_for = Spaces(tree["spaces"]) if env is None else env
    except Exception as error:  # A stranger's file may hold anything.
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        raise UsageError(f"cannot load '{saved.path}': it is damaged ({reason})") from None
    model = saved_model(get(config["alg"]), config["network"], made_for, learn)
    model.config = config
    if env is not None:
        model.attach(env)
    model.take(tree, saved.path)
    return model


def find_run(path: str | Path, checkpoint: str = "last", trust: bool = False) -> Saved:
    """Find a saved run.

    Args:
        path: log directory of the run, or the saved file.
        checkpoint: 'last', 'best', or the number of a checkpoint in the log directory.
        trust: import the modules named in the configuration.
    """
    path, config, tree = Path(path).expanduser(), None, None
    if path.is_dir():
        checkpoints = Checkpoints(path / "checkpoints")
        # A run of Python has no config.json if its environments are not made from an id.
        if (path / FILE_NAME).exists() or checkpoints.latest() is None:
            config = _checked(read_config(path), trust)
        path = checkpoints.named(checkpoint)
    elif not path.is_file():
        read_config(path)
    if config is None:
        tree = load_tree(path)
        config = tree.get("config")
        try:
            check_config(config)
        except ValueError as error:
            why = config["why"] if isinstance(config, dict) and isinstance(config.get("why"), str) else error
            raise UsageError(
                f"'{path}' does not hold the configuration of a run ({why!s:.300}): "
                "learn(..., total_timesteps=0, load_path=...) loads it"
            ) from None
        _checked(config, trust)
    return Saved(config, path, tree)


def _checked(config: dict[str, Any], trust: bool) -> dict[str, Any]:
    require_trust({"alg": config["alg"]}, trust)
    check_run(config, get(config["alg"]), trust)
    return config


@contextlib.contextmanager
def acting(
    run: Any,
    env: Any,
    num_env: int,
    seed: int,
    checkpoint: str,
    trust: bool,
    render_mode: str | None = None,
    around: Callable[[Any, Any], Any] = lambda env, algorithm: env,
) -> Iterator[tuple[Any, Any, str | None]]:
    """Give a model, environments to act in, and the model's file, and close the environments that are made here.

    Args:
        run, env, num_env, seed, checkpoint, trust: see `evaluate`.
        render_mode: Gymnasium's render mode of environments that are made here; None for the run's.
        around: wraps the environments before the algorithm's own wrappers; it also gets the algorithm, or None.
    """
    saved = find_run(run, checkpoint, trust) if isinstance(run, str | os.PathLike) else None
    config = run.config if saved is None else saved.config
    from tfbaselines.envs.vec import VecEnv
    from tfbaselines.training.testing import limit_as_trained

    if env is None or isinstance(env, str):
        venv = environments(
            config if env is None else config | {"env": {"env": env}}, num_env, seed, render_mode, around
        )
    else:
        venv = _prepared(env, config, seed, around)
    try:
        if "learn" in config:
            limit_as_trained(venv, get(config["alg"]), config["learn"])
        model = run if saved is None else load_model(saved, venv)
        with model.acting_in(venv, np.random.default_rng(seed)):
            yield model, venv, None if saved is None else str(saved.path)
    finally:
        if not isinstance(env, VecEnv):
            venv.close()


def _prepared(
    env: Any,
    config: dict[str, Any],
    seed: int | None = None,
    around: Callable[[Any, Any], Any] = lambda env, algorithm: env,
) -> Any:
    """Return environments in any form as the run's algorithm takes them."""
    from tfbaselines.envs.adapt import as_vec_env

    if "alg" not in config:
        return around(as_vec_env(env, seed), None)
    algorithm = get(config["alg"])
    return algorithm.wrap(around(as_vec_env(env, seed, not algorithm.dict_observations), algorithm))


def environments(
    config: dict[str, Any],
    num_env: int,
    seed: int,
    render_mode: str | None = None,
    around: Callable[[Any, Any], Any] = lambda env, algorithm: env,
) -> Any:
    """Make the environments of a run from its config.json, with another number and seed; see `acting`."""
    from tfbaselines.envs.make import build_env, rendered
    from tfbaselines.envs.workers import for_tests

    if not config.get("env"):
        raise UsageError("the run's environments were not made from an id: give them as env in Python")
    algorithm = get(config["alg"]) if "alg" in config else None
    own = {"flatten": algorithm is None or not algorithm.dict_observations, "normalize": False} | config["env"]
    own |= {"num_env": num_env, "seed": seed, "worker": for_tests(own.get("worker")), "env_threads": None}
    env = around(build_env(rendered(own, render_mode) if render_mode else own, training=False), algorithm)
    return env if algorithm is None else algorithm.wrap(env)


def player(name: str, description: str, episodes: int) -> Parser:
    """Return the parser of a command that plays episodes of a saved run, with the arguments of `acting`."""
    parser = Parser(prog=f"python -m tfbaselines.{name}", description=description)
    parser.add_argument("run", metavar="directory", help="log directory of the run (--log_path)")
    parser.add_argument("--episodes", type=int, default=episodes, help="number of episodes (default %(default)s)")
    parser.add_argument("--deterministic", action="store_true", help="most likely actions instead of sampled ones")
    parser.add_argument("--seed", type=int, default=0, help="seed of environments and sampling (default %(default)s)")
    parser.add_argument("--num_env", type=int, default=1, help="parallel environments (default %(default)s)")
    parser.add_argument("--checkpoint", default="last", help="last, best, or a number (default %(default)s)")
    parser.add_argument("--trust", action="store_true", help="import the modules named in config.json")
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = player("evaluate", "Evaluate a saved run.", episodes=20)
    where = "record a video into this directory (without DIR: videos/ in the run's directory)"
    parser.add_argument("--video", metavar="DIR", nargs="?", const="", help=where)
    films = "episodes in the video; rendering is slow (default %(default)s)"
    parser.add_argument("--video_episodes", type=int, default=1, help=films)
    parser.add_argument("--json", action="store_true", help="print the results as one JSON object")
    every = "evaluate every checkpoint: a table, and with --video a film of each, named by its steps of training"
    parser.add_argument("--every_checkpoint", action="store_true", help=every)
    args = vars(parser.parse_args(argv))
    as_json, every_checkpoint = args.pop("json"), args.pop("every_checkpoint")

    def command() -> int:
        check_is_run(args["run"])
        if args["video"] == "":
            args["video"] = str(_videos_of(Path(args["run"]).expanduser()))
        if every_checkpoint and args.pop("checkpoint") != "last":
            raise UsageError("--checkpoint and --every_checkpoint are given: give only one of them")
        load_tensorflow()
        found = evaluate_checkpoints(**args) if every_checkpoint else evaluate(**args)
        words = table_in_words if every_checkpoint else in_words
        print(json.dumps(found) if as_json else words(found))
        return 0

    return exit_status(parser.prog, command)


def _videos_of(run: Path) -> Path:
    return (run if run.is_dir() else run.parent) / "videos"


def table_in_words(results: list[dict[str, Any]]) -> str:
    """Format the results of `evaluate_checkpoints` as a table, and the paths of their videos."""
    names = ("checkpoint", "steps", "mean", "std", "min", "max", "mean length")
    rows = [[Path(one["checkpoint"]).name, str(one["steps"])] for one in results]
    for row, one in zip(rows, results, strict=True):
        row += [f"{one[name]:.2f}" for name in ("mean", "std", "min", "max", "mean_length")]
    widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
    lines = ["  ".join(word.rjust(width) for word, width in zip(row, widths, strict=True)) for row in (names, *rows)]
    actions = "most likely actions" if results[0]["deterministic"] else "sampled actions"
    videos = [f"video: {path}" for one in results for path in one.get("videos", ())]
    return "\n".join([f"{len(results[0]['returns'])} episodes of each checkpoint, {actions}", *lines, *videos])


def in_words(result: dict[str, Any]) -> str:
    """Format the results of `evaluate` as text."""
    numbers = "mean {mean:.4f}  std {std:.4f}  min {min:.4f}  max {max:.4f}  mean length {mean_length:.1f}"
    videos = "".join(f"\nvideo: {path}" for path in result.get("videos", ()))
    actions = "most likely actions" if result["deterministic"] else "sampled actions"
    return f"{result['checkpoint']}: {len(result['returns'])} episodes, {actions}\n{numbers.format(**result)}{videos}"


if __name__ == "__main__":
    leave(main())
