"""DQN: deep Q-learning (Mnih et al. 2015), with the parts of Rainbow (Hessel et al. 2018, arXiv:1710.02298).

Q(s, a) descends w huber(Q(s, a) - y), each variable's gradient clipped by its own norm, towards

    y = r + gamma (1 - d) Q'(s', a*),   a* = argmax_a Q(s', a)  (double_q; else of Q')

with importance weights w of prioritised replay (else 1). The target network (') is a copy, made anew every
target_network_update_freq steps. Actions are epsilon-greedy, or greedy with noise in the parameters.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.envs.vec import VecEnv
from tfbaselines.envs.vec.action_mask import with_action_masks
from tfbaselines.errors import bad_argument
from tfbaselines.experience.q_exploration import EpsilonGreedy, ParameterNoise
from tfbaselines.experience.replay.buffers import PrioritizedReplayBuffer, ReplayBuffer
from tfbaselines.experience.replay.prioritised import PrioritisedReplay
from tfbaselines.experience.replay.segment_tree import MinSegmentTree, SumSegmentTree
from tfbaselines.logs.deepq_rows import DeepQRows
from tfbaselines.losses.off_policy import weighted_mean
from tfbaselines.losses.q_learning import return_loss, return_targets
from tfbaselines.optim.average import AveragedPolicy, with_targets
from tfbaselines.optim.blocks import Batch, BlockUpdate, Phase, Statistics
from tfbaselines.optim.optimizers import Adam
from tfbaselines.policy.precision import compile_with_xla
from tfbaselines.policy.q_network import QNetwork, build_q_network
from tfbaselines.policy.return_distribution import make_returns
from tfbaselines.running.best import BestPolicy, model_in
from tfbaselines.running.build import check_network
from tfbaselines.running.off_policy import Course, OffPolicyModel, OffPolicyRun
from tfbaselines.running.plan import UNLIMITED
from tfbaselines.settings.bases import StepReplayConfig
from tfbaselines.settings.config import NetworkSpec, Schedule, arg
from tfbaselines.settings.schedules import ConstantSchedule, LinearSchedule, PiecewiseSchedule
from tfbaselines.settings.takes import takes

__all__ = [
    "ActWrapper",
    "Config",
    "ConstantSchedule",
    "LinearSchedule",
    "MinSegmentTree",
    "PiecewiseSchedule",
    "PrioritizedReplayBuffer",
    "ReplayBuffer",
    "SumSegmentTree",
    "learn",
    "load_act",
]

# Episodes before the mean return of the latest ones can be the best.
EPISODES_IN_BEST = 100

ATARI: dict[str, Any] = {
    "network": "conv_only",
    "lr": 1e-4,
    "buffer_size": 10_000,
    "exploration_fraction": 0.1,
    "exploration_final_eps": 0.01,
    "train_freq": 4,
    "learning_starts": 10_000,
    "target_network_update_freq": 1000,
    "gamma": 0.99,
    "prioritized_replay": True,
    "prioritized_replay_alpha": 0.6,
    "dueling": True,
}

Callback = Callable[[dict[str, Any], dict[str, Any]], Any]


@dataclass(frozen=True, kw_only=True)
class Config(StepReplayConfig):
    """Arguments of DQN: baselines', then those that make it Rainbow."""

    total_timesteps: float = arg(1e5, "environment steps of this rank", at_least=0)
    lr: Schedule = arg(5e-4, "learning rate", at_least=0)
    buffer_size: float = arg(5e4, "transitions kept in the replay", at_least=1)
    exploration_fraction: float = arg(
        0.1, "share of the run over which epsilon falls from 1; 0 for no such time", at_least=0, at_most=1
    )
    exploration_final_eps: float = arg(0.02, "epsilon afterwards", at_least=0, at_most=1)
    train_freq: int = arg(1, "environment steps from one training to the next", at_least=1)
    batch_size: int = arg(32, "transitions in a gradient step", at_least=1)
    print_freq: int | None = arg(100, "episodes between rows of the logs; None for one row at the end", at_least=1)
    checkpoint_freq: int | None = arg(
        10_000,
        "environment steps between looks whether the mean return of the latest 100 episodes is the best so far; the "
        "best parameters are the result; None for those at the end",
        at_least=1,
    )
    checkpoint_path: str | None = arg(
        None, "directory in which the best model is saved; one that is there already is where training starts"
    )
    learning_starts: int = arg(1000, "environment steps before the first gradient step", at_least=0)
    gamma: float = arg(1.0, "discount per step", at_least=0, at_most=1)
    target_network_update_freq: int = arg(500, "environment steps between copies to the target network", at_least=1)
    prioritized_replay: bool = arg(False, "draw transitions with large errors more often")
    prioritized_replay_alpha: float = arg(0.6, "how much priorities matter, 0 for uniform", at_least=0)
    prioritized_replay_beta0: float = arg(
        0.4, "how far weights correct for the frequencies at the start", at_least=0, at_most=1
    )
    prioritized_replay_beta_iters: int | None = arg(
        None, "environment steps over which that rises to 1; None for the whole run", at_least=1
    )
    prioritized_replay_eps: float = arg(1e-6, "added to errors, so that every transition keeps a chance", above=0)
    param_noise: bool = arg(False, "explore by noise in the parameters that moves actions as far as epsilon would")
    callback: Callback | None = arg(
        None,
        "called before each step as callback(locals, globals), with t, episode_rewards and others in locals; training "
        "stops when it returns True",
    )
    hiddens: Sequence[int] = arg((256,), "hidden layers of each branch above the network")
    dueling: bool = arg(True, "a branch for the state's value beside that for the actions' advantages")
    layer_norm: bool = arg(False, "normalise these hidden layers")
    double_q: bool = arg(True, "the network itself chooses the action whose value the target network tells")
    grad_norm_clipping: float | None = arg(
        10.0, "bound of the norm of each variable's gradient; None for none", above=0
    )
    adam_epsilon: float = arg(1e-8, "Adam's epsilon", above=0)
    distributional: str | None = arg(
        None,
        "learn distributions of returns: categorical (C51) or quantile (QR-DQN); None for expectations",
        choices=("categorical", "quantile"),
    )
    num_atoms: int | None = arg(
        None, "points of these distributions; None for 51 (categorical) or 200 (quantile)", at_least=1
    )
    v_min: float = arg(-10.0, "the smallest return of distributional='categorical'")
    v_max: float = arg(10.0, "the largest one")
    noisy: bool = arg(
        False,
        "noise in the weights above the network, whose size is learnt; exploration_final_eps and _fraction of 0 "
        "leave exploration to it",
    )
    vis_encode_type: str = arg(
        "simple", "encoder of images below a dense network", choices=("simple", "nature_cnn", "resnet")
    )
    num_test_episodes: int = arg(
        0, "episodes of the greedy policy with each row of the logs; 0 for no tests", at_least=0
    )
    max_ep_len: int | None = arg(
        None, "steps after which an episode is truncated; None for the environment's own limit", at_least=1
    )
    gradient_steps: int = arg(
        1,
        "gradient steps of a training, taken in one compiled call: train_freq=8, gradient_steps=8 is several times as "
        "fast as 1 and 1 for a small network",
        at_least=1,
    )

    order: ClassVar = """
        seed lr total_timesteps buffer_size exploration_fraction exploration_final_eps train_freq batch_size
        print_freq checkpoint_freq checkpoint_path learning_starts gamma target_network_update_freq
        prioritized_replay prioritized_replay_alpha prioritized_replay_beta0 prioritized_replay_beta_iters
        prioritized_replay_eps param_noise callback load_path hiddens dueling layer_norm double_q
        grad_norm_clipping adam_epsilon n_step distributional num_atoms v_min v_max noisy vis_encode_type eval_env
        num_test_episodes max_ep_len save_replay_buffer gradient_steps comm run
    """
    env_defaults: ClassVar = {"atari": ATARI, "retro": ATARI}
    own_names: ClassVar = ("layer_norm",)

    def check(self) -> None:
        """See Config."""
        object.__setattr__(self, "hiddens", tuple(self.hiddens))
        if self.distributional == "categorical" and not self.v_min < self.v_max:
            raise bad_argument("v_min", self.v_min, f"below v_max={self.v_max}")
        for name in ("v_min", "v_max"):
            value = getattr(self, name)
            if self.distributional != "categorical" and value != getattr(Config, name):
                raise bad_argument(name, value, "needs distributional='categorical', whose returns it bounds")
        if self.num_atoms is not None and self.distributional is None:
            raise bad_argument("num_atoms", self.num_atoms, "needs distributional='categorical' or 'quantile'")
        if self.noisy and self.param_noise:
            raise bad_argument("noisy", True, "param_noise=True was given too: give one of them")

    @property
    def replay_size(self) -> float:
        """The run's name of buffer_size."""
        return self.buffer_size

    @property
    def start_steps(self) -> int:
        """Epsilon begins with 1: no further steps are random."""
        return 0

    @property
    def update_after(self) -> int:
        """The run's name of learning_starts."""
        return self.learning_starts

    def epsilon(self, t: int) -> float:
        """The share of random actions at step t."""
        steps = int(self.exploration_fraction * self.total_timesteps)
        return LinearSchedule(steps, self.exploration_final_eps).value(t) if steps else self.exploration_final_eps

    def beta(self, t: int) -> float:
        """How far importance weights correct for the frequencies at step t."""
        steps = self.prioritized_replay_beta_iters or self.total_timesteps
        return LinearSchedule(steps, 1.0, self.prioritized_replay_beta0).value(t)


class ActWrapper(OffPolicyModel):
    """The model, which as baselines' can be called: ``act(obs[None])[0]``."""

    def __call__(self, obs: Any, stochastic: bool = True, update_eps: float = -1.0) -> np.ndarray:
        """Actions [N] for observations [N, ...].

        Args:
            obs: the observations.
            stochastic: take random actions with probability epsilon.
            update_eps: the new epsilon; below 0 it stays as it is.
        """
        if update_eps >= 0:
            self.policy.head.epsilon = update_eps
        return self.act(obs, deterministic=not stochastic)[0]


def load_act(path: str) -> None:
    """Name what takes its place: a file holds the parameters alone, without the environment's spaces."""
    raise ValueError(
        f"load_act({path!r}): call learn(network, env, total_timesteps=0, load_path=path), or, if a run of the command "
        "line or its --save_path wrote the file, tfbaselines.load(path)"
    )


def make_update(policy: QNetwork, averaged: AveragedPolicy, config: Config, comm: Any = None) -> BlockUpdate:
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

    phase = Phase(loss, policy.trainable_variables, Adam(epsilon=config.adam_epsilon), clip=config.grad_norm_clipping)
    return BlockUpdate([phase], prepare=prepare, jit=compile_with_xla(policy, config.batch_size), comm=comm)


@takes(Config, flatten=False)
def learn(network: NetworkSpec, env: VecEnv, **kwargs: Any) -> ActWrapper:
    """Train a Q-network with DQN; of the actions, only those that an 'action_mask' in the infos allows.

    baselines' order of the first two arguments, env before network, is accepted too.
    """
    config = Config.of(kwargs)
    config = replace(config, load_path=model_in(config.checkpoint_path) or config.load_path)
    env, eval_env = with_action_masks(env), config.eval_env and with_action_masks(config.eval_env)
    with OffPolicyRun("deepq", env, config, _course(config, env.num_envs), eval_env, with_action_masks) as run:
        model, best = _make_model(network, env, run)
        replay, explore = _make_replay(env, config), _make_exploration(network, env, run, model)
        rows, noise_size = DeepQRows(run, config.epsilon), model.policy.q_head.noise_size

        def act(obs: Any, states: None, episode_start: np.ndarray) -> tuple[np.ndarray, None]:
            if config.callback is not None and config.callback(_named(run, explore.steps), {}):
                run.stop()
            return explore(obs, states, episode_start)

        for gradient_steps in run.cycles(model, act, rows, replay=replay, acting=[explore]):
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
    model = ActWrapper(policy, averaged, make_update(policy, averaged, config, run.comm), rng=run.rng)
    best = BestPolicy(run, config.checkpoint_path)
    model.parts = [best]
    return model, best


def _make_replay(env: VecEnv, config: Config) -> PrioritisedReplay | None:
    """The prioritised replay; None for the run's own."""
    if not config.prioritized_replay:
        return None
    return PrioritisedReplay(
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
        raise ValueError(f"deepq needs Discrete actions, not {env.action_space}: take ppo2 for others")
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
