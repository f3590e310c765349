"""PPO1: proximal policy optimization as in baselines' first form (Schulman et al. 2017, arXiv:1707.06347).

Each update collects a batch with the current policy, estimates advantages A with GAE, standardized over the batch, and
takes optim_epochs passes over it in minibatches of optim_batchsize, descending by Adam

    L = -E[min(A * ratio, A * clip(ratio, 1 - c, 1 + c))] + E[(V - R)^2] - entcoeff * H[pi],   R = A + V_old

with ratio = pi(a|s) / pi_old(a|s). The stepsize and c = clip_param fall together when schedule is 'linear'.
"""

from typing import Any

import tensorflow as tf

from tfbaselines.algs.ppo1 import ALGORITHM, Config
from tfbaselines.compiling import compiled, prompt
from tfbaselines.config.algorithm import takes
from tfbaselines.config.config import NetworkSpec
from tfbaselines.envs.vec import VecEnv
from tfbaselines.learn.engine import Batch
from tfbaselines.learn.losses import clipped_policy_loss, with_outputs
from tfbaselines.learn.optimizers import Adam
from tfbaselines.policy.layers import compile_with_xla
from tfbaselines.policy.policy import Policy
from tfbaselines.rollout.rollout import explained_variance, minibatches, standardized
from tfbaselines.training.model import PolicyModel
from tfbaselines.training.on_policy import BatchRun


def loss(
    policy: Policy, batch: Batch, clip_param: tf.Tensor | float, entcoeff: float
) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
    """Return the loss of one minibatch and its terms.

    The batch has obs, actions [B, ...], advantages, returns [B], and `flat` [B, P], the parameters that acted.
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


@takes(ALGORITHM)
def learn(network: NetworkSpec, env: VecEnv, **kwargs: Any) -> PolicyModel:
    """Train a policy with PPO1."""
    config = Config.of(kwargs)
    with BatchRun(ALGORITHM, network, env, config) as run:
        policy, optimizer = run.policy, Adam(epsilon=config.adam_epsilon)
        jit = compile_with_xla(policy, config.timesteps_per_actorbatch)
        step = run.gradient_steps(
            lambda batch: loss(policy, batch, batch["clip_param"], config.at(batch).entcoeff), optimizer
        )
        outputs = prompt(compiled(lambda batch: with_outputs(policy, batch)["flat"], jit))
        losses = prompt(compiled(lambda batch, clip, entcoeff: loss(policy, batch, clip, entcoeff)[1], jit))
        model = PolicyModel(policy, optimizer)
        for rollout in run.rollouts(model):
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
    return model
