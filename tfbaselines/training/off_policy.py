"""The run of an algorithm that learns from a replay of single steps.

A cycle collects some steps into the replay, then takes some gradient steps on batches of it, all in one compiled call;
an epoch is some cycles, and ends with a test and a row of the logs.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbaselines.arrays import require_memory
from tfbaselines.config.bases import OffPolicyConfig, ReplayConfig
from tfbaselines.demos.demonstrations import DataSetReplay, load_demonstrations
from tfbaselines.envs.vec import VecEnv
from tfbaselines.envs.wrappers import goal_reward
from tfbaselines.errors import bad_argument
from tfbaselines.learn.average import AveragedPolicy
from tfbaselines.learn.engine import Engine
from tfbaselines.logs import logger
from tfbaselines.policy.base import BasePolicy
from tfbaselines.replay.hindsight import HindsightReplay
from tfbaselines.replay.replay import Replay
from tfbaselines.rollout.collector import Behave, Collector
from tfbaselines.training.model import PolicyModel
from tfbaselines.training.plan import Plan
from tfbaselines.training.run import Run
from tfbaselines.training.testing import Tester

# Batches of one compiled call take at most this much memory.
BLOCK_BYTES = 2**26

# A batch as arrays, as tensors, as float32 and its gradient; what networks compute from a small observation is larger.
BATCH_COPIES = 6
LEAST_ROW = 2**12

# Of a replay in hindsight: transitions with a new goal for each with its own.
REPLAY_K = 4

# A crash loses at most this part of the replay.
UNSAVED_PART = 0.1


@dataclass(frozen=True, kw_only=True)
class Course:
    """When a run collects and learns.

    Attributes:
        steps: environment steps of this rank in the run.
        collected: steps of each environment in a cycle.
        gradient_steps: in a cycle.
        cycles_per_epoch: at least one.
        save_freq: epochs between checkpoints; 0 saves only the last.
        log_episodes: see Plan.
    """

    steps: int
    collected: int
    gradient_steps: int
    cycles_per_epoch: int = 1
    save_freq: int = 0
    log_episodes: int | None = None

    @classmethod
    def of(cls, config: OffPolicyConfig, num_envs: int) -> "Course":
        """As Spinning Up's arguments say."""
        collected = max(1, round(config.update_every / num_envs))
        steps = config.epochs * config.steps_per_epoch if config.total_timesteps is None else config.total_timesteps
        return cls(
            steps=int(steps),
            collected=collected,
            gradient_steps=collected * num_envs if config.num_update is None else config.num_update,
            cycles_per_epoch=max(1, round(config.steps_per_epoch / (collected * num_envs))),
            save_freq=config.save_freq,
        )


class OffPolicyModel(PolicyModel):
    """An actor with critics, or a Q-network, their targets, and what trains them.

    Args:
        policy: the actor with its critics, or the Q-network.
        averaged: the targets.
        update: the gradient steps.
        others: further variables that are learnt, such as a temperature.
        rng: see PolicyModel.
    """

    def __init__(
        self,
        policy: BasePolicy,
        averaged: AveragedPolicy,
        update: Engine,
        others: list[keras.Variable] | None = None,
        rng: np.random.Generator | None = None,
    ) -> None:
        super().__init__(policy, rng=rng, averaged=averaged)
        self.update, self._others = update, others or []
        self.replay: Replay | None = None

    def variables(self) -> list[Any]:
        """See PolicyModel."""
        return [*super().variables(), *self._others]

    def save_replay_buffer(self, directory: str) -> None:
        """Write the replay to a directory of files that load without pickle and can be mapped into memory."""
        self.replay.save(directory)

    def load_replay_buffer(self, directory: str) -> None:
        """Read what `save_replay_buffer` wrote."""
        self.replay.load(directory)

    def train(self, block: dict[str, Any], **coefficients: float) -> dict[str, np.ndarray]:
        """Take a gradient step for each batch of a block; see Engine.block."""
        statistics = self.update.block(block, **coefficients)
        self.actor.refresh()
        return statistics

    def state(self) -> dict[str, Any]:
        """See PolicyModel."""
        return super().state() | {
            "update": self.update.state(),
            "others": {str(i): variable.numpy() for i, variable in enumerate(self._others)},
        }

    def restore(self, state: dict[str, Any]) -> None:
        """See PolicyModel."""
        super().restore(state)
        self.update.restore(state["update"])
        for i, variable in enumerate(self._others):
            variable.assign(state["others"][str(i)])


class OffPolicyRun(Run):
    """Environments, replay, model, and the cycles over them.

        with OffPolicyRun("name", env, config, Course.of(config, env.num_envs)) as run:
            policy, averaged = run.with_targets(lambda: make_policy(...), config.polyak)
            model = OffPolicyModel(policy, averaged, make_update(policy, averaged, ...), rng=run.rng)
            for gradient_steps in run.cycles(model, explore, rows):
                for block in run.blocks(gradient_steps):
                    rows.learnt(run.train(block))
        return model

    Attributes:
        course: when the run collects and learns.
        replay: what it learns from; None before `cycles`.
        eval_env: environments for tests, or None.

    Args:
        name: the algorithm's name.
        env: the environments.
        config: the algorithm's arguments.
        course: when the run collects and learns.
        eval_env: environments for tests; None makes them as the run's options say.
        wrap: what the algorithm puts around environments that are made here.
    """

    def __init__(
        self,
        name: str,
        env: VecEnv,
        config: ReplayConfig,
        course: Course,
        eval_env: VecEnv | None = None,
        wrap: Callable[[VecEnv], VecEnv] = lambda env: env,
    ) -> None:
        steps_per_cycle = course.collected * env.num_envs
        plan = Plan(
            total_timesteps=course.steps,
            steps_per_update=steps_per_cycle,
            log_interval=course.cycles_per_epoch,
            log_first=False,
            log_episodes=course.log_episodes,
            save_interval=course.save_freq * course.cycles_per_epoch,
            replay_interval=int(UNSAVED_PART * config.replay_size / steps_per_cycle),
        )
        super().__init__(name, env, config, plan, wrap)
        self.course = course
        self._tester = Tester(env, eval_env, config, self.options, wrap)
        self.eval_env = self._tester.env
        self.replay: Replay | None = None

    def __exit__(self, *error: Any) -> None:
        try:
            super().__exit__(*error)
        finally:
            self._tester.close()

    def cycles(
        self,
        model: OffPolicyModel,
        behave: Behave,
        rows: Any,
        *,
        replay: Replay | None = None,
        on_end: Callable[[np.ndarray], None] | None = None,
        on_cycle: Callable[[], None] | None = None,
        observed: Callable[[], Any] | None = None,
        acting: Sequence[Any] = (),
        reward_scale: float = 1.0,
        render: bool = False,
    ) -> Iterator[int]:
        """Start the run, and give the number of gradient steps that are due whenever there are any.

        Args:
            model: what learns.
            behave: chooses actions, with exploration.
            rows: makes the rows of the logs: called with the run at an epoch's end; its `collected` takes the episodes
                that ended in a cycle.
            replay: keeps the experience; None for the latest transitions, drawn uniformly.
            on_end: see Collector.
            on_cycle: called after the collection of every cycle.
            observed: gives what the policy's running mean takes in after a cycle; None for the cycle's observations.
            acting: parts of `behave` that are each rank's own; see Run.acts.
            reward_scale: see Collector.
            render: see Collector.
        """
        config, env, course = self.config, self.env, self.course
        self.replay = model.replay = self._make_replay(model.policy) if replay is None else replay
        logger.info(self.replay.describe())
        row = max(self.replay.obs_nbytes * BATCH_COPIES, LEAST_ROW)
        require_memory(self._batch_rows(model.policy) * row, "batch_size", "learning from a batch")
        if self.offline is not None and model.policy.normalizer:
            model.policy.normalizer.fit(self.replay.observations)
        saved = config.save_replay_buffer and self.offline is None
        self.start(model, replay=self.replay if saved else None)
        start = -(-config.start_steps // env.num_envs)
        collector = Collector(env, model.policy, self.replay, self.rng, behave, start, on_end, reward_scale, render)
        # An epoch's row has numbers of before a checkpoint in its middle.
        self.acts(collector, *acting, *getattr(rows, "acting", ()))
        observed = observed or (lambda: self.replay.latest(course.collected)[0])
        for _ in self.updates():
            if self.offline is None:
                before = (self.timesteps - self.plan.steps_per_update) // env.num_envs
                episodes = collector.run(course.collected, before)
                self.episodes.extend(episodes)
                rows.collected(episodes)
                if on_cycle is not None:
                    on_cycle()
                model.observe(observed)
            if course.gradient_steps and self.enough():
                yield course.gradient_steps
            self.finish_update(rows)

    def passed(self, steps: int) -> bool:
        """Whether this cycle came to a multiple of so many environment steps, or went beyond one."""
        return self.timesteps // steps > (self.timesteps - self.plan.steps_per_update) // steps

    @property
    def offline(self) -> str | None:
        """The data set that is learnt from in place of the environments; None for none."""
        return getattr(self.config, "offline", None)

    def _make_replay(self, policy: BasePolicy) -> Replay:
        config, env = self.config, self.env
        if getattr(config, "replay", "uniform") == "hindsight":
            return _hindsight(env, policy, config)
        if self.offline is None:
            size, ends = int(config.replay_size), _ends(config)
            replay = Replay(env, size, n_step=config.n_step, state_size=policy.state_size, **ends)
        else:
            replay = _data_set(env, policy, config)
        if policy.recurrent and replay.size < self.sequence_length * replay.num_envs:
            advice = ": raise replay_size" if self.offline is None else ""
            accepted = f"a replay of {replay.size} transitions is too small{advice}"
            raise bad_argument("sequence_length", self.sequence_length, accepted)
        return replay

    @property
    def sequence_length(self) -> int:
        """Steps of a replayed sequence, for policies with memory."""
        return getattr(self.config, "sequence_length", OffPolicyConfig.arguments()["sequence_length"].default)

    def train(self, block: dict[str, Any]) -> dict[str, np.ndarray]:
        """Take the gradient steps of a block at the present learning rates; new errors become priorities."""
        rows = block.pop("rows", None)
        statistics = self.check(self.model.train(block, **self.rates()))
        errors = statistics.pop("td_errors", None)
        # Those of an update that will be dropped are no priorities.
        if errors is not None and np.isfinite(errors).all():
            self.replay.update_priorities(rows, errors)
        return statistics

    def blocks(self, steps: int, draw: Callable[[int], dict[str, Any]] | None = None) -> Iterator[dict[str, Any]]:
        """Batches for this many gradient steps, in blocks of a bounded size.

        Args:
            steps: their number.
            draw: function of a number of batches that draws them; None for those that the policy learns from.
        """
        count = self._batches_in_block(steps)
        for _ in range(steps // count):
            yield (draw or self.draw)(count)

    def test(self, model: Any = None) -> list[dict[str, Any]]:
        """Run the deterministic policy, of `model` in place of the trained one; the episodes' infos."""
        episodes = self._tester.run(self.model if model is None else model)
        self.eval_episodes.extend(episodes)
        return episodes

    def enough(self) -> bool:
        """Whether every rank's replay holds enough: gradients are averaged over ranks."""
        least = max(1, min(self.config.update_after, self.replay.size))
        if self.model.policy.recurrent:
            least = max(least, self.sequence_length * self.replay.num_envs)
        enough = len(self.replay) >= least
        return enough if self.comm.size == 1 else all(self.comm.gather(enough))

    def draw(self, batches: int) -> dict[str, Any]:
        """Batches of the replay: arrays [batches, B, ...]."""
        if self.model.policy.recurrent:
            return self.replay.sample_sequences(self.rng, batches, self.config.batch_size, self.sequence_length)
        return self.replay.sample(self.rng, batches, self.config.batch_size)

    def draw_one(self) -> dict[str, Any]:
        """One batch of the replay: arrays [B, ...]."""
        return tf.nest.map_structure(lambda array: array[0], self.draw(1))

    def _batches_in_block(self, steps: int) -> int:
        """The largest divisor of `steps` whose block is not too large."""
        most = max(1, int(BLOCK_BYTES / (self._batch_rows(self.model.policy) * self.replay.obs_nbytes)))
        return max(count for count in range(1, min(steps, most) + 1) if steps % count == 0)

    def _batch_rows(self, policy: BasePolicy) -> int:
        """Observations in a batch."""
        return self.config.batch_size * (self.sequence_length if policy.recurrent else 2)


def _hindsight(env: VecEnv, policy: BasePolicy, config: OffPolicyConfig) -> HindsightReplay:
    if policy.recurrent:
        raise bad_argument("replay", config.replay, "a policy without memory: sequences keep the goals that they had")
    replay_k = REPLAY_K if config.replay_k is None else config.replay_k
    size = int(config.replay_size)
    return HindsightReplay(env, size, compute_reward=goal_reward(env), replay_k=replay_k, **_ends(config))


def _ends(config: OffPolicyConfig) -> dict[str, Any]:
    """What a replay does at the end of an episode: reward signals each have a discount, and ends, of their own."""
    signals = getattr(config, "signals", None)
    return {"gamma": config.gamma} if signals is None else {"gamma": 1.0, "keep_ends": True}


def _data_set(env: VecEnv, policy: BasePolicy, config: OffPolicyConfig) -> DataSetReplay:
    data = load_demonstrations(config.offline, env.observation_space, env.action_space, "offline")
    steps = len(data.with_next_obs())
    if steps < config.batch_size:
        raise bad_argument("offline", config.offline, f"at least batch_size={config.batch_size} steps, it has {steps}")
    logger.info(
        f"offline: {len(data.lengths)} episodes, {steps} steps, returns {data.returns.min():.4g} to "
        f"{data.returns.max():.4g}, mean {data.returns.mean():.4g}"
    )
    return DataSetReplay(data, env, config.gamma, config.n_step, policy.state_size)
