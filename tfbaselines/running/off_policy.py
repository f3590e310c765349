"""What surrounds the learning of off-policy algorithms: their settings, their model and their loop.

A cycle collects some steps into the replay, then takes some gradient steps on batches of it, all in one compiled call;
an epoch is some cycles, and ends with a test and a row of the logs.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbaselines.envs.vec import VecEnv
from tfbaselines.errors import bad_argument, check_at_least, check_between, given
from tfbaselines.experience.collector import Behave, Collector
from tfbaselines.experience.replay import Replay
from tfbaselines.logs import logger
from tfbaselines.optim.average import AveragedPolicy
from tfbaselines.optim.blocks import BlockUpdate
from tfbaselines.parallel import mpi
from tfbaselines.parallel.threads import Together
from tfbaselines.policy.actor_critic import ActorCritic
from tfbaselines.running.model import PolicyModel
from tfbaselines.running.play import even_episodes
from tfbaselines.running.training import Training
from tfbaselines.settings.options import RunOptions

# Batches of one compiled call take at most so much memory.
BLOCK_BYTES = 2**26

# A crash loses at most this part of the replay.
UNSAVED_PART = 0.1


@dataclass
class Settings:
    """When an off-policy algorithm does what; steps are of this rank, over all of its environments.

    Attributes:
        num_envs: environments.
        steps_per_epoch: steps in an epoch.
        epochs: how many there are, unless total_timesteps is given.
        total_timesteps: steps of the run.
        replay_size: transitions that the replay keeps.
        gamma: discount per step.
        batch_size: transitions, or sequences, in a batch.
        start_steps: steps with random actions.
        update_after: transitions in the replay before the first gradient step.
        update_every: steps in a cycle.
        num_update: gradient steps in a cycle; None for as many as it has steps.
        num_test_episodes: episodes of a test.
        max_ep_len: steps after which an episode is cut off; None for the environment's own limit.
        save_freq: epochs between checkpoints; 0 saves only the last.
        save_replay_buffer: the replay is saved beside the checkpoints.
        n_step: steps that a return has before it bootstraps.
        sequence_length: steps of a sequence, for policies with memory.
    """

    num_envs: int
    steps_per_epoch: int = 4000
    epochs: int = 100
    total_timesteps: float | None = None
    replay_size: float = 1e6
    gamma: float = 0.99
    batch_size: int = 100
    start_steps: int = 10000
    update_after: int = 1000
    update_every: int = 50
    num_update: int | None = None
    num_test_episodes: int = 10
    max_ep_len: int | None = 1000
    save_freq: int = 1
    save_replay_buffer: bool = True
    n_step: int = 1
    sequence_length: int = 64

    def __post_init__(self) -> None:
        check_at_least(
            1,
            steps_per_epoch=self.steps_per_epoch,
            batch_size=self.batch_size,
            replay_size=self.replay_size,
            update_every=self.update_every,
            n_step=self.n_step,
            sequence_length=self.sequence_length,
            **given(max_ep_len=self.max_ep_len),
        )
        check_at_least(
            0,
            epochs=self.epochs,
            start_steps=self.start_steps,
            update_after=self.update_after,
            num_test_episodes=self.num_test_episodes,
            save_freq=self.save_freq,
            **given(total_timesteps=self.total_timesteps, num_update=self.num_update),
        )
        check_between(0, 1, gamma=self.gamma)
        if self.update_after > self.replay_size:
            accepted = f"at most replay_size={int(self.replay_size)}, or nothing is learnt"
            raise bad_argument("update_after", self.update_after, accepted)

    @classmethod
    def chosen(cls, env: VecEnv, arguments: dict[str, Any]) -> "Settings":
        """From arguments of learn(), others among them."""
        own = {field.name: arguments[field.name] for field in fields(cls) if field.name in arguments}
        return cls(env.num_envs, **own)

    @property
    def collected(self) -> int:
        """Steps of each environment in a cycle."""
        return max(1, round(self.update_every / self.num_envs))

    @property
    def gradient_steps(self) -> int:
        """In a cycle."""
        return self.collected * self.num_envs if self.num_update is None else self.num_update

    @property
    def cycles_per_epoch(self) -> int:
        """At least one."""
        return max(1, round(self.steps_per_epoch / (self.collected * self.num_envs)))

    @property
    def steps(self) -> int:
        """Of the run."""
        return int(self.epochs * self.steps_per_epoch if self.total_timesteps is None else self.total_timesteps)


class OffPolicyModel(PolicyModel):
    """An actor with critics, their targets, and what trains them.

    Args:
        policy: the actor with its critics.
        averaged: the targets.
        update: the gradient steps.
        others: further variables that are learnt, such as a temperature.
        rng: see PolicyModel.
    """

    def __init__(
        self,
        policy: ActorCritic,
        averaged: AveragedPolicy,
        update: BlockUpdate,
        others: list[keras.Variable] | None = None,
        rng: np.random.Generator | None = None,
    ) -> None:
        super().__init__(policy, rng=rng)
        self.averaged, self.update, self._others = averaged, update, others or []
        self.replay: Replay | None = None
        self._loaded = False

    def start_from(self, env: VecEnv, config: dict[str, Any], load_path: str | None) -> None:
        """Name the environment and the run as `attach` does, and load a saved model if there is one to start from."""
        self.attach(env, config)
        if load_path is not None:
            self.load(load_path)
            self._loaded = True

    def begin(self, replay: Replay, resumed: bool) -> None:
        """Take the replay that belongs to the model; targets that nothing was loaded for start from the weights."""
        self.replay = replay
        if not (resumed or self._loaded):
            self.averaged.reset()

    def save_replay_buffer(self, directory: str) -> None:
        """Write the replay to a directory of files that load without pickle and can be mapped into memory."""
        self.replay.save(directory)

    def load_replay_buffer(self, directory: str) -> None:
        """Read what `save_replay_buffer` wrote."""
        self.replay.load(directory)

    def train(self, block: dict[str, Any], **coefficients: float) -> dict[str, np.ndarray]:
        """Take a gradient step for each batch of a block; see BlockUpdate."""
        statistics = self.update(block, **coefficients)
        self.actor.refresh()
        return statistics

    def state(self) -> dict[str, Any]:
        """Everything the model remembers."""
        return super().state() | {
            "averaged": self.averaged.policy.state(),
            "update": self.update.state(),
            "others": {str(i): variable.numpy() for i, variable in enumerate(self._others)},
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take over what `state` gave."""
        super().restore(state)
        self.averaged.policy.restore(state["averaged"])
        self.update.restore(state["update"])
        for i, variable in enumerate(self._others):
            variable.assign(state["others"][str(i)])


class OffPolicy:
    """A run: environments, replay, model, and the loop over them.

    Args:
        name: the algorithm's.
        model: what learns.
        env: its environments.
        rng: the run's generator.
        settings: when what is done.
        behave: chooses actions, with exploration.
        eval_env: environments for tests; None makes them as `run` tells, if it does.
        wrap: what the algorithm puts around environments.
        on_end: see Collector.
        reward_scale: see Collector.
        render: see Collector.
        run: the run's options.
        comm: the ranks that train together.
    """

    def __init__(
        self,
        name: str,
        model: OffPolicyModel,
        env: VecEnv,
        rng: np.random.Generator,
        settings: Settings,
        behave: Behave,
        *,
        eval_env: VecEnv | None = None,
        wrap: Callable[[VecEnv], VecEnv] = lambda env: env,
        on_end: Callable[[np.ndarray], None] | None = None,
        reward_scale: float = 1.0,
        render: bool = False,
        run: RunOptions | None = None,
        comm: mpi.Communicator | None = None,
    ) -> None:
        self.model, self.env, self.rng, self.settings = model, env, rng, settings
        self.run, self.comm = run or RunOptions(), mpi.wrap(comm)
        self._own_eval_env = None
        if eval_env is None and settings.num_test_episodes and self.run.make_eval_env is not None:
            eval_env = self._own_eval_env = wrap(self.run.make_eval_env(settings.num_test_episodes))
        self.eval_env = eval_env if settings.num_test_episodes else None
        if settings.max_ep_len is not None:
            for one in (env, *given(eval_env=self.eval_env).values()):
                one.limit_episodes(settings.max_ep_len)
        self.replay = Replay(env, int(settings.replay_size), settings.gamma, settings.n_step, model.policy.state_size)
        if model.policy.recurrent and self.replay.size < settings.sequence_length * settings.num_envs:
            accepted = f"a replay of {self.replay.size} transitions is too small: raise replay_size"
            raise bad_argument("sequence_length", settings.sequence_length, accepted)
        logger.info(self.replay.describe())
        steps_per_cycle = settings.collected * settings.num_envs
        cycles = int(UNSAVED_PART * settings.replay_size / steps_per_cycle)
        self.training = Training(
            name,
            model,
            env if self.eval_env is None else Together([env, self.eval_env]),
            rng,
            total_timesteps=settings.steps,
            steps_per_update=steps_per_cycle,
            save_interval=settings.save_freq * settings.cycles_per_epoch,
            log_first=False,
            replay=self.replay if settings.save_replay_buffer else None,
            replay_interval=cycles,
            run=self.run,
            comm=self.comm,
        )
        # Rank 0's parameters have been handed out by now.
        model.begin(self.replay, self.run.resume is not None)
        start = -(-settings.start_steps // settings.num_envs)
        self.collector = Collector(env, model.policy, self.replay, rng, behave, start, on_end, reward_scale, render)

    def train(
        self,
        learn: Callable[[int], None],
        row: Callable[[Training], dict[str, Any]],
        collected: Callable[[list[dict[str, Any]]], None] = lambda episodes: None,
    ) -> None:
        """Run the loop.

        Args:
            learn: takes so many gradient steps.
            row: gives an epoch's row of the logs.
            collected: is told of the episodes that ended in a cycle.
        """
        settings, training = self.settings, self.training
        try:
            with training:
                for cycle in training.updates():
                    episodes = self.collector.run(settings.collected, (cycle - 1) * settings.collected)
                    training.episodes.extend(episodes)
                    collected(episodes)
                    self._observe()
                    if settings.gradient_steps and self.enough():
                        learn(settings.gradient_steps)
                    training.finish_update(settings.cycles_per_epoch, row)
        finally:
            if self._own_eval_env is not None:
                self._own_eval_env.close()

    def blocks(self, steps: int) -> Iterator[dict[str, Any]]:
        """Batches for so many gradient steps, in blocks of a bounded size."""
        count = self._batches_in_block(steps)
        for _ in range(steps // count):
            yield self.draw(count)

    def test(self) -> list[dict[str, Any]]:
        """Run the deterministic policy; the episodes' infos."""
        if self.eval_env is None:
            return []
        statistics = self.env.normalization()
        if statistics:
            self.eval_env.restore_normalization(statistics)
        episodes = even_episodes(self.model, self.eval_env, self.settings.num_test_episodes, deterministic=True)
        self.training.eval_episodes.extend(episodes)
        return episodes

    def _observe(self) -> None:
        """Let the policy's running mean, if it has one, take in what was seen in this cycle."""
        if self.model.policy.normalizer:
            self.model.policy.normalizer.update(self.replay.latest(self.settings.collected)[0])
            self.model.actor.refresh()

    def enough(self) -> bool:
        """Whether every rank's replay holds enough: gradients are averaged over ranks."""
        settings, replay = self.settings, self.replay
        least = max(1, min(settings.update_after, replay.size))
        if self.model.policy.recurrent:
            least = max(least, settings.sequence_length * settings.num_envs)
        enough = len(replay) >= least
        return enough if self.comm.size == 1 else all(self.comm.gather(enough))

    def draw(self, batches: int) -> dict[str, Any]:
        """Batches of the replay: arrays [batches, B, ...]."""
        settings = self.settings
        if self.model.policy.recurrent:
            return self.replay.sample_sequences(self.rng, batches, settings.batch_size, settings.sequence_length)
        return self.replay.sample(self.rng, batches, settings.batch_size)

    def draw_one(self) -> dict[str, Any]:
        """One batch of the replay: arrays [B, ...]."""
        return tf.nest.map_structure(lambda array: array[0], self.draw(1))

    def _batches_in_block(self, steps: int) -> int:
        """The largest divisor of `steps` whose block is not too large."""
        rows = self.settings.batch_size * (self.settings.sequence_length if self.model.policy.recurrent else 2)
        most = max(1, int(BLOCK_BYTES / (rows * self.replay.obs_nbytes)))
        return max(count for count in range(1, steps + 1) if steps % count == 0 and count <= most)
