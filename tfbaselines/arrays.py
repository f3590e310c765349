"""Whether arrays that are about to be allocated fit into the free memory.

Files of arrays, which may come from strangers: sizes and types are checked before anything is allocated.

An archive is a zip of uncompressed .npy members, so that what it holds is never larger than the file. Every array is
of numbers, booleans, times or text; an array of objects, which would need pickle, is refused.
"""

import io
import json
import math
import os
import zipfile
from collections.abc import Mapping
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from tfbaselines.errors import UsageError

GIB = 2.0**30
MIB = 2.0**20


def require_memory(nbytes: float, argument: str, what: str = "the replay") -> None:
    """ValueError, naming the argument to lower, when fewer than `nbytes` are free.

    Args:
        nbytes: about to be allocated.
        argument: the name of the argument that sets the size.
        what: the subject of the error.
    """
    available = available_memory()
    if available is not None and nbytes > available:
        raise UsageError(f"{what} would take {in_units(nbytes)} and {in_units(available)} are free: lower {argument}")


def available_memory() -> int | None:
    """Bytes that can still be allocated (Linux); None where that is unknown."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return None


def in_units(nbytes: float) -> str:
    """A number of bytes in GiB, or in MiB when it is small."""
    return f"{nbytes / GIB:.1f} GiB" if nbytes >= 0.1 * GIB else f"{nbytes / MIB:.2g} MiB"


# Larger archives are refused whatever memory there is.
LARGEST_ARCHIVE = 16 * GIB
# Bytes of one read: zipfile reads the list of members at once, whose size the file sets.
LARGEST_READ = 4 * 2**20
CHUNK = 2**20
# Bytes of a JSON document, how deep it may be nested, and how many times its text it takes when it is parsed, at worst.
LARGEST_DOCUMENT = 16 * 2**20
DEEPEST = 64
DOCUMENT_GROWTH = 64


class Header(NamedTuple):
    """The shape and type of an array in a file."""

    shape: tuple[int, ...]
    fortran_order: bool
    dtype: np.dtype

    @property
    def nbytes(self) -> int:
        """Of the array's data."""
        return math.prod(self.shape) * self.dtype.itemsize


def open_regular(path: str | os.PathLike) -> BinaryIO:
    """Open a file for reading; OSError for a pipe or a device, which might never end."""
    if os.path.exists(path) and not os.path.isfile(path):
        raise OSError(f"'{path}' is not a file")
    return open(path, "rb")


def read_header(file: BinaryIO, size: int) -> Header:
    """Read the header of a .npy file; ValueError unless the data after it have the size that it states.

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
        raise UsageError(f"an array of type {header.dtype} is not accepted")
    entries = math.prod(header.shape)
    if min(header.shape, default=0) < 0 or (entries and header.dtype.itemsize == 0 and entries > size):
        raise UsageError("an array's header states an impossible shape")
    if header.nbytes != size - file.tell():
        raise UsageError(f"an array of shape {header.shape} does not have the bytes that follow")
    return header


def map_array(path: str | os.PathLike) -> np.ndarray:
    """The array of a .npy file, read from the disk when it is used; ValueError when the file is damaged."""
    with open_regular(path) as file:
        header, offset = read_header(file, os.path.getsize(path)), file.tell()
    order = "F" if header.fortran_order else "C"
    if header.nbytes == 0:
        return np.empty(header.shape, header.dtype)
    return np.memmap(path, header.dtype, "r", offset, header.shape, order)


def read_archive(path: str | os.PathLike) -> dict[str, np.ndarray]:
    """Every array of an archive by its member's name without .npy; ValueError before an archive too large is read."""
    size = os.path.getsize(path)
    with _BoundedReader(path) as file, zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        if any(member.compress_type != zipfile.ZIP_STORED for member in members):
            raise UsageError("its members are compressed")
        total = sum(member.file_size for member in members)
        if total > size:
            raise UsageError(f"its members state {total} bytes and the file has {size}")
        check_size(total)
        return {member.filename.removesuffix(".npy"): _read_member(archive, member) for member in members}


def check_size(nbytes: float) -> None:
    """ValueError when reading `nbytes` would exceed the free memory, or any sensible size."""
    available = available_memory()
    most = LARGEST_ARCHIVE if available is None else min(available, LARGEST_ARCHIVE)
    if nbytes > most:
        raise UsageError(f"it holds {in_units(nbytes)} and at most {in_units(most)} can be read")


def parse_document(text: bytes, largest: int = LARGEST_DOCUMENT) -> Any:
    """JSON of bounded size and depth; ValueError when it is damaged or beyond the bounds.

    Args:
        text: the document.
        largest: bytes that are accepted.
    """
    if len(text) > largest:
        raise UsageError(f"its JSON has {in_units(len(text))}, at most {in_units(largest)} are accepted")
    check_size(DOCUMENT_GROWTH * len(text))
    try:
        document = json.loads(text)
    except RecursionError:
        raise UsageError("its JSON is nested too deeply") from None
    check_depth(document)
    return document


def read_document(path: str | os.PathLike, largest: int) -> Any:
    """A JSON file of bounded size and depth; OSError when it cannot be read, ValueError when it is damaged."""
    with open_regular(path) as file:
        return parse_document(file.read(largest + 1), largest)


def check_depth(document: Any) -> None:
    """ValueError when lists and dicts are nested more than DEEPEST levels."""
    level = [document]
    for _ in range(DEEPEST):
        level = [item for part in level for item in _items(part) if isinstance(item, dict | list)]
        if not level:
            return
    raise UsageError("its JSON is nested too deeply")


def _items(part: Any) -> Any:
    if isinstance(part, Mapping):
        return part.values()
    return part if isinstance(part, list) else ()


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
