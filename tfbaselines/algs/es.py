"""ES: evolution strategies (Salimans et al. 2017, arXiv:1703.03864).

Each iteration runs an episode of each of M = num_agents members, whose parameters are theta + sigma eps_i, and climbs

    theta <- theta + lr (1 / (M sigma) sum_i F_i eps_i - weight_decay theta)

where F_i are the members' returns, standardised or replaced by centred ranks, and every second eps_i is the negative of
the one before it. Ranks share the members out; they exchange the iteration's seed and the returns, and each computes
the same sum.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import keras
import numpy as np

from tfbaselines.envs.vec import VecEnv
from tfbaselines.errors import bad_argument
from tfbaselines.experience.trials import Trials
from tfbaselines.optim.evolution import SHAPES, ascent, noise
from tfbaselines.optim.optimizers import Adam
from tfbaselines.optim.update import Update
from tfbaselines.policy.population import flat_parameters, make_population
from tfbaselines.running.build import make_direct_policy as make_policy
from tfbaselines.running.model import PolicyModel
from tfbaselines.running.search_run import SearchRun
from tfbaselines.settings.bases import SearchConfig
from tfbaselines.settings.config import Coefficient, NetworkSpec, Schedule, arg
from tfbaselines.settings.takes import takes


@dataclass(frozen=True, kw_only=True)
class Config(SearchConfig):
    """Arguments of evolution strategies."""

    num_agents: int = arg(30, "members of the population, of all ranks together", at_least=2)
    num_iterations: int = arg(
        300, "number of iterations, unless total_timesteps (--num_timesteps) is given", at_least=0
    )
    lr: Schedule = arg(0.03, "learning rate", at_least=0)
    sigma: Coefficient = arg(0.1, "standard deviation of the members' noise", above=0)
    test_every: int = arg(50, "iterations between tests; another test comes at the end", at_least=1)
    normalize_observations: bool = arg(
        False, "scale observations by a running mean and deviation kept inside the policy"
    )
    mirrored: bool = arg(True, "every second member has the negative noise of the one before it")
    returns: str = arg(
        "standardised", "what stands for the members' returns in the sum", choices=("standardised", "ranks")
    )
    optimizer: str = arg("sgd", "plain steps of gradient ascent, or Adam's", choices=("sgd", "adam"))
    weight_decay: float = arg(0.0, "share of the parameters that a step of size 1 takes off", at_least=0, at_most=1)

    order: ClassVar = """
        num_agents num_iterations lr sigma test_every num_test_episodes max_ep_len stop_max_score
        normalize_observations seed total_timesteps
    """

    def check(self) -> None:
        """See Config."""
        if self.mirrored and self.num_agents % 2:
            raise bad_argument("num_agents", self.num_agents, "an even number, or give mirrored=False")


@takes(Config)
def learn(network: NetworkSpec, env: VecEnv, **kwargs: Any) -> PolicyModel:
    """Train a policy with evolution strategies."""
    config = Config.of(kwargs)
    with SearchRun("es", env, config) as run:
        if config.num_agents < run.comm.size:
            raise bad_argument("num_agents", config.num_agents, f"at least one for each of {run.comm.size} ranks")
        env, policy = run.env, make_policy(network, run.env, config, run.comm)
        optimizer = Adam() if config.optimizer == "adam" else keras.optimizers.SGD()
        update = Update(None, policy.trainable_variables, optimizer, comm=run.comm)
        model = PolicyModel(policy, optimizer, run.rng)
        members = np.array_split(np.arange(config.num_agents), run.comm.size)[run.comm.rank].tolist()
        trials = Trials(env, policy, make_population(policy, env.num_envs))
        for _ in run.search(model):
            seed = run.comm.broadcast_object(int(run.rng.integers(2**63)))
            theta, sigma = flat_parameters(policy), run.config.sigma

            def member(number: int, seed: int = seed, theta: np.ndarray = theta, sigma: float = sigma) -> np.ndarray:
                return theta + np.float32(sigma) * noise(seed, number, theta.size, config.mirrored)

            tried = [trial for own in run.comm.gather(trials.run(members, member)) for trial in own]
            scores = np.array([trial.score for trial in tried])
            gradient = ascent(SHAPES[config.returns](scores), seed, theta.size, sigma, config.mirrored)
            update.descend(np.float32(config.weight_decay) * theta - gradient, run.rates()["lr"])
            for trial in tried if policy.normalizer else ():
                policy.normalizer.add(*trial.sums)
            model.actor.refresh()
            run.learnt(trials.steps, trials.episodes, statistics(scores, gradient, theta))
    return model


def statistics(scores: np.ndarray, gradient: np.ndarray, theta: np.ndarray) -> dict[str, float]:
    """Columns of an iteration.

    Args:
        scores: the members' returns [M].
        gradient: of their mean [P].
        theta: the parameters [P] before the step.
    """
    return {
        "train_reward": float(scores.mean()),
        "train_reward_std": float(scores.std()),
        "train_reward_max": float(scores.max()),
        "train_reward_min": float(scores.min()),
        "grad_norm": float(np.linalg.norm(gradient)),
        "weight_norm": float(np.linalg.norm(theta)),
    }
