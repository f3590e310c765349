"""Behaviour cloning beside reinforcement learning: after the algorithm's own gradient steps, as many on demonstrations.

The steps have an Adam of their own, whose learning rate is the policy's times a strength that goes down to 0.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

from tfbaselines.compiling import compiled
from tfbaselines.config.signals import Pretraining
from tfbaselines.demos.cloning import ADAM_EPSILON, Sequences, as_rows, imitation_loss, memory_after
from tfbaselines.demos.demonstrations import Demonstrations, load_demonstrations
from tfbaselines.envs.normalize import VecNormalize
from tfbaselines.envs.vec import VecEnv
from tfbaselines.envs.vec.base import find_wrapper
from tfbaselines.envs.vec.packed import PackedSpace
from tfbaselines.errors import UsageError
from tfbaselines.learn.engine import Engine, Phase
from tfbaselines.learn.optimizers import Adam, restore_slots, slots
from tfbaselines.policy.precision import compile_with_xla
from tfbaselines.training.model import PolicyModel
from tfbaselines.training.run import Run

LOSS, STRENGTH = "pretraining/loss", "pretraining/strength"


class CloningBeside:
    """Gradient steps of behaviour cloning; a part of the model (see PolicyModel.parts).

    Attributes:
        optimizer: takes the steps.

    Args:
        run: whose policy learns, and whose logs have the statistics.
        model: the policy's.
        demonstrations: what it learns from.
        arguments: how.
        shown: makes demonstrated observations those that the environments would show now.
    """

    def __init__(
        self,
        run: Run,
        model: PolicyModel,
        demonstrations: Demonstrations,
        arguments: Pretraining,
        shown: Callable[[np.ndarray], np.ndarray] = lambda obs: obs,
    ) -> None:
        self._run, self._model, self._arguments, self._shown = run, model, arguments, shown
        policy, self._size, self._sequences = model.policy, arguments.batch_size, None
        if policy.recurrent:
            length = arguments.sequence_length
            self._sequences = Sequences(demonstrations, length, policy.state_size)
            self._data, self._size = self._sequences.data, max(1, self._size // length)
        else:
            self._data = as_rows(demonstrations)
        self.optimizer, jit = Adam(epsilon=ADAM_EPSILON), compile_with_xla(policy, arguments.batch_size)
        phase = Phase("pretraining", partial(imitation_loss, policy), policy.acting_variables, self.optimizer)
        self._engine = Engine([phase], jit=jit, comm=run.comm)
        self._memory = compiled(partial(memory_after, policy), jit)

    @property
    def strength(self) -> float:
        """The learning rate of this update, as a share of the policy's."""
        steps, before = self._arguments.steps, self._run.timesteps - self._run.plan.steps_per_update
        left = max(0.0, 1.0 - before / steps) if steps else 1.0
        return left * self._arguments.strength

    def learn(self, steps: int) -> None:
        """Take gradient steps, as long as there is any strength left; the run's next row has the statistics.

        Args:
            steps: how many.
        """
        columns, strength = self._run.columns, self.strength
        columns[STRENGTH] = strength
        if strength == 0.0:
            columns.pop(LOSS, None)
            return
        if self._sequences is not None:
            self._sequences.refresh(self._memory_of)
        rows = self._run.rng.integers(len(self._data["obs"]), size=steps * self._size)
        batch = {name: array[rows] for name, array in self._data.items()}
        batch["obs"] = self._as_shown(batch["obs"])
        indices = np.arange(len(rows), dtype=np.int32).reshape(steps, self._size)
        statistics = self._engine.minibatches(batch, indices, lr=strength * self._run.rates()["lr"])
        columns[LOSS] = self._run.check({LOSS: statistics["loss"]})[LOSS]
        self._model.actor.refresh()

    def _as_shown(self, obs: np.ndarray) -> np.ndarray:
        return np.asarray(self._shown(obs), obs.dtype)

    def _memory_of(self, obs: np.ndarray, episode_start: np.ndarray, states: np.ndarray) -> np.ndarray:
        return self._memory(*map(tf.constant, (self._as_shown(obs), episode_start, states))).numpy()

    def ready(self) -> None:
        """Nothing follows the parameters."""

    def observed(self) -> None:
        """Nothing depends on the statistics of observations."""

    def state(self) -> dict[str, Any]:
        """The optimiser's."""
        return {"pretraining": slots(self.optimizer)}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over what `state` gave; a model that was trained without cloning has nothing of it."""
        if "pretraining" in state:
            restore_slots(self.optimizer, state["pretraining"])


class NoCloning:
    """Of a run that learns from rewards alone."""

    def learn(self, steps: int) -> None:
        """Nothing; see CloningBeside."""


def cloning_beside(run: Run, model: PolicyModel, env: VecEnv) -> CloningBeside | NoCloning:
    """The cloning of a run, which becomes a part of its model.

    Args:
        run: of an algorithm with PretrainingConfig, before it starts.
        model: the run's.
        env: the environments of training.
    """
    arguments, policy = run.config.cloning, model.policy
    if arguments is None:
        return NoCloning()
    if isinstance(policy.observation_space, PackedSpace):
        raise UsageError("pretraining takes neither action masks nor observations of several parts")
    demonstrations = load_demonstrations(arguments.demo_path, policy.observation_space, policy.action_space)
    normalized = find_wrapper(env, VecNormalize)
    shown = {} if normalized is None else {"shown": normalized.scaled}
    cloning = CloningBeside(run, model, demonstrations, arguments, **shown)
    model.parts = [*model.parts, cloning]
    return cloning
