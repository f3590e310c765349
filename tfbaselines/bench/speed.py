"""Environment steps per second end to end: ours and a peer's in turn, A B A B."""

import csv
import itertools
import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from tfbaselines.bench.cases import CASES, of_pixels, steps_per_update
from tfbaselines.config.options import PRECISIONS
from tfbaselines.errors import UsageError, bad_argument, check_at_least, unknown
from tfbaselines.parallel import mpi

HERE = Path(__file__).parent
COLUMNS = ("case", "program", "round", "steps_per_second", "peak_mib", "growth_mib", "matmul_seconds")
YARDSTICK_SIZE = 2048
# Width of a case's name in the table.
WIDTH = max(map(len, CASES))
# Baseline of the comparison of ranks.
ONE_RANK = "1 rank, 1 thread"
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")
PEERS = {"stable_baselines3": "stable-baselines3", "sb3_contrib": "sb3-contrib", "sbx": "sbx"}


def matmul_seconds(repeats: int = 10) -> float:
    """Measure the median time of a float32 matrix product, by which numbers of two machines are compared."""
    matrix = np.random.default_rng(0).standard_normal((YARDSTICK_SIZE, YARDSTICK_SIZE), np.float32)
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        matrix @ matrix
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def measure(
    cases: Iterable[str],
    precisions: Iterable[str],
    peer_python: str | None,
    rounds: int,
    fraction: float,
    ranks: int | None = None,
) -> Iterator[dict[str, object]]:
    """Run every case, and yield a row of COLUMNS for each measurement.

    Args:
        cases: names of the cases.
        precisions: precisions of our side; bfloat16 is measured for convolutions only.
        peer_python: path of a Python that has Stable-Baselines3; None measures our side alone.
        rounds: number of runs of each program.
        fraction: share of each case's steps; a smaller share is faster and noisier.
        ranks: number of MPI ranks of one thread each, compared with one such rank in place of a peer.
    """
    cases, precisions = list(cases), list(precisions)
    check_at_least(1, rounds=rounds)
    if ranks is not None:
        check_at_least(2, ranks=ranks)
        if peer_python is not None:
            raise bad_argument("ranks", ranks, "without a peer, which has no ranks")
    for kind, given, known in (("case", cases, CASES), ("precision", precisions, PRECISIONS)):
        for name in given:
            if name not in known:
                raise unknown(kind, name, known)
    for case in cases:
        steps = _steps(case, fraction)
        programs = _programs(case, steps, precisions, peer_python) if ranks is None else _ranks(case, steps, ranks)
        for number in range(rounds):
            for program, command in programs.items():
                row = {"case": case, "program": program, "round": number + 1, "matmul_seconds": matmul_seconds()}
                row |= _result(command)
                print(f"{case:<{WIDTH}} {program:<22} {row['steps_per_second']:>10,.0f} steps/s", flush=True)
                yield row


def _programs(case: str, steps: int, precisions: list[str], peer_python: str | None) -> dict[str, list[str]]:
    """Make the commands that measure our side in each precision, and the peer."""
    programs = {}
    for precision in precisions:
        if precision == "float32" or of_pixels(CASES[case]):
            programs[f"tfbaselines {precision}"] = _ours(case, steps, precision)
    peer = None if "original" in CASES[case] else CASES[case].get("peer", "stable_baselines3:PPO")
    if peer_python and peer:
        program = PEERS[peer.split(":")[0]]
        programs[program] = [peer_python, str(HERE / "peer_sb3.py"), case, str(steps)]
    return programs


def _ranks(case: str, steps: int, ranks: int) -> dict[str, list[str]]:
    """Make the commands that measure one rank, and several."""
    one_thread = ["env", *(f"{name}=1" for name in ONE_THREAD)]
    ours = _ours(case, steps, "float32")
    return {
        ONE_RANK: [*one_thread, *ours],
        f"{ranks} ranks, 1 thread": [*one_thread, *mpi.mpirun_command(ranks), *ours],
    }


def _ours(case: str, steps: int, precision: str) -> list[str]:
    return [sys.executable, "-m", "tfbaselines.bench.ours", case, str(steps), precision]


def _steps(case: str, fraction: float) -> int:
    """Round a case's steps to whole updates, at least two after the warm-up."""
    per_update = steps_per_update(CASES[case])
    least = CASES[case].get("warmup", per_update) // per_update + 2
    return max(least, round(fraction * CASES[case]["steps"] / per_update)) * per_update


def _result(command: list[str]) -> dict[str, float]:
    """Run a program and parse its results: the sum of all ranks' steps, and the largest memory."""
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "2"})
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise UsageError(f"{' '.join(command)} failed: {last}")
    # Several ranks may print on one line.
    results = [json.loads(one) for one in re.findall(r"\{.*?\}", done.stdout)]
    largest = {name: max(result[name] for result in results if name in result) for name in {*itertools.chain(*results)}}
    return largest | {"steps_per_second": sum(result["steps_per_second"] for result in results)}


def summary(rows: list[dict[str, object]]) -> str:
    """Format medians, peak memory and the ratios to the peer, or to one rank, as a table."""
    lines = [f"{'case':<{WIDTH}} {'program':<22} {'steps/s':>10} {'ratio':>7} {'peak MiB':>9}"]
    for case in dict.fromkeys(row["case"] for row in rows):
        of_case = [row for row in rows if row["case"] == case]
        programs = dict.fromkeys(row["program"] for row in of_case)
        speeds = {p: statistics.median(r["steps_per_second"] for r in of_case if r["program"] == p) for p in programs}
        compared = next((speeds[program] for program in (*PEERS.values(), ONE_RANK) if program in speeds), None)
        basis = compared or _speed_of_original(case, of_case)
        for program, speed in speeds.items():
            ratio = f"{speed / basis:.2f}x" if basis else ""
            peak = max(row["peak_mib"] for row in of_case if row["program"] == program)
            lines.append(f"{case:<{WIDTH}} {program:<22} {speed:>10,.0f} {ratio:>7} {peak:>9,.0f}")
    seconds = statistics.median(row["matmul_seconds"] for row in rows)
    lines.append(f"float32 matrix product {YARDSTICK_SIZE}x{YARDSTICK_SIZE} in the same run: {seconds:.4f} s")
    return "\n".join(lines)


def _speed_of_original(case: str, rows: list[dict[str, object]]) -> float | None:
    """Estimate the original's speed on this machine by the ratio of the matrix products."""
    original = CASES[case].get("original")
    if original is None:
        return None
    here = statistics.median(row["matmul_seconds"] for row in rows)
    return original["steps_per_second"] * original["matmul_seconds"] / here


def write_rows(rows: list[dict[str, object]], path: str) -> None:
    """Write the measurements as CSV."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, restval="")
        writer.writeheader()
        writer.writerows(rows)
