"""DDPG: deep deterministic policy gradient (Lillicrap et al. 2016, arXiv:1509.02971).

The critic descends (q(s, a) - y)^2 + critic_l2_reg / 2 |W|^2 towards y = r + gamma (1 - d) q'(s', pi'(s')), the actor
ascends q(s, pi(s)), and the targets (') follow by polyak averaging. Observations are normalised; with popart returns
are too, and the critics are rescaled when the statistics change. twin_q, delay_policy_update and target_noise are
TD3's additions.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import keras
import numpy as np
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.envs.vec import VecEnv
from tfbaselines.errors import bad_argument, check_above, check_at_least, check_between, given
from tfbaselines.experience.noise import Noise, parse_noise
from tfbaselines.experience.perturbed import PerturbedActor
from tfbaselines.logs.ddpg_rows import DDPGRows
from tfbaselines.losses.off_policy import mean, target_actions, targets, views
from tfbaselines.optim.average import AveragedPolicy, with_targets
from tfbaselines.optim.blocks import Batch, BlockUpdate, Merged, Phase
from tfbaselines.optim.optimizers import Adam
from tfbaselines.optim.popart import ReturnStatistics, rescaled
from tfbaselines.parallel import mpi
from tfbaselines.policy.actor_critic import ActorCritic, actor_critic_arguments, build_actor_critic
from tfbaselines.policy.bounded import DeterministicHead
from tfbaselines.policy.encoding import is_image
from tfbaselines.policy.networks import get_network_builder
from tfbaselines.policy.policy import NetworkSpec
from tfbaselines.policy.precision import set_precision
from tfbaselines.running.model import PolicyModel
from tfbaselines.running.off_policy import OffPolicy, OffPolicyModel, Settings
from tfbaselines.running.training import seed_everything
from tfbaselines.settings.bases import ReplayConfig
from tfbaselines.settings.config import Schedule, arg
from tfbaselines.settings.options import RunOptions
from tfbaselines.settings.schedules import parse_schedule

SCHEDULE_ARGUMENTS = ("actor_lr", "critic_lr")

ADAM_EPSILON = 1e-8

# Normalised or not, observations are clipped to this.
OBSERVATION_RANGE = 5.0

# Of the output layers' initial weights.
LAST_LAYER_INIT = 3e-3

DEFAULT_EPOCHS = 500


@dataclass(frozen=True, kw_only=True)
class Config(ReplayConfig):
    """Arguments of DDPG: baselines', and Spinning Up's where they differ."""

    nb_epochs: int | None = arg(None, "number of epochs; None for 500, or as total_timesteps says", at_least=0)
    nb_epoch_cycles: int = arg(20, "cycles in an epoch, at whose end a row is logged", at_least=1)
    nb_rollout_steps: int = arg(100, "steps of each environment in a cycle", at_least=1)
    reward_scale: float = arg(1.0, "rewards are multiplied by this before learning")
    render: bool = arg(False, "show the training environments")
    render_eval: bool = arg(False, "show eval_env")
    noise_type: str | None = arg(
        "adaptive-param_0.2",
        "adaptive-param_X, ou_X, normal_X or none, several with commas between them; X is the standard deviation of "
        "the actions' noise, in units of their bounds",
    )
    normalize_returns: bool = arg(False, "critics predict returns in units of running statistics")
    normalize_observations: bool = arg(True, "scale Box observations by a running mean and deviation")
    critic_l2_reg: float = arg(1e-2, "weight of the squares of the critics' hidden kernels", at_least=0)
    actor_lr: Schedule = arg(1e-4, "the actor's learning rate (Spinning Up's pi_lr)", at_least=0)
    critic_lr: Schedule = arg(1e-3, "the critics' learning rate (Spinning Up's q_lr)", at_least=0)
    popart: bool = arg(
        False,
        "with normalize_returns, rescale critics when the statistics change, so that predicted returns stay",
    )
    clip_norm: float | None = arg(None, "bound of the norm of each variable's gradient; None for none", above=0)
    nb_train_steps: int = arg(50, "gradient steps in a cycle", at_least=0)
    nb_eval_steps: int = arg(100, "steps of eval_env in a cycle", at_least=0)
    batch_size: int = arg(64, "transitions in a gradient step", at_least=1)
    tau: float = arg(0.01, "how far the targets move towards the parameters in each step", at_least=0, at_most=1)
    param_noise_adaption_interval: int = arg(50, "gradient steps between adaptations of parameter noise", at_least=1)
    return_range: tuple[float, float] | None = arg(None, "range to which the critics' predictions are clipped")
    act_noise: float | None = arg(None, "Spinning Up's noise_type=normal_X, X in units of the bounds", at_least=0)
    polyak: float | None = arg(
        None,
        "Spinning Up's 1 - tau; the critic then steps before the actor, which in baselines step together",
        at_least=0,
        at_most=1,
    )
    start_steps: int = arg(0, "environment steps with random actions", at_least=0)
    update_after: int = arg(0, "transitions in the replay before the first gradient step", at_least=0)
    update_every: int | None = arg(
        None,
        "Spinning Up's cycle, in place of nb_rollout_steps and nb_train_steps: environment steps, and as many gradient "
        "steps",
        at_least=1,
    )
    num_test_episodes: int = arg(0, "episodes of the deterministic policy at an epoch's end; 0 for none", at_least=0)
    max_ep_len: int | None = arg(
        None, "steps after which an episode is truncated; None for the environment's own limit", at_least=1
    )
    save_interval: int = arg(0, "epochs between checkpoints; 0 for only the last", at_least=0)
    twin_q: bool = arg(False, "two critics, the smaller value of which counts (TD3)")
    delay_policy_update: int = arg(1, "critic steps for each step of the actor and the targets (TD3 has 2)", at_least=1)
    target_noise: float = arg(
        0.0, "standard deviation of noise on the target's actions, in units of their bounds (TD3 has 0.2)", at_least=0
    )
    noise_clip: float = arg(0.5, "bound of that noise", at_least=0)

    order: ClassVar = """
        seed total_timesteps nb_epochs nb_epoch_cycles nb_rollout_steps reward_scale render render_eval
        noise_type normalize_returns normalize_observations critic_l2_reg actor_lr critic_lr popart gamma
        clip_norm nb_train_steps nb_eval_steps batch_size tau eval_env param_noise_adaption_interval
        return_range replay_size act_noise polyak start_steps update_after update_every num_test_episodes
        max_ep_len save_interval twin_q delay_policy_update target_noise noise_clip n_step save_replay_buffer
        load_path comm run
    """

    def check(self) -> None:
        """See Config."""
        super().check()
        if self.nb_epochs is not None and self.total_timesteps is not None:
            raise bad_argument(
                "nb_epochs", self.nb_epochs, "total_timesteps (--num_timesteps) was given too: give one of them"
            )
        if self.popart and not self.normalize_returns:
            raise bad_argument("popart", self.popart, "needs normalize_returns=True, whose statistics it is about")
        ends = self.return_range
        if ends is not None and not (len(ends) == 2 and ends[0] < ends[1]):
            raise bad_argument("return_range", ends, "two numbers, the lower one first")


def make_update(
    policy: ActorCritic,
    averaged: AveragedPolicy,
    *,
    critic_l2_reg: float = 0.0,
    clip_norm: float | None = None,
    return_range: tuple[float, float] = (-np.inf, np.inf),
    popart: bool = False,
    delay: int = 1,
    together: bool = False,
    comm: Any = None,
) -> BlockUpdate:
    """The gradient steps.

    Args:
        policy: an actor with one critic or two, which may speak in units of statistics of returns.
        averaged: its targets.
        critic_l2_reg: weight of the hidden kernels' squares.
        clip_norm: bound of the norm of each variable's gradient; None for none.
        return_range: what critics say is clipped to this, in units of the statistics of returns.
        popart: update the statistics of returns with every batch, and rescale critics so that what they say stays.
        delay: critic steps for each step of the actor and the targets.
        together: actor and critic step from the same weights, as in baselines; otherwise the critic goes first.
        comm: the ranks that train together.
    """
    target, returns = averaged.policy, policy.returns
    normalized = returns.normalized if returns else lambda x: x

    def clipped(x: tf.Tensor) -> tf.Tensor:
        return tf.clip_by_value(x, *return_range)

    def prepare(batch: Batch) -> Batch:
        batch = batch | views(policy, batch)
        actions = target_actions(target, batch["next"], batch.get("noise"))
        value = tf.reduce_min(tf.stack(target.q(batch["next"], actions)), axis=0)
        return batch | {"targets": targets(batch, policy.returns_of(value))}

    def critic_loss(batch: Batch) -> tuple[tf.Tensor, tf.Tensor]:
        goal = tf.stop_gradient(clipped(normalized(batch["targets"])))
        qs = policy.q(batch["now"], batch["actions"])
        loss = tf.add_n([mean(batch, tf.square(q - goal)) for q in qs])
        if critic_l2_reg:
            kernels = [kernel.value for critic in policy.critics for kernel in critic.kernels]
            loss += critic_l2_reg * tf.add_n([tf.nn.l2_loss(kernel) for kernel in kernels])
        return loss, loss[None]

    def actor_loss(batch: Batch) -> tuple[tf.Tensor, tf.Tensor]:
        q, *_ = policy.q(batch["now"], policy.head.mode(policy.act(batch["now"])))
        loss = -mean(batch, policy.returns_of(clipped(q)))
        return loss, loss[None]

    adams = [Adam(epsilon=ADAM_EPSILON) for _ in range(2)]
    actor = Phase(actor_loss, ("loss_actor",), policy.acting_variables, adams[0], "actor_lr", delay, clip_norm)
    critic = Phase(critic_loss, ("loss_critic",), policy.critic_variables, adams[1], "critic_lr", 1, clip_norm)
    merged = None
    if popart:
        layers = [critic.layer for one in (policy, target) for critic in one.critics]
        merged = Merged(
            lambda batch: returns.sums(batch["targets"]), lambda sums: rescaled(returns, layers, returns.take, sums)
        )
    return BlockUpdate(
        [actor, critic] if together else [critic, actor],
        prepare=prepare,
        merged=merged,
        together=together,
        after=averaged.step,
        after_every=delay,
        jit=not policy.convolutional,
        comm=comm,
    )


class Model(OffPolicyModel):
    """An actor with critics, and what explores for it.

    Args:
        policy: see OffPolicyModel.
        averaged: see OffPolicyModel.
        update: see OffPolicyModel.
        noise: what is added to actions and parameters.
        perturbed: the actor with noise in its parameters, or None.
        rng: see PolicyModel.
    """

    def __init__(
        self,
        policy: ActorCritic,
        averaged: AveragedPolicy,
        update: BlockUpdate,
        noise: Noise,
        perturbed: PerturbedActor | None,
        rng: np.random.Generator,
    ) -> None:
        super().__init__(policy, averaged, update, rng=rng)
        self.returns, self.noise, self.perturbed = policy.returns, noise, perturbed
        # A batch that the logs tell of as long as the run goes on.
        self.reference: dict[str, Any] | None = None

    def explore(self, obs: Any, states: Any, episode_start: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Actions with noise, and new states; arguments as an actor's choose."""
        actor = self.actor if self.perturbed is None else self.perturbed.actor
        actions, states = actor.choose(obs, states, episode_start, None)
        if self.noise.actions is None:
            return actions, states
        head = self.policy.head
        return head.noisy(actions, head.limit * self.noise.actions().astype(np.float32)), states

    def reset_noise(self, which: Any = slice(None)) -> None:
        """Begin anew for some environments; noise of parameters is of all of them."""
        if self.noise.actions is not None:
            self.noise.actions.reset(which)
        if self.perturbed is not None:
            self.perturbed.reset()

    def add_target_noise(self, block: dict[str, Any], stddev: float, clip: float) -> None:
        """Put noise of the target's actions into a block, in units of their bounds; none for a deviation of 0."""
        head = self.policy.head
        if stddev:
            noise = stddev * head.draw_noise(self.rng, block["rewards"].shape)
            block["noise"] = head.limit * np.clip(noise, -clip, clip)

    def observe_returns(self, batch: dict[str, Any], comm: mpi.Communicator) -> None:
        """Let the statistics of returns take in a batch's targets, and the critics' units with them."""
        sums = self.returns.sums(self.update.prepared(batch)["targets"])
        self.returns.take(tf.constant(comm.average(sums.numpy())))

    def state(self) -> dict[str, Any]:
        """Everything the model remembers."""
        spec, actions = self.noise
        return super().state() | {
            "param_noise_stddev": None if spec is None else spec.current_stddev,
            "action_noise": {} if actions is None else actions.state(),
            "reference": self.reference,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take over what `state` gave."""
        super().restore(state)
        spec, actions = self.noise
        if spec is not None and state["param_noise_stddev"] is not None:
            spec.current_stddev = float(state["param_noise_stddev"])
            self.perturbed.reset()
        if actions is not None and state["action_noise"]:
            actions.restore(state["action_noise"])
        self.reference = state["reference"]


def learn(
    network: NetworkSpec,
    env: VecEnv,
    seed: int | None = None,
    total_timesteps: float | None = None,
    nb_epochs: int | None = None,
    nb_epoch_cycles: int = 20,
    nb_rollout_steps: int = 100,
    reward_scale: float = 1.0,
    render: bool = False,
    render_eval: bool = False,
    noise_type: str | None = "adaptive-param_0.2",
    normalize_returns: bool = False,
    normalize_observations: bool = True,
    critic_l2_reg: float = 1e-2,
    actor_lr: float | str = 1e-4,
    critic_lr: float | str = 1e-3,
    popart: bool = False,
    gamma: float = 0.99,
    clip_norm: float | None = None,
    nb_train_steps: int = 50,
    nb_eval_steps: int = 100,
    batch_size: int = 64,
    tau: float = 0.01,
    eval_env: VecEnv | None = None,
    param_noise_adaption_interval: int = 50,
    return_range: tuple[float, float] | None = None,
    replay_size: float = 1e6,
    act_noise: float | None = None,
    polyak: float | None = None,
    start_steps: int = 0,
    update_after: int = 0,
    update_every: int | None = None,
    num_test_episodes: int = 0,
    max_ep_len: int | None = None,
    save_interval: int = 0,
    twin_q: bool = False,
    delay_policy_update: int = 1,
    target_noise: float = 0.0,
    noise_clip: float = 0.5,
    n_step: int = 1,
    save_replay_buffer: bool = True,
    load_path: str | None = None,
    comm: Any = None,
    run: RunOptions | None = None,
    **network_kwargs: Any,
) -> Model:
    """Train a policy with DDPG.

    Args:
        network: a registered network's name, or a network builder.
        env: the environments; bounded Box actions.
        seed: seed of everything random; None for a different run each time.
        total_timesteps: environment steps of this rank; None for nb_epochs.
        nb_epochs: how many; None for 500, or as total_timesteps tells.
        nb_epoch_cycles: cycles in an epoch, at whose end a row is logged.
        nb_rollout_steps: steps of each environment in a cycle.
        reward_scale: rewards are multiplied by this before learning.
        render: show the environments while they are learnt from.
        render_eval: show eval_env.
        noise_type: adaptive-param_X, ou_X, normal_X or none, several with commas between them; X is the standard
            deviation of actions' noise, in units of their bounds.
        normalize_returns: critics speak in units of statistics of returns.
        normalize_observations: scale Box observations by a running mean and deviation.
        critic_l2_reg: weight of the squares of critics' hidden kernels.
        actor_lr: the actor's learning rate (Spinning Up's pi_lr): a number, or such as linear_1e-4.
        critic_lr: the critics' (Spinning Up's q_lr).
        popart: with normalize_returns, rescale critics so that a change of the statistics does not change what they
            say.
        gamma: discount per step.
        clip_norm: bound of the norm of each variable's gradient; None for none.
        nb_train_steps: gradient steps in a cycle.
        nb_eval_steps: steps of eval_env in a cycle.
        batch_size: transitions in a gradient step.
        tau: how far the targets go to meet the weights in each step.
        eval_env: environments on which the policy is also run without noise, for the logs.
        param_noise_adaption_interval: gradient steps between corrections of the size of parameters' noise.
        return_range: what critics say is clipped to this; None for not at all.
        replay_size: transitions that the replay keeps.
        act_noise: Spinning Up's noise_type=normal_X, X in units of the bounds.
        polyak: Spinning Up's 1 - tau; the critic then steps before the actor, which in baselines step together.
        start_steps: environment steps with random actions.
        update_after: transitions in the replay before the first gradient step.
        update_every: Spinning Up's cycle, in place of nb_rollout_steps and nb_train_steps: so many environment steps,
            and as many gradient steps.
        num_test_episodes: episodes of the deterministic policy at an epoch's end; 0 for none.
        max_ep_len: steps after which an episode is cut off; None for the environment's own limit.
        save_interval: epochs between checkpoints; 0 for only the last.
        twin_q: two critics, of which the smaller value counts (TD3).
        delay_policy_update: critic steps for each step of the actor and the targets (TD3 has 2).
        target_noise: standard deviation of noise on the target's actions, in units of their bounds (TD3 has 0.2).
        noise_clip: bound of that noise.
        n_step: steps that a return has before it bootstraps.
        save_replay_buffer: save the replay beside the checkpoints.
        load_path: a saved model to start from.
        comm: MPI communicator of the ranks that train together; None for all of mpirun's.
        run: options of the run itself: resume, checkpoints, callback, progress, precision.
        network_kwargs: the network builder's own arguments.

    Returns:
        The trained model.
    """
    run, comm = run or RunOptions(), mpi.wrap(comm)
    actor_lr, critic_lr = parse_schedule(actor_lr, "actor_lr"), parse_schedule(critic_lr, "critic_lr")
    check_at_least(0, nb_eval_steps=nb_eval_steps, target_noise=target_noise, noise_clip=noise_clip)
    return_range = _checked_range(return_range)
    check_at_least(1, param_noise_adaption_interval=param_noise_adaption_interval)
    settings = _settings(env, locals())
    # Of these learn() has no names, so that a wrong one is told here.
    get_network_builder(network)(**network_kwargs)
    set_precision(run.precision)
    rng = seed_everything(seed, comm)
    model = _make_model(network, env, locals() | network_kwargs, rng, comm)
    model.start_from(env, run.config, load_path)
    alone = env.num_envs == 1
    loop = OffPolicy(
        "ddpg",
        model,
        env,
        rng,
        settings,
        model.explore,
        eval_env=eval_env if num_test_episodes else None,
        on_end=model.reset_noise if alone else None,
        reward_scale=reward_scale,
        render=render,
        run=run,
        comm=comm,
    )
    if model.perturbed is not None:
        # Around the parameters that all ranks have by now.
        model.perturbed.reset()
    rows = DDPGRows(loop, None if num_test_episodes else eval_env, nb_eval_steps, render_eval, return_range)

    def learn_block(steps: int) -> None:
        left = loop.training.fraction_left
        for done in range(0, steps, param_noise_adaption_interval):
            if model.perturbed is not None:
                rows.moved(model.perturbed.adapt(loop.draw_one()))
            for block in loop.blocks(min(steps - done, param_noise_adaption_interval)):
                model.add_target_noise(block, target_noise, noise_clip)
                rows.learnt(model.train(block, actor_lr=actor_lr(left), critic_lr=critic_lr(left)))
        if normalize_returns and not popart:
            model.observe_returns(loop.draw_one(), comm)

    def collected(episodes: list[dict[str, Any]]) -> None:
        rows.collected(episodes)
        if not alone:
            # Each environment's episodes end at another time, and the noise of parameters is of all of them.
            model.reset_noise()

    loop.train(learn_block, rows, collected)
    return model


def _checked_range(return_range: tuple[float, float] | None) -> tuple[float, float]:
    """Lowest and highest return; None for any."""
    if return_range is None:
        return -np.inf, np.inf
    if not isinstance(return_range, list | tuple) or len(return_range) != 2 or not return_range[0] < return_range[1]:
        raise bad_argument("return_range", return_range, "two numbers, the lower one first")
    return tuple(return_range)


def _settings(env: VecEnv, arguments: dict[str, Any]) -> Settings:
    """When what is done, from arguments of learn()."""
    names = ("nb_epoch_cycles", "nb_rollout_steps", "nb_train_steps", "nb_epochs", "update_every", "save_interval")
    cycles, rollout, train, epochs, every, save_interval = (arguments[name] for name in names)
    check_at_least(1, nb_epoch_cycles=cycles, nb_rollout_steps=rollout, **given(update_every=every))
    check_at_least(0, nb_train_steps=train, save_interval=save_interval, **given(nb_epochs=epochs))
    if epochs is not None and arguments["total_timesteps"] is not None:
        raise bad_argument("nb_epochs", epochs, "total_timesteps (--num_timesteps) was given too: give one of them")
    collected = env.num_envs * rollout if every is None else every
    own = {
        "update_every": collected,
        "num_update": train if every is None else None,
        "epochs": DEFAULT_EPOCHS if epochs is None else epochs,
        "save_freq": save_interval,
    }
    settings = Settings.chosen(env, arguments | own)
    settings.steps_per_epoch = cycles * settings.collected * env.num_envs
    return settings


def _make_model(
    network: NetworkSpec, env: VecEnv, arguments: dict[str, Any], rng: np.random.Generator, comm: Any
) -> Model:
    """Everything that learns and explores, from arguments of learn()."""
    names = ("tau", "polyak", "popart", "normalize_returns", "act_noise", "noise_type", "delay_policy_update", "twin_q")
    tau, polyak, popart, normalize_returns, act_noise, noise_type, delay, twin_q = (arguments[name] for name in names)
    check_between(0, 1, tau=tau, **given(polyak=polyak))
    check_at_least(0, critic_l2_reg=arguments["critic_l2_reg"], **given(act_noise=act_noise))
    check_at_least(1, delay_policy_update=delay)
    check_above(0, **given(clip_norm=arguments["clip_norm"]))
    if popart and not normalize_returns:
        raise bad_argument("popart", popart, "needs normalize_returns=True, whose statistics it is about")

    def make(critics: int = 2 if twin_q else 1) -> ActorCritic:
        return make_policy(env, network, arguments, critics)

    policy, averaged = with_targets(make, 1.0 - tau if polyak is None else polyak)
    policy.returns = ReturnStatistics(comm.size) if normalize_returns else None
    update = make_update(
        policy,
        averaged,
        critic_l2_reg=arguments["critic_l2_reg"],
        clip_norm=arguments["clip_norm"],
        return_range=arguments["return_range"],
        popart=popart,
        delay=delay,
        together=polyak is None and delay == 1,
        comm=comm,
    )
    noise_type = noise_type if act_noise is None else f"normal_{act_noise}"
    noise = parse_noise(noise_type, (env.num_envs, policy.head.width), rng)
    spec, perturbed = noise.parameters, None
    if spec is not None:
        perturbed = PerturbedActor(policy, (make(0), make(0)), spec, rng, comm)
    return Model(policy, averaged, update, noise, perturbed, rng)


def build_model(network: NetworkSpec, env: Any, arguments: dict[str, Any]) -> PolicyModel:
    """The model of a saved run, ready to load its weights, for playing and evaluating.

    Args:
        network: as given to learn.
        env: an environment with the run's spaces.
        arguments: the others that learn was called with.
    """
    critics = 2 if arguments.get("twin_q") else 1
    policy = make_policy(env, network, arguments, critics)
    policy.returns = ReturnStatistics() if arguments.get("normalize_returns") else None
    return PolicyModel(policy)


def make_policy(env: Any, network: NetworkSpec, arguments: dict[str, Any], critics: int) -> ActorCritic:
    """A deterministic actor, and so many critics.

    Args:
        env: anything with observation_space and action_space.
        network: a registered network's name, or a builder.
        arguments: of learn().
        critics: how many.
    """
    numbers = isinstance(env.observation_space, spaces.Box) and not is_image(env.observation_space)
    kind = {
        "initializer": lambda: keras.initializers.RandomUniform(-LAST_LAYER_INIT, LAST_LAYER_INIT),
        "clip_observations": OBSERVATION_RANGE if numbers else None,
        # Spinning Up's critics see actions as the environment takes them.
        "unit_actions": arguments.get("polyak") is None,
    }
    # There is nothing to normalise in choices, and pixels are scaled by their network.
    normalize = numbers and arguments.get("normalize_observations", True)
    build = actor_critic_arguments(network, arguments | {"normalize_observations": normalize})
    return build_actor_critic(env, network, head=DeterministicHead, critics=critics, kind=kind, **build)
