"""ES: evolution strategies (Salimans et al. 2017, arXiv:1703.03864).

Each iteration runs an episode with each of M = num_agents members. Member i has the parameters theta + sigma eps_i.

    theta <- theta + lr (1 / (M sigma) sum_i F_i eps_i - weight_decay theta)

with the members' returns F_i, standardized or replaced by centered ranks. Every second eps_i is the negative of the
one before it. The MPI ranks divide the members among them and exchange only the seed and the returns: each rebuilds
every eps_i from the seed and the member's number, and computes the same sum.
"""

from functools import partial
from typing import Any

import keras
import numpy as np

from tfbaselines.algs.es import ALGORITHM, Config
from tfbaselines.algs.es.population import Trials, flat_parameters, make_population
from tfbaselines.config.algorithm import takes
from tfbaselines.config.config import NetworkSpec
from tfbaselines.envs.vec import VecEnv
from tfbaselines.errors import bad_argument
from tfbaselines.learn.engine import Engine, Phase
from tfbaselines.learn.optimizers import Adam
from tfbaselines.training.build import make_direct_policy as make_policy
from tfbaselines.training.model import PolicyModel
from tfbaselines.training.on_policy import SearchRun

# Returns with a smaller standard deviation count as equal.
SMALLEST_DEVIATION = 1e-6


def noise(seed: int, member: int, size: int, mirrored: bool) -> np.ndarray:
    """Draw a member's direction: standard normal numbers [size]; mirrored: the negative of the member before it."""
    number, sign = (member // 2, 1 - 2 * (member % 2)) if mirrored else (member, 1)
    drawn = np.random.default_rng([seed, number]).standard_normal(size, np.float32)
    return drawn if sign > 0 else -drawn


def standardized(returns: np.ndarray) -> np.ndarray:
    """Scale returns [M] to mean 0 and deviation 1; equal returns become zeros."""
    centered = returns - returns.mean()
    deviation = centered.std()
    if deviation <= SMALLEST_DEVIATION:
        return np.zeros_like(centered)
    return centered / deviation


def centered_ranks(returns: np.ndarray) -> np.ndarray:
    """Map returns [M] to ranks from -1/2 (smallest) to 1/2 (largest); equal returns share the mean of their ranks."""
    if len(returns) < 2:
        return np.zeros(len(returns))
    _, inverse, counts = np.unique(returns, return_inverse=True, return_counts=True)
    lowest = np.cumsum(counts) - counts
    ranks = lowest + (counts - 1) / 2
    return ranks[inverse.reshape(-1)] / (len(returns) - 1) - 0.5


SHAPES = {"standardised": standardized, "ranks": centered_ranks}


def ascent(weights: np.ndarray, seed: int, size: int, sigma: float, mirrored: bool) -> np.ndarray:
    """Estimate the gradient of the mean return, 1 / (M sigma) sum_i w_i noise_i, [size], from shaped returns w [M].

    One noise at a time is in memory, and the sum goes in the members' order, whichever rank they ran on.
    """
    total = np.zeros(size, np.float32)
    # The noises of two mirrored members differ only in their sign.
    pairs = weights[::2] - weights[1::2] if mirrored else weights
    for number, weight in enumerate(pairs.astype(np.float32)):
        if weight:
            total += weight * noise(seed, 2 * number if mirrored else number, size, mirrored)
    return total / np.float32(len(weights) * sigma)


@takes(ALGORITHM)
def learn(network: NetworkSpec, env: VecEnv, **kwargs: Any) -> PolicyModel:
    """Train a policy with evolution strategies."""
    config = Config.of(kwargs)
    with SearchRun(ALGORITHM, env, config) as run:
        if config.num_agents < run.comm.size:
            raise bad_argument("num_agents", config.num_agents, f"at least one for each of {run.comm.size} ranks")
        env, policy = run.env, make_policy(network, run.env, config, run.comm)
        optimizer = Adam() if config.optimizer == "adam" else keras.optimizers.SGD()
        engine = Engine([Phase("policy", None, policy.trainable_variables, optimizer)])
        model = PolicyModel(policy, optimizer, run.rng)
        members = np.array_split(np.arange(config.num_agents), run.comm.size)[run.comm.rank].tolist()
        trials = Trials(env, policy, make_population(policy, env.num_envs))
        for _ in run.search(model):
            seed = run.comm.broadcast_object(int(run.rng.integers(2**63)))
            theta, sigma = flat_parameters(policy), run.config.sigma
            member = partial(parameters_of, theta=theta, sigma=sigma, seed=seed, mirrored=config.mirrored)
            tried = [trial for rank in run.comm.gather(trials.run(members, member)) for trial in rank]
            scores = np.array([trial.score for trial in tried])
            gradient = ascent(SHAPES[config.returns](scores), seed, theta.size, sigma, config.mirrored)
            engine.descend(np.float32(config.weight_decay) * theta - gradient, lr=run.rates()["lr"])
            for trial in tried if policy.normalizer else ():
                policy.normalizer.add(*trial.sums)
            model.actor.refresh()
            run.learned(trials.steps, trials.episodes, statistics(scores, gradient, theta))
    return model


def parameters_of(member: int, theta: np.ndarray, sigma: float, seed: int, mirrored: bool) -> np.ndarray:
    """Compute the parameters [P] of a member from the policy's, theta [P]."""
    return theta + np.float32(sigma) * noise(seed, member, theta.size, mirrored)


def statistics(scores: np.ndarray, gradient: np.ndarray, theta: np.ndarray) -> dict[str, float]:
    """Compute the columns of an iteration from the members' returns [M], the gradient [P] and theta [P] before it."""
    return {
        "train_reward": float(scores.mean()),
        "train_reward_std": float(scores.std()),
        "train_reward_max": float(scores.max()),
        "train_reward_min": float(scores.min()),
        "grad_norm": float(np.linalg.norm(gradient)),
        "weight_norm": float(np.linalg.norm(theta)),
    }
