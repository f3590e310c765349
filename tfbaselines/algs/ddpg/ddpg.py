"""DDPG: deep deterministic policy gradient (Lillicrap et al. 2016, arXiv:1509.02971).

The critic minimizes (q(s, a) - y)^2 + critic_l2_reg / 2 |W|^2 with y = r + gamma (1 - d) q'(s', pi'(s')), the actor
maximizes q(s, pi(s)), and the targets (') follow by polyak averaging: loss.py. Observations are normalized;
normalize_returns and popart are in loss.py too, exploration in exploration.py. A second critic, delayed steps of the
actor and noise on the target's actions are TD3's additions.
"""

from functools import partial
from typing import Any

import keras
import numpy as np
from gymnasium import spaces

from tfbaselines.algs.ddpg import ALGORITHM, Config
from tfbaselines.algs.ddpg.exploration import Exploration, Reference, SteppedEvaluation, epoch_row, store_cycle
from tfbaselines.algs.ddpg.loss import Losses, ReturnStatistics, rescaling, target_noise
from tfbaselines.config.algorithm import takes
from tfbaselines.config.config import NetworkSpec
from tfbaselines.envs.vec import VecEnv
from tfbaselines.envs.vec.observations import is_image
from tfbaselines.learn.engine import Engine, Phase
from tfbaselines.learn.optimizers import Adam, AveragedPolicy, with_targets
from tfbaselines.parallel import mpi
from tfbaselines.policy.actor_critic import ActorCritic
from tfbaselines.policy.bounded import DeterministicHead
from tfbaselines.policy.layers import compile_with_xla
from tfbaselines.training.build import make_actor_critic
from tfbaselines.training.off_policy import Course, OffPolicyModel, OffPolicyRun

ADAM_EPSILON = 1e-8

# Bound of observations, normalized or not.
OBSERVATION_RANGE = 5.0

# Bound of the output layers' initial weights.
LAST_LAYER_INIT = 3e-3

DEFAULT_EPOCHS = 500


def make_update(policy: ActorCritic, averaged: AveragedPolicy, config: Config, comm: Any = None) -> Engine:
    """Make the gradient steps of an actor and its critics, with the target networks."""
    losses = Losses(policy, averaged.policy, config)
    delay = config.delay_policy_update
    adams = [Adam(epsilon=ADAM_EPSILON) for _ in range(2)]
    clip = {"clip_norm": config.clip_norm}
    actor = Phase("actor", losses.actor_loss, policy.acting_variables, adams[0], "actor_lr", delay, **clip)
    critic = Phase("critic", losses.critic_loss, policy.critic_variables, adams[1], "critic_lr", **clip)
    # In baselines, actor and critic step from the same weights.
    together = config.polyak is None and delay == 1
    return Engine(
        [actor, critic] if together else [critic, actor],
        prepare=losses.prepare,
        merged=rescaling(policy, averaged.policy) if config.popart else None,
        together=together,
        after=averaged.step,
        after_every=delay,
        jit=compile_with_xla(policy, config.batch_size),
        comm=comm,
    )


class Model(OffPolicyModel):
    """A model with the further arguments that `step` has in baselines' ddpg."""

    def step(
        self,
        obs: np.ndarray,
        S: np.ndarray | None = None,
        M: np.ndarray | None = None,
        apply_noise: bool = False,
        compute_Q: bool = True,
    ) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None, np.ndarray]:
        """Choose actions for the training environments; `apply_noise` explores, `compute_Q=False` returns no values."""
        actions, values, states, neglogps = super().step(obs, S, M)
        if apply_noise:
            exploration = next(part for part in self.parts if isinstance(part, Exploration))
            batch = self.observations.batch(self.observations.named(obs))
            actions, _ = exploration(batch, *self._memory(len(actions), S, M))
        return actions, values if compute_Q else None, states, neglogps


@takes(ALGORITHM)
def learn(network: NetworkSpec, env: VecEnv, **kwargs: Any) -> Model:
    """Train a policy with DDPG."""
    config = Config.of(kwargs)
    stepped = None if config.num_test_episodes else config.eval_env
    with OffPolicyRun(ALGORITHM, env, config, _course(config, env.num_envs), stepped) as run:
        model, exploration = _make_model(network, env, run)
        evaluate = None
        if stepped is not None:
            evaluate = SteppedEvaluation(stepped, model, config.nb_eval_steps, config.render_eval)
        reference = Reference(run, model.policy, exploration.perturbed)
        model.add_parts(exploration, reference)

        def collected(episodes: list[dict[str, Any]]) -> None:
            store_cycle(run, model)
            if evaluate is not None:
                run.eval_episodes.extend(evaluate(run.table))
            # Several environments share the parameter noise, so it is drawn at a cycle's end instead of an episode's.
            if env.num_envs > 1:
                exploration.reset()

        acting = [part for part in (exploration.perturbed, evaluate) if part is not None]
        collecting = {"acting": acting, "reward_scale": config.reward_scale, "render": config.render}
        collecting |= {"on_end": exploration.reset} if env.num_envs == 1 else {}
        row = partial(epoch_row, run, reference, stepped is not None)
        for gradient_steps in run.cycles(model, exploration, row, on_cycle=collected, **collecting):
            for done in range(0, gradient_steps, config.param_noise_adaption_interval):
                run.table.store(**exploration.adapt(run.draw_one))
                for block in run.blocks(min(gradient_steps - done, config.param_noise_adaption_interval)):
                    noise = target_noise(model.policy.head, run.config, run.rng, block["rewards"].shape)
                    run.table.store(**run.train(block | noise))
            if config.normalize_returns and not config.popart:
                model.policy.returns.observe(model.update.prepared(run.draw_one())["targets"], run.comm)
    return model


def _course(config: Config, num_envs: int) -> Course:
    # Baselines' cycles, or Spinning Up's.
    spinning_up = config.update_every is not None
    collected = max(1, round(config.update_every / num_envs)) if spinning_up else config.nb_rollout_steps
    epochs = DEFAULT_EPOCHS if config.nb_epochs is None else config.nb_epochs
    steps = epochs * config.nb_epoch_cycles * collected * num_envs
    return Course(
        steps=steps if config.total_timesteps is None else int(config.total_timesteps),
        collected=collected,
        gradient_steps=collected * num_envs if spinning_up else config.nb_train_steps,
        cycles_per_epoch=config.nb_epoch_cycles,
        save_freq=config.save_interval,
    )


def _make_model(network: NetworkSpec, env: VecEnv, run: OffPolicyRun) -> tuple[Model, Exploration]:
    config = run.config
    returns = statistics_of(config, run.comm)

    def make(critics: int | None = None) -> ActorCritic:
        return make_policy(network, env, config, run.comm, critics, returns)

    policy, averaged = with_targets(make, 1.0 - config.tau if config.polyak is None else config.polyak)
    update = make_update(policy, averaged, config, run.comm)
    model = Model(policy, averaged, update, replay=run.make_replay(policy))
    noise_type = config.noise_type if config.act_noise is None else f"normal_{config.act_noise}"
    return model, Exploration(model, noise_type, env.num_envs, lambda: make(critics=0), run.rng, run.comm)


def statistics_of(config: Config, comm: Any = None) -> ReturnStatistics | None:
    """Make the statistics of returns that the arguments describe."""
    return ReturnStatistics(mpi.wrap(comm).size) if config.normalize_returns else None


def make_policy(
    network: NetworkSpec,
    env: Any,
    config: Config,
    comm: Any = None,
    critics: int | None = None,
    returns: ReturnStatistics | None = None,
) -> ActorCritic:
    """Make a deterministic actor with one critic or two, unless `critics` gives their number."""
    numbers = isinstance(env.observation_space, spaces.Box) and not is_image(env.observation_space)
    kind = {
        "initializer": lambda: keras.initializers.RandomUniform(-LAST_LAYER_INIT, LAST_LAYER_INIT),
        "clip_observations": OBSERVATION_RANGE if numbers else None,
        # Spinning Up's critics take actions in the units of the environment.
        "unit_actions": config.polyak is None,
        "returns": returns or statistics_of(config, comm),
    }
    # Choices need no normalization, and networks scale pixels themselves.
    normalize = numbers and config.normalize_observations
    critics = 1 + config.twin_q if critics is None else critics
    shape = {"head": DeterministicHead, "critics": critics, "normalize_observations": normalize}
    return make_actor_critic(network, env, config, comm, kind=kind, **shape)
