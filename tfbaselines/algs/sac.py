"""SAC: soft actor-critic (Haarnoja et al. 2018, arXiv:1801.01290, arXiv:1812.05905).

Critics q1, q2 descend 0.5 (q_i(s, a) - y)^2 towards

    y = r + gamma (1 - d) (min_i q_i'(s', a') - alpha log pi(a'|s')),   a' ~ pi(s')

the actor ascends min_i q_i(s, a) - alpha log pi(a|s) with a ~ pi(s), and the targets (') follow by polyak averaging.
With alpha='auto' the temperature descends -log alpha (log pi(a|s) + target_entropy).
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import keras
import numpy as np
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.envs.vec import VecEnv
from tfbaselines.envs.vec.action_mask import with_action_masks
from tfbaselines.errors import bad_argument, check_at_least, check_between
from tfbaselines.logs.epoch_rows import EpochRows
from tfbaselines.losses.off_policy import mean, spread, spread_names, targets, views
from tfbaselines.optim.average import AveragedPolicy, with_targets
from tfbaselines.optim.blocks import Batch, BlockUpdate, Phase
from tfbaselines.optim.optimizers import Adam
from tfbaselines.parallel import mpi
from tfbaselines.policy.actor_critic import ActorCritic, View, actor_critic_arguments, build_actor_critic
from tfbaselines.policy.bounded import SquashedGaussianHead
from tfbaselines.policy.distributions import make_pdtype
from tfbaselines.policy.policy import NetworkSpec
from tfbaselines.policy.precision import set_precision
from tfbaselines.running.model import PolicyModel
from tfbaselines.running.off_policy import OffPolicy, OffPolicyModel, Settings
from tfbaselines.running.training import seed_everything
from tfbaselines.settings.bases import OffPolicyConfig
from tfbaselines.settings.config import Schedule, arg
from tfbaselines.settings.options import RunOptions
from tfbaselines.settings.schedules import parse_schedule

DEFAULTS = {
    "all": {"network": "dense"},
    # A game is longer than max_ep_len, and its frames are many: learn from it less often.
    "atari": {
        "network": "cnn",
        "max_ep_len": None,
        "replay_size": 1e5,
        "lr": 3e-4,
        "num_update": 5,
        "alpha": "auto",
    },
}
SCHEDULE_ARGUMENTS = ("lr",)
NORMALIZED_ENVIRONMENTS = False
DICT_OBSERVATIONS = True

ADAM_EPSILON = 1e-8

# Of the greatest entropy of discrete actions, what the temperature is learnt for.
DISCRETE_ENTROPY = 0.2


@dataclass(frozen=True, kw_only=True)
class Config(OffPolicyConfig):
    """Arguments of SAC."""

    lr: Schedule = arg(1e-3, "learning rate", at_least=0)
    alpha: float | str = arg(0.2, "weight of the entropy; 'auto' learns it, 'auto_0.1' from there", at_least=0)
    target_entropy: float | None = arg(
        None,
        "entropy that alpha='auto' aims at; None for minus the number of continuous actions, or 0.2 of the largest "
        "entropy of discrete ones",
    )
    train_interval: int | None = arg(None, "ML-Agents' name for update_every", at_least=1)
    buffer_init_steps: int | None = arg(None, "ML-Agents' name for start_steps and update_after in one", at_least=0)

    order: ClassVar = """
        seed total_timesteps eval_env steps_per_epoch epochs replay_size gamma polyak lr alpha batch_size
        start_steps update_after update_every num_test_episodes max_ep_len logger_kwargs save_freq
        target_entropy num_update train_interval buffer_init_steps n_step memory_size sequence_length
        vis_encode_type normalize_observations save_replay_buffer load_path comm run
    """
    env_defaults: ClassVar = {
        "all": {"network": "dense"},
        # A game is longer than max_ep_len, and its frames are many: learn from it less often.
        "atari": {
            "network": "cnn",
            "max_ep_len": None,
            "replay_size": 1e5,
            "lr": 3e-4,
            "num_update": 5,
            "alpha": "auto",
        },
    }


class Temperature:
    """The weight of the entropy.

    Args:
        alpha: a number, 'auto', or such as 'auto_0.1' to start from.
        target_entropy: what 'auto' aims at.
    """

    def __init__(self, alpha: float | str, target_entropy: float) -> None:
        self.learnt = isinstance(alpha, str)
        first = _first_alpha(alpha) if self.learnt else alpha
        if not np.isfinite(first) or first < 0 or (first == 0 and self.learnt):
            raise bad_argument("alpha", alpha, "a number of at least 0, 'auto', or such as 'auto_0.1'")
        self.log_alpha = keras.Variable(np.float32(np.log(first) if first else -np.inf), name="log_alpha")
        self.target_entropy = target_entropy

    def __call__(self) -> tf.Tensor:
        """alpha, cut off from gradients."""
        return tf.stop_gradient(tf.exp(self.log_alpha.value))

    def loss(self, logp: tf.Tensor) -> tf.Tensor:
        """What the temperature descends, given the mean of log pi."""
        return -self.log_alpha.value * (tf.stop_gradient(logp) + self.target_entropy)


def _first_alpha(text: str) -> float:
    """What 'auto', 'auto_0.1' or a number as text begin with; nan for anything else."""
    start = text.removeprefix("auto").removeprefix("_") or "1"
    try:
        return float(start) if text.startswith("auto") else float("nan")
    except ValueError:
        return float("nan")


def expectation(
    policy: ActorCritic, critics: ActorCritic, view: View, noise: tf.Tensor | None
) -> tuple[tf.Tensor, tf.Tensor]:
    """The smallest of the critics' values [B] and log pi [B], expected over the policy's actions.

    Of continuous actions one is drawn, of discrete ones the expectation is exact.

    Args:
        policy: whose actions.
        critics: who judges them.
        view: the observations.
        noise: [B, n] to draw with; not used for discrete actions.
    """
    flat = policy.act(view)
    if not policy.discrete:
        actions, logp = policy.head.sample(flat, noise)
        return tf.reduce_min(tf.stack(critics.q(view, actions)), axis=0), logp
    logp = policy.log_probabilities(flat)
    probabilities = tf.exp(logp)
    values = tf.reduce_min(tf.stack(critics.q_all(view)), axis=0)
    return tf.reduce_sum(probabilities * values, axis=-1), tf.reduce_sum(probabilities * logp, axis=-1)


def make_update(
    policy: ActorCritic, averaged: AveragedPolicy, temperature: Temperature, comm: Any = None
) -> BlockUpdate:
    """The gradient steps.

    Args:
        policy: an actor with two critics.
        averaged: its targets, of which the critics are used.
        temperature: alpha.
        comm: the ranks that train together.
    """

    def prepare(batch: Batch) -> Batch:
        batch = batch | views(policy, batch)
        value, logp = expectation(policy, averaged.policy, batch["next"], batch.get("noise_next"))
        return batch | {"targets": targets(batch, value - temperature() * logp)}

    def actor_loss(batch: Batch) -> tuple[tf.Tensor, tf.Tensor]:
        value, logp = expectation(policy, policy, batch["now"], batch.get("noise"))
        loss = mean(batch, temperature() * logp - value)
        return loss, tf.stack([loss, *spread(batch, logp)])

    def critic_loss(batch: Batch) -> tuple[tf.Tensor, tf.Tensor]:
        qs = policy.q(batch["now"], batch["actions"])
        losses = [0.5 * mean(batch, tf.square(q - batch["targets"])) for q in qs]
        return tf.add_n(losses), tf.stack([*losses, *(number for q in qs for number in spread(batch, q))])

    def temperature_loss(batch: Batch) -> tuple[tf.Tensor, tf.Tensor]:
        _, logp = expectation(policy, policy, batch["now"], batch.get("noise"))
        loss = temperature.loss(mean(batch, logp))
        return loss, tf.stack([temperature(), loss])

    actor_names = ("LossPi", *spread_names("LogPi"))
    critic_names = ("LossQ1", "LossQ2", *spread_names("Q1Vals"), *spread_names("Q2Vals"))
    phases = [
        Phase(actor_loss, actor_names, policy.acting_variables, Adam(epsilon=ADAM_EPSILON)),
        Phase(critic_loss, critic_names, policy.critic_variables, Adam(epsilon=ADAM_EPSILON)),
    ]
    if temperature.learnt:
        adam = Adam(epsilon=ADAM_EPSILON)
        # The first, so that it shares the actor's weights of before its step, and what is computed with them.
        phases.insert(0, Phase(temperature_loss, ("Alpha", "LossAlpha"), [temperature.log_alpha], adam))
    return BlockUpdate(phases, prepare=prepare, after=averaged.step, jit=not policy.convolutional, comm=comm)


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
    lr: float | str = 1e-3,
    alpha: float | str = 0.2,
    batch_size: int = 100,
    start_steps: int = 10000,
    update_after: int = 1000,
    update_every: int = 50,
    num_test_episodes: int = 10,
    max_ep_len: int | None = 1000,
    logger_kwargs: dict[str, Any] | None = None,
    save_freq: int = 1,
    target_entropy: float | None = None,
    num_update: int | None = None,
    train_interval: int | None = None,
    buffer_init_steps: int | None = None,
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
    """Train a policy with SAC.

    Args:
        network: a registered network's name, or a network builder; 'dense' is Spinning Up's.
        env: the environments; bounded Box, Discrete or MultiDiscrete actions. Where their infos have an 'action_mask',
            only what it allows (1) is chosen.
        seed: seed of everything random; None for a different run each time.
        total_timesteps: environment steps of this rank; None for epochs * steps_per_epoch.
        eval_env: environments for tests; the command line makes them itself.
        steps_per_epoch: environment steps between tests and rows of the logs.
        epochs: how many.
        replay_size: transitions that the replay keeps.
        gamma: discount per step.
        polyak: how much of the targets is kept in each of their steps.
        lr: learning rate: a number, or such as linear_3e-4 to let it go down to 0.
        alpha: weight of the entropy; 'auto' learns it, 'auto_0.1' learns it from there.
        batch_size: transitions, or sequences, in a gradient step.
        start_steps: environment steps with random actions.
        update_after: transitions in the replay before the first gradient step.
        update_every: environment steps between blocks of gradient steps.
        num_test_episodes: episodes of a test; 0 for no tests.
        max_ep_len: steps after which an episode is cut off; None for the environment's own limit.
        logger_kwargs: output_dir, output_fname and exp_name of Spinning Up's table; by default the log directory.
        save_freq: epochs between checkpoints; 0 for only the last.
        target_entropy: what alpha is learnt for; None for minus the number of continuous actions, or 0.2 of the
            greatest entropy of discrete ones.
        num_update: gradient steps in a block; None for as many as there were environment steps.
        train_interval: ML-Agents' name for update_every.
        buffer_init_steps: ML-Agents' name for start_steps and update_after in one.
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
    if train_interval is not None:
        check_at_least(1, train_interval=train_interval)
        update_every = train_interval
    if buffer_init_steps is not None:
        check_between(0, replay_size, buffer_init_steps=buffer_init_steps)
        start_steps = update_after = buffer_init_steps
    settings = Settings.chosen(env, locals())
    run, comm = run or RunOptions(), mpi.wrap(comm)
    lr = parse_schedule(lr, "lr")
    check_between(0, 1, polyak=polyak)
    env, eval_env = wrap_env(env), eval_env and wrap_env(eval_env)
    set_precision(run.precision)
    rng = seed_everything(seed, comm)
    build = actor_critic_arguments(network, locals()) | network_kwargs
    policy, averaged = with_targets(lambda: make_policy(env, network, build), polyak)
    if target_entropy is None:
        target_entropy = default_target_entropy(env.action_space)
    temperature = Temperature(alpha, target_entropy)
    update = make_update(policy, averaged, temperature, comm)
    # One that is given is not a loaded model's.
    learnt = [temperature.log_alpha] if temperature.learnt else []
    model = OffPolicyModel(policy, averaged, update, learnt, rng)
    model.start_from(env, run.config, load_path)

    def behave(obs: Any, states: Any, episode_start: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        return model.actor.choose(obs, states, episode_start, policy.head.draw_noise(rng, (len(episode_start),)))

    loop = OffPolicy("sac", model, env, rng, settings, behave, eval_env=eval_env, wrap=wrap_env, run=run, comm=comm)
    of_alpha = ("Alpha", "LossAlpha") if temperature.learnt else ()
    rows = EpochRows(loop, ("Q1Vals", "Q2Vals", "LogPi"), ("LossPi", "LossQ1", "LossQ2", *of_alpha), logger_kwargs)

    def learn_block(steps: int) -> None:
        rate = lr(loop.training.fraction_left)
        for block in loop.blocks(steps):
            if not policy.discrete:
                shape = block["rewards"].shape
                block |= {name: policy.head.draw_noise(rng, shape) for name in ("noise", "noise_next")}
            rows.learnt(model.train(block, lr=rate))

    loop.train(learn_block, rows, rows.collected)
    return model


def default_target_entropy(space: spaces.Space) -> float:
    """Minus the number of continuous actions, or a part of the greatest entropy of discrete ones."""
    if isinstance(space, spaces.Box):
        return -float(np.prod(space.shape))
    choices = [space.n] if isinstance(space, spaces.Discrete) else space.nvec.ravel()
    return DISCRETE_ENTROPY * float(np.sum(np.log(choices)))


def wrap_env(env: VecEnv) -> VecEnv:
    """The environments with what their infos tell of actions that are not allowed."""
    return with_action_masks(env)


def build_model(network: NetworkSpec, env: Any, arguments: dict[str, Any]) -> PolicyModel:
    """The model of a saved run, ready to load its weights, for playing and evaluating.

    Args:
        network: as given to learn.
        env: an environment with the run's spaces.
        arguments: the others that learn was called with.
    """
    return PolicyModel(make_policy(env, network, actor_critic_arguments(network, arguments)))


def make_policy(env: Any, network: NetworkSpec, arguments: dict[str, Any]) -> ActorCritic:
    """A policy for continuous or discrete actions with two critics; arguments of build_actor_critic."""
    space = env.action_space
    if not isinstance(space, spaces.Box | spaces.Discrete | spaces.MultiDiscrete):
        raise ValueError(f"sac needs bounded Box, Discrete or MultiDiscrete actions, not {space}")
    head = SquashedGaussianHead if isinstance(space, spaces.Box) else make_pdtype
    return build_actor_critic(env, network, head=head, critics=2, **arguments)
