"""Behavior cloning: losses, batches of demonstrations, and passes with early stopping on a validation set."""

import dataclasses
from functools import partial
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbaselines.compiling import compiled
from tfbaselines.demos import Demonstrations
from tfbaselines.learn.engine import Batch, Engine, Phase, Statistics
from tfbaselines.learn.losses import evaluated
from tfbaselines.learn.optimizers import Adam
from tfbaselines.logs import logger
from tfbaselines.parallel import mpi
from tfbaselines.policy.base import BasePolicy
from tfbaselines.policy.bounded import BoundedHead
from tfbaselines.policy.layers import compile_with_xla
from tfbaselines.rollout.rollout import minibatches


def as_rows(demonstrations: Demonstrations, every: int = 1) -> dict[str, np.ndarray]:
    """Make rows of every n-th step of demonstrations: obs [B, ...], actions [B, ...] and valid [B], ones."""
    rows = demonstrations.rows(every)
    valid = np.ones(len(rows), np.float32)
    return {"obs": demonstrations.obs[rows], "actions": demonstrations.actions[rows], "valid": valid}


class Sequences:
    """Episodes cut into sequences of equal length; invalid steps fill the last one of each episode.

    Attributes:
        data: obs, actions, episode_start and valid [S, L, ...], and states [S, M] before each sequence. Only every n-th
            step of an episode is valid.
    """

    def __init__(self, demonstrations: Demonstrations, length: int, state_size: int, every: int = 1) -> None:
        pieces = [-(-int(steps) // length) for steps in demonstrations.lengths]
        numbers = iter(range(sum(pieces)))
        # [E, K] number of each episode's k-th sequence, -1 after its last one.
        self._numbers = np.full((len(pieces), max(pieces)), -1)
        rows, self.data = np.full((sum(pieces), length), -1), {}
        begins = demonstrations.ends - demonstrations.lengths
        for episode, (begin, end, count) in enumerate(zip(begins, demonstrations.ends, pieces, strict=True)):
            for k in range(count):
                number = self._numbers[episode, k] = next(numbers)
                steps = np.arange(begin + k * length, min(begin + (k + 1) * length, end))
                rows[number, : len(steps)] = steps
        used = np.zeros(len(demonstrations), np.float32)
        used[demonstrations.rows(every)] = 1.0
        valid = (rows >= 0).astype(np.float32)
        self.data = {
            "obs": demonstrations.obs[rows],
            "actions": demonstrations.actions[rows],
            "episode_start": demonstrations.episode_start[rows].astype(np.float32) * valid,
            "valid": used[rows] * valid,
            "states": np.zeros((len(rows), state_size), np.float32),
        }

    def refresh(self, memory: Any) -> None:
        """Compute the states before each sequence with the present policy.

        Args:
            memory: maps obs, episode_start [E, L, ...], states [E, M] and actions [E, L, ...] to the states after them;
                see `memory_after`.
        """
        for k in range(1, self._numbers.shape[1]):
            before = self._numbers[:, k - 1]
            after = memory(*(self.data[name][before] for name in ("obs", "episode_start", "states", "actions")))
            here = self._numbers[:, k] >= 0
            self.data["states"][self._numbers[here, k]] = after[here]


def cloning_loss(policy: BasePolicy, batch: Batch) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
    """Compute E[-log pi(a|s)] over valid rows, and the policy's mean entropy there.

    Args:
        policy: has the distribution pi.
        batch: obs [B, ...], actions [B, ...] and valid [B], 1 for valid rows; recurrent policies: as for `evaluated`
            in learn/losses.py.
    """
    batch, outputs = evaluated(policy, batch)
    pi, valid = policy.head.distribution(outputs.flat), batch["valid"]
    count = tf.maximum(tf.reduce_sum(valid), 1.0)
    loss = tf.reduce_sum(valid * pi.neglogp(batch["actions"])) / count
    return loss, {"loss": loss, "entropy": tf.reduce_sum(valid * pi.entropy()) / count}


def imitation_loss(policy: BasePolicy, batch: Batch) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
    """Compute `cloning_loss`, or for bounded heads the squared distance of the most likely action.

    Demonstrated actions often lie on their bounds, where the density of a squashed Gaussian has no maximum. Actions are
    in units of their bounds; entropy is left to the algorithm.
    """
    if not isinstance(policy.head, BoundedHead):
        return cloning_loss(policy, batch)
    batch, outputs = evaluated(policy, batch)
    head, valid = policy.head, batch["valid"]
    distance = tf.square(head.unit(head.mode(outputs.flat)) - head.unit(batch["actions"]))
    loss = tf.reduce_sum(valid * tf.reduce_mean(distance, axis=-1)) / tf.maximum(tf.reduce_sum(valid), 1.0)
    return loss, {"loss": loss}


ADAM_EPSILON = 1e-5
# Largest number of steps in one evaluation of the validation loss.
LARGEST_BATCH = 1024


@dataclasses.dataclass(frozen=True, kw_only=True)
class CloningOptions:
    """Hyper-parameters of behavior cloning.

    Attributes:
        batch_size: steps in a gradient step.
        held_out: share of the demonstrations in the validation set.
        patience: early stopping: passes without improvement of the validation loss; 0 disables it.
        weight_decay: factor of the penalty of half the squared parameters.
        subsample: use every n-th step of an episode.
        sequence_length: steps of the training sequences of a recurrent policy.
    """

    batch_size: int = 128
    held_out: float = 0.1
    patience: int = 20
    weight_decay: float = 0.0
    subsample: int = 1
    sequence_length: int = 64


class Cloning:
    """Passes over demonstrations; a part of the model (see PolicyModel.parts).

    The validation set consists of every n-th row (or sequence): it is the same on every rank and in every resumed run.
    Each rank shuffles the demonstrations in its own order.

    Attributes:
        optimizer: of the policy.
        steps_per_pass: demonstrated steps in a pass.
        gradient_steps: of a pass.
        over: early stopping ended the cloning, and the policy has its best parameters.
    """

    def __init__(
        self,
        policy: BasePolicy,
        variables: list[keras.Variable],
        demonstrations: Demonstrations,
        options: CloningOptions,
        comm: mpi.Communicator,
    ) -> None:
        self._policy = policy
        self._options = options
        self._comm = comm
        self._variables = variables
        self._obs = demonstrations.obs
        self._sequences = None
        size = options.batch_size
        if policy.recurrent:
            length = options.sequence_length
            self._sequences = Sequences(demonstrations, length, policy.state_size, options.subsample)
            self._data, size = self._sequences.data, max(1, size // length)
        else:
            self._data = as_rows(demonstrations, options.subsample)
        held = _held_out(len(self._data["obs"]), options.held_out)
        self._held_out = np.flatnonzero(held)
        self._training = np.flatnonzero(~held)
        self._size = min(size, len(self._training))
        self.gradient_steps = len(self._training) // self._size
        used = self._training[: self.gradient_steps * self._size]
        self.steps_per_pass = max(1, int(self._data["valid"][used].sum()))
        self.optimizer = Adam(epsilon=ADAM_EPSILON)
        jit = compile_with_xla(policy, options.batch_size)
        self._engine = Engine([Phase("cloning", self._loss, variables, self.optimizer)], jit=jit, comm=comm)
        self._evaluate = compiled(lambda batch: cloning_loss(policy, batch)[0], jit)
        self._memory = compiled(partial(memory_after, policy), jit)
        self._forget()

    def begin(self) -> None:
        """Start again: add the demonstrator's observations to the policy's running statistics, if any."""
        if self._policy.normalizer:
            self._policy.normalizer.update(self._obs)
        self._forget()

    def one_pass(self, rng: np.random.Generator, lr: float, most: int | None = None) -> dict[str, float]:
        """Learn once from every minibatch, or `most` of them, evaluate the validation loss, and return statistics."""
        if self._sequences is not None:
            self._sequences.refresh(lambda *batch: self._memory(*map(tf.constant, batch)).numpy())
        rows = self._training[minibatches(rng, len(self._training), self._size, 1)[:most]]
        statistics = self._engine.minibatches(self._data, rows, lr=lr)
        if self._held_out.size:
            # All ranks must end in the same pass, though processors may round differently.
            loss = self._comm.broadcast_object(self._held_out_loss())
            self._consider(loss)
            statistics |= {"held_out_loss": loss, "best_held_out_loss": self._best}
        return statistics

    def _held_out_loss(self) -> float:
        """Compute the mean over valid steps in several batches: all images at once may not fit into memory."""
        most = LARGEST_BATCH if self._sequences is None else max(1, LARGEST_BATCH // self._options.sequence_length)
        total = count = 0.0
        for rows in np.array_split(self._held_out, -(-len(self._held_out) // most)):
            batch = {name: tf.constant(array[rows]) for name, array in self._data.items()}
            weight = float(self._data["valid"][rows].sum())
            total += weight * float(self._evaluate(batch))
            count += weight
        return total / max(count, 1.0)

    def _consider(self, loss: float) -> None:
        """Keep the parameters if they are the best so far; restore the best when patience ends."""
        if self._best is None or loss < self._best:
            self._best = loss
            self._since = 0
            self._kept = [variable.numpy() for variable in self._variables]
            return
        self._since += 1
        if self._patience_ended():
            self.take_best()
            self.over = True

    def _patience_ended(self) -> bool:
        return 0 < self._options.patience <= self._since

    def take_best(self) -> None:
        """Restore the parameters with the smallest validation loss, if there is a validation set."""
        if self._held_out.size:
            for variable, value in zip(self._variables, self._kept, strict=True):
                variable.assign(value)

    def _forget(self) -> None:
        self.over = False
        self._best = None
        self._since = 0
        self._kept = [variable.numpy() for variable in self._variables]

    def _loss(self, batch: Batch) -> tuple[tf.Tensor, Statistics]:
        loss, statistics = cloning_loss(self._policy, batch)
        if self._options.weight_decay:
            loss += self._options.weight_decay * tf.add_n([tf.nn.l2_loss(one.value) for one in self._variables])
        return loss, statistics

    def ready(self) -> None:
        """Do nothing: no copies depend on the variables."""

    def observed(self) -> None:
        """Do nothing: the policy's statistics of observations are not used."""

    def state(self) -> dict[str, Any]:
        """Save the best parameters so far, and the progress of early stopping."""
        kept = {f"{number:02d}": array for number, array in enumerate(self._kept)}
        return {"cloning": {"best": self._best, "since": self._since, "over": self.over, "kept": kept}}

    def restore(self, state: dict[str, Any]) -> None:
        saved = state["cloning"]
        self._best = saved["best"]
        self._since = saved["since"]
        # With more patience a finished run continues.
        self.over = saved["over"] and self._patience_ended()
        self._kept = [array for _, array in sorted(saved["kept"].items(), key=lambda item: int(item[0]))]


def memory_after(policy: BasePolicy, obs: Any, episode_start: tf.Tensor, states: tf.Tensor, actions: Any) -> tf.Tensor:
    """Compute the states [E, M] of a recurrent policy after sequences, from those before obs [E, L, ...]."""
    flat = tf.nest.map_structure(lambda array: tf.reshape(array, (-1, *array.shape[2:])), (obs, episode_start, actions))
    return policy.forward(*flat[:2], states, **policy.sequence_inputs({"actions": flat[2]})).states


def pretrain(cloning: Cloning, rng: np.random.Generator, lr: float, max_iter: int) -> None:
    """Clone before other training begins, for at most max_iter gradient steps; log its beginning and end."""
    cloning.begin()
    logger.info(f"pretraining by behavior cloning, at most {max_iter} gradient steps")
    steps, statistics = 0, {}
    while steps < max_iter and not cloning.over:
        statistics = cloning.one_pass(rng, lr, max_iter - steps)
        steps = min(steps + cloning.gradient_steps, max_iter)
    cloning.take_best()
    words = ", ".join(f"{name} {value:.4g}" for name, value in statistics.items())
    logger.info(f"pretrained for {steps} gradient steps: {words}")


def _held_out(count: int, share: float) -> np.ndarray:
    """Mark the held-out rows, [count]; with two rows or more, both sets have at least one row."""
    if share == 0 or count < 2:
        return np.zeros(count, bool)
    apart = min(max(2, round(1 / share)), count)
    return np.arange(count) % apart == apart - 1
