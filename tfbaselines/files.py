"""Files and directories that a crash cannot leave half-written, memory for arrays, and readers of strangers' files.

Sizes and types are checked before memory is allocated, and nothing in a file is executed. An archive is a zip of
uncompressed .npy members, so its arrays are never larger than the file. Arrays hold numbers, booleans, times or text;
arrays of objects need pickle and are refused. A caller declares what it expects by `check_array` or `as_declared`.
"""

import contextlib
import io
import itertools
import json
import math
import os
import secrets
import shutil
import stat
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, BinaryIO, NamedTuple

import numpy as np

from tfbaselines.errors import UsageError, bad_argument

# Kind of a special file.
DIRECTORY = "a directory"


def write_whole(path: str | os.PathLike, text: str) -> None:
    """Write `text` to `path`; readers, also after a crash, find the old file or the new one."""
    with replacing(path, encoding="utf-8", newline="") as file:
        file.write(text)


@contextlib.contextmanager
def replacing(path: str | os.PathLike, kind: str = "", **options: Any) -> Iterator[IO[Any]]:
    """Open a new file that takes the place of `path` when the block ends; after an error it is removed.

    Its name is random, and nothing may be there: a link is not followed.

    Args:
        path: the file to replace.
        kind: "b" for a binary file.
        options: further arguments of `open`.
    """
    path = Path(path)
    check_replaceable(path)
    scratch = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        with open(scratch, "x" + kind, **options) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(scratch, path)
    except OSError as error:
        # Errors of a full disk do not name the file.
        if error.errno is not None and error.filename is None:
            error.filename = os.fspath(path)
        raise
    finally:
        scratch.unlink(missing_ok=True)


def check_replaceable(path: str | os.PathLike) -> None:
    """Raise a UsageError for a directory, a link, a device, a pipe or a socket: a new file would destroy it."""
    if kind := special(path):
        raise UsageError(f"cannot save to '{path}': it is {kind}, give the name of a file")


def special(path: str | os.PathLike) -> str | None:
    """Describe what is no regular file; None for a regular file, and where there is nothing."""
    try:
        kind = stat.S_IFMT(os.lstat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return None
    kinds = {stat.S_IFREG: None, stat.S_IFDIR: DIRECTORY, stat.S_IFLNK: "a symbolic link"}
    return kinds.get(kind, "a device, a pipe or a socket")


def check_can_be_written(name: str, path: str) -> None:
    """Raise a UsageError now for the path of an argument that cannot be written to later; make its directory."""
    target = Path(path).expanduser()
    try:
        kind = special(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=target.parent).close()
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise bad_argument(name, path, f"cannot write in '{target.parent!s:.200}' ({why})") from None
    if kind:
        raise bad_argument(name, path, f"{kind}, give the name of a file")


def replace_directory(directory: str | os.PathLike, new: str | os.PathLike) -> None:
    """Replace a directory, if it exists, by another one on its disk; `put_back` repairs the state after a crash."""
    directory = Path(directory)
    aside = _aside(directory)
    if directory.exists():
        shutil.rmtree(aside, ignore_errors=True)
        directory.rename(aside)
    os.rename(new, directory)
    shutil.rmtree(aside, ignore_errors=True)


def put_back(directory: str | os.PathLike) -> None:
    """Restore the old directory if a crash interrupted `replace_directory` before the new one was in place."""
    directory = Path(directory)
    if not directory.exists() and _aside(directory).exists():
        _aside(directory).rename(directory)


def _aside(directory: Path) -> Path:
    return directory.with_name(f".{directory.name}.old")


def drop_torn_line(path: str | os.PathLike) -> None:
    """Cut off a last line without newline, which a crash during a write leaves.

    Call this before a file is continued; otherwise the next row joins the torn one and both are lost. A missing file
    stays missing.
    """
    if not os.path.isfile(path):
        return
    with open(path, "rb+") as file:
        content_end = file.seek(0, os.SEEK_END)
        end = content_end
        while end > 0:
            start = max(0, end - 4096)
            file.seek(start)
            newline = file.read(end - start).rfind(b"\n")
            if newline >= 0:
                end = start + newline + 1
                break
            end = start
        if end < content_end:
            file.truncate(end)


GIB = 2.0**30
MIB = 2.0**20

# Larger archives are refused whatever memory there is.
LARGEST_ARCHIVE = 16 * GIB
# Bytes of one read: zipfile reads the list of members at once, and the file sets its size.
LARGEST_READ = 4 * 2**20
CHUNK = 2**20
# Bytes and nesting of a JSON document, and its memory while it is parsed, at worst, in multiples of its text.
LARGEST_DOCUMENT = 16 * 2**20
DEEPEST = 64
DOCUMENT_GROWTH = 64

NUMBERS = "biuf"


class ArrayError(UsageError):
    """An array of a file is missing or not as declared."""


def require_memory(nbytes: float, argument: str, what: str = "the replay") -> None:
    """Raise a UsageError that names the argument to lower if fewer than `nbytes` are free for `what`."""
    available = available_memory()
    if available is not None and nbytes > available:
        raise UsageError(f"{what} would take {in_units(nbytes)} and {in_units(available)} are free: lower {argument}")


def available_memory() -> int | None:
    """Return the bytes that can still be allocated (Linux); None where they are unknown."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return None


def in_units(nbytes: float) -> str:
    """Format a number of bytes in GiB, or in MiB if it is small."""
    return f"{nbytes / GIB:.1f} GiB" if nbytes >= 0.1 * GIB else f"{nbytes / MIB:.2g} MiB"


def check_size(nbytes: float) -> None:
    """Raise a UsageError if `nbytes` exceed the free memory or LARGEST_ARCHIVE."""
    available = available_memory()
    most = LARGEST_ARCHIVE if available is None else min(available, LARGEST_ARCHIVE)
    if nbytes > most:
        raise UsageError(f"it holds {in_units(nbytes)} and at most {in_units(most)} can be read")


def read_archive(path: str | os.PathLike) -> dict[str, np.ndarray]:
    """Read the arrays of an archive by their members' names without .npy.

    Raises:
        OSError: the file cannot be opened.
        UsageError: the file is damaged, too large or something else.
    """
    with _BoundedReader(path) as file:
        try:
            return _read_members(file)
        except UsageError:
            raise
        except Exception as error:  # A damaged archive makes zipfile and numpy raise almost anything.
            reason = " ".join(str(error)[:200].split()) or type(error).__name__
            raise UsageError(f"it is damaged, pickled or no .npz file: {reason}") from None


def map_array(path: str | os.PathLike) -> np.ndarray:
    """Map the array of a .npy file: it is read from the disk when it is used; UsageError if it is damaged."""
    with open_regular(path) as file:
        header = read_header(file, os.path.getsize(path))
        offset = file.tell()
    order = "F" if header.fortran_order else "C"
    if header.nbytes == 0:
        return np.empty(header.shape, header.dtype)
    return np.memmap(path, header.dtype, "r", offset, header.shape, order)


def check_array(name: str, array: np.ndarray | None, shape: tuple[Any, ...]) -> np.ndarray:
    """Return an array of a file if it has numbers and the declared shape; ArrayError otherwise.

    Args:
        name: name of the array, for errors.
        array: the array; None if the file has none by this name.
        shape: expected; a name stands for any length, and a final ... for any further axes: ("E", "L", 3), ("E", ...).
    """
    if array is None:
        raise ArrayError(f"it has no array '{name}'")
    found = array.shape
    expected = shape
    if shape[-1:] == (...,):
        expected = shape[:-1]
        found = found[: len(expected)]
    if len(found) != len(expected) or any(e != f for f, e in zip(found, expected, strict=True) if isinstance(e, int)):
        raise ArrayError(f"{name} has the shape {array.shape}, expected is {shape}")
    if array.dtype.kind not in NUMBERS:
        raise ArrayError(f"{name} has the type {array.dtype}, expected are numbers")
    return array


def as_declared(name: str, array: np.ndarray | None, shape: tuple[Any, ...], dtype: Any) -> np.ndarray:
    """Convert an array of a file to its declared type; ArrayError if it does not fit or is not finite.

    Args:
        name, array, shape: arguments of `check_array`.
        dtype: type of the result. Integers must be represented exactly.
    """
    array, dtype = check_array(name, array, shape), np.dtype(dtype)
    if not np.isfinite(array).all():
        raise ArrayError(f"{name} has numbers that are not finite")
    converted = array.astype(dtype)
    if dtype.kind in "iu" and not np.array_equal(converted, array):
        raise ArrayError(f"{name} has the type {array.dtype}, expected are whole numbers of type {dtype}")
    return converted


def parse_document(text: bytes, largest: int = LARGEST_DOCUMENT) -> Any:
    """Parse JSON of at most `largest` bytes and bounded depth; UsageError if it is damaged or exceeds the bounds."""
    if len(text) > largest:
        raise UsageError(f"its JSON has {in_units(len(text))}, at most {in_units(largest)} are accepted")
    check_size(DOCUMENT_GROWTH * len(text))
    try:
        document = json.loads(text)
    except RecursionError:
        raise UsageError("its JSON is nested too deeply") from None
    level = [[document]]
    for _ in range(DEEPEST + 1):
        items = itertools.chain.from_iterable(part.values() if isinstance(part, dict) else part for part in level)
        level = [item for item in items if isinstance(item, dict | list)]
        if not level:
            return document
    raise UsageError("its JSON is nested too deeply")


def read_document(path: str | os.PathLike, largest: int) -> Any:
    """Read a JSON file of bounded size and depth; OSError if it cannot be read, ValueError if it is damaged."""
    with open_regular(path) as file:
        return parse_document(file.read(largest + 1), largest)


def open_regular(path: str | os.PathLike) -> BinaryIO:
    """Open a file for reading; OSError for a pipe or a device, which might never end."""
    if os.path.exists(path) and not os.path.isfile(path):
        raise OSError(f"'{path}' is not a file")
    return open(path, "rb")


class Header(NamedTuple):
    """The shape and type of an array in a file."""

    shape: tuple[int, ...]
    fortran_order: bool
    dtype: np.dtype

    @property
    def nbytes(self) -> int:
        """Size of the array's data."""
        return math.prod(self.shape) * self.dtype.itemsize


def read_header(file: BinaryIO, size: int) -> Header:
    """Read the header of a .npy file; UsageError unless the rest of the file has the size that the header states.

    Args:
        file: at its beginning.
        size: bytes of the whole file.
    """
    try:
        if np.lib.format.read_magic(file) != (1, 0):
            raise ValueError
        header = Header(*np.lib.format.read_array_header_1_0(file))
    except Exception:  # numpy parses the header as Python text, which fails in many ways.
        raise UsageError("an array's header is damaged, or of an unknown version") from None
    if header.dtype.hasobject or header.dtype.names or header.dtype.subdtype:
        way_out = ""
        if header.dtype.hasobject:
            way_out = (
                ", since reading it may run code: where you trust the file, numpy.load with allow_pickle reads "
                "it, and tfbaselines.demos.save_demonstrations writes episodes of any length as arrays of numbers"
            )
        raise UsageError(f"an array of type {header.dtype} is not accepted{way_out}")
    entries = math.prod(header.shape)
    if min(header.shape, default=0) < 0 or (entries and header.dtype.itemsize == 0 and entries > size):
        raise UsageError("an array's header states an impossible shape")
    if header.nbytes != size - file.tell():
        raise UsageError(f"an array of shape {header.shape} does not have the bytes that follow")
    return header


def _read_members(file: "_BoundedReader") -> dict[str, np.ndarray]:
    size = os.fstat(file.fileno()).st_size
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        if any(member.compress_type != zipfile.ZIP_STORED for member in members):
            raise UsageError("its members are compressed")
        total = sum(member.file_size for member in members)
        if total > size:
            raise UsageError(f"its members state {total} bytes and the file has {size}")
        check_size(total)
        return {member.filename.removesuffix(".npy"): _read_member(archive, member) for member in members}


def _read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    with archive.open(member) as file:
        header = read_header(file, member.file_size)
        data = np.empty(header.nbytes, np.uint8)
        view, place = memoryview(data), 0
        # The last read reaches the end, where zipfile compares the checksum.
        while chunk := file.read(CHUNK):
            view[place : place + len(chunk)] = chunk
            place += len(chunk)
    if place != header.nbytes:
        raise UsageError(f"member {member.filename!r} is cut off")
    array = data.view(header.dtype) if header.dtype.itemsize else np.empty(math.prod(header.shape), header.dtype)
    return array.reshape(header.shape, order="F" if header.fortran_order else "C")


class _BoundedReader(io.FileIO):
    """A file that refuses to be read in large pieces."""

    def read(self, size: int = -1, /) -> bytes:
        if size < 0:
            size = os.fstat(self.fileno()).st_size - self.tell()
        if size > LARGEST_READ:
            raise UsageError(f"its list of members is larger than {in_units(LARGEST_READ)}")
        return super().read(size)
