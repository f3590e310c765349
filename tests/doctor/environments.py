"""Write tfbaselines/doctor/environments.csv: what a random policy gets in each environment, and the best known score.

    python tests/doctor/environments.py

The random policy takes EPISODES episodes. The best score is that of any algorithm in data/benchmarks or in
tfbaselines/bench/zoo.csv. The doctor compares the returns and the lengths of a run with them.
"""

import csv
import sys
from pathlib import Path

import gymnasium
import numpy as np

ROOT = Path(__file__).parents[2]
OUT = ROOT / "tfbaselines" / "doctor" / "environments.csv"
KINDS = ("classic_control", "box2d", "mujoco", "toy_text")
EPISODES, MOST_STEPS = 60, 12_000
COLUMNS = ("env", "return_low", "return_high", "return_mean", "length_low", "length_high", "limit", "best")


def best_scores() -> dict[str, float]:
    """Return the best mean score of each environment."""
    scores: dict[str, dict[str, list[float]]] = {}
    for name in ("tuned", "on_policy", "mujoco1m"):
        for row in rows_of(ROOT / "data" / "benchmarks" / f"{name}.csv"):
            scores.setdefault(row["env"], {}).setdefault(row["alg"], []).append(float(row["score"]))
    best = {env: max(float(np.mean(found)) for found in algs.values()) for env, algs in scores.items()}
    for row in rows_of(ROOT / "tfbaselines" / "bench" / "zoo.csv"):
        best[row["env"]] = max(best.get(row["env"], -np.inf), float(row["published"]))
    return best


def rows_of(path: Path) -> list[dict[str, str]]:
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def random_episodes(env: gymnasium.Env) -> np.ndarray:
    """Return the returns and lengths [N, 2] of a random policy."""
    env.action_space.seed(0)
    found, steps = [], 0
    while len(found) < EPISODES and steps < MOST_STEPS:
        env.reset(seed=len(found))
        total, length, ended = 0.0, 0, False
        while not ended and length < MOST_STEPS:
            _, reward, terminated, truncated, _ = env.step(env.action_space.sample())
            total, length, ended = total + float(reward), length + 1, terminated or truncated
        found.append((total, length))
        steps += length
    return np.array(found)


def main() -> int:
    best, rows = best_scores(), []
    for spec in list(gymnasium.registry.values()):
        if not any(f".{kind}" in str(spec.entry_point) for kind in KINDS) or spec.max_episode_steps is None:
            continue
        try:
            env = gymnasium.make(spec.id)
        except Exception as error:  # Old MuJoCo versions and toy environments lack packages.
            print(f"{spec.id}: left out ({type(error).__name__})")
            continue
        if len(env.observation_space.shape or ()) > 1:
            # Pictures take minutes.
            continue
        found = random_episodes(env)
        (low, short), (high, long) = found.min(axis=0), found.max(axis=0)
        numbers = (low, high, found[:, 0].mean(), short, long, spec.max_episode_steps)
        known = f"{best[spec.id]:.6g}" if spec.id in best else ""
        rows.append([spec.id, *(f"{number:.6g}" for number in numbers), known])
        print(*rows[-1])
    with open(OUT, "w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([COLUMNS, *sorted(rows)])
    return 0


if __name__ == "__main__":
    sys.exit(main())
