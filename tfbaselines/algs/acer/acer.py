"""ACER: actor-critic with experience replay (Wang et al. 2017, arXiv:1611.01224).

Each update collects nsteps from every environment, learns from them, and then from Poisson(replay_ratio) batches of the
replay. With rho = f(a|x) / mu(a|x), the policy f now over the one that acted, and Retrace targets Q^ret, it ascends

    min(c, rho) (Q^ret - V) log f(a|x)  +  sum_a' max(0, 1 - c / rho(a')) f(a'|x) (Q(x, a') - V) log f(a'|x)

plus ent_coef * H[f], where the factors before log f are constants, and descends q_coef * 0.5 (Q^ret - Q(x, a))^2. The
gradient with respect to f is bounded by a trust region around the averaged policy. The formulas are in loss.py,
their gradient step in model.py.
"""

import os
from collections.abc import Sequence
from typing import Any

from tfbaselines.algs.acer import Config
from tfbaselines.algs.acer.model import Model, make_policy
from tfbaselines.algs.acer.replay import RolloutReplay, TraceReplay
from tfbaselines.algs.acer.workers import ACERRows, make_replay, make_workers, workers_environments
from tfbaselines.config.config import NetworkSpec
from tfbaselines.config.takes import takes
from tfbaselines.envs.vec import VecEnv
from tfbaselines.envs.vec.packed import with_packed_observations
from tfbaselines.parallel import mpi
from tfbaselines.parallel.threads import Crew, Together
from tfbaselines.training.checkpoint import TreeFile
from tfbaselines.training.plan import Plan
from tfbaselines.training.run import Run

__all__ = ["Config", "Model", "learn", "make_policy"]


class ReplayFile(TreeFile):
    """The replays of all workers in one file.

    Args:
        replays: of each.
    """

    def __init__(self, replays: Sequence[RolloutReplay | TraceReplay]) -> None:
        super().__init__(Together(replays))
        self._replays = replays

    def load(self, path: str | os.PathLike, episodes_continue: bool = False) -> None:
        """See TreeFile; episodes under way are kept if the environments go on with them."""
        super().load(path)
        if not episodes_continue:
            for replay in self._replays:
                replay.forget_unfinished()


@takes(Config)
def learn(network: NetworkSpec, env: VecEnv | Sequence[VecEnv], **kwargs: Any) -> Model:
    """Train a policy with ACER; several workers take a list with the environments of each."""
    config = Config.of(kwargs)
    comm = mpi.wrap(config.comm)
    with workers_environments(env, config.num_workers, config.options, comm) as given:
        envs = [with_packed_observations(one) for one in given]
        plan = Plan.of(config, envs[0].num_envs)
        replays = [make_replay(one, config) if config.replay_ratio else None for one in envs]
        crew = Crew([lambda number=number: workers[number].turn() for number in range(len(envs))])
        with Run("acer", Together(envs), config, plan, with_packed_observations) as run, crew:
            model = Model(network, envs[0], config, comm)
            model.rng = run.rng
            saved = ReplayFile(replays) if config.replay_ratio else None
            run.start(model, normalized=envs[0], replay=saved, paused=crew.paused)
            workers = make_workers(run, envs, replays)
            run.acts(*workers)
            rows = ACERRows(run, len(workers))
            turns = crew.results(run.num_updates - run.update)
            for _, (number, (statistics, ended)) in zip(run.updates(), turns, strict=False):
                run.episodes.extend(ended)
                rows.add(number, run.check(statistics), ended)
                run.finish_update(rows)
    return model
