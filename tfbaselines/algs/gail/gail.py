"""GAIL: generative adversarial imitation learning (Ho and Ermon 2016, arXiv:1606.03476), as in baselines.

A discriminator D learns to tell what the policy does from demonstrations, and the policy learns by TRPO's step from

    r(s, a) = -log(1 - D(s, a)),

so that it is taken for the demonstrator. An update is g_step steps of the policy, each on a batch of its own, then
d_step steps of the discriminator on parts of the last batch and as many demonstrated steps. It descends

    E_policy[-log(1 - D)] + E_demonstrations[-log D] - adversary_entcoeff H[D].
"""

from typing import Any

import numpy as np

from tfbaselines.algs.gail import Config
from tfbaselines.algs.gail.returns import LearnedReturns
from tfbaselines.config.config import NetworkSpec
from tfbaselines.config.takes import takes
from tfbaselines.demos.cloning import Cloning, CloningOptions, pretrain
from tfbaselines.demos.demonstrations import Demonstrations, load_demonstrations
from tfbaselines.envs.vec import VecEnv
from tfbaselines.envs.vec.packed import PackedSpace
from tfbaselines.errors import UsageError
from tfbaselines.rewards.adversary import Adversary, Discriminator
from tfbaselines.rewards.signals import RewardSignals
from tfbaselines.rollout.rollout import Rollout, minibatches
from tfbaselines.training.model import PolicyModel
from tfbaselines.training.on_policy import BatchRun
from tfbaselines.training.trust_region import TrustRegionUpdate

VALUE_BATCH = 128
EPISODES_IN_MEAN = 40
# Learning rate of the behaviour cloning.
CLONING_LR = 3e-4


@takes(Config)
def learn(network: NetworkSpec, env: VecEnv, **kwargs: Any) -> PolicyModel:
    """Train a policy with GAIL."""
    config = Config.of(kwargs)
    with BatchRun("gail", network, env, config, EPISODES_IN_MEAN, config.g_step) as run:
        if isinstance(run.policy.observation_space, PackedSpace):
            raise UsageError(
                "gail takes neither action masks nor observations of several parts: the environments have them"
            )
        if run.plan.total_timesteps == 0 and config.demo_path is None:
            # A saved model is loaded, and nothing learnt.
            run.start(run.model)
            return run.model
        demonstrations = load_demonstrations(config.demo_path, env.observation_space, env.action_space)
        demonstrations = demonstrations.first(config.traj_limitation)
        adversary = make_adversary(run, env, demonstrations)
        run.model.parts = [adversary]
        signals = RewardSignals([adversary], extrinsic_strength=0.0)
        improve = TrustRegionUpdate(run, "entcoeff", VALUE_BATCH)
        returns = LearnedReturns(env, EPISODES_IN_MEAN, run.comm)

        def begin() -> None:
            run.acts(returns)
            if config.pretrained and run.update == 0 and config.load_path is None:
                clone(run, demonstrations)

        for number, rollout in enumerate(run.rollouts(begin), start=1):
            means = signals.apply_to_rollout(rollout)
            returns.add(rollout)
            row = improve(rollout)
            if number % config.g_step == 0:
                row |= means | discriminate(run, signals, rollout)
                run.log(row | {"EpRewMean": returns.mean, "EpTrueRewMean": run.episodes.mean_reward})
    return run.model


def make_adversary(run: BatchRun, env: VecEnv, demonstrations: Demonstrations) -> Adversary:
    """The discriminator and its steps."""
    config, action_space = run.config, env.action_space
    discriminator = Discriminator(env.observation_space, action_space, config.adversary_hidden_size, run.comm)
    return Adversary(
        discriminator,
        demonstrations,
        action_space,
        entcoeff=config.adversary_entcoeff,
        lr=config.d_stepsize,
        rng=run.rng,
        comm=run.comm,
        subsample=config.subsample,
        gamma=config.gamma,
    )


def clone(run: BatchRun, demonstrations: Demonstrations) -> None:
    """Begin with a policy that imitates the demonstrations."""
    options = CloningOptions(subsample=run.config.subsample)
    cloning = Cloning(run.policy, run.policy.acting_variables, demonstrations, options, run.comm)
    pretrain(cloning, run.rng, CLONING_LR, run.config.BC_max_iter)
    run.model.ready()


def discriminate(run: BatchRun, signals: RewardSignals, rollout: Rollout) -> dict[str, float]:
    """The discriminator's steps on parts of a rollout; the means of their statistics."""
    data = rollout.batch(False)
    count = len(data["obs"])
    parts = minibatches(run.rng, count, count // run.config.d_step, 1)[: run.config.d_step]
    rows = [signals.update({name: data[name][part] for name in ("obs", "actions")}) for part in parts]
    return run.check({name: float(np.mean([row[name] for row in rows])) for name in rows[0]})
