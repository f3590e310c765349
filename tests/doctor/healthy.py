"""Train healthy runs and write the healthy ranges of their columns, tfbaselines/doctor/rules/healthy.csv.

    python tests/doctor/healthy.py DIR [--ranges]

trains 24 runs with tuned settings, eight environments with three seeds, in DIR/healthy-ALG-ENV-SEED; finished ones are
left out. Then it writes the range of each column over them: the 2nd to the 98th percentile of all rows. --ranges
trains nothing.
"""

import argparse
import csv
import os
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT)]

from tests.doctor.spoiled import FINISHED, SEEDS, train  # noqa: E402  The path comes first.
from tfbaselines.doctor.__main__ import defaults  # noqa: E402
from tfbaselines.doctor.columns import QUANTITIES  # noqa: E402
from tfbaselines.doctor.evidence import of_directory  # noqa: E402

OUT = ROOT / "tfbaselines" / "doctor" / "rules" / "healthy.csv"
# Quantities without a range of their own: their size is that of the rewards.
WITHOUT = ("steps", "return", "length", "updates", "rate", "exploration", "q", "q_largest", "q_smallest", "q_loss")
RUNS = {
    ("ppo2", "CartPole-v1"): "--num_timesteps=80000 --max_total_reward=None",
    ("ppo2", "MountainCarContinuous-v0"): "",
    ("ppo2", "Hopper-v5"): "--num_timesteps=100000",
    ("ppo2", "LunarLander-v3"): "--num_timesteps=200000",
    ("a2c", "InvertedPendulum-v5"): "--num_timesteps=120000 --log_interval=50",
    ("deepq", "Acrobot-v1"): "--num_timesteps=30000 --print_freq=10 --save_replay_buffer=False",
    ("sac", "Pendulum-v1"): "--num_timesteps=8000 --steps_per_epoch=1000 --num_test_episodes=3",
    ("trpo_mpi", "HalfCheetah-v5"): "--num_timesteps=100000",
}


class Healthy(NamedTuple):
    """One run with tuned settings."""

    alg: str
    env: str
    seed: int

    # The row of a judgement has them.
    way = ""
    cause = ""

    @property
    def name(self) -> str:
        """Name of its directory."""
        return f"healthy-{self.alg}-{self.env}-{self.seed}"

    def command(self, directory: Path) -> list[str]:
        """Words of the command that trains it."""
        names = [f"--alg={self.alg}", f"--env={self.env}", f"--seed={self.seed}", f"--log_path={directory}"]
        return ["--tuned", "--overwrite", *RUNS[self.alg, self.env].split(), *names]


def runs() -> list[Healthy]:
    """List all runs."""
    return [Healthy(alg, env, seed) for seed in SEEDS for alg, env in RUNS]


def write_ranges(directories: list[Path]) -> None:
    """Write the range of each quantity, for each algorithm and for all."""
    found: dict[tuple[str, str], list[np.ndarray]] = {}
    for run in (of_directory(directory, defaults) for directory in directories):
        for quantity in (name for name in QUANTITIES if name not in WITHOUT):
            series = run.series(quantity)
            # The first rows are those of an untrained network.
            if series is not None and len(series.values) >= 5:
                for alg in (run.settings.alg, "all"):
                    found.setdefault((quantity, alg), []).append(series.values[len(series.values) // 5 :])
    rows = []
    for (quantity, alg), values in sorted(found.items()):
        low, high = np.percentile(np.concatenate(values), (2, 98))
        rows.append([quantity, alg, f"{low:.3g}", f"{high:.3g}", len(values)])
    with open(OUT, "w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([["quantity", "alg", "low", "high", "runs"], *rows])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--ranges", action="store_true", help="train nothing")
    args = parser.parse_args()
    if not args.ranges:
        os.nice(10)
        for run in runs():
            print(run.name, "" if train(run, args.directory.resolve()) else "failed", flush=True)
    write_ranges([path.parent for run in runs() for path in (args.directory / run.name).glob(FINISHED)])
    return 0


if __name__ == "__main__":
    sys.exit(main())
