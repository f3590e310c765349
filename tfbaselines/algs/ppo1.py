"""PPO1: proximal policy optimisation as in baselines' first form (Schulman et al. 2017, arXiv:1707.06347).

Each update collects a batch with the current policy, estimates advantages A with GAE, standardised over the batch, and
takes optim_epochs passes over it in minibatches of optim_batchsize, descending by Adam

    L = -E[min(A * ratio, A * clip(ratio, 1 - c, 1 + c))] + E[(V - R)^2] - entcoeff * H[pi],   R = A + V_old

with ratio = pi(a|s) / pi_old(a|s). The stepsize and c = clip_param fall together when schedule is 'linear'.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import tensorflow as tf

from tfbaselines.compiling import compiled
from tfbaselines.envs.vec import VecEnv
from tfbaselines.errors import bad_argument
from tfbaselines.experience.returns import explained_variance, standardized
from tfbaselines.losses.policy_gradient import clipped_policy_loss, with_outputs
from tfbaselines.optim.optimizers import Adam
from tfbaselines.optim.update import Batch
from tfbaselines.policy.policy import Policy
from tfbaselines.policy.precision import compile_with_xla
from tfbaselines.running.batch_run import BatchRun
from tfbaselines.running.model import PolicyModel
from tfbaselines.running.on_policy import minibatches
from tfbaselines.settings.bases import BatchConfig
from tfbaselines.settings.config import Coefficient, NetworkSpec, arg
from tfbaselines.settings.takes import takes


@dataclass(frozen=True, kw_only=True)
class Config(BatchConfig):
    """Arguments of PPO1."""

    timesteps_per_actorbatch: int = arg(2048, "steps of all environments of this rank in an update", at_least=1)
    clip_param: float = arg(0.2, "how far the probability ratio may go from 1", at_least=0)
    entcoeff: Coefficient = arg(0.0, "weight of the policy's entropy in the loss")
    optim_epochs: int = arg(10, "passes over each batch", at_least=1)
    optim_stepsize: float = arg(3e-4, "learning rate", at_least=0)
    optim_batchsize: int = arg(64, "rows in a minibatch of this rank", at_least=1)
    lam: Coefficient = arg(0.95, "weight of longer advantage estimates (GAE)", at_least=0, at_most=1)
    max_timesteps: float = arg(0, "total_timesteps by the original's name; 0 for that", at_least=0)
    max_seconds: float = arg(0.0, "seconds after which the run ends; 0 for no limit", at_least=0)
    adam_epsilon: float = arg(1e-5, "epsilon of Adam", above=0)
    schedule: str = arg(
        "linear",
        "of stepsize and clip_param together: 'linear' falls to 0 over training",
        choices=("linear", "constant"),
    )

    order: ClassVar = """
        timesteps_per_actorbatch clip_param entcoeff optim_epochs optim_stepsize optim_batchsize gamma lam
        max_timesteps max_episodes max_iters max_seconds callback adam_epsilon schedule total_timesteps seed load_path
        save_interval value_network normalize_observations comm run
    """

    @property
    def batch_steps(self) -> int:
        """See BatchConfig."""
        return self.timesteps_per_actorbatch

    @property
    def seconds(self) -> float:
        """See BatchConfig."""
        return self.max_seconds

    @property
    def timesteps(self) -> float | None:
        """See BatchConfig."""
        return self.max_timesteps or self.total_timesteps

    def check(self) -> None:
        """See Config."""
        if self.optim_batchsize > self.timesteps_per_actorbatch:
            accepted = f"at most timesteps_per_actorbatch={self.timesteps_per_actorbatch}"
            raise bad_argument("optim_batchsize", self.optim_batchsize, accepted)
        if self.schedule == "linear" and self.most_timesteps(1) is None:
            accepted = "needs total_timesteps, max_timesteps or max_iters to end at; take 'constant'"
            raise bad_argument("schedule", self.schedule, accepted)


def loss(
    policy: Policy, batch: Batch, clip_param: tf.Tensor | float, entcoeff: float
) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
    """The objective of one minibatch and its parts.

    Args:
        policy: as it is now.
        batch: obs [B, ...], actions [B, ...], advantages [B], returns [B], and `flat` [B, P], the parameters of the
            policy that acted.
        clip_param: how far the probability ratio may go from 1.
        entcoeff: weight of the entropy.
    """
    outputs = policy.forward(batch["obs"])
    now, old = (policy.head.distribution(flat) for flat in (outputs.flat, batch["flat"]))
    ratio = tf.exp(now.logp(batch["actions"]) - old.logp(batch["actions"]))
    surrogate, entropy = clipped_policy_loss(ratio, batch["advantages"], clip_param), tf.reduce_mean(now.entropy())
    value_loss = tf.reduce_mean(tf.square(outputs.value - batch["returns"]))
    return surrogate - entcoeff * entropy + value_loss, {
        "pol_surr": surrogate,
        "pol_entpen": -entcoeff * entropy,
        "vf_loss": value_loss,
        "kl": tf.reduce_mean(old.kl(now)),
        "ent": entropy,
    }


@takes(Config)
def learn(network: NetworkSpec, env: VecEnv, **kwargs: Any) -> PolicyModel:
    """Train a policy with PPO1."""
    config = Config.of(kwargs)
    with BatchRun("ppo1", network, env, config) as run:
        policy, jit = run.policy, compile_with_xla(run.policy, config.timesteps_per_actorbatch)
        step = run.gradient_steps(
            lambda batch, rates: loss(policy, batch, rates["clip_param"], config.at(rates).entcoeff),
            Adam(epsilon=config.adam_epsilon),
        )
        outputs = compiled(lambda batch: with_outputs(policy, batch)["flat"], jit)
        losses = compiled(lambda batch, clip, entcoeff: loss(policy, batch, clip, entcoeff)[1], jit)
        for rollout in run.rollouts():
            now = run.config
            advantages = rollout.advantages(now.gamma, now.lam)
            returns = advantages + rollout.values
            data = rollout.batch(False, returns=returns, advantages=standardized(advantages))
            data = {name: data[name] for name in ("obs", "actions", "advantages", "returns")}
            data["flat"] = outputs(data).numpy()

            left = run.fraction_left if config.schedule == "linear" else 1.0
            clip_param = config.clip_param * left
            rows = minibatches(run.rng, returns.size, config.optim_batchsize, config.optim_epochs)
            step(data, rows, lr=config.optim_stepsize * left, clip_param=clip_param, **run.rates())
            after = losses(data, tf.constant(clip_param), tf.constant(now.entcoeff))
            row = {f"loss_{name}": float(value) for name, value in after.items()}
            run.log(row | {"ev_tdlam_before": explained_variance(rollout.values.ravel(), returns.ravel())})
    return run.model
