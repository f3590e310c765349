"""ACER: actor-critic with experience replay (Wang et al. 2017, arXiv:1611.01224).

The formulas are in loss.py, the gradient step is in model.py, the replay memory in replay.py. Other files add to this:
continuous.py Box actions, exact.py the exact trust region, traces.py the replay of whole episodes, workers.py several
workers in threads.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from tfbaselines.algs.acer import ALGORITHM, Config
from tfbaselines.algs.acer.model import Model, make_policy
from tfbaselines.algs.acer.replay import ReplayFile, RolloutReplay, TrajectoryRunner, observations_of
from tfbaselines.config.config import NetworkSpec
from tfbaselines.config.takes import takes
from tfbaselines.envs.vec import VecEnv
from tfbaselines.parallel import mpi
from tfbaselines.training.clock import Plan
from tfbaselines.training.run import Run

__all__ = ["Config", "Model", "learn", "make_policy"]


@takes(Config)
def learn(network: NetworkSpec, env: VecEnv | Sequence[VecEnv], **kwargs: Any) -> Model:
    """Train a policy with ACER; several workers take a list with the environments of each."""
    config = Config.of(kwargs)
    if config.num_workers > 1 or isinstance(env, list | tuple):
        from tfbaselines.algs.acer.workers import learn_with_workers

        return learn_with_workers(network, env, config)
    with Run(ALGORITHM, env, config, Plan.of(config, env.num_envs)) as run:
        model = Model(network, run.env, config, run.comm, run.rng)
        replay = make_replay(run.env, config)
        run.start(model, replay=None if replay is None else ReplayFile(replay))
        runner = make_runner(run.env, model.policy, model.actor, config, run.rng)
        run.acts(runner)
        for _ in run.updates():
            trajectory = runner.run()
            statistics = run.check(model.train(batch=trajectory, **run.rates()))
            model.observe(partial(observations_of, trajectory))
            if replay is not None:
                replay.put(trajectory)
                for _ in range(times_to_replay(replay, run.config, run.comm, run.rng)):
                    model.train(batch=replay.sample(run.rng), replayed=True, **run.rates())
            run.episodes.extend(runner.episodes)
            run.finish_update(partial(row, run, statistics))
    return model


def make_replay(env: VecEnv, config: Config) -> Any:
    """Make the replay memory: of rollouts, of whole episodes if buffer_len is given, None if replay_ratio is 0."""
    if not config.replay_ratio:
        return None
    if config.buffer_len is None:
        return RolloutReplay(env, config.buffer_size, config.nsteps)
    from tfbaselines.algs.acer.traces import TraceReplay

    return TraceReplay(env, config.buffer_len, config.batch_size, config.trace_length, config.comm)


def make_runner(env: VecEnv, policy: Any, actor: Any, config: Config, rng: np.random.Generator) -> TrajectoryRunner:
    """Make the runner that collects trajectories with a policy's actor."""
    return TrajectoryRunner(env, policy, actor, config.nsteps, rng, reward_clip=config.reward_clip)


def times_to_replay(replay: Any, config: Config, comm: mpi.Communicator, rng: np.random.Generator) -> int:
    """Draw n ~ Poisson(replay_ratio), the number of updates from the replay after one from new experience.

    It is 0 before the replay of every rank holds replay_start steps. All ranks get the same number, because their
    gradients are averaged.
    """
    if not all(comm.gather(replay.has_atleast(config.replay_start))):
        return 0
    return comm.broadcast_object(int(rng.poisson(config.replay_ratio)))


def row(run: Any, statistics: dict[str, float]) -> dict[str, float]:
    """Return a row of the logs: the statistics of the latest update from new experience, and the run's counters."""
    return statistics | {
        "total_timesteps": run.timesteps,
        "fps": run.fps,
        "mean_episode_length": run.episodes.mean_length,
        "mean_episode_reward": run.episodes.mean_reward,
    }
