"""Evaluate a saved run: ``python -m tfbaselines.evaluate DIR --episodes 20``.

config.json describes the environments and the policy; a checkpoint has the weights and the frozen normalization.
"""

import itertools
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tfbaselines.algs import get
from tfbaselines.cli import Parser, exit_status, leave
from tfbaselines.cli.stored import NOT_KEPT, OF_THE_MODEL, check_config, check_run, read_config
from tfbaselines.errors import UsageError, check_at_least
from tfbaselines.loading import load_tensorflow
from tfbaselines.training.checkpoint import Checkpoints, load_tree


def evaluate(
    directory: str,
    episodes: int = 20,
    deterministic: bool = False,
    seed: int = 0,
    num_env: int = 1,
    checkpoint: str = "last",
    video: str | None = None,
    trust: bool = False,
    video_episodes: int = 1,
) -> dict[str, Any]:
    """Run the policy of a saved run and collect the episodes.

    Args:
        directory: log directory of the run.
        episodes: number of episodes.
        deterministic: take the most likely actions instead of sampling.
        seed: seed of the environments and of sampling.
        num_env: number of parallel environments; several favor short episodes, which end first.
        checkpoint: 'last', 'best', or the number of a checkpoint.
        video: directory for a video of the first episodes; None for none.
        trust: import the modules named in config.json, which runs their code.
        video_episodes: number of episodes in the video; rendering them takes most of the time.

    Returns:
        'returns' and 'lengths' of the episodes; 'mean', 'std', 'min' and 'max' of the returns, 'mean_length', and
        'checkpoint', the file that was evaluated; with `video` also 'videos', their paths.
    """
    check_at_least(1, episodes=episodes, num_env=num_env, video_episodes=video_episodes)
    config, path = find_run(directory, checkpoint, trust)
    from tfbaselines.envs.vec import VecVideoRecorder
    from tfbaselines.training.testing import episodes as play
    from tfbaselines.training.testing import limit_as_trained

    env = environments(config, num_env, seed, "rgb_array" if video else None)
    limit_as_trained(env, get(config["alg"]), config["learn"])
    videos: list[str] = []
    if video:
        name = film_name(path)
        env = VecVideoRecorder(env, video, lambda step: step == 0, sys.maxsize, name, announce=videos.append)
    played = []
    try:
        model = load_model(config, env, path)
        model.rng = np.random.default_rng(seed)
        for episode in itertools.islice(play(model, env, deterministic), episodes):
            played.append(episode)
            if video and len(played) == video_episodes:
                env.end_video()
    finally:
        env.close()
    return _results(played) | {"checkpoint": str(path)} | ({"videos": videos} if video else {})


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


def load(path: str | Path, env: Any = None, checkpoint: str = "last", trust: bool = False) -> Any:
    """Load a saved run; tfbaselines.load documents the arguments."""
    from tfbaselines.envs.vec import VecNormalize, find_wrapper

    config, path = find_run(path, checkpoint, trust)
    if env is not None:
        model = load_model(config, env, path)
    else:
        made = environments(config, num_env=1, seed=0)
        try:
            model = load_model(config, made, path)
        finally:
            made.close()
    if env is None or find_wrapper(env, VecNormalize) is None:
        model.take_raw()
    return model


def load_model(config: dict[str, Any], env: Any, path: str | Path) -> Any:
    """Load the trained model of a run.

    Args:
        config: config.json of the run.
        env: environments with the run's spaces; they get the run's normalization.
        path: saved model or checkpoint.
    """
    from tfbaselines.training.build import saved_model

    kept = config["learn"].keys() - (set(NOT_KEPT) - set(OF_THE_MODEL))
    learn = {name: value for name, value in config["learn"].items() if name in kept}
    model = saved_model(get(config["alg"]), config["network"], env, learn)
    model.attach(env, config)
    model.load(path)
    return model


def find_run(path: str | Path, checkpoint: str, trust: bool) -> tuple[dict[str, Any], Path]:
    """Find the checked configuration and the saved file of a run.

    Args:
        path: log directory of the run, or the saved file.
        checkpoint: 'last', 'best', or the number of a checkpoint in the log directory.
        trust: import the modules named in the configuration.
    """
    path = Path(path).expanduser()
    if path.is_file():
        config = load_tree(path).get("config")
        try:
            check_config(config)
        except ValueError as error:
            raise UsageError(
                f"'{path}' does not hold the configuration of a run ({error}): models saved from Python without one "
                "are loaded by learn(..., total_timesteps=0, load_path=...)"
            ) from None
    else:
        config = read_config(path)
        path = Checkpoints(path / "checkpoints").named(checkpoint)
    check_run(config, get(config["alg"]), trust)
    return config, path


def environments(
    config: dict[str, Any],
    num_env: int,
    seed: int,
    render_mode: str | None = None,
    around: Callable[[Any], Any] = lambda env: env,
) -> Any:
    """Make the environments of a run, with another number and seed.

    Args:
        config: config.json of the run.
        num_env: number of environments.
        seed: seed of the first environment.
        render_mode: Gymnasium's render mode; None for the run's.
        around: wraps the environments before the algorithm's own wrappers.
    """
    from tfbaselines.envs.make import build_env, rendered

    own = config["env"] | {"num_env": num_env, "seed": seed, "worker": None}
    env = build_env(rendered(own, render_mode) if render_mode else own, training=False)
    return get(config["alg"]).wrap(around(env))


def main(argv: list[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = Parser(prog="python -m tfbaselines.evaluate", description="Evaluate a saved run.")
    parser.add_argument("directory", help="log directory of the run (--log_path)")
    parser.add_argument("--episodes", type=int, default=20, help="number of episodes (default %(default)s)")
    parser.add_argument("--deterministic", action="store_true", help="most likely actions instead of sampled ones")
    parser.add_argument("--seed", type=int, default=0, help="seed of environments and sampling (default %(default)s)")
    parser.add_argument("--num_env", type=int, default=1, help="parallel environments (default %(default)s)")
    parser.add_argument("--checkpoint", default="last", help="last, best, or a number (default %(default)s)")
    parser.add_argument("--video", metavar="DIR", help="record a video into this directory")
    parser.add_argument(
        "--video_episodes",
        type=int,
        default=1,
        help="episodes in the video; rendering is slow (default %(default)s)",
    )
    parser.add_argument("--trust", action="store_true", help="import the modules named in config.json")
    parser.add_argument("--json", action="store_true", help="print the results as one JSON object")
    args = vars(parser.parse_args(argv))
    as_json = args.pop("json")

    def command() -> int:
        load_tensorflow()
        result = evaluate(**args)
        print(json.dumps(result) if as_json else in_words(result))
        return 0

    return exit_status(parser.prog, command)


def in_words(result: dict[str, Any]) -> str:
    """Format the results of `evaluate` as text."""
    numbers = "mean {mean:.4f}  std {std:.4f}  min {min:.4f}  max {max:.4f}  mean length {mean_length:.1f}"
    videos = "".join(f"\nvideo: {path}" for path in result.get("videos", ()))
    return f"{result['checkpoint']}: {len(result['returns'])} episodes\n{numbers.format(**result)}{videos}"


if __name__ == "__main__":
    leave(main())
