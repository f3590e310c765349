"""HER: hindsight experience replay (Andrychowicz et al. 2017, arXiv:1707.01495) with DDPG, as in baselines.

The replay exchanges a step's goal g for one that its episode achieves later, with the reward that this goal would have
earned. The critic minimizes (q(s, g, a) - y)^2 with

    y = clip(r + gamma (1 - d) q'(s', g, pi'(s', g)), -1 / (1 - gamma), 0)

the actor maximizes q(s, g, pi(s, g)) - action_l2 |pi(s, g)|^2, actions in units of their bounds, and the targets (')
follow at a cycle's end. With bc_loss a part of every batch is demonstrations, and the actor also minimizes
|pi(s, g) - a|^2 over these rows (Nair et al. 2018, arXiv:1709.10089). loss.py has these formulas.
"""

from typing import Any

import numpy as np

from tfbaselines.algs.her import ALGORITHM, Config
from tfbaselines.algs.her.demonstrations import make_demonstrations
from tfbaselines.algs.her.episodes import RewardCheck, completed, course_of, explored
from tfbaselines.algs.her.evaluation import BestModel, epoch_row, successes
from tfbaselines.algs.her.goal import GoalActorCritic, make_policy
from tfbaselines.algs.her.loss import CloningLosses, Losses
from tfbaselines.compiling import compiled
from tfbaselines.config.config import NetworkSpec
from tfbaselines.config.takes import takes
from tfbaselines.envs.vec import VecEnv
from tfbaselines.envs.wrappers import goal_reward
from tfbaselines.learn.average import AveragedPolicy, with_targets
from tfbaselines.learn.engine import Engine, Phase
from tfbaselines.learn.optimizers import Adam
from tfbaselines.policy.precision import compile_with_xla
from tfbaselines.replay.hindsight import HindsightReplay
from tfbaselines.training.model import PolicyModel
from tfbaselines.training.off_policy import OffPolicyModel, OffPolicyRun

ADAM_EPSILON = 1e-8


def make_update(
    policy: GoalActorCritic, averaged: AveragedPolicy, config: Config, least_return: float, comm: Any = None
) -> Engine:
    """Make the gradient steps.

    Args:
        policy: the actor with its critic.
        averaged: the target networks; they follow at a cycle's end, not here.
        config: the arguments.
        least_return: lower bound of the critic's targets.
        comm: the ranks that train together.
    """
    kind = CloningLosses if config.bc_loss else Losses
    losses = kind(policy, averaged.policy, config, least_return)
    phases = [
        Phase("critic", losses.critic_loss, policy.critic_variables, Adam(epsilon=ADAM_EPSILON), "Q_lr"),
        Phase("actor", losses.actor_loss, policy.acting_variables, Adam(epsilon=ADAM_EPSILON), "pi_lr"),
    ]
    # In baselines, both gradients are taken with the same weights.
    jit = compile_with_xla(policy, config.batch_size)
    return Engine(phases, prepare=losses.prepare, together=True, jit=jit, comm=comm)


@takes(Config, flatten=False)
def learn(network: NetworkSpec, env: VecEnv, **kwargs: Any) -> OffPolicyModel:
    """Train a policy that reaches goals; observations are Dicts of observation, achieved_goal and desired_goal."""
    config, episode_steps = completed(Config.of(kwargs), env)
    with OffPolicyRun(ALGORITHM, env, config, course_of(config, episode_steps)) as run:
        policy, averaged = with_targets(lambda: make_policy(network, env, config, run.comm), config.polyak)
        least_return = -1.0 / (1.0 - config.gamma) if config.clip_return and config.gamma < 1 else -np.inf
        update = make_update(policy, averaged, config, least_return, run.comm)
        replay_k = config.replay_k if config.replay_strategy == "future" else 0
        new_goals = {"compute_reward": goal_reward(env), "replay_k": replay_k}
        replay = HindsightReplay(env, int(config.buffer_size), config.gamma, **new_goals)
        best = BestModel(config.save_path)
        check_rewards = RewardCheck(config.clip_pos_returns)
        model = OffPolicyModel(policy, averaged, update, replay=replay, parts=[best])
        demonstrations = make_demonstrations(config, env, run.rng, **new_goals)
        demonstrations.normalize(policy)
        follow = compiled(averaged.step)

        def explore(obs: Any, states: Any, episode_start: np.ndarray) -> tuple[np.ndarray, None]:
            actions, _ = model.actor.choose(obs, states, episode_start, None)
            return explored(actions, policy.head, run.rng, run.config.noise_eps, run.config.random_eps), None

        def observed() -> dict[str, np.ndarray]:
            return policy.inputs_numpy(replay.sample_latest(run.rng, episode_steps)["obs"])

        tested = PolicyModel(averaged.policy) if config.test_with_polyak else model

        def collected(episodes: list[dict[str, Any]]) -> None:
            run.table.store(success=successes(episodes))

        def row() -> dict[str, Any]:
            columns = epoch_row(run, tested)
            best.consider(model, columns.get("test/success_rate", columns["train/success_rate"]), run.is_root)
            return columns

        for gradient_steps in run.cycles(model, explore, row, observed=observed, on_cycle=collected):
            for block in run.blocks(gradient_steps):
                check_rewards(block["rewards"])
                run.table.store(**run.train(demonstrations.added_to(block)))
            follow()
    return model
