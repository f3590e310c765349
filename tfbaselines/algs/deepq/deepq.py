"""DQN: deep Q-learning (Mnih et al. 2015), with the parts of Rainbow (Hessel et al. 2018, arXiv:1710.02298).

Q(s, a) descends w huber(Q(s, a) - y), each variable's gradient clipped by its own norm, towards

    y = r + gamma (1 - d) Q'(s', a*),   a* = argmax_a Q(s', a)  (without double_q: argmax_a Q'(s', a))

with the importance weights w of prioritized replay (else 1). The target network (') is a copy, renewed every
target_network_update_freq steps. Actions are epsilon-greedy, or greedy with parameter noise. loss.py holds the losses
of distributional returns, q_network.py the network, and buffers.py the other names of baselines' deepq.
"""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.algs.deepq import ALGORITHM, Config
from tfbaselines.algs.deepq.exploration import BestPolicy, make_exploration, model_in, with_callback, with_noise
from tfbaselines.algs.deepq.loss import make_returns
from tfbaselines.algs.deepq.prioritized import PrioritizedReplay
from tfbaselines.algs.deepq.q_network import QNetwork, build_q_network
from tfbaselines.config.algorithm import takes
from tfbaselines.config.config import NetworkSpec
from tfbaselines.envs.vec import VecEnv
from tfbaselines.errors import UsageError
from tfbaselines.learn.engine import Batch, Engine, Phase, Statistics
from tfbaselines.learn.losses import weighted_mean
from tfbaselines.learn.optimizers import Adam, AveragedPolicy, with_targets
from tfbaselines.logs.statistics import safe_mean
from tfbaselines.policy.layers import compile_with_xla
from tfbaselines.replay import Replay
from tfbaselines.training.build import check_network
from tfbaselines.training.clock import UNLIMITED
from tfbaselines.training.off_policy import Course, OffPolicyModel, OffPolicyRun


class ActWrapper(OffPolicyModel):
    """A model that can be called as in baselines: ``act(obs[None])[0]``."""

    def __call__(self, obs: Any, stochastic: bool = True, update_eps: float = -1.0) -> np.ndarray:
        """Choose actions [N], at random with probability epsilon if `stochastic`; update_eps >= 0 sets epsilon."""
        if update_eps >= 0:
            self.policy.head.epsilon = update_eps
        return self.act(obs, deterministic=not stochastic)[0]


@takes(ALGORITHM)
def learn(network: NetworkSpec, env: VecEnv, **kwargs: Any) -> ActWrapper:
    """Train a Q-network with DQN; an 'action_mask' in the infos restricts the actions.

    The first two arguments may come in baselines' order, env before network.
    """
    config = Config.of(kwargs)
    config = replace(config, load_path=model_in(config.checkpoint_path) or config.load_path)
    with OffPolicyRun(ALGORITHM, env, config, course_of(config, env.num_envs)) as run:
        make_network = partial(make_policy, network, run.env, config, run.comm)
        policy, averaged = with_targets(make_network, 0.0)
        update = make_update(policy, averaged, config, run.comm)
        best = BestPolicy(run, config.checkpoint_path)
        model = ActWrapper(policy, averaged, update, replay=make_replay(run, policy), parts=[best])
        explore = make_exploration(make_network, run, model)
        act = with_callback(explore, run, config.callback)
        for gradient_steps in run.cycles(model, act, partial(row, run), acting=[explore]):
            if run.timesteps <= config.learning_starts:
                continue
            if config.prioritized_replay:
                model.replay.anneal(config.beta(run.timesteps))
            for block in run.blocks(gradient_steps):
                run.train(with_noise(block, model.policy.q_head.noise_size, run.rng))
            if run.passed(config.target_network_update_freq):
                model.averaged.reset()
            if config.checkpoint_freq is not None and run.passed(config.checkpoint_freq):
                best.consider()
    best.take()
    return model


def make_update(policy: QNetwork, averaged: AveragedPolicy, config: Config, comm: Any = None) -> Engine:
    """Make the gradient steps."""
    target, returns = averaged.policy, policy.q_head.returns

    def prepare(batch: Batch) -> Batch:
        next_obs = policy.preprocess(batch["next_obs"])
        outputs = target.outputs(next_obs, batch.get("target_noise"))
        selecting = policy.outputs(next_obs, batch.get("noise")) if config.double_q else outputs
        best = tf.argmax(policy.values(next_obs, selecting), axis=-1, output_type=tf.int32)
        return batch | {"targets": returns.targets(batch, policy.at(outputs, best))}

    def loss(batch: Batch) -> tuple[tf.Tensor, Statistics]:
        outputs = policy.outputs(policy.preprocess(batch["obs"]), batch.get("noise"))
        losses, errors = returns.loss(policy.chosen(outputs, batch["actions"]), batch["targets"])
        loss = weighted_mean(batch, losses)
        return loss, {"loss": loss} | ({"td_errors": tf.abs(errors)} if "weights" in batch else {})

    adam, clip_norm = Adam(epsilon=config.adam_epsilon), config.grad_norm_clipping
    phase = Phase("q", loss, policy.trainable_variables, adam, clip_norm=clip_norm)
    return Engine([phase], prepare=prepare, jit=compile_with_xla(policy, config.batch_size), comm=comm)


def make_replay(run: OffPolicyRun, policy: QNetwork) -> Replay:
    """Make the replay that the arguments describe, uniform or prioritized."""
    config = run.config
    if not config.prioritized_replay:
        return run.make_replay(policy)
    return PrioritizedReplay(
        run.env,
        int(config.buffer_size),
        config.gamma,
        config.n_step,
        alpha=config.prioritized_replay_alpha,
        beta=config.prioritized_replay_beta0,
        epsilon=config.prioritized_replay_eps,
    )


def make_policy(network: NetworkSpec, env: Any, config: Config, comm: Any = None) -> QNetwork:
    """Make the Q-network; its sampled actions use the final epsilon of training."""
    if not isinstance(env.action_space, spaces.Discrete):
        raise UsageError(f"deepq needs Discrete actions, not {env.action_space}: ppo2 takes every kind of actions")
    check_network(network, config)
    kind = {
        "returns": make_returns(config.distributional, config.num_atoms, config.v_min, config.v_max),
        "epsilon": 0.0 if config.param_noise else config.exploration_final_eps,
        "hiddens": config.hiddens,
        "dueling": config.dueling,
        "layer_norm": config.layer_norm,
        "noisy": config.noisy,
        "normalize_observations": config.normalize_observations,
    }
    return build_q_network(
        env, network, vis_encode_type=config.vis_encode_type, comm=comm, kind=kind, **config.network_kwargs
    )


def course_of(config: Config, num_envs: int) -> Course:
    """Make the course; the number of gradient steps per environment step does not depend on num_envs."""
    collected = max(1, round(config.train_freq / num_envs))
    return Course(
        steps=int(config.total_timesteps),
        collected=collected,
        gradient_steps=max(1, round(collected * num_envs / config.train_freq * config.gradient_steps)),
        log_episodes=config.print_freq or UNLIMITED,
    )


def row(run: OffPolicyRun) -> dict[str, Any]:
    """Test, and return a row of the logs under baselines' names."""
    columns = {
        "steps": run.timesteps,
        "episodes": run.episodes.count,
        "mean 100 episode reward": run.episodes.mean_reward,
        "% time spent exploring": int(100 * run.config.epsilon(run.timesteps)),
    }
    if run.eval_env is not None:
        columns["mean test reward"] = safe_mean([episode["r"] for episode in run.test()])
    return columns
