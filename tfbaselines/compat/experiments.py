"""Spinning Up's experiments, which run an algorithm for every combination of arguments, its logger and its buffers.

A grid of data is a study in its data_dir, see experiment_cells.py. A grid with functions that have no name runs here.
"""

import itertools
import os
import string
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import cloudpickle
import numpy as np

from tfbaselines.compat.experiment_cells import Experiment, NotData, cells_of, function_named
from tfbaselines.compat.experiment_run import make_env, ranks_of
from tfbaselines.compat.experiment_work import carry_out
from tfbaselines.compat.helpers import combined_shape, discount_cumsum
from tfbaselines.compat.mpi_tools import mpi_statistics_scalar
from tfbaselines.errors import UsageError, bad_argument, check_at_least
from tfbaselines.logs import statistics as epoch_logger
from tfbaselines.parallel import mpi
from tfbaselines.study.process import call
from tfbaselines.training.checkpoint import save_tree

# Spinning Up's user_config.
DEFAULT_DATA_DIR = "data"
DEFAULT_BACKEND = dict.fromkeys(("vpg", "trpo", "ppo", "ddpg", "td3", "sac"), "tf1")
FORCE_DATESTAMP = False
DEFAULT_SHORTHAND = True
WAIT_BEFORE_LAUNCH = 0

LETTERS_OF_SHORTHANDS = 3
VALID = frozenset(f"-_{string.ascii_letters}{string.digits}")


def setup_logger_kwargs(
    exp_name: str, seed: int | None = None, data_dir: str | None = None, datestamp: bool = False
) -> dict[str, str]:
    """Make the logger_kwargs of a run: output_dir is DATA_DIR/EXP_NAME/EXP_NAME_sSEED.

    Args:
        exp_name: name of the experiment.
        seed: seed of the run; None omits the inner directory.
        data_dir: directory of the results; None for 'data' in the working directory.
        datestamp: begin the directory's name with the date, and the inner one's with date and time.
    """
    outer = f"{time.strftime('%Y-%m-%d_')}{exp_name}" if datestamp else exp_name
    inner = "" if seed is None else f"{time.strftime('%Y-%m-%d_%H-%M-%S-') if datestamp else ''}{exp_name}_s{seed}"
    return {"output_dir": os.path.join(data_dir or DEFAULT_DATA_DIR, outer, inner), "exp_name": exp_name}


def all_bools(vals: Sequence[Any]) -> bool:
    """Return True if all values are True or False."""
    return all(isinstance(value, bool) for value in vals)


def valid_str(v: Any) -> str:
    """Convert a value to a part of a file's name, with '-' for special characters."""
    if hasattr(v, "__name__"):
        return valid_str(v.__name__)
    if isinstance(v, list | tuple):
        return "-".join(map(valid_str, v))
    return "".join(letter if letter in VALID else "-" for letter in str(v).lower())


def call_experiment(
    exp_name: str,
    thunk: Callable[..., Any],
    seed: int = 0,
    num_cpu: int | str = 1,
    data_dir: str | None = None,
    datestamp: bool = False,
    **kwargs: Any,
) -> str | None:
    """Call thunk(seed=seed, logger_kwargs=..., **kwargs) in a process of its own, or in the ranks of an mpirun.

    Args:
        exp_name, data_dir, datestamp: arguments of setup_logger_kwargs.
        thunk: function to run, such as tfbaselines.ppo.
        seed: seed of the run.
        num_cpu: number of ranks; 'auto' for the number of usable cores.
        kwargs: arguments of thunk; 'env_name' becomes an env_fn that makes this environment.

    Returns:
        The directory of the run.
    """
    ranks = ranks_of(num_cpu)
    kwargs = {"seed": seed, "logger_kwargs": setup_logger_kwargs(exp_name, seed, data_dir, datestamp)} | kwargs
    if "env_name" in kwargs:
        kwargs["env_fn"] = partial(make_env, kwargs.pop("env_name"))
    with tempfile.NamedTemporaryFile(suffix=".experiment") as file:
        file.write(cloudpickle.dumps(partial(thunk, **kwargs)))
        file.flush()
        launcher = mpi.mpirun_command(ranks) if ranks > 1 else []
        command = [*launcher, sys.executable, "-m", __name__, file.name]
        status = call(command)
    if status:
        raise RuntimeError(f"experiment '{exp_name}' with seed {seed} failed with status {status}")
    return (kwargs["logger_kwargs"] or {}).get("output_dir")


class ExperimentGrid:
    """Runs of an algorithm for all combinations of values.

    Attributes:
        keys, vals, shs, in_names: arguments of the calls of `add`.

    Args:
        name: name of the experiment, and prefix of the variants' names.
    """

    def __init__(self, name: str = "") -> None:
        if not isinstance(name, str):
            raise bad_argument("name", name, "text")
        self.name = name
        self.keys: list[str] = []
        self.vals: list[Sequence[Any]] = []
        self.shs: list[str] = []
        self.in_names: list[bool] = []

    def add(self, key: str, vals: Any, shorthand: str | None = None, in_name: bool = False) -> None:
        """Add an argument.

        Args:
            key: name of the argument; 'ac_kwargs:hidden_sizes' is an entry of a dictionary.
            vals: list of values, or one value.
            shorthand: abbreviation of the key in names, '' for none; None for the first three letters of its parts.
            in_name: include the argument in the variants' names even if it has one value.
        """
        if not isinstance(key, str) or not key or not key[0].isalnum():
            raise bad_argument("key", key, "the name of an argument")
        if shorthand is not None and not ((isinstance(shorthand, str) and shorthand[:1].isalnum()) or shorthand == ""):
            raise bad_argument("shorthand", shorthand, "a name, or an empty text for none")
        self.keys.append(key)
        self.vals.append(vals if isinstance(vals, list) else [vals])
        self.shs.append(_shorthand(key) if shorthand is None else shorthand)
        self.in_names.append(in_name)

    def variants(self) -> list[dict[str, Any]]:
        """List the arguments of every run; the values of the last key change first."""
        variants = []
        for values in itertools.product(*self.vals):
            variant: dict[str, Any] = {}
            for key, value in zip(self.keys, values, strict=True):
                *outer, last = key.split(":")
                inner = variant
                for part in outer:
                    inner = inner.setdefault(part, {})
                inner[last] = value
            variants.append(variant)
        return variants

    def variant_name(self, variant: dict[str, Any]) -> str:
        """Return the name of a run without its seed: the grid's name and the arguments that vary."""
        name = self.name
        for key, values, shorthand, in_name in zip(self.keys, self.vals, self.shs, self.in_names, strict=True):
            if key == "seed" or not (len(values) > 1 or in_name):
                continue
            value: Any = variant
            for part in key.split(":"):
                value = value[part]
            if not all_bools(values):
                name += f"_{valid_str(shorthand)}{valid_str(value)}"
            elif value:
                name += f"_{valid_str(shorthand)}"
        return name.lstrip("_")

    def run(
        self,
        thunk: Callable[..., Any] | str,
        num_cpu: int | str = 1,
        data_dir: str | None = None,
        datestamp: bool = False,
        jobs: int = 1,
    ) -> list[str | None]:
        """Run every variant in a process of its own; the same call again continues the runs that are not done.

        Runs of Spinning Up's algorithms, and of functions given by their names, with arguments that are data (or
        functions that can be imported) are cells of a study in data_dir. Others start over, one after the other.

        Args:
            thunk: function to run, its name 'module:function', or the key of the grid that has functions as values.
            num_cpu, data_dir, datestamp: arguments of call_experiment.
            jobs: runs at once, which share the cores; one run at a time writes to the terminal.

        Returns:
            The directories of the runs.
        """
        ranks_of(num_cpu)
        check_at_least(1, jobs=jobs)
        experiments = self._experiments(thunk)
        self.print()
        study = data_dir or DEFAULT_DATA_DIR

        def place(one: Experiment) -> str:
            return setup_logger_kwargs(one.name, one.seed, study, datestamp)["output_dir"]

        try:
            cells = cells_of(experiments, num_cpu, study, place, datestamp)
        except NotData as why:
            print(f"no run can be continued, and one runs at a time, since {why}", flush=True)
            return [_called(one, num_cpu=num_cpu, data_dir=data_dir, datestamp=datestamp) for one in experiments]
        carry_out(cells, study, jobs)
        return [os.path.join(study, cell.directory) for cell in cells]

    def _experiments(self, thunk: Callable[..., Any] | str) -> list[Experiment]:
        """List the variants as experiments, with their functions."""
        by_key = isinstance(thunk, str) and thunk in self.keys
        functions = dict(zip(self.keys, self.vals, strict=True))[thunk] if by_key else [thunk]
        for function in functions:
            if not callable(function) and not (isinstance(function, str) and ":" in function):
                accepted = "a function, or the key of the grid that has functions as values, or 'module:function'"
                raise bad_argument("thunk", thunk, accepted)
        experiments = []
        for variant in self.variants():
            name = self.variant_name(variant)
            experiments.append(Experiment(name, variant.pop(thunk) if by_key else thunk, variant))
        return experiments

    def print(self) -> None:
        """Print the arguments and their values."""
        print(f"ExperimentGrid [{self.name}]: {len(self.variants())} runs")
        for key, values, shorthand in zip(self.keys, self.vals, self.shs, strict=True):
            print(f"  {key} [{shorthand}]: {', '.join(map(str, values))}", flush=True)


def _called(one: Experiment, **kwargs: Any) -> str | None:
    """Run an experiment that is no cell of a study."""
    print(f"running {one.name}, seed {one.seed}", flush=True)
    function = function_named(one.function) if isinstance(one.function, str) else one.function
    return call_experiment(one.name, function, **kwargs, **one.arguments)


def _shorthand(key: str) -> str:
    """Abbreviate a key by the first letters of its parts, without underscores."""
    parts = (part[:LETTERS_OF_SHORTHANDS] for part in key.split(":"))
    return "-".join("".join(filter(str.isalnum, part)) for part in parts)


class EpochLogger(epoch_logger.EpochLogger):
    """The logger of logs/statistics.py with Spinning Up's `save_state`."""

    _model: Any = None

    def setup_tf_saver(self, model: Any, *_: Any, **further: Any) -> None:
        """Choose the model that `save_state` saves; Spinning Up's inputs and outputs are ignored."""
        if not callable(getattr(model, "save", None)):
            accepted = "a model that learn returned, or another object with save(path); there are no sessions"
            raise bad_argument("model", model, accepted)
        self._model = model

    setup_pytorch_saver = setup_tf_saver

    def save_state(self, state_dict: dict[str, Any], itr: int | None = None) -> None:
        """Write `vars{itr}.npz`, and `model{itr}.npz` of the model, on rank 0.

        tfbaselines.load and model.load read the model; load_tree of training/checkpoint.py reads the state.

        Args:
            state_dict: arrays, numbers, text, and lists and dicts of them; other objects, such as an environment, are
                omitted with a warning.
            itr: part of the files' names; None for files that each call overwrites.
        """
        if self.comm.rank:
            return
        number = "" if itr is None else f"{itr:d}"
        left_out = [name for name, value in state_dict.items() if not _can_be_saved(value)]
        if left_out:
            self.log(f"Warning: not saved, neither arrays nor numbers nor text: {', '.join(left_out)}", color="red")
        state = {name: value for name, value in state_dict.items() if name not in left_out}
        save_tree(os.path.join(self.output_dir, f"vars{number}.npz"), state)
        if self._model is not None:
            self._model.save(os.path.join(self.output_dir, f"model{number}.npz"))


def _can_be_saved(value: Any) -> bool:
    if isinstance(value, dict):
        return all(isinstance(name, str) and _can_be_saved(item) for name, item in value.items())
    if isinstance(value, list | tuple):
        return all(map(_can_be_saved, value))
    if isinstance(value, np.ndarray | np.generic):
        return not value.dtype.hasobject
    return value is None or isinstance(value, bool | int | float | str)


class PPOBuffer:
    """Spinning Up's buffer of one epoch, with GAE lambda.

    Args:
        obs_dim, act_dim: shapes of an observation and of an action.
        size: number of steps.
        gamma: discount factor.
        lam: GAE lambda.
    """

    def __init__(self, obs_dim: Any, act_dim: Any, size: int, gamma: float = 0.99, lam: float = 0.95) -> None:
        shapes = {"obs": combined_shape(size, obs_dim), "act": combined_shape(size, act_dim)}
        names = ("obs", "act", "rew", "val", "logp", "adv", "ret")
        self.data = {name: np.zeros(shapes.get(name, size), np.float32) for name in names}
        self.gamma = gamma
        self.lam = lam
        self.ptr, self.path_start_idx, self.max_size = 0, 0, size

    def store(self, obs: Any, act: Any, rew: float, val: float, logp: float) -> None:
        """Add a step."""
        if self.ptr >= self.max_size:
            raise UsageError(f"the buffer is full with {self.max_size} steps: call get()")
        for name, value in zip(("obs", "act", "rew", "val", "logp"), (obs, act, rew, val, logp), strict=True):
            self.data[name][self.ptr] = value
        self.ptr += 1

    def finish_path(self, last_val: float = 0) -> None:
        """End a trajectory, with the value of the state after it: 0 after a terminal step."""
        path = slice(self.path_start_idx, self.ptr)
        rews, vals = (np.append(self.data[name][path], last_val) for name in ("rew", "val"))
        deltas = rews[:-1] + self.gamma * vals[1:] - vals[:-1]
        self.data["adv"][path] = discount_cumsum(deltas, self.gamma * self.lam)
        self.data["ret"][path] = discount_cumsum(rews, self.gamma)[:-1]
        self.path_start_idx = self.ptr

    def get(self) -> dict[str, np.ndarray]:
        """Return the epoch, with advantages standardized over all ranks, and empty the buffer."""
        if self.ptr != self.max_size:
            raise UsageError(f"the buffer has {self.ptr} steps of {self.max_size}: fill it first")
        self.ptr, self.path_start_idx = 0, 0
        mean, std = mpi_statistics_scalar(self.data["adv"])
        self.data["adv"] = (self.data["adv"] - mean) / std
        return {name: self.data[name].copy() for name in ("obs", "act", "ret", "adv", "logp")}


class GAEBuffer(PPOBuffer):
    """Spinning Up's buffer of trpo: PPOBuffer with the parameters of each step's distribution.

    Args:
        obs_dim, act_dim, size: see PPOBuffer.
        info_shapes: name of each parameter and its shape, such as {"mu": (2,), "log_std": (2,)}.
        rates, named: gamma and lam, see PPOBuffer.
    """

    def __init__(
        self, obs_dim: Any, act_dim: Any, size: int, info_shapes: dict[str, Any], *rates: float, **named: float
    ) -> None:
        super().__init__(obs_dim, act_dim, size, *rates, **named)
        self.info_bufs = {
            name: np.zeros(combined_shape(size, shape), np.float32) for name, shape in sorted(info_shapes.items())
        }

    def store(self, obs: Any, act: Any, rew: float, val: float, logp: float, info: dict[str, Any]) -> None:
        """Add a step."""
        super().store(obs, act, rew, val, logp)
        for name, buffer in self.info_bufs.items():
            buffer[self.ptr - 1] = info[name]

    def get(self) -> list[np.ndarray]:
        """Return obs, act, adv, ret, logp and the parameters by name, see PPOBuffer.get."""
        epoch = super().get()
        names = ("obs", "act", "adv", "ret", "logp")
        return [epoch[name] for name in names] + [buffer.copy() for buffer in self.info_bufs.values()]


class ReplayBuffer:
    """Spinning Up's buffer of transitions in a ring.

    Args:
        obs_dim, act_dim: shapes of an observation and of an action.
        size: number of transitions that it keeps.
    """

    def __init__(self, obs_dim: Any, act_dim: Any, size: int) -> None:
        shapes = {"obs": obs_dim, "act": act_dim, "rew": None, "obs2": obs_dim, "done": None}
        self.data = {name: np.zeros(combined_shape(size, shape), np.float32) for name, shape in shapes.items()}
        self.ptr, self.size, self.max_size = 0, 0, size

    def store(self, obs: Any, act: Any, rew: float, next_obs: Any, done: bool) -> None:
        """Add a transition in place of the oldest one."""
        for name, value in zip(("obs", "act", "rew", "obs2", "done"), (obs, act, rew, next_obs, done), strict=True):
            self.data[name][self.ptr] = value
        self.ptr = (self.ptr + 1) % self.max_size
        self.size = min(self.size + 1, self.max_size)

    def sample_batch(self, batch_size: int = 32) -> dict[str, np.ndarray]:
        """Draw transitions by NumPy's global generator."""
        rows = np.random.randint(0, self.size, size=batch_size)
        return {name: array[rows] for name, array in self.data.items()}


if __name__ == "__main__":
    # The call that call_experiment wrote.
    with open(sys.argv[1], "rb") as written:
        cloudpickle.loads(written.read())()
