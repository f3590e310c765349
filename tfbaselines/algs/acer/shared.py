"""Memory that workers in processes share: a model's parameters, averages and optimizer slots, and its statistics.

A worker computes with variables of its own. It reads the shared numbers into them, takes a gradient step, and writes
them back: under a lock as they are, without one by adding its change, so that other workers' changes are not lost.

The memory is a file without a name, and the locks are record locks on it: both vanish with the processes.
"""

import contextlib
import fcntl
import math
import mmap
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbaselines.algs.acer import Config
from tfbaselines.algs.acer.acer import Model
from tfbaselines.algs.acer.workers import locks_update
from tfbaselines.compiling import Reading, compiled, prompt
from tfbaselines.envs.normalize import VecNormalize
from tfbaselines.envs.vec import VecEnv
from tfbaselines.envs.vec.base import find_wrapper
from tfbaselines.learn.exchange import taken_apart
from tfbaselines.parallel.mpi import Communicator

# Bytes of the file that stand for the locks of gradients, of changes and of statistics of environments.
COMPUTING, CHANGING, STATISTICS = range(3)


class RecordLock:
    """A lock between processes on one byte of a file; the system releases it when its process ends."""

    def __init__(self, descriptor: int, byte: int) -> None:
        self._descriptor = descriptor
        self._byte = byte

    def __enter__(self) -> None:
        fcntl.lockf(self._descriptor, fcntl.LOCK_EX, 1, self._byte)

    def __exit__(self, *_: Any) -> None:
        fcntl.lockf(self._descriptor, fcntl.LOCK_UN, 1, self._byte)


class Ledger(Communicator):
    """Sums of all processes in shared memory: `sum` adds this process's part, and returns what all have added since.

    VecNormalize.merge_statistics calls `sum` once for each of its running statistics, always in the same order.
    """

    size = 2

    def __init__(self, totals: list[np.ndarray]) -> None:
        self._totals = totals
        self._seen = [np.zeros_like(total) for total in totals]
        self._next = 0

    def sum(self, array: Any) -> np.ndarray:
        number = self._next
        self._next = (number + 1) % len(self._totals)
        total = self._totals[number]
        total += array
        added = total - self._seen[number]
        self._seen[number] = total.copy()
        return added


class SharedNumbers:
    """The numbers of a model in shared memory.

    Attributes:
        nbytes: size of the memory.

    Args:
        model: model of this process, which takes the numbers over.
        env: environments of this process, for the statistics of VecNormalize.
    """

    def __init__(self, model: Model, env: VecEnv) -> None:
        self._model = model
        self._env = env
        policy = [variable.value for variable in model.policy.trainable_variables]
        averages = [variable.value for variable in model.averaged.policy.trainable_variables]
        slots = [slot.value if isinstance(slot, keras.Variable) else slot for slot in model.optimizer.variables]
        self._sizes = [math.prod(variable.shape) for variable in (*policy, *averages, *slots)]
        self._of_policy = sum(self._sizes[: len(policy)])
        self._read_policy, self._read_all = _assignment(policy), _assignment([*policy, *averages, *slots])
        self._present = Reading([*policy, *averages, *slots])
        self._moments = _flat(model.policy.normalizer.state()).size if model.policy.normalizer else 0
        self._merged = _sizes_of_statistics(env)
        self.nbytes = 8 * (self._moments + sum(self._merged)) + 4 * sum(self._sizes)

    def map(self, descriptor: int) -> None:
        """Use the memory of a file of `nbytes`."""
        memory = mmap.mmap(descriptor, self.nbytes)
        doubles = np.frombuffer(memory, np.float64, self._moments + sum(self._merged))
        self._floats = np.frombuffer(memory, np.float32, offset=doubles.nbytes)
        self._doubles = doubles[: self._moments]
        totals = np.split(doubles[self._moments :], np.cumsum(self._merged)[:-1])
        self._ledger = Ledger(totals) if self._merged else None
        self._statistics = RecordLock(descriptor, STATISTICS)

    def read_policy(self) -> None:
        """Take over the parameters of the policy, and its statistics of observations."""
        self._read_policy(tf.constant(np.array(self._floats[: self._of_policy])))
        self._read_moments()

    def read(self) -> None:
        """Take over all numbers."""
        # A private copy: TensorFlow may keep the memory of an array.
        self._before = np.array(self._floats)
        self._read_all(tf.constant(self._before))
        self._read_moments()

    def write(self) -> None:
        """Replace the shared numbers by the model's."""
        self._floats[:] = self._own()
        if self._moments:
            self._doubles[:] = _flat(self._model.policy.normalizer.state())

    def add_change(self) -> None:
        """Add the model's change since `read` to the shared numbers, which others may have changed meanwhile."""
        self._floats += self._own() - self._before
        if self._moments:
            self._doubles += _flat(self._model.policy.normalizer.state()) - self._moments_before

    def merge_statistics(self) -> None:
        """Merge VecNormalize's statistics with those of the other processes."""
        if self._ledger is not None:
            with self._statistics:
                self._env.merge_statistics(self._ledger)

    def _own(self) -> np.ndarray:
        return np.concatenate([np.asarray(memoryview(numbers)).ravel() for numbers in self._present()])

    def _read_moments(self) -> None:
        if self._moments:
            normalizer = self._model.policy.normalizer
            self._moments_before = np.array(self._doubles)
            normalizer.restore(_shaped(self._moments_before, normalizer.state()))


class SharedAccess:
    """The Access of a process; see workers.py."""

    def __init__(self, model: Model, numbers: SharedNumbers, config: Config, descriptor: int) -> None:
        self._model = model
        self._numbers = numbers
        lock_update = locks_update(config)
        self.apart = config.lock != lock_update
        self._computing = RecordLock(descriptor, COMPUTING) if config.lock else nullcontext()
        self._changing = RecordLock(descriptor, CHANGING) if lock_update else nullcontext()
        self._put_back = numbers.write if lock_update else numbers.add_change

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        with self._changing:
            self._numbers.read_policy()
        yield

    @contextlib.contextmanager
    def computing(self) -> Iterator[None]:
        with self._computing:
            with self._changing:
                self._numbers.read()
            yield

    def changing(self) -> AbstractContextManager:
        return self._changed()

    @contextlib.contextmanager
    def _changed(self) -> Iterator[None]:
        with self._changing:
            self._numbers.read()
            yield
            self._put_back()

    def observe(self, observations: Callable[[], np.ndarray]) -> None:
        if self._model.policy.normalizer:
            with self._changed():
                self._model.observe(observations)
        self._numbers.merge_statistics()


def _assignment(variables: list[tf.Variable]) -> Callable[[tf.Tensor], Any]:
    """Return a function that assigns the parts of a vector to variables."""

    def assign(vector: tf.Tensor) -> tf.Tensor:
        for variable, part in zip(variables, taken_apart(vector, variables), strict=True):
            variable.assign(part)
        return tf.constant(0.0)

    return prompt(compiled(assign))


def _sizes_of_statistics(env: VecEnv) -> list[int]:
    """Return the sizes of what VecNormalize sums over processes: sums, sums of squares and a count."""
    normalized = find_wrapper(env, VecNormalize)
    statistics = [] if normalized is None else [normalized.ob_rms, normalized.ret_rms]
    return [2 * np.size(one.mean) + 1 for one in statistics if one is not None]


def _flat(state: dict[str, Any]) -> np.ndarray:
    return np.concatenate([np.ravel(np.asarray(leaf, np.float64)) for leaf in tf.nest.flatten(state)])


def _shaped(flat: np.ndarray, like: dict[str, Any]) -> dict[str, Any]:
    leaves = [np.asarray(leaf) for leaf in tf.nest.flatten(like)]
    parts = np.split(flat, np.cumsum([leaf.size for leaf in leaves])[:-1])
    return tf.nest.pack_sequence_as(like, [part.reshape(leaf.shape) for part, leaf in zip(parts, leaves, strict=True)])
