"""GAIL: generative adversarial imitation learning (Ho and Ermon 2016, arXiv:1606.03476), as in baselines.

A discriminator D learns to tell what the policy does from demonstrations, and the policy learns by TRPO's step from

    r(s, a) = -log(1 - D(s, a)),

so that it is taken for the demonstrator. An update is g_step steps of the policy, each on a batch of its own, then
d_step steps of the discriminator on parts of the last batch and as many demonstrated steps. It descends

    E_policy[-log(1 - D)] + E_demonstrations[-log D] - adversary_entcoeff H[D].
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tfbaselines.envs.vec import VecEnv
from tfbaselines.envs.vec.packed import PackedSpace
from tfbaselines.errors import bad_argument
from tfbaselines.experience.demonstrations import Demonstrations, load_demonstrations
from tfbaselines.experience.rewards import RewardSignals
from tfbaselines.experience.rollout import Rollout
from tfbaselines.policy.discriminator import Discriminator
from tfbaselines.running.adversary import Adversary, LearntReturns
from tfbaselines.running.batch_run import BatchRun
from tfbaselines.running.cloning import Cloning, CloningOptions, pretrain
from tfbaselines.running.model import PolicyModel
from tfbaselines.running.on_policy import minibatches
from tfbaselines.running.trust_region import TrustRegionUpdate
from tfbaselines.settings.bases import DemonstrationConfig, TrustRegionConfig
from tfbaselines.settings.config import Coefficient, NetworkSpec, arg
from tfbaselines.settings.takes import takes

VALUE_BATCH = 128
EPISODES_IN_MEAN = 40
# Learning rate of the behaviour cloning.
CLONING_LR = 3e-4


@dataclass(frozen=True, kw_only=True)
class Config(DemonstrationConfig, TrustRegionConfig):
    """Arguments of GAIL."""

    g_step: int = arg(3, "steps of the policy in an update", at_least=1)
    d_step: int = arg(1, "steps of the discriminator in an update", at_least=1)
    entcoeff: Coefficient = arg(0.0, "weight of the policy's entropy in its objective")
    adversary_entcoeff: float = arg(1e-3, "weight of the discriminator's entropy in its objective")
    adversary_hidden_size: int = arg(100, "units of each layer of the discriminator", at_least=1)
    d_stepsize: float = arg(3e-4, "learning rate of the discriminator", at_least=0)
    pretrained: bool = arg(False, "begin with behaviour cloning of the demonstrations, unless load_path is given")
    BC_max_iter: int = arg(10000, "the most gradient steps of that", at_least=1)
    max_kl: float = arg(0.01, "KL divergence of a step", above=0)
    cg_damping: float = arg(0.1, "added to the diagonal of the Fisher matrix", at_least=0)
    gamma: Coefficient = arg(0.995, "discount per step", at_least=0, at_most=1)
    lam: Coefficient = arg(0.97, "weight of longer advantage estimates (GAE)", at_least=0, at_most=1)
    vf_stepsize: Coefficient = arg(1e-3, "learning rate of the value function", at_least=0)
    vf_iters: int = arg(5, "passes of the value function over each batch", at_least=0)

    order: ClassVar = """
        demo_path g_step d_step entcoeff adversary_entcoeff adversary_hidden_size timesteps_per_batch max_kl cg_iters
        cg_damping gamma lam vf_iters vf_stepsize d_stepsize pretrained BC_max_iter traj_limitation subsample
        total_timesteps max_episodes max_iters seed callback load_path save_interval value_network
        normalize_observations comm run
    """
    instead: ClassVar = {
        "expert_path": "give demo_path=, the same file",
        "expert_dataset": "give demo_path=, the data set or its file",
        "reward_giver": "its discriminator is made here, see adversary_hidden_size, adversary_entcoeff and d_stepsize",
    }
    env_defaults: ClassVar = {
        "mujoco": {"num_hidden": 100, "num_layers": 2, "normalize_observations": True},
    }

    def check(self) -> None:
        """See Config."""
        super().check()
        if self.d_step > self.timesteps_per_batch:
            accepted = f"at most timesteps_per_batch={self.timesteps_per_batch}"
            raise bad_argument("d_step", self.d_step, accepted)


@takes(Config)
def learn(network: NetworkSpec, env: VecEnv, **kwargs: Any) -> PolicyModel:
    """Train a policy with GAIL."""
    config = Config.of(kwargs)
    with BatchRun("gail", network, env, config, EPISODES_IN_MEAN, config.g_step) as run:
        if isinstance(run.policy.observation_space, PackedSpace):
            raise ValueError(
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
        returns = LearntReturns(env, EPISODES_IN_MEAN, run.comm)

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
