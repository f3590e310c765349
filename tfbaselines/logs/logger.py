"""The logger: values and messages of a run, as a table, text, CSV, JSON lines and TensorBoard curves.

Parts of the library take a `Logger` as an argument; the functions of this module use the current one
(`Logger.CURRENT`), for scripts written for baselines:

    logger.configure("/tmp/run", ["stdout", "csv"])
    logger.logkv("loss", 0.5)
    logger.dumpkvs()
"""

import contextlib
import datetime
import os
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tfbaselines import errors
from tfbaselines.errors import UsageError, bad_argument
from tfbaselines.logs.directory import lock_again
from tfbaselines.logs.formats import (  # noqa: F401
    # The four formats are names of baselines' logger, as the readers below are.
    CSVOutputFormat,
    HumanOutputFormat,
    JSONOutputFormat,
    KVWriter,
    SeqWriter,
    check_format,
    make_output_format,
    read_csv,
    read_json,
)
from tfbaselines.logs.services import TensorBoardOutputFormat, read_tb  # noqa: F401
from tfbaselines.parallel import mpi

DEBUG, INFO, WARN, ERROR, DISABLED = 10, 20, 30, 40, 50

PLAIN = (float, int, str, np.generic, type(None))


class Logger:
    """Collects key-value pairs and writes them, and messages, to its outputs.

    Args:
        dir: the log directory, or None when nothing is written to files.
        output_formats: outputs from `log_formats.make_output_format`, or any KVWriter / SeqWriter.
        comm: when given, `dumpkvs` averages the values over its ranks (every rank must dump). A
            `parallel.mpi.Communicator` or a raw mpi4py one.
    """

    DEFAULT: "Logger | None" = None
    CURRENT: "Logger | None" = None

    def __init__(self, dir: str | None, output_formats: Sequence[KVWriter | SeqWriter], comm: Any = None):
        self.name2val: dict[str, Any] = defaultdict(float)
        self.name2cnt: dict[str, int] = defaultdict(int)
        self.level = INFO
        self.dir = dir
        self.output_formats = list(output_formats)
        self._failed: list[Any] = []
        self.set_comm(comm)

    def logkv(self, key: str, val: Any) -> None:
        """Log a scalar of Python, NumPy or TensorFlow, or a text; a later one under the same key replaces it."""
        self.name2val[key] = val

    def logkv_mean(self, key: str, val: Any) -> None:
        """Log a value; the row has the mean of all values logged under its key since the last dump."""
        old, count = self.name2val[key], self.name2cnt[key]
        self.name2val[key] = old * count / (count + 1) + val / (count + 1)
        self.name2cnt[key] = count + 1

    def logkvs(self, kvs: Mapping[str, Any]) -> None:
        """Log several values."""
        self.name2val.update(kvs)

    def dumpkvs(self) -> dict[str, Any]:
        """Write everything logged since the last dump as one row, and return the row."""
        row = {key: _scalar(key, value) for key, value in self.name2val.items()}
        if self.comm is not None and self.comm.size > 1:
            row = _averaged(self.comm, row, self.name2cnt)
        written = dict(row)
        for output in self._tables:
            self._write(output, output.writekvs, written)
        self.name2val.clear()
        self.name2cnt.clear()
        return row

    def describe(self, parameters: Mapping[str, Any]) -> None:
        """Record a run's arguments in the outputs that have a place for them."""
        for output in self._tables:
            self._write(output, output.describe, parameters)

    def log(self, *args: Any, level: int = INFO) -> None:
        """Write the words `args` as a message if `level` is at or above the logger's.

        A warning goes to standard error if no output takes messages.
        """
        if self.level <= level:
            words, outputs = list(map(str, args)), [one for one in self.output_formats if isinstance(one, SeqWriter)]
            for output in outputs:
                self._write(output, output.writeseq, words)
            if not outputs and level >= WARN:
                errors.warn(" ".join(words))

    def _write(self, output: Any, write: Callable[[Any], None], content: Any) -> None:
        """Write to one output; report a failure once and try again at the next write, since no log may end a run."""
        try:
            if isinstance(output, KVWriter) and (output in self._failed or output.lost()):
                if output not in self._failed:
                    errors.warn(f"{output.path} was removed: a new file takes its place")
                if self.dir:
                    # If the directory was removed too, another run may have locked it since.
                    lock_again(self.dir)
                output.reopen()
            write(content)
            if output in self._failed:
                self._failed.remove(output)
        except (OSError, ValueError) as error:
            if output not in self._failed:
                self._failed.append(output)
                errors.warn(f"{type(output).__name__} cannot be written to ({error}): training goes on")

    def set_level(self, level: int) -> None:
        """Drop messages below this level (DEBUG, INFO, WARN, ERROR, DISABLED)."""
        self.level = level

    def flush(self) -> None:
        """Write the rows that outputs hold back."""
        for output in self._tables:
            output.flush()

    def show_rows(self, rows: str) -> None:
        """Show rows on standard output in one of the ways of config.options.ROWS."""
        for output in self.output_formats:
            if isinstance(output, HumanOutputFormat) and output.path is None:
                output.rows = rows

    def set_comm(self, comm: Any) -> None:
        """Average dumped values over the ranks of this communicator; None for no average."""
        self.comm = None if comm is None else mpi.wrap(comm)

    def get_dir(self) -> str | None:
        return self.dir

    def close(self) -> None:
        """Close the files of all outputs."""
        for output in self._tables:
            output.close()

    @property
    def _tables(self) -> list[KVWriter]:
        return [output for output in self.output_formats if isinstance(output, KVWriter)]


def _scalar(key: str, value: Any) -> Any:
    """Convert TensorFlow values and one-element arrays to scalars; return other values as they are."""
    if isinstance(value, PLAIN):
        return value
    if hasattr(value, "numpy"):
        value = value.numpy()
    if hasattr(value, "dtype"):
        if np.size(value) != 1:
            raise UsageError(f"{key} cannot be logged: an array of shape {np.shape(value)}, accepted is a single value")
        return np.asarray(value).reshape(())[()]
    return value


def _averaged(comm: Any, row: dict[str, Any], counts: Mapping[str, int]) -> dict[str, Any]:
    """Average numbers over ranks, weighted by the count of values behind each; take texts from the lowest rank."""
    gathered: dict[str, list[tuple[Any, int]]] = {}
    for of_rank in comm.gather({key: (value, counts.get(key, 1)) for key, value in row.items()}):
        for key, pair in of_rank.items():
            gathered.setdefault(key, []).append(pair)
    means = {}
    for key, pairs in gathered.items():
        if all(hasattr(value, "__float__") for value, _ in pairs):
            total = sum(count for _, count in pairs)
            means[key] = sum(float(value) * count for value, count in pairs) / total
        else:
            means[key] = pairs[0][0]
    return means


def configure(
    dir: str | os.PathLike | None = None,
    format_strs: Sequence[str] | str | None = None,
    comm: Any = None,
    log_suffix: str = "",
    resume: bool = False,
) -> None:
    """Make a new logger the current one, and print its directory.

    Args:
        dir: log directory, made if missing. Default: the variable OPENAI_LOGDIR, else a dated directory
            `openai-%Y-%m-%d-%H-%M-%S-%f` in the system's temporary one.
        format_strs: some of 'stdout', 'log', 'csv', 'json', 'tensorboard', 'wandb', 'mlflow'. Default: the comma list
            in OPENAI_LOG_FORMAT (else stdout, log, csv); on ranks above 0 in OPENAI_LOG_FORMAT_MPI (else log).
        comm: communicator; each dump averages the values over its ranks.
        log_suffix: put before the extension of the file names; ranks above 0 add '-rank001' and so on.
        resume: append to the files of an earlier run instead of truncating them.
    """
    rank = mpi.wrap(comm).rank if comm is not None else mpi.launched_rank()
    formats = _formats(format_strs, rank)
    if rank > 0:
        log_suffix += f"-rank{rank:03d}"
    directory = _directory(dir, comm)
    outputs: list[KVWriter] = []
    try:
        os.makedirs(directory, exist_ok=True)
        for name in formats:
            outputs.append(make_output_format(name, directory, log_suffix, append=resume))
    except OSError as error:
        for output in outputs:
            output.close()
        why = (error.strerror or str(error)).lower()
        raise bad_argument("log directory", directory, f"a directory that can be written to ({why})") from None
    Logger.CURRENT = Logger(dir=directory, output_formats=outputs, comm=comm)
    if outputs:
        log(f"Logging to {errors.printable(directory)}")


def _directory(dir: str | os.PathLike | None, comm: Any) -> str:
    """Choose the directory: the argument, OPENAI_LOGDIR, or a dated name that rank 0 shares with all ranks."""
    given = os.getenv("OPENAI_LOGDIR") if dir is None else os.fspath(dir)
    if given is not None:
        if not given.strip():
            raise bad_argument("log directory" if dir is None else "dir", given, "the name of a directory")
        # Absolute, as the working directory may change while a run writes there.
        return os.path.abspath(os.path.expanduser(given))
    dated = os.path.join(tempfile.gettempdir(), datetime.datetime.now().strftime("openai-%Y-%m-%d-%H-%M-%S-%f"))
    return dated if comm is None else mpi.wrap(comm).broadcast_object(dated)


def _formats(format_strs: Sequence[str] | str | None, rank: int) -> list[str]:
    """Parse and check the names of the outputs, and drop duplicates."""
    source = "format_strs"
    if format_strs is None:
        source, default = ("OPENAI_LOG_FORMAT_MPI", "log") if rank > 0 else ("OPENAI_LOG_FORMAT", "stdout,log,csv")
        format_strs = os.getenv(source, default)
    if isinstance(format_strs, str):
        format_strs = format_strs.split(",")
    names = list(dict.fromkeys(name.strip() for name in format_strs if name.strip()))
    for name in names:
        check_format(name, source)
    return names


def get_current() -> Logger:
    """Return the current logger; configure a default one if there is none."""
    if Logger.CURRENT is None:
        configure()
        Logger.DEFAULT = Logger.CURRENT
    return Logger.CURRENT


def configured_dir() -> str | None:
    """Return the directory given to configure(), or None if configure() was not called; configure nothing."""
    return None if Logger.CURRENT is None or Logger.CURRENT is Logger.DEFAULT else Logger.CURRENT.dir


def exchange(other: Logger | None) -> Logger | None:
    """Make another logger the current one, and return the one before."""
    before = Logger.CURRENT
    Logger.CURRENT = other
    return before


def reset() -> None:
    """Close the current logger and return to the default one."""
    if Logger.CURRENT is not None and Logger.CURRENT is not Logger.DEFAULT:
        Logger.CURRENT.close()
        Logger.CURRENT = Logger.DEFAULT
        if Logger.CURRENT is not None:
            log("Reset logger")


@contextlib.contextmanager
def scoped_configure(*args: Any, **kwargs: Any) -> Iterator[None]:
    """Configure a logger for a `with` block, and restore the previous logger after it; arguments as in `configure`."""
    before = Logger.CURRENT
    configure(*args, **kwargs)
    inside = Logger.CURRENT
    try:
        yield
    finally:
        inside.close()
        Logger.CURRENT = before


def logkv(key: str, val: Any) -> None:
    """Log a value under a key; a later one replaces it."""
    get_current().logkv(key, val)


def logkv_mean(key: str, val: Any) -> None:
    """Log a value; the row has the mean of all values logged under its key."""
    get_current().logkv_mean(key, val)


def logkvs(d: Mapping[str, Any]) -> None:
    """Log the values of a mapping."""
    get_current().logkvs(d)


def dumpkvs() -> dict[str, Any]:
    """Write everything logged since the last dump as one row, and return the row."""
    return get_current().dumpkvs()


def getkvs() -> dict[str, Any]:
    """Return the values logged since the last dump, by key."""
    return get_current().name2val


def log(*args: Any, level: int = INFO) -> None:
    """Write a message of the given words to the outputs that take messages."""
    get_current().log(*args, level=level)


def debug(*args: Any) -> None:
    """Write a message of level DEBUG."""
    log(*args, level=DEBUG)


def info(*args: Any) -> None:
    """Write a message of level INFO."""
    log(*args, level=INFO)


def warn(*args: Any) -> None:
    """Write a message of level WARN."""
    log(*args, level=WARN)


def error(*args: Any) -> None:
    """Write a message of level ERROR."""
    log(*args, level=ERROR)


def set_level(level: int) -> None:
    """Drop messages below this level in the current logger."""
    get_current().set_level(level)


def set_comm(comm: Any) -> None:
    """Average the current logger's values over the ranks of this communicator."""
    get_current().set_comm(comm)


def get_dir() -> str | None:
    """Return the log directory of the current logger."""
    return get_current().get_dir()


record_tabular = logkv
dump_tabular = dumpkvs


@contextlib.contextmanager
def profile_kv(scopename: str) -> Iterator[None]:
    """Add the seconds spent inside the `with` block to the value `wait_<scopename>`."""
    start = time.perf_counter()
    try:
        yield
    finally:
        get_current().name2val[f"wait_{scopename}"] += time.perf_counter() - start


# The same, as a decorator of functions.
profile = profile_kv
