"""GAIL: generative adversarial imitation learning (Ho and Ermon 2016, arXiv:1606.03476), as in baselines.

A discriminator D learns to separate the policy's steps from demonstrated ones. The policy learns by TRPO's step from

    r(s, a) = -log(1 - D(s, a)),

so that the discriminator takes it for the demonstrator. An update is g_step steps of the policy, each on a new batch,
then d_step steps of the discriminator on parts of the last batch and as many demonstrated steps. It descends

    E_policy[-log(1 - D)] + E_demonstrations[-log D] - adversary_entcoeff H[D].
"""

from typing import Any

import numpy as np
from gymnasium import spaces

from tfbaselines.algs.gail import ALGORITHM, Config
from tfbaselines.algs.trpo_mpi.trpo_mpi import TrustRegionUpdate
from tfbaselines.config.algorithm import takes
from tfbaselines.config.config import NetworkSpec
from tfbaselines.demos import Demonstrations, load_demonstrations
from tfbaselines.demos.cloning import Cloning, CloningOptions, pretrain
from tfbaselines.envs.vec import VecEnv
from tfbaselines.envs.vec.packed import with_action_masks
from tfbaselines.errors import UsageError
from tfbaselines.logs.statistics import Episodes
from tfbaselines.parallel import mpi
from tfbaselines.rewards import RewardSignals
from tfbaselines.rewards.learned import Adversary, Discriminator
from tfbaselines.rollout.rollout import Rollout, minibatches
from tfbaselines.training.model import PolicyModel
from tfbaselines.training.on_policy import BatchRun


class LearnedReturns:
    """Returns of the latest episodes of all ranks in learned rewards, which no monitor records (see Run.acts)."""

    def __init__(self, env: Any, in_mean: int, comm: mpi.Communicator) -> None:
        self._env = env
        self._comm = comm
        self._latest = Episodes(in_mean)
        self._sums = np.zeros(env.num_envs)
        self._steps = np.zeros(env.num_envs, np.int64)

    @property
    def mean(self) -> float:
        """Mean return of the latest episodes; nan before the first one ends."""
        return self._latest.mean_reward

    def add(self, rollout: Rollout) -> None:
        episodes = []
        for rewards, ended in zip(rollout.rewards, rollout.ended, strict=True):
            self._sums += rewards
            self._steps += 1
            episodes += [{"r": self._sums[i], "l": self._steps[i]} for i in np.flatnonzero(ended)]
            self._sums[ended] = 0.0
            self._steps[ended] = 0
        self._latest.extend([episode for rank in self._comm.gather(episodes) for episode in rank])

    def state(self) -> dict[str, Any]:
        return {"sums": self._sums.copy(), "steps": self._steps.copy(), "latest": self._latest.state()}

    def restore(self, state: dict[str, Any]) -> None:
        """Load a state that `state` returned; the sums only if the environments continue their episodes."""
        self._latest.restore(state["latest"])
        if self._env.restored:
            self._sums = np.array(state["sums"])
            self._steps = np.array(state["steps"])


VALUE_BATCH = 128
EPISODES_IN_MEAN = 40
# Learning rate of behavior cloning.
CLONING_LR = 3e-4


@takes(ALGORITHM)
def learn(network: NetworkSpec, env: VecEnv, **kwargs: Any) -> PolicyModel:
    """Train a policy with GAIL."""
    config = Config.of(kwargs)
    # Not Algorithm.wrap: this finds masks in the infos, to refuse them. The episodes that it begins are the run's.
    env = with_action_masks(env)
    if isinstance(env.observation_space, spaces.Dict):
        raise UsageError(
            "gail takes neither action masks nor observations of several parts: the environments have them"
        )
    with BatchRun(ALGORITHM, network, env, config, EPISODES_IN_MEAN, config.g_step) as run:
        if run.plan.total_timesteps == 0 and config.demo_path is None:
            # Only load a saved model.
            model = PolicyModel(run.policy)
            run.start(model)
            return model
        demonstrations = load_demonstrations(config.demo_path, env.observation_space, env.action_space)
        demonstrations = demonstrations.first(config.traj_limitation)
        adversary = make_adversary(run, demonstrations)
        signals = RewardSignals([adversary], extrinsic_strength=0.0)
        improve = TrustRegionUpdate(run, "entcoeff", VALUE_BATCH)
        returns = LearnedReturns(env, EPISODES_IN_MEAN, run.comm)
        model = PolicyModel(run.policy, improve.optimizer, parts=[adversary])

        def begin() -> None:
            run.acts(returns)
            if config.pretrained and run.update == 0 and config.load_path is None:
                clone(run, model, demonstrations)

        for number, rollout in enumerate(run.rollouts(model, begin), start=1):
            means = signals.apply_to_rollout(rollout)
            returns.add(rollout)
            row = improve(rollout)
            if number % config.g_step == 0:
                row |= means | discriminate(run, signals, rollout)
                run.log(row | {"EpRewMean": returns.mean, "EpTrueRewMean": run.episodes.mean_reward})
    return model


def make_adversary(run: BatchRun, demonstrations: Demonstrations) -> Adversary:
    """Make the discriminator and its steps."""
    env, config = run.env, run.config
    hidden_size = config.adversary_hidden_size
    return Adversary(
        Discriminator(env.observation_space, env.action_space, hidden_size, run.comm),
        demonstrations,
        env.action_space,
        entcoeff=config.adversary_entcoeff,
        lr=config.d_stepsize,
        rng=run.rng,
        comm=run.comm,
        subsample=config.subsample,
        gamma=config.gamma,
    )


def clone(run: BatchRun, model: PolicyModel, demonstrations: Demonstrations) -> None:
    """Let the policy imitate the demonstrations before its first rollout."""
    options = CloningOptions(subsample=run.config.subsample)
    cloning = Cloning(run.policy, run.policy.acting_variables, demonstrations, options, run.comm)
    pretrain(cloning, run.rng, CLONING_LR, run.config.BC_max_iter)
    model.ready()


def discriminate(run: BatchRun, signals: RewardSignals, rollout: Rollout) -> dict[str, float]:
    """Take the discriminator's steps on parts of a rollout, and return the means of their statistics."""
    data = rollout.batch(False)
    count = len(data["obs"])
    parts = minibatches(run.rng, count, count // run.config.d_step, 1)[: run.config.d_step]
    rows = [signals.update({name: data[name][part] for name in ("obs", "actions")}) for part in parts]
    return run.check({name: float(np.mean([row[name] for row in rows])) for name in rows[0]})
