"""Search of qlearning's tuned settings: `python data/benchmarks/search_qlearning.py ENV [MINUTES]`.

Random settings of SPACE are trained with seed 100; the eight best also with seeds 101 and 102, and the best of them is
the one of the largest sum of mean and least score. Then `judge` scores the settings of tuned/qlearning.yaml with seeds
1000 to 1009, which the search did not see. A score is the mean return of 100 episodes without exploration.
"""

import itertools
import json
import sys
import time

import numpy as np

from tfbaselines.algs import get
from tfbaselines.cli.command_line import parse
from tfbaselines.cli.sections import tuned_sections
from tfbaselines.envs.make import make_vec_env
from tfbaselines.training.testing import episodes

SPACE = {
    "lr": ["linear_1", "linear_0.5", "linear_0.3", "linear_0.1", "linear_0.03", "1", "0.1", "0.03"],
    "discount": [0.9, 0.95, 0.99, 0.999],
    "epsilon_greedy": [0.0, 0.05, 0.1, 0.3, 1.0],
    "epsilon_decay": [0.99, 0.999, 0.9999, 1.0],
    "epsilon_min": [0.0, 0.01, 0.05],
    "initial_value": [0.0, 1.0],
}
NUM_ENV = 8
BEST = 8
JUDGES = range(1000, 1010)


def score(env_id, settings, seed, env_kwargs=None, count=100):
    """Train a table and return the mean return of `count` episodes."""
    algorithm = get("qlearning")
    env = make_vec_env(env_id, num_env=NUM_ENV, seed=seed, env_kwargs=env_kwargs)
    model = algorithm.learn("table", env, seed=seed, log_interval=10**6, num_test_episodes=0, **settings)
    env.close()
    test = algorithm.wrap(make_vec_env(env_id, num_env=16, seed=seed + 5000, env_kwargs=env_kwargs))
    returns = [episode["r"] for episode in itertools.islice(episodes(model, test, True), count)]
    test.close()
    return float(np.mean(returns))


def search(env_id, minutes, steps=1e5):
    """Return the best settings that are found in this time, and their scores."""
    rng, end, tried = np.random.default_rng(0), time.time() + 60 * minutes, []
    while time.time() < end:
        settings = {name: rng.choice(values).item() for name, values in SPACE.items()} | {"total_timesteps": steps}
        tried.append((score(env_id, settings, 100), settings))
    tried.sort(key=lambda one: -one[0])
    rated = []
    for first, settings in tried[:BEST]:
        scores = [first, *(score(env_id, settings, seed) for seed in (101, 102))]
        rated.append((np.mean(scores) + min(scores), scores, settings))
    return max(rated, key=lambda one: one[0])[1:]


def judge(env_id, env_kwargs=None):
    """Return the scores of the tuned settings."""
    own = tuned_sections("qlearning")[env_id]
    given = parse({"alg": "qlearning", "env": env_id} | own, {"qlearning": get("qlearning")})
    settings = {name: value for name, value in given.learn.items() if name != "network"}
    return [score(env_id, settings | {"total_timesteps": given.num_timesteps}, seed, env_kwargs) for seed in JUDGES]


if __name__ == "__main__":
    name, length = sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 4.0
    print(json.dumps(search(name, length)))
    print(json.dumps(judge(name)))
