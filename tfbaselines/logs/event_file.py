"""TensorBoard's event files, written and read without importing TensorFlow, and readers of a run's other logs.

An event file is a sequence of records: length (uint64), masked CRC-32C of the length, data, masked
CRC-32C of the data, all little-endian. The data of a record is one `Event` protocol buffer. This module
encodes the six fields that the logger needs:

    Event          1 wall_time (double)   2 step (varint)   3 file_version (string)   5 summary (Summary)
    Summary        1 value (Value, repeated)
    Summary.Value  1 tag (string)   2 simple_value (float)   8 tensor (TensorProto)   9 metadata
"""

import json
import os
import socket
import struct
import time
from collections.abc import Iterator
from glob import escape, glob
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tfbaselines.errors import UsageError

# Wire types of protocol buffers.
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5

# SummaryMetadata.plugin_data.plugin_name = "text"; TensorProto.dtype = DT_STRING.
TEXT_METADATA = b"\x0a\x06\x0a\x04text"
STRING_DTYPE = b"\x08\x07"


def _crc_table() -> list[int]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


_CRC_TABLE = _crc_table()


def masked_crc(data: bytes) -> int:
    """Compute the CRC-32C (Castagnoli) of `data`, rotated and shifted for the record format."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC_TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | BYTES) + _varint(len(content)) + content


def _value(tag: str, value: float | str) -> bytes:
    name = _field(1, tag.encode())
    if isinstance(value, str):
        text = _field(8, STRING_DTYPE + _field(8, value.encode()))
        return _field(1, name + text + _field(9, TEXT_METADATA))
    return _field(1, name + bytes([2 << 3 | FIXED32]) + struct.pack("<f", _as_float32(value)))


def _as_float32(value: float) -> float:
    """Replace a value that overflows a float32 by an infinity: `struct` raises an error for it."""
    try:
        struct.pack("<f", value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    return value


def _event(body: bytes) -> bytes:
    return bytes([1 << 3 | FIXED64]) + struct.pack("<d", time.time()) + body


class EventWriter:
    """Appends events to a new file `events.out.tfevents.<time>.<host>.<pid>` of a directory.

    Args:
        directory: where the file goes; made if missing.
    """

    def __init__(self, directory: str | os.PathLike):
        os.makedirs(directory, exist_ok=True)
        stamp = f"{time.time():.6f}.{socket.gethostname()}.{os.getpid()}"
        self.path = Path(directory) / f"events.out.tfevents.{stamp}"
        self._file = open(self.path, "wb")  # noqa: SIM115 (open for the writer's lifetime)
        try:
            self._record(_event(_field(3, b"brain.Event:2")))
        except OSError:
            # On a full disk, each further row would leave an empty file.
            self.path.unlink(missing_ok=True)
            raise

    def write(self, step: int, values: dict[str, float | str]) -> None:
        """Write one event with scalars and texts at `step` (>= 0), and flush it to disk."""
        summary = b"".join(_value(tag, value) for tag, value in values.items())
        self._record(_event(bytes([2 << 3 | VARINT]) + _varint(step) + _field(5, summary)))

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        self._file.close()

    def _record(self, data: bytes) -> None:
        length = struct.pack("<Q", len(data))
        self._file.write(length + struct.pack("<I", masked_crc(length)) + data + struct.pack("<I", masked_crc(data)))
        self._file.flush()


def read_events(path: str | os.PathLike) -> Iterator[tuple[int, dict[str, float]]]:
    """Yield (step, scalars) of each event with summaries, up to a record that a crash truncated."""
    for data in _records(path):
        event = _fields(data)
        step = int.from_bytes(event.get(2, [b"\0"])[-1], "little")
        for summary in event.get(5, []):
            values = [_fields(value) for value in _fields(summary).get(1, [])]
            yield step, {v[1][0].decode(): struct.unpack("<f", v[2][0])[0] for v in values if 2 in v}


def _records(path: str | os.PathLike) -> Iterator[bytes]:
    with open(path, "rb") as file:
        while len(header := file.read(12)) == 12:
            length, crc = struct.unpack("<QI", header)
            if crc != masked_crc(header[:8]):
                raise UsageError(f"{path} is not a TensorBoard event file, or is damaged")
            data, tail = file.read(length), file.read(4)
            if len(data) < length or len(tail) < 4:
                return
            if struct.unpack("<I", tail)[0] != masked_crc(data):
                raise UsageError(f"{path} is damaged: a record does not match its checksum")
            yield data


def _fields(message: bytes) -> dict[int, list[bytes]]:
    """Split one protocol buffer into raw fields by number; a varint becomes 8 little-endian bytes."""
    fields: dict[int, list[bytes]] = {}
    at = 0
    while at < len(message):
        key, at = _read_varint(message, at)
        wire = key & 7
        if wire == VARINT:
            number, at = _read_varint(message, at)
            content = (number & 0xFFFFFFFFFFFFFFFF).to_bytes(8, "little")
        else:
            size = {FIXED64: 8, FIXED32: 4}.get(wire)
            if size is None:
                size, at = _read_varint(message, at)
            content, at = message[at : at + size], at + size
        fields.setdefault(key >> 3, []).append(content)
    return fields


def _read_varint(message: bytes, at: int) -> tuple[int, int]:
    """Decode the number at position `at`; return it and the position after it."""
    number = shift = 0
    while True:
        byte = message[at]
        number |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return number, at
        shift += 7


if TYPE_CHECKING:
    import pandas


def read_json(fname: str | os.PathLike) -> "pandas.DataFrame":
    """Read the rows of a progress.json; drop a last line that a crash truncated."""
    import pandas

    with open(fname, encoding="utf-8") as file:
        lines = [line for line in file if line.endswith("\n") and line.strip()]
    try:
        return pandas.DataFrame([json.loads(line) for line in lines])
    except json.JSONDecodeError:
        raise UsageError(f"{fname} is not a log of JSON lines") from None


def read_csv(fname: str | os.PathLike, separator: str = ",") -> "pandas.DataFrame":
    """Read the rows of a progress.csv, or of a monitor file after its first line."""
    import pandas

    with open(fname, encoding="utf-8", newline="") as file:
        if not file.readline().startswith("# {"):
            file.seek(0)
        try:
            return pandas.read_csv(file, index_col=None, sep=separator)
        except pandas.errors.EmptyDataError:
            return pandas.DataFrame()
        except pandas.errors.ParserError as why:
            raise UsageError(f"{fname} is not a table of values: {str(why).strip().splitlines()[-1]}") from None


def read_tb(path: str | os.PathLike) -> "pandas.DataFrame":
    """Read the scalars of a TensorBoard directory or event file: a row for each step, NaN for a missing value.

    If a step occurs twice, the later value counts.
    """
    import pandas

    path = os.fspath(path)
    files = sorted(glob(os.path.join(escape(path), "events.*"))) if os.path.isdir(path) else [path]
    rows: dict[int, dict[str, float]] = {}
    for name in files:
        for step, values in read_events(name):
            if values:
                rows.setdefault(step, {}).update(values)
    steps = sorted(rows)
    columns = {tag: [rows[step].get(tag, np.nan) for step in steps] for tag in sorted({*chain(*rows.values())})}
    return pandas.DataFrame(columns, index=pandas.Index(steps, name="step"))
