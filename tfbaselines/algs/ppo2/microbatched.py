"""PPO2 with minibatches that do not fit in memory at once."""

from collections.abc import Callable
from functools import partial
from typing import Any

import tensorflow as tf

from tfbaselines.algs.ppo2.ppo2 import Model
from tfbaselines.errors import UsageError, bad_argument
from tfbaselines.learn.engine import Batch, Phase, Statistics, gradients_of
from tfbaselines.learn.exchange import clipped
from tfbaselines.learn.losses import standardized


class MicrobatchedModel(Model):
    """Average the gradients of parts of a minibatch, which are computed one after the other.

    Use it as `ppo2.learn(..., model_fn=functools.partial(MicrobatchedModel, microbatch_size=64))`. As in the
    original, advantages are standardized over the minibatch, and each part's gradient is clipped.

    Args:
        microbatch_size: rows in a part; a divisor of the minibatch's rows.
        kwargs: the arguments of Model.
    """

    def __init__(self, *, microbatch_size: int, normalize_advantages: bool = True, **kwargs: Any) -> None:
        rows = kwargs["nbatch_train"]
        if not 1 <= microbatch_size <= rows or rows % microbatch_size:
            raise bad_argument("microbatch_size", microbatch_size, f"a divisor of the {rows} rows of a minibatch")
        if kwargs["policy"].recurrent:
            raise UsageError("MicrobatchedModel does not train recurrent policies: raise nminibatches instead")
        self._parts = rows // microbatch_size
        self._standardize = normalize_advantages
        super().__init__(normalize_advantages=False, **kwargs)

    def _phase(self, loss: Callable[[Batch], Any], max_grad_norm: float | None) -> Phase:
        variables = self.policy.trainable_variables

        def of_part(batch: Batch) -> tuple[list[tf.Tensor], Statistics]:
            gradients, statistics = gradients_of(partial(loss, batch), variables)
            return gradients if max_grad_norm is None else clipped(gradients, variables, max_grad_norm), statistics

        return Phase("policy", loss, variables, self.optimizer, gradients=partial(self._mean_over_parts, of_part))

    def _mean_over_parts(self, of_part: Callable[[Batch], Any], batch: Batch) -> tuple[list[tf.Tensor], Statistics]:
        advantages = batch["returns"] - batch["values"]
        batch = batch | {"advantages": standardized(advantages) if self._standardize else advantages}
        rows = {
            name: tf.reshape(array, (self._parts, -1, *array.shape[1:]))
            for name, array in batch.items()
            if array is not None and array.shape.rank
        }

        def part(number: Any) -> Any:
            return of_part(batch | {name: array[number] for name, array in rows.items()})

        def add(number: tf.Tensor, sums: Any) -> Any:
            return number + 1, tf.nest.map_structure(tf.add, sums, part(number))

        # One after the other: parallel iterations would need the memory of the whole minibatch.
        _, sums = tf.while_loop(
            lambda number, _: number < self._parts, add, (tf.constant(1), part(0)), parallel_iterations=1
        )
        return tf.nest.map_structure(lambda total: total / self._parts, sums)
