"""Programs: short lists of plain operations on rows of numbers, which numpy, C and JavaScript run.

A value is one row of float32 numbers. Images are rows too, in the order rows, columns, channels. Every operation makes
one value from earlier ones:

    dense         x kernel + bias, for each of `rows` groups of `width` numbers
    conv2d        convolution of an image; `pads` are the rows above and columns to the left of the image
    pool2d        'max' or 'average' over windows, of the numbers inside the image alone
    layer_norm    each group of numbers normalized to mean 0 and deviation 1, times gamma plus beta
    affine        (x - minus) times + plus; shorter weights repeat
    clip          numbers between low and high; shorter weights repeat
    activation    one function of FUNCTIONS, of every number
    softmax       of each group of `width` numbers
    weighted_sum  sum of each group's numbers times weights
    combine       add, subtract, multiply, maximum or minimum of two values
    concat        values side by side, in each of `rows` groups
    slice         numbers from `begin` to before `end`
    one_hot       a row of zeros and a one for each number: its part of `sizes`, counted from `starts`
    gather        row of a table; its number is the sum of whole numbers times strides
    argmax        place of the largest number of each part of `sizes`, counted from `starts`; the first of equal ones
"""

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

# Functions of the operation "activation". `step` is 1 above 0, else 0; `round` rounds halves to even numbers.
FUNCTIONS = ("relu", "tanh", "sigmoid", "exp", "elu", "softplus", "softsign", "erf", "step", "round")

# Stands for infinite bounds, which JSON and C89 constants lack.
LARGEST = float(np.finfo(np.float32).max)


class Value(NamedTuple):
    """A row of numbers.

    Attributes:
        number: place in the program's list of values.
        shape: shape of the numbers; an image has three sizes.
    """

    number: int
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Count of numbers."""
        return math.prod(self.shape)


class Operation(NamedTuple):
    """One operation.

    Attributes:
        kind: name of the operation.
        inputs: numbers of the values that it takes.
        output: number of the value that it makes.
        settings: whole numbers, names and lists of whole numbers.
        weights: names of arrays in the program's weights, by their role.
    """

    kind: str
    inputs: tuple[int, ...]
    output: int
    settings: dict[str, Any]
    weights: dict[str, str]


class Program:
    """Record operations.

    Attributes:
        sizes: count of numbers of each value.
        operations: operations in order.
        weights: float32 arrays by name.
    """

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.operations: list[Operation] = []
        self.weights: dict[str, np.ndarray] = {}

    def value(self, shape: Iterable[int]) -> Value:
        """Make a value that no operation makes: an input."""
        value = Value(len(self.sizes), tuple(int(size) for size in shape))
        self.sizes.append(value.size)
        return value

    def record(
        self,
        kind: str,
        inputs: Sequence[Value],
        shape: Iterable[int],
        weights: dict[str, np.ndarray] | None = None,
        **settings: Any,
    ) -> Value:
        """Append an operation and return its value; methods below compute the arguments."""
        output = self.value(shape)
        names = {}
        for role, array in (weights or {}).items():
            names[role] = f"{kind}{len(self.operations)}_{role}"
            self.weights[names[role]] = np.ascontiguousarray(array, np.float32)
        numbers = tuple(value.number for value in inputs)
        self.operations.append(Operation(kind, numbers, output.number, settings, names))
        return output

    def dense(self, x: Value, kernel: np.ndarray, bias: np.ndarray | None = None) -> Value:
        """Multiply the last axis of x by a kernel [n, m], and add a bias [m]."""
        inputs, units = kernel.shape
        bias = np.zeros(units) if bias is None else bias
        shape = (*x.shape[:-1], units)
        rows = x.size // inputs
        return self.record("dense", [x], shape, {"kernel": kernel, "bias": bias}, rows=rows, width=inputs, units=units)

    def conv2d(
        self,
        x: Value,
        kernel: np.ndarray,
        bias: np.ndarray,
        strides: Sequence[int],
        dilation: Sequence[int],
        padding: str,
    ) -> Value:
        """Convolve an image with a kernel [rows, columns, channels, filters]; padding is 'same' or 'valid'."""
        size = kernel.shape[:2]
        out, pads = _windows(x.shape[:2], size, strides, dilation, padding)
        shape = (*out, kernel.shape[3])
        settings = {"size": list(size), "strides": list(strides), "dilation": list(dilation), "pads": pads}
        weights = {"kernel": kernel, "bias": bias}
        return self.record("conv2d", [x], shape, weights, image=list(x.shape), out=list(shape), **settings)

    def pool2d(self, x: Value, how: str, size: Sequence[int], strides: Sequence[int], padding: str) -> Value:
        """Reduce windows of an image; `how` is 'max' or 'average'."""
        out, pads = _windows(x.shape[:2], size, strides, (1, 1), padding)
        shape = (*out, x.shape[2])
        settings = {"size": list(size), "strides": list(strides), "pads": pads}
        return self.record("pool2d", [x], shape, how=how, image=list(x.shape), out=list(shape), **settings)

    def layer_norm(self, x: Value, gamma: np.ndarray, beta: np.ndarray, epsilon: float) -> Value:
        """Normalize each group of as many numbers as gamma has."""
        weights = {"gamma": gamma, "beta": beta, "epsilon": np.array([epsilon])}
        return self.record("layer_norm", [x], x.shape, weights, width=len(gamma))

    def affine(self, x: Value, minus: Any = 0.0, times: Any = 1.0, plus: Any = 0.0) -> Value:
        """Compute (x - minus) times + plus; arrays have the shape of x, or of its last axes."""
        return self.record("affine", [x], x.shape, _rows_of(minus=minus, times=times, plus=plus))

    def clip(self, x: Value, low: Any, high: Any) -> Value:
        """Bound numbers; bounds that are infinite do nothing."""
        bounds = _rows_of(low=low, high=high)
        if not any(np.isfinite(bound).any() for bound in bounds.values()):
            return x
        return self.record("clip", [x], x.shape, {name: np.clip(b, -LARGEST, LARGEST) for name, b in bounds.items()})

    def activation(self, x: Value, name: str) -> Value:
        """Apply a function of FUNCTIONS."""
        return self.record("activation", [x], x.shape, name=name)

    def softmax(self, x: Value, width: int) -> Value:
        """Compute the softmax of each group of `width` numbers."""
        return self.record("softmax", [x], x.shape, width=width)

    def weighted_sum(self, x: Value, weights: np.ndarray) -> Value:
        """Sum up each group of as many numbers as there are weights, times these weights."""
        width = len(weights)
        return self.record("weighted_sum", [x], (x.size // width,), {"weights": weights}, width=width)

    def combine(self, how: str, *values: Value) -> Value:
        """Combine two or more values of one shape by 'add', 'subtract', 'multiply', 'maximum' or 'minimum'."""
        first, *others = values
        for other in others:
            first = self.record("combine", [first, other], first.shape, how=how)
        return first

    def concat(self, values: Sequence[Value]) -> Value:
        """Join values along their last axis."""
        if len(values) == 1:
            return values[0]
        leading = values[0].shape[:-1]
        widths = [value.shape[-1] for value in values]
        return self.record("concat", values, (*leading, sum(widths)), rows=math.prod(leading), widths=widths)

    def slice(self, x: Value, begin: int, end: int) -> Value:
        """Select numbers of a row."""
        return x if (begin, end) == (0, x.size) else self.record("slice", [x], (end - begin,), begin=begin, end=end)

    def one_hot(self, x: Value, sizes: Sequence[int], starts: Sequence[int]) -> Value:
        """Encode whole numbers, each as a row of zeros and a one."""
        return self.record("one_hot", [x], (sum(sizes),), sizes=list(sizes), starts=list(starts))

    def gather(self, x: Value, table: np.ndarray, sizes: Sequence[int]) -> Value:
        """Select a row of a table [prod(sizes), n] by whole numbers below sizes; fractions are cut off."""
        strides = [*itertools.accumulate(sizes[:0:-1], lambda total, size: total * size, initial=1)][::-1]
        width = table.shape[1]
        return self.record("gather", [x], (width,), {"table": table}, strides=strides, width=width)

    def argmax(self, x: Value, sizes: Sequence[int], starts: Sequence[int]) -> Value:
        """Find the largest number of each part."""
        return self.record("argmax", [x], (len(sizes),), sizes=list(sizes), starts=list(starts))


def flat(x: Value) -> Value:
    """Return a value as one row; its numbers are in a row already."""
    return Value(x.number, (x.size,))


def _rows_of(**arrays: Any) -> dict[str, np.ndarray]:
    return {name: np.ravel(np.asarray(array, np.float32)) for name, array in arrays.items()}


def _windows(
    image: Sequence[int], size: Sequence[int], strides: Sequence[int], dilation: Sequence[int], padding: str
) -> tuple[list[int], list[int]]:
    """Compute the output's rows and columns, and the padding above and to the left."""
    out, pads = [], []
    for length, window, stride, spread in zip(image, size, strides, dilation, strict=True):
        covered = (window - 1) * spread + 1
        if padding == "same":
            count = -(-length // stride)
            missing = max((count - 1) * stride + covered - length, 0)
        else:
            count, missing = (length - covered) // stride + 1, 0
        out.append(int(count))
        pads.append(int(missing // 2))
    return out, pads
