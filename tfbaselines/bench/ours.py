"""Our side of one speed measurement, in its own process: ``python -m tfbaselines.bench.ours CASE STEPS PRECISION``.

Prints one JSON object. Speed is counted from the end of the first update (or of the case's warm-up), so that imports
and compilation are left out, as they are on the peer's side.
"""

import importlib
import json
import resource
import sys
import time
from typing import Any

from tfbaselines.bench.cases import CASES
from tfbaselines.loading import load_tensorflow


def run(name: str, steps: int, precision: str) -> dict[str, float]:
    """Train one case.

    Args:
        name: of the case.
        steps: environment steps.
        precision: see RunOptions.

    Returns:
        steps_per_second, and peak_mib: the process's largest resident memory.
    """
    load_tensorflow()
    from tfbaselines.config.options import RunOptions
    from tfbaselines.envs.make import build_env
    from tfbaselines.logs import logger

    case = CASES[name]
    learn = importlib.import_module(f"tfbaselines.algs.{case.get('alg', 'ppo2')}").learn
    times: list[tuple[int, float]] = []
    half: list[float] = []

    def note(training: Any) -> None:
        times.append((training.timesteps, time.perf_counter()))
        # Once: what it takes to read is no part of training.
        if not half and training.timesteps >= steps // 2:
            half.append(resident_mib())

    env = build_env({name: case[name] for name in ("env", "num_env", "normalize") if name in case} | {"seed": 0})
    with logger.scoped_configure(format_strs=["csv"]):
        options = RunOptions(callback=note, precision=precision)
        learn(case["network"], env, total_timesteps=steps, seed=0, run=options, **case["learn"])
        growth = resident_mib() - half[0]
    env.close()
    (first, begin), (last, end) = times[_warm(times, case)], times[-1]
    return {
        "steps_per_second": (last - first) / (end - begin),
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "growth_mib": growth,
    }


def _warm(times: list[tuple[int, float]], case: dict[str, Any]) -> int:
    """Return the number of the last warm-up update."""
    return next(i for i, (steps, _) in enumerate(times) if steps >= case.get("warmup", 1))


def resident_mib() -> float:
    """Memory that this process holds now (Linux; 0 elsewhere)."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * resource.getpagesize() / 2**20
    except OSError:
        return 0.0


if __name__ == "__main__":
    print(json.dumps(run(sys.argv[1], int(sys.argv[2]), sys.argv[3])))
