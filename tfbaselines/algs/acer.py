"""ACER: actor-critic with experience replay (Wang et al. 2017, arXiv:1611.01224).

Each update collects nsteps from every environment, learns from them, and then from Poisson(replay_ratio) batches of the
replay. With rho = f(a|x) / mu(a|x), the policy f now over the one that acted, and Retrace targets Q^ret, it ascends

    min(c, rho) (Q^ret - V) log f(a|x)  +  sum_a' max(0, 1 - c / rho(a')) f(a'|x) (Q(x, a') - V) log f(a'|x)

plus ent_coef * H[f], where the factors before log f are constants, and descends q_coef * 0.5 (Q^ret - Q(x, a))^2. The
gradient with respect to f is bounded by a trust region around the averaged policy. The formulas are in losses/acer.py
and optim/trust_region.py, their gradient step in running/acer_model.py.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from tfbaselines.envs.vec import VecEnv
from tfbaselines.envs.vec.packed import with_packed_observations
from tfbaselines.errors import bad_argument
from tfbaselines.experience.traces import RolloutReplay, TraceReplay
from tfbaselines.logs.acer_rows import ACERRows
from tfbaselines.parallel import mpi
from tfbaselines.parallel.threads import Crew, Together
from tfbaselines.running.acer_model import Model, make_policy
from tfbaselines.running.checkpoint import TreeFile
from tfbaselines.running.plan import Plan
from tfbaselines.running.run import Run
from tfbaselines.running.workers import make_replay, make_workers, workers_environments
from tfbaselines.settings.bases import PolicyConfig
from tfbaselines.settings.config import Coefficient, NetworkSpec, Schedule, arg
from tfbaselines.settings.schedules import FRACTION_SCHEDULES
from tfbaselines.settings.takes import takes

__all__ = ["Config", "Model", "learn", "make_policy"]

# Of replayed episodes, unless it is given.
BATCH_SIZE = 32


@dataclass(frozen=True, kw_only=True)
class Config(PolicyConfig):
    """Arguments of ACER."""

    total_timesteps: float = arg(80e6, "environment steps of this rank, over all workers", at_least=0)
    nsteps: int = arg(20, "steps of each environment in an update, and in a sequence of the replay", at_least=1)
    q_coef: Coefficient = arg(0.5, "weight of the loss of Q", at_least=0)
    ent_coef: Coefficient = arg(0.01, "weight of the policy's entropy")
    max_grad_norm: float | None = arg(10.0, "bound of the gradient's global norm; None for none", above=0)
    lr: Schedule = arg(7e-4, "learning rate", at_least=0)
    lrschedule: str | Callable[[float], float] = arg(
        "linear",
        "shape of the learning rate over training, unless lr is a schedule itself",
        choices=tuple(FRACTION_SCHEDULES),
    )
    rprop_epsilon: float = arg(1e-5, "RMSProp's epsilon, inside the square root", at_least=0)
    rprop_alpha: float = arg(0.99, "decay of RMSProp's mean square", at_least=0, at_most=1)
    log_interval: int = arg(100, "updates from new experience between rows of the logs", at_least=1)
    buffer_size: int = arg(50000, "steps of each environment kept in the replay", at_least=1)
    replay_ratio: float = arg(4, "updates from the replay for each one from new experience, on average", at_least=0)
    replay_start: int = arg(10000, "steps of each environment in the replay before it is used", at_least=0)
    c: Coefficient = arg(10.0, "bound of the importance weights; the bias of truncation is corrected", at_least=0)
    trust_region: bool | str = arg(
        True,
        "True or 'efficient' bounds the gradient by the outputs' distance to the averaged policy; 'exact' shortens "
        "each step until the mean KL divergence from that policy is within delta; False leaves it unbounded",
        choices=("efficient", "exact", "True", "False"),
    )
    alpha: float = arg(0.99, "share of the averaged policy kept in each update", at_least=0, at_most=1)
    delta: float = arg(1.0, "bound of the trust region", at_least=0)
    reward_clip: float | None = arg(None, "rewards are clipped to [-this, this]; None for not at all", at_least=0)
    buffer_len: int | None = arg(None, "episodes kept in the replay, in place of buffer_size (trace mode)", at_least=1)
    batch_size: int = arg(BATCH_SIZE, "traces in a batch of the replay, in trace mode", at_least=1)
    trace_length: int | None = arg(None, "steps to which replayed episodes are cut; None for whole ones", at_least=1)
    num_workers: int = arg(
        1, "threads that collect and learn into one model; several do not repeat bitwise", at_least=1
    )
    lock: bool = arg(True, "one worker changes the parameters at a time; False lets all at once (Hogwild)")

    order: ClassVar = """
        seed nsteps total_timesteps q_coef ent_coef max_grad_norm lr lrschedule rprop_epsilon rprop_alpha gamma
        log_interval buffer_size replay_ratio replay_start c trust_region alpha delta load_path save_interval
        value_network normalize_observations reward_clip buffer_len batch_size trace_length num_workers lock
        comm run
    """
    env_defaults: ClassVar = {
        "atari": {"lrschedule": "constant"},
        # Continuous control, which the original lacks: a critic of its own, and steps that reach its scale in time.
        "mujoco": {
            "value_network": "copy",
            "lr": 3e-3,
            "lrschedule": "constant",
            "ent_coef": 0.0,
            "c": 5.0,
            "replay_start": 1000,
        },
    }

    def check(self) -> None:
        """See Config."""
        if self.buffer_len is None and (self.trace_length is not None or self.batch_size != BATCH_SIZE):
            raise ValueError("batch_size and trace_length are of replayed episodes: give buffer_len, how many to keep")
        if self.replay_ratio and self.buffer_len is None and self.replay_start > self.buffer_size:
            accepted = f"at most buffer_size={self.buffer_size}, or nothing is replayed"
            raise bad_argument("replay_start", self.replay_start, accepted)


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
