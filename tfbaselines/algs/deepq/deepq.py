"""DQN: deep Q-learning (Mnih et al. 2015), with the parts of Rainbow (Hessel et al. 2018, arXiv:1710.02298).

Q(s, a) descends w huber(Q(s, a) - y), each variable's gradient clipped by its own norm, towards

    y = r + gamma (1 - d) Q'(s', a*),   a* = argmax_a Q(s', a)  (double_q; else of Q')

with importance weights w of prioritised replay (else 1). The target network (') is a copy, made anew every
target_network_update_freq steps. Actions are epsilon-greedy, or greedy with noise in the parameters.
"""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.algs.deepq import ALGORITHM, Config
from tfbaselines.algs.deepq.best import BestPolicy, model_in
from tfbaselines.algs.deepq.exploration import EpsilonGreedy, ParameterNoise
from tfbaselines.algs.deepq.interface import ActWrapper
from tfbaselines.algs.deepq.loss import return_loss, return_targets
from tfbaselines.algs.deepq.prioritized import PrioritizedReplay
from tfbaselines.algs.deepq.q_head import make_returns
from tfbaselines.algs.deepq.q_network import QNetwork, build_q_network
from tfbaselines.config.config import NetworkSpec
from tfbaselines.config.takes import takes
from tfbaselines.envs.vec import VecEnv
from tfbaselines.errors import UsageError
from tfbaselines.learn.average import AveragedPolicy, with_targets
from tfbaselines.learn.engine import Batch, Engine, Phase, Statistics
from tfbaselines.learn.losses import weighted_mean
from tfbaselines.learn.optimizers import Adam
from tfbaselines.logs.statistics import safe_mean
from tfbaselines.policy.precision import compile_with_xla
from tfbaselines.training.build import check_network
from tfbaselines.training.clock import UNLIMITED
from tfbaselines.training.off_policy import Course, OffPolicyRun

# Episodes before the mean return of the latest ones can be the best.
EPISODES_IN_BEST = 100


def make_update(policy: QNetwork, averaged: AveragedPolicy, config: Config, comm: Any = None) -> Engine:
    """The gradient steps.

    Args:
        policy: the Q-network.
        averaged: its target.
        config: the arguments.
        comm: the ranks that train together.
    """
    target, returns = averaged.policy, policy.q_head.returns

    def prepare(batch: Batch) -> Batch:
        following = policy.preprocess(batch["next_obs"])
        outputs = target.outputs(following, batch.get("target_noise"))
        judged = policy.outputs(following, batch.get("noise")) if config.double_q else outputs
        best = tf.argmax(policy.values(following, judged), axis=-1, output_type=tf.int32)
        return batch | {"targets": return_targets(returns, batch, policy.at(outputs, best))}

    def loss(batch: Batch) -> tuple[tf.Tensor, Statistics]:
        outputs = policy.outputs(policy.preprocess(batch["obs"]), batch.get("noise"))
        losses, errors = return_loss(returns, policy.chosen(outputs, batch["actions"]), batch["targets"])
        loss = weighted_mean(batch, losses)
        return loss, {"loss": loss} | ({"td_errors": tf.abs(errors)} if "weights" in batch else {})

    adam, clip_norm = Adam(epsilon=config.adam_epsilon), config.grad_norm_clipping
    phase = Phase("q", loss, policy.trainable_variables, adam, clip_norm=clip_norm)
    return Engine([phase], prepare=prepare, jit=compile_with_xla(policy, config.batch_size), comm=comm)


@takes(Config, flatten=False)
def learn(network: NetworkSpec, env: VecEnv, **kwargs: Any) -> ActWrapper:
    """Train a Q-network with DQN; of the actions, only those that an 'action_mask' in the infos allows.

    baselines' order of the first two arguments, env before network, is accepted too.
    """
    config = Config.of(kwargs)
    config = replace(config, load_path=model_in(config.checkpoint_path) or config.load_path)
    with OffPolicyRun(ALGORITHM, env, config, _course(config, env.num_envs)) as run:
        model, best = _make_model(network, run.env, run)
        replay, explore = model.replay, _make_exploration(network, run.env, run, model)
        noise_size = model.policy.q_head.noise_size

        def act(obs: Any, states: None, episode_start: np.ndarray) -> tuple[np.ndarray, None]:
            if config.callback is not None and config.callback(_named(run, explore.steps), {}):
                run.stop()
            return explore(obs, states, episode_start)

        for gradient_steps in run.cycles(model, act, partial(row, run), acting=[explore]):
            if run.timesteps <= config.learning_starts:
                continue
            if config.prioritized_replay:
                replay.beta = config.beta(run.timesteps)
            for block in run.blocks(gradient_steps):
                if noise_size:
                    shape = (len(block["rewards"]), noise_size)
                    block |= {name: run.rng.standard_normal(shape, np.float32) for name in ("noise", "target_noise")}
                run.train(block)
            if run.passed(config.target_network_update_freq):
                model.averaged.reset()
            if config.checkpoint_freq is not None and run.passed(config.checkpoint_freq):
                best.consider(EPISODES_IN_BEST)
    best.take()
    return model


def _course(config: Config, num_envs: int) -> Course:
    """As many gradient steps for each environment step, whatever the number of environments."""
    collected = max(1, round(config.train_freq / num_envs))
    return Course(
        steps=int(config.total_timesteps),
        collected=collected,
        gradient_steps=max(1, round(collected * num_envs / config.train_freq * config.gradient_steps)),
        log_episodes=config.print_freq or UNLIMITED,
    )


def _make_model(network: NetworkSpec, env: VecEnv, run: OffPolicyRun) -> tuple[ActWrapper, BestPolicy]:
    """What learns, and what keeps its best parameters."""
    config = run.config
    policy, averaged = with_targets(lambda: make_policy(network, env, config, run.comm), 0.0)
    update = make_update(policy, averaged, config, run.comm)
    replay = _make_replay(env, config) if config.prioritized_replay else run.make_replay(policy)
    best = BestPolicy(run, config.checkpoint_path)
    return ActWrapper(policy, averaged, update, replay=replay, parts=[best]), best


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


def _make_replay(env: VecEnv, config: Config) -> PrioritizedReplay:
    """Make the prioritized replay."""
    return PrioritizedReplay(
        env,
        int(config.buffer_size),
        config.gamma,
        config.n_step,
        alpha=config.prioritized_replay_alpha,
        beta=config.prioritized_replay_beta0,
        epsilon=config.prioritized_replay_eps,
    )


def _make_exploration(
    network: NetworkSpec, env: VecEnv, run: OffPolicyRun, model: ActWrapper
) -> EpsilonGreedy | ParameterNoise:
    """What chooses the actions of training."""
    config = run.config
    if not config.param_noise:
        return EpsilonGreedy(model, config.epsilon, run.rng)
    return ParameterNoise(
        model.policy, lambda: make_policy(network, env, config, run.comm), config.epsilon, run.rng, run.comm
    )


def _named(run: OffPolicyRun, t: int) -> dict[str, Any]:
    """What callbacks look at, under the original's names; the episode under way counts as 0."""
    return {
        "run": run,
        "act": run.model,
        "env": run.env,
        "replay_buffer": run.replay,
        "t": t,
        "num_episodes": run.episodes.count + 1,
        "episode_rewards": [*run.episodes.rewards, 0.0],
        "mean_100ep_reward": run.episodes.mean_reward,
    }


def make_policy(network: NetworkSpec, env: Any, config: Config, comm: Any = None) -> QNetwork:
    """The Q-network; its sampled actions have the last epsilon of training."""
    if not isinstance(env.action_space, spaces.Discrete):
        raise UsageError(f"deepq needs Discrete actions, not {env.action_space}: take ppo2 for others")
    check_network(network, config)
    kind = {
        "returns": make_returns(config.distributional, config.num_atoms, config.v_min, config.v_max),
        "epsilon": 0.0 if config.param_noise else config.exploration_final_eps,
        "hiddens": config.hiddens,
        "dueling": config.dueling,
        "layer_norm": config.layer_norm,
        "noisy": config.noisy,
    }
    return build_q_network(
        env, network, vis_encode_type=config.vis_encode_type, comm=comm, kind=kind, **config.network_kwargs
    )
