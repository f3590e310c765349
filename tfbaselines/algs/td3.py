"""TD3: twin delayed deep deterministic policy gradient (Fujimoto et al. 2018, arXiv:1802.09477).

Critics q1, q2 descend (q_i(s, a) - y)^2 towards

    y = r + gamma (1 - d) min_i q_i'(s', a'),   a' = clip(pi'(s') + clip(noise, -noise_clip, noise_clip), bounds)

and in every policy_delay-th step the actor ascends q1(s, pi(s)) and the targets (') follow by polyak averaging.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf

from tfbaselines.envs.vec import VecEnv
from tfbaselines.errors import check_at_least, check_between
from tfbaselines.logs.epoch_rows import EpochRows
from tfbaselines.losses.off_policy import mean, spread, spread_names, target_actions, targets, views
from tfbaselines.optim.average import AveragedPolicy, with_targets
from tfbaselines.optim.blocks import Batch, BlockUpdate, Phase
from tfbaselines.optim.optimizers import Adam
from tfbaselines.parallel import mpi
from tfbaselines.policy.actor_critic import ActorCritic, actor_critic_arguments, build_actor_critic
from tfbaselines.policy.bounded import DeterministicHead
from tfbaselines.policy.policy import NetworkSpec
from tfbaselines.policy.precision import set_precision
from tfbaselines.running.model import PolicyModel
from tfbaselines.running.off_policy import OffPolicy, OffPolicyModel, Settings
from tfbaselines.running.training import seed_everything
from tfbaselines.settings.bases import OffPolicyConfig
from tfbaselines.settings.config import Schedule, arg
from tfbaselines.settings.options import RunOptions
from tfbaselines.settings.schedules import parse_schedule

DEFAULTS = {"all": {"network": "dense"}}
SCHEDULE_ARGUMENTS = ("pi_lr", "q_lr")
NORMALIZED_ENVIRONMENTS = False

ADAM_EPSILON = 1e-8


@dataclass(frozen=True, kw_only=True)
class Config(OffPolicyConfig):
    """Arguments of TD3."""

    pi_lr: Schedule = arg(1e-3, "the actor's learning rate", at_least=0)
    q_lr: Schedule = arg(1e-3, "the critics' learning rate", at_least=0)
    act_noise: float = arg(0.1, "standard deviation of the noise on actions", at_least=0)
    target_noise: float = arg(0.2, "standard deviation of the noise on the target's actions", at_least=0)
    noise_clip: float = arg(0.5, "bound of the target's noise", at_least=0)
    policy_delay: int = arg(2, "critic steps for each step of the actor and the targets", at_least=1)

    order: ClassVar = """
        seed total_timesteps eval_env steps_per_epoch epochs replay_size gamma polyak pi_lr q_lr batch_size
        start_steps update_after update_every act_noise target_noise noise_clip policy_delay num_test_episodes
        max_ep_len logger_kwargs save_freq num_update n_step memory_size sequence_length vis_encode_type
        normalize_observations save_replay_buffer load_path comm run
    """
    env_defaults: ClassVar = {"all": {"network": "dense"}}


def make_update(policy: ActorCritic, averaged: AveragedPolicy, policy_delay: int, comm: Any = None) -> BlockUpdate:
    """The gradient steps.

    Args:
        policy: an actor with two critics.
        averaged: its targets.
        policy_delay: critic steps for each of the actor and the targets.
        comm: the ranks that train together.
    """
    target = averaged.policy

    def prepare(batch: Batch) -> Batch:
        batch = batch | views(policy, batch)
        actions = target_actions(target, batch["next"], batch["noise"])
        value = tf.reduce_min(tf.stack(target.q(batch["next"], actions)), axis=0)
        return batch | {"targets": targets(batch, value)}

    def critic_loss(batch: Batch) -> tuple[tf.Tensor, tf.Tensor]:
        qs = policy.q(batch["now"], batch["actions"])
        loss = tf.add_n([mean(batch, tf.square(q - batch["targets"])) for q in qs])
        return loss, tf.stack([loss, *(number for q in qs for number in spread(batch, q))])

    def actor_loss(batch: Batch) -> tuple[tf.Tensor, tf.Tensor]:
        q1, *_ = policy.q(batch["now"], policy.head.mode(policy.act(batch["now"])))
        loss = -mean(batch, q1)
        return loss, loss[None]

    names = ("LossQ", *spread_names("Q1Vals"), *spread_names("Q2Vals"))
    phases = [
        Phase(critic_loss, names, policy.critic_variables, Adam(epsilon=ADAM_EPSILON), "q_lr"),
        Phase(actor_loss, ("LossPi",), policy.acting_variables, Adam(epsilon=ADAM_EPSILON), "pi_lr", policy_delay),
    ]
    jit = not policy.convolutional
    return BlockUpdate(phases, prepare=prepare, after=averaged.step, after_every=policy_delay, jit=jit, comm=comm)


def learn(
    network: NetworkSpec,
    env: VecEnv,
    seed: int | None = 0,
    total_timesteps: float | None = None,
    eval_env: VecEnv | None = None,
    steps_per_epoch: int = 4000,
    epochs: int = 100,
    replay_size: float = 1e6,
    gamma: float = 0.99,
    polyak: float = 0.995,
    pi_lr: float | str = 1e-3,
    q_lr: float | str = 1e-3,
    batch_size: int = 100,
    start_steps: int = 10000,
    update_after: int = 1000,
    update_every: int = 50,
    act_noise: float = 0.1,
    target_noise: float = 0.2,
    noise_clip: float = 0.5,
    policy_delay: int = 2,
    num_test_episodes: int = 10,
    max_ep_len: int | None = 1000,
    logger_kwargs: dict[str, Any] | None = None,
    save_freq: int = 1,
    num_update: int | None = None,
    n_step: int = 1,
    memory_size: int | None = None,
    sequence_length: int = 64,
    vis_encode_type: str = "simple",
    normalize_observations: bool = False,
    save_replay_buffer: bool = True,
    load_path: str | None = None,
    comm: Any = None,
    run: RunOptions | None = None,
    **network_kwargs: Any,
) -> OffPolicyModel:
    """Train a policy with TD3.

    Args:
        network: a registered network's name, or a network builder; 'dense' is Spinning Up's.
        env: the environments; bounded Box actions.
        seed: seed of everything random; None for a different run each time.
        total_timesteps: environment steps of this rank; None for epochs * steps_per_epoch.
        eval_env: environments for tests; the command line makes them itself.
        steps_per_epoch: environment steps between tests and rows of the logs.
        epochs: how many.
        replay_size: transitions that the replay keeps.
        gamma: discount per step.
        polyak: how much of the targets is kept in each of their steps.
        pi_lr: the actor's learning rate: a number, or such as linear_1e-3.
        q_lr: the critics' learning rate.
        batch_size: transitions in a gradient step.
        start_steps: environment steps with random actions.
        update_after: transitions in the replay before the first gradient step.
        update_every: environment steps between blocks of gradient steps.
        act_noise: standard deviation of the noise on actions.
        target_noise: the same on the target's actions.
        noise_clip: bound of the target's noise.
        policy_delay: critic steps for each step of the actor and the targets.
        num_test_episodes: episodes of a test; 0 for no tests.
        max_ep_len: steps after which an episode is cut off; None for the environment's own limit.
        logger_kwargs: output_dir, output_fname and exp_name of Spinning Up's table; by default the log directory.
        save_freq: epochs between checkpoints; 0 for only the last.
        num_update: gradient steps in a block; None for as many as there were environment steps.
        n_step: steps that a return has before it bootstraps.
        memory_size: numbers that actor and critics remember each, two for every unit of an LSTM; None for no memory.
        sequence_length: steps of the replayed sequences, with memory.
        vis_encode_type: how images are encoded below a dense network: simple, nature_cnn or resnet.
        normalize_observations: scale observations by a running mean and deviation kept inside the policy.
        save_replay_buffer: save the replay beside the checkpoints.
        load_path: a saved model to start from.
        comm: MPI communicator of the ranks that train together; None for all of mpirun's.
        run: options of the run itself: resume, checkpoints, callback, progress, precision.
        network_kwargs: the network builder's own arguments.

    Returns:
        The trained model.
    """
    settings = Settings.chosen(env, locals())
    run, comm = run or RunOptions(), mpi.wrap(comm)
    pi_lr, q_lr = parse_schedule(pi_lr, "pi_lr"), parse_schedule(q_lr, "q_lr")
    check_between(0, 1, polyak=polyak)
    check_at_least(0, act_noise=act_noise, target_noise=target_noise, noise_clip=noise_clip)
    check_at_least(1, policy_delay=policy_delay)
    set_precision(run.precision)
    rng = seed_everything(seed, comm)
    build = actor_critic_arguments(network, locals()) | network_kwargs
    policy, averaged = with_targets(lambda: make_policy(env, network, build), polyak)
    model = OffPolicyModel(policy, averaged, make_update(policy, averaged, policy_delay, comm), rng=rng)
    model.start_from(env, run.config, load_path)

    def behave(obs: Any, states: Any, episode_start: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        actions, states = model.actor.choose(obs, states, episode_start, None)
        return policy.head.noisy(actions, act_noise * policy.head.draw_noise(rng, (len(actions),))), states

    loop = OffPolicy("td3", model, env, rng, settings, behave, eval_env=eval_env, run=run, comm=comm)
    rows = EpochRows(loop, ("Q1Vals", "Q2Vals"), ("LossPi", "LossQ"), logger_kwargs)

    def learn_block(steps: int) -> None:
        left = loop.training.fraction_left
        for block in loop.blocks(steps):
            noise = target_noise * policy.head.draw_noise(rng, block["rewards"].shape)
            block["noise"] = np.clip(noise, -noise_clip, noise_clip)
            rows.learnt(model.train(block, pi_lr=pi_lr(left), q_lr=q_lr(left)))

    loop.train(learn_block, rows, rows.collected)
    return model


def build_model(network: NetworkSpec, env: Any, arguments: dict[str, Any]) -> PolicyModel:
    """The model of a saved run, ready to load its weights, for playing and evaluating.

    Args:
        network: as given to learn.
        env: an environment with the run's spaces.
        arguments: the others that learn was called with.
    """
    return PolicyModel(make_policy(env, network, actor_critic_arguments(network, arguments)))


def make_policy(env: Any, network: NetworkSpec, arguments: dict[str, Any]) -> ActorCritic:
    """A deterministic actor with two critics; arguments of build_actor_critic."""
    return build_actor_critic(env, network, head=DeterministicHead, critics=2, **arguments)
