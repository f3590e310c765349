"""PPO2: proximal policy optimization with clipped probability ratios (Schulman et al. 2017, arXiv:1707.06347).

Each update collects nsteps from every environment with the current policy, estimates advantages A with GAE, and takes
noptepochs passes over that rollout in nminibatches parts, descending

    L = L_clip + vf_coef * L_value - ent_coef * H[pi]
    L_clip  = E[max(-A * ratio, -A * clip(ratio, 1 - cliprange, 1 + cliprange))],  ratio = pi(a|s) / pi_old(a|s)
    L_value = 0.5 * E[max((V - R)^2, (V_old + clip(V - V_old, -cliprange, cliprange) - R)^2)],  R = A + V_old

with advantages standardized in each minibatch, gradients clipped by their global norm and Adam.
"""

from typing import Any

import numpy as np

from tfbaselines.algs.ppo2 import ALGORITHM, Config
from tfbaselines.algs.ppo2.model import Model, loss, make_model
from tfbaselines.config.algorithm import takes
from tfbaselines.config.config import NetworkSpec
from tfbaselines.envs.vec import VecEnv
from tfbaselines.rewards import value_streams
from tfbaselines.rollout.returns import explained_variance
from tfbaselines.rollout.rollout import Rollout, shuffled
from tfbaselines.training.on_policy import OnPolicyRun, episode_columns
from tfbaselines.training.pretraining import cloning_beside

__all__ = ["Model", "learn", "loss"]


@takes(Config)
def learn(network: NetworkSpec, env: VecEnv, **kwargs: Any) -> Model:
    """Train a policy with PPO2."""
    with OnPolicyRun(ALGORITHM, network, env, Config.of(kwargs), columns) as run:
        config, policy = run.config, run.policy
        streams, cloning = value_streams(run), cloning_beside(run, policy)
        model, train_phase = make_model(config, run.env, policy, run.comm, [*streams.parts, *cloning.parts])

        def returns_of(rollout: Rollout, gamma: float) -> np.ndarray:
            if config.use_gae:
                return rollout.advantages(gamma, run.config.lam) + rollout.values
            return rollout.n_step_returns(gamma)

        for rollout in run.rollouts(model, config.init_fn):
            estimates = streams.estimates(rollout, returns_of)
            data = rollout.batch(policy.recurrent, **estimates)
            indices = shuffled(run.rng, len(data["returns"]), config.nminibatches, config.noptepochs)
            statistics = run.check(train_phase(data=data, indices=indices, **run.rates()))
            cloning.learn(model, len(indices))
            if config.update_fn is not None:
                config.update_fn(run.update)
            explained = explained_variance(rollout.values.ravel(), estimates["returns"].ravel())
            row = {f"loss/{name}": value for name, value in statistics.items()}
            row |= {"misc/explained_variance": explained} | streams.learn(config.nminibatches, config.noptepochs)
            run.log(row)
    return model


def columns(run: OnPolicyRun) -> dict[str, Any]:
    """Return the counters and mean returns of a run, under baselines' names."""
    return episode_columns(run) | {
        "fps": run.fps,
        "misc/serial_timesteps": run.update * run.config.nsteps,
        "misc/nupdates": run.update,
        "misc/total_timesteps": run.timesteps,
        "misc/time_elapsed": run.elapsed,
    }
