"""Small functions and classes of baselines and Spinning Up, with their names and arguments; none loads TensorFlow."""

import ast
import datetime
import os
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from tfbaselines.errors import UsageError, warn
from tfbaselines.loading import load_tensorflow

# Spinning Up's guard against divisions by zero, and bounds of sac's logarithm of the deviation.
EPS = 1e-8
LOG_STD_MAX = 2
LOG_STD_MIN = -20


def literal(text: str) -> Any:
    """Parse a Python literal; other text is itself."""
    try:
        return ast.literal_eval(text)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return text


def zipsame(*seqs: Sequence[Any]) -> Iterator[tuple]:
    """Zip sequences of one length; ValueError for others."""
    return zip(*seqs, strict=True)


def fmt_item(x: Any, l: int) -> str:  # noqa: E741
    """Format a value right-aligned in `l` letters."""
    if isinstance(x, np.ndarray):
        x = x.item()
    if not isinstance(x, float | np.floating):
        return str(x).rjust(l)
    small = (abs(x) < 1e-4 or abs(x) > 1e4) and x != 0
    return (f"{x:7.2e}" if small else f"{x:7.5f}").rjust(l)


def fmt_row(width: int, row: Iterable[Any], header: bool = False) -> str:
    """Format a row of a table; a header gets a line below it."""
    out = " | ".join(fmt_item(x, width) for x in row)
    return f"{out}\n{'-' * len(out)}" if header else out


def pretty_eta(seconds_left: int) -> str:
    """Format seconds as days, hours, minutes and seconds."""
    return str(datetime.timedelta(seconds=int(seconds_left)))


class RunningAvg:
    """Exponential moving average; calling it gives the average.

    Args:
        gamma: weight of the old average.
        init_value: average before the first update.
    """

    def __init__(self, gamma: float, init_value: float | None = None) -> None:
        self._value = init_value
        self._gamma = gamma

    def update(self, new_val: float) -> None:
        """Add a value."""
        old = new_val if self._value is None else self._value
        self._value = self._gamma * old + (1.0 - self._gamma) * new_val

    def __call__(self) -> float | None:
        return self._value


def get_wrapper_by_name(env: Any, classname: str) -> Any:
    """Return the wrapper of a class around an environment, by the name of the class."""
    layer = env
    while type(layer).__name__ != classname:
        if not hasattr(layer, "env"):
            raise UsageError(f"couldn't find wrapper named {classname!r:.200}")
        layer = layer.env
    return layer


def relatively_safe_pickle_dump(obj: Any, path: str, compression: bool = False) -> None:
    """Write a pickle whole or not at all, uncompressed."""
    if compression:
        raise UsageError("compression=True has no counterpart: write the file with gzip or zipfile")
    scratch = Path(f"{path}.relatively_safe")
    scratch.write_bytes(pickle.dumps(obj))
    os.replace(scratch, path)


def constfn(val: float) -> Callable[[float], float]:
    """Return a schedule with one value."""
    return lambda _: val


def sf01(arr: np.ndarray) -> np.ndarray:
    """Swap the first two axes, and merge them."""
    return arr.swapaxes(0, 1).reshape(arr.shape[0] * arr.shape[1], *arr.shape[2:])


def safemean(xs: Sequence[float]) -> float:
    """Compute the mean; nan of an empty list."""
    return float(np.mean(xs)) if len(xs) else float("nan")


def explained_variance_2d(ypred: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Compute 1 - Var[y - ypred] / Var[column of y] for each column, as baselines does; 0 for a constant one."""
    variances = np.var(y, axis=0)
    return np.where(variances < 1e-10, 0.0, 1 - np.var(y - ypred) / np.maximum(variances, 1e-10))


def ncc(ypred: np.ndarray, y: np.ndarray) -> float:
    """Compute the correlation coefficient."""
    return float(np.corrcoef(ypred, y)[1, 0])


def mpi_weighted_mean(comm: Any, local_name2valcount: dict[str, tuple[Any, float]]) -> dict[str, float]:
    """Average values over the ranks of a communicator of mpi4py, weighted by their counts.

    Args:
        comm: the communicator.
        local_name2valcount: this rank's value and count by name; values that are no numbers are left out.

    Returns:
        The means by name on rank 0; an empty dict on the others.
    """
    sums: dict[str, float] = {}
    counts: dict[str, float] = {}
    for of_rank in comm.gather(local_name2valcount) or ():
        for name, (value, count) in of_rank.items():
            try:
                number = float(value)
            except (TypeError, ValueError):
                warn(f"{name} is left out of the mean over ranks: {value!r} is no number")
                continue
            sums[name] = sums.get(name, 0.0) + number * count
            counts[name] = counts.get(name, 0.0) + count
    return {name: sums[name] / counts[name] for name in sums}


def flatten_arrays(arrs: Iterable[np.ndarray]) -> np.ndarray:
    """Join arrays to one vector."""
    return np.concatenate([arr.flat for arr in arrs])


def unflatten_vector(vec: np.ndarray, shapes: Iterable[Sequence[int]]) -> list[np.ndarray]:
    """Split a vector into arrays of these shapes."""
    shapes = list(shapes)
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])
    return [part.reshape(shape) for part, shape in zip(np.split(vec, ends)[:-1], shapes, strict=True)]


def discount_with_boundaries(X: np.ndarray, New: np.ndarray, gamma: float) -> np.ndarray:
    """Compute discounted sums of X that end where New is 1: the first step of an episode."""
    Y = np.zeros_like(X)
    Y[-1] = X[-1]
    for t in range(len(X) - 2, -1, -1):
        Y[t] = X[t] + gamma * Y[t + 1] * (1 - New[t + 1])
    return Y


def discount_with_dones(rewards: Sequence[float], dones: Sequence[float], gamma: float) -> list[float]:
    """Compute discounted sums of rewards that end at dones."""
    discounted, total = [], 0.0
    for reward, done in zip(rewards[::-1], dones[::-1], strict=True):
        total = reward + gamma * total * (1.0 - done)
        discounted.append(total)
    return discounted[::-1]


def cg(
    f_Ax: Callable[[np.ndarray], np.ndarray],
    b: np.ndarray,
    cg_iters: int = 10,
    callback: Callable[[np.ndarray], Any] | None = None,
    verbose: bool = False,
    residual_tol: float = 1e-10,
) -> np.ndarray:
    """Solve A x = b by conjugate gradients, with a function that computes A x."""
    p, r = b.copy(), b.copy()
    x = np.zeros_like(b)
    rdotr = r.dot(r)
    for i in range(cg_iters):
        if callback is not None:
            callback(x)
        if verbose:
            print(f"{i:10d} {rdotr:10.3g} {np.linalg.norm(x):10.3g}")
        z = f_Ax(p)
        step = rdotr / p.dot(z)
        x += step * p
        r -= step * z
        old, rdotr = rdotr, r.dot(r)
        p = r + rdotr / old * p
        if rdotr < residual_tol:
            break
    if callback is not None:
        callback(x)
    return x


def iterbatches(
    arrays: Iterable[np.ndarray],
    *,
    num_batches: int | None = None,
    batch_size: int | None = None,
    shuffle: bool = True,
    include_final_partial_batch: bool = True,
) -> Iterator[tuple[np.ndarray, ...]]:
    """Yield batches of rows; give either num_batches or batch_size."""
    if (num_batches is None) == (batch_size is None):
        raise UsageError("give num_batches or batch_size, and not both")
    arrays = tuple(map(np.asarray, arrays))
    rows = np.arange(len(arrays[0]))
    if shuffle:
        # baselines draws from NumPy's global generator, which set_global_seeds seeds.
        np.random.shuffle(rows)
    ends = range(batch_size, len(rows), batch_size) if batch_size else num_batches
    for part in np.array_split(rows, ends):
        if include_final_partial_batch or len(part) == batch_size:
            yield tuple(array[part] for array in arrays)


class Dataset:
    """Rows of several arrays by name, in batches.

    Args:
        data_map: arrays by name, of one length.
        deterministic: keep the order of the rows.
        shuffle: shuffle them before each pass.
    """

    def __init__(self, data_map: dict[str, np.ndarray], deterministic: bool = False, shuffle: bool = True) -> None:
        self.data_map = dict(data_map)
        self.deterministic = deterministic
        self.enable_shuffle = shuffle
        self.n = len(next(iter(data_map.values())))
        self.shuffle()

    def shuffle(self) -> None:
        """Begin a pass, in a new order unless deterministic."""
        self._next_id = 0
        if not self.deterministic:
            order = np.random.permutation(self.n)
            self.data_map = {name: array[order] for name, array in self.data_map.items()}

    def next_batch(self, batch_size: int) -> dict[str, np.ndarray]:
        """Return the next rows, the last of a pass may be fewer."""
        if self._next_id >= self.n and self.enable_shuffle:
            self.shuffle()
        begin = self._next_id
        self._next_id += min(batch_size, self.n - begin)
        return {name: array[begin : self._next_id] for name, array in self.data_map.items()}

    def iterate_once(self, batch_size: int) -> Iterator[dict[str, np.ndarray]]:
        """Yield the whole batches of one pass."""
        if self.enable_shuffle:
            self.shuffle()
        while self._next_id <= self.n - batch_size:
            yield self.next_batch(batch_size)
        self._next_id = 0

    def subset(self, num_elements: int, stochastic: bool = True) -> "Dataset":
        """Return a data set of the first rows."""
        return Dataset({name: array[:num_elements] for name, array in self.data_map.items()}, stochastic)


def combined_shape(length: int, shape: Any = None) -> tuple[int, ...]:
    """Prefix a shape, a number or None by a length."""
    return (length,) if shape is None else (length, shape) if np.isscalar(shape) else (length, *shape)


def discount_cumsum(x: np.ndarray, discount_factor: float) -> np.ndarray:
    """Compute discounted sums of the values from each step on."""
    return discount_with_boundaries(np.asarray(x), np.zeros(len(x)), discount_factor)


class Pd:
    """A batch of distributions, with logp, neglogp, entropy, mode, mean and std of policy.distributions.

    Args:
        pdtype: the action head.
        flat: parameters of the distributions [B, ...].
    """

    def __init__(self, pdtype: "PdType", flat: Any) -> None:
        self._pdtype = pdtype
        self._flat = flat
        self._distribution = pdtype.distribution(flat)

    def flatparam(self) -> Any:
        """Return the parameters."""
        return self._flat

    def kl(self, other: "Pd") -> Any:
        """Compute KL(self || other), [B]."""
        return self._distribution.kl(other._distribution)

    def sample(self, noise: Any = None) -> Any:
        """Draw actions [B, ...], from noise or from NumPy's global generator, which set_global_seeds seeds."""
        import tensorflow as tf

        if noise is None:
            if not tf.executing_eagerly():
                raise ValueError("sample() cannot draw in compiled code: give noise: pdtype.draw_noise(rng, (n,))")
            rng = np.random.default_rng(np.random.randint(2**31))
            noise = self._pdtype.draw_noise(rng, (len(self._flat),))
        return self._distribution.sample(noise)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._distribution, name)


class PdType:
    """The action head of a space in policy.distributions, with baselines' methods."""

    space: type[spaces.Space]

    def __init__(self, size: Any) -> None:
        load_tensorflow()
        from tfbaselines.policy import distributions

        self._head = distributions.make_pdtype(size if isinstance(size, spaces.Space) else self.space(size))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._head, name)

    def pdfromflat(self, flat: Any) -> Pd:
        """Make distributions from parameters [B, ...]."""
        return Pd(self, flat)

    def pdfromlatent(self, *args: Any, **kwargs: Any) -> None:
        """Raise an error that names the alternative: there are no variable scopes."""
        raise UsageError(
            "pdfromlatent has no counterpart: keep layer = keras.layers.Dense(pdtype.param_shape()[0]) and call "
            "pdtype.pdfromflat(layer(latent))"
        )

    def param_shape(self) -> list[int]:
        """Return the shape of one distribution's parameters."""
        return [self.param_size]

    def sample_shape(self) -> list[int]:
        """Return the shape of one action."""
        return list(self.action_shape)

    def sample_dtype(self) -> Any:
        """Return TensorFlow's type of actions."""
        import tensorflow as tf

        return tf.as_dtype(self.action_dtype)


class CategoricalPdType(PdType):
    """Action head of `ncat` actions, or of their space."""

    space = spaces.Discrete

    def __init__(self, ncat: int | spaces.Space) -> None:
        super().__init__(ncat)


class MultiCategoricalPdType(PdType):
    """Action head of several choices, of nvec[0], nvec[1], ... actions, or of their space."""

    space = spaces.MultiDiscrete

    def __init__(self, nvec: Sequence[int] | spaces.Space) -> None:
        super().__init__(nvec)


class DiagGaussianPdType(PdType):
    """Action head of `size` numbers, or of their space."""

    space = spaces.Box

    def __init__(self, size: int | spaces.Space) -> None:
        super().__init__(size if isinstance(size, spaces.Space) else spaces.Box(-np.inf, np.inf, (size,)))


class BernoulliPdType(PdType):
    """Action head of `size` bits, or of their space."""

    space = spaces.MultiBinary


def make_pdtype(ac_space: spaces.Space) -> PdType:
    """Return the action head of an action space."""
    kinds = PdType.__subclasses__()
    return next((kind for kind in kinds if isinstance(ac_space, kind.space)), PdType)(ac_space)
