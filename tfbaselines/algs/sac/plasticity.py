"""Keep networks able to learn in long runs: weight decay and resets.

Weight decay apart from the gradients (Loshchilov and Hutter 2019, arXiv:1711.05101), where a rule follows it:

    W <- (1 - lr * weight_decay) W

Resets (Nikishin et al. 2022, arXiv:2205.07802): the networks, their targets, the optimizers and the temperature begin
anew every `reset_interval` environment steps, and learn again from the replay, which stays.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import keras
import numpy as np
import tensorflow as tf

from tfbaselines.algs.sac.loss import Temperature
from tfbaselines.learn.optimizers import Optimizer, Rule, rule_of
from tfbaselines.logs import logger
from tfbaselines.parallel import mpi
from tfbaselines.policy.actor_critic import ActorCritic
from tfbaselines.training.off_policy import OffPolicyModel, OffPolicyRun


class Decayed(Rule):
    """Another rule, before which weight matrices decay; biases and the scales of normalization do not.

    Args:
        optimizer: the other rule.
        decay: weight_decay of the formula above.
    """

    def __init__(self, optimizer: Optimizer, decay: float) -> None:
        self._rule = rule_of(optimizer)
        self._decay = decay

    def build(self, variables: Sequence[keras.Variable]) -> None:
        self._matrices = [variable for variable in variables if len(variable.shape) > 1]
        self._rule.build(variables)
        self.variables = self._rule.variables

    def apply(self, gradients: Sequence[tf.Tensor], rate: tf.Tensor) -> None:
        for matrix in self._matrices:
            matrix.assign(matrix.value * (1.0 - rate * self._decay))
        self._rule.apply(gradients, rate)


class Resets:
    """Let a model begin anew each time that a number of environment steps has passed.

    No reset is due in the last `interval` steps of a run, so that it ends with networks that have learned.

    Args:
        run: the run.
        interval: environment steps between resets; None for none.
        make: makes a policy with new weights.
        model: the model, which has not learned yet.
        temperature: the temperature, which begins anew too.
    """

    def __init__(
        self,
        run: OffPolicyRun,
        interval: int | None,
        make: Callable[[], ActorCritic],
        model: OffPolicyModel,
        temperature: Temperature,
    ) -> None:
        self._run = run
        self._interval = interval
        self._make = make
        self._model = model
        self._temperature = temperature
        # The optimizers' first state, also of a run that will be resumed.
        self._first = None if interval is None else model.update.state()

    def take(self) -> None:
        """Reset the model if the present cycle is the first of a new interval."""
        run, interval, model = self._run, self._interval, self._model
        if interval is None or not run.passed(interval) or run.timesteps + interval > run.course.steps:
            return
        with seeded(int(run.rng.integers(2**31))):
            fresh = self._make()
        for variable, new in zip(model.policy.trainable_variables, fresh.trainable_variables, strict=True):
            variable.assign(new)
        mpi.share(model.policy.trainable_variables, run.comm)
        model.averaged.reset()
        model.update.restore(self._first)
        self._temperature.restart()
        model.actor.refresh()
        logger.info(f"the networks begin anew after {run.timesteps} steps; the replay has {len(model.replay)}")


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed Keras for a while; Python's and numpy's generators, which environments may use, stay as they are."""
    python, numpy = random.getstate(), np.random.get_state()
    keras.utils.set_random_seed(seed)
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
