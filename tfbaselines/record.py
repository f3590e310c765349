"""Record demonstrations of a saved run: ``python -m tfbaselines.record DIR --episodes 50 --out demo.npz``."""

import itertools
from typing import Any

import numpy as np

from tfbaselines.cli import exit_status, leave
from tfbaselines.cli.stored import check_is_run
from tfbaselines.config.algorithm import Algorithm
from tfbaselines.errors import check_at_least
from tfbaselines.evaluate import acting, player, summary
from tfbaselines.files import check_can_be_written
from tfbaselines.loading import load_tensorflow


def record(
    run: Any,
    out: str,
    episodes: int = 50,
    deterministic: bool = False,
    seed: int = 0,
    num_env: int = 1,
    checkpoint: str = "last",
    trust: bool = False,
    env: Any = None,
) -> dict[str, Any]:
    """Run a policy, and write the episodes to a file (demos/demonstrations.py).

    Args:
        run: a model, or the log directory or a file of a saved run.
        out: file to write.
        episodes: number of episodes.
        deterministic: take the most likely actions instead of sampling.
        seed, num_env, checkpoint, trust, env: see evaluate.

    Returns:
        'episodes', 'steps', 'mean', 'std', 'min' and 'max' of the returns, and 'file'.
    """
    check_at_least(1, episodes=episodes, num_env=num_env)
    check_can_be_written("out", out)
    recorders = []

    def recorded(venv: Any, algorithm: Algorithm | None) -> Any:
        from tfbaselines.demos.recording import record_below_normalization

        venv, recorder = record_below_normalization(venv, masks=algorithm is not None and algorithm.takes_masks)
        recorders.append(recorder)
        return venv

    with acting(run, env, num_env, seed, checkpoint, trust, around=recorded) as (model, venv, _):
        from tfbaselines.demos import save_demonstrations

        returns = _play(model, venv, episodes, deterministic)
        (recorder,) = recorders
        played = {"env": model.config.get("env", {}).get("env"), "alg": model.config.get("alg")}
        demonstrations = recorder.demonstrations(played | {"deterministic": deterministic, "seed": seed})
        save_demonstrations(out, demonstrations, recorder.recorded_space, venv.action_space)
    return {"episodes": len(demonstrations.lengths), "steps": len(demonstrations)} | summary(returns) | {"file": out}


def _play(model: Any, env: Any, count: int, deterministic: bool) -> list[float]:
    from tfbaselines.training.clock import make_progress
    from tfbaselines.training.testing import episodes

    returns: list[float] = []
    progress = make_progress(True, "record", 0, count, "episode")
    try:
        for episode in itertools.islice(episodes(model, env, deterministic), count):
            returns.append(float(episode["r"]))
            progress.update(len(returns), lambda: float(np.mean(returns)))
    finally:
        progress.close()
    return returns


def main(argv: list[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = player("record", "Record demonstrations of a saved run.", episodes=50)
    parser.add_argument("--out", required=True, metavar="FILE", help="file to write, such as demo.npz")
    args = vars(parser.parse_args(argv))

    def command() -> int:
        check_is_run(args["run"])
        load_tensorflow()
        print(in_words(record(**args)))
        return 0

    return exit_status(parser.prog, command)


def in_words(result: dict[str, Any]) -> str:
    """Format the results of `record` as text."""
    what = "{episodes} episodes, {steps} steps in {file}\nmean {mean:.4f}  std {std:.4f}  min {min:.4f}  max {max:.4f}"
    return what.format(**result)


if __name__ == "__main__":
    leave(main())
