"""Episodes of the last policies of runs, by which finalists are chosen and the best arguments are judged."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tfbaselines.errors import UsageError
from tfbaselines.files import read_document, write_whole
from tfbaselines.search.board import alone_in
from tfbaselines.study.process import shared_cores

EVALUATION = "evaluation.json"
LARGEST = 2**20
ENVIRONMENTS = 10


def mean_returns(runs: Sequence[Path], episodes: int, seed: int, jobs: int) -> list[float]:
    """Play the last policy of each run without sampling; return the mean returns.

    Args:
        runs: log directories.
        episodes: episodes of each policy.
        seed: seed of the environments.
        jobs: policies at once.
    """
    environment = shared_cores(jobs)
    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(lambda run: _mean_return_once(run, episodes, seed, environment), runs))


def _mean_return_once(run: Path, episodes: int, seed: int, environment: Mapping[str, str]) -> float:
    """Evaluate a run unless another process of the search does: then wait for its result."""
    with alone_in(run):
        return _mean_return(run, episodes, seed, environment)


def _mean_return(run: Path, episodes: int, seed: int, environment: Mapping[str, str]) -> float:
    """Return the mean return of a run's last policy, and keep it beside the run."""
    path = run / EVALUATION
    if path.exists():
        kept = read_document(path, LARGEST)
        if kept.get("episodes") == episodes:
            return float(kept["mean"])
    command = [sys.executable, "-m", "tfbaselines.evaluate", str(run), "--deterministic", "--json", "--trust"]
    command += [f"--episodes={episodes}", f"--num_env={ENVIRONMENTS}", f"--seed={seed}"]
    # In its own session, so that Ctrl-C reaches this process alone.
    ended = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **environment}, start_new_session=True
    )
    if ended.returncode:
        raise UsageError(f"'{run}' cannot be evaluated: {' '.join(ended.stderr.split())[-300:]}")
    mean = float(json.loads(ended.stdout.strip().splitlines()[-1])["mean"])
    write_whole(path, json.dumps({"mean": mean, "episodes": episodes}))
    return mean
