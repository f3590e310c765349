"""Outputs of the logger to TensorBoard, Weights & Biases and MLflow.

TensorBoard's event files are written and read without TensorFlow. An event file is a sequence of records: length
(uint64), masked CRC-32C of the length, data, masked CRC-32C of the data, all little-endian. The data of a record is
one `Event` protocol buffer. This module encodes the six fields that the logger needs:

    Event          1 wall_time (double)   2 step (varint)   3 file_version (string)   5 summary (Summary)
    Summary        1 value (Value, repeated)
    Summary.Value  1 tag (string)   2 simple_value (float)   8 tensor (TensorProto)   9 metadata

The user installs the packages of Weights & Biases and MLflow. Their own variables set where they send data: WANDB_MODE,
WANDB_PROJECT, MLFLOW_TRACKING_URI. By default MLflow writes into the log directory.
"""

import contextlib
import importlib
import os
import socket
import struct
import time
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from functools import cached_property
from glob import escape, glob
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tfbaselines.errors import UsageError
from tfbaselines.files import open_regular
from tfbaselines.logs.formats import STEPS, KVWriter

if TYPE_CHECKING:
    import pandas

PROJECT = "tfbaselines"


class Service(KVWriter):
    """An output to an optional package; a resumed run continues the same record.

    Args:
        directory: the log directory; the record's id is kept there.
        append: continue that record.
    """

    package = ""
    # Name of the distribution that pip installs.
    requirement = ""

    def __init__(self, directory: str | os.PathLike, append: bool = False) -> None:
        try:
            self._module = importlib.import_module(self.package)
        except ImportError:
            needed = f"log format '{self.package}' needs the package: pip install {self.requirement}"
            raise UsageError(needed) from None
        self.directory = Path(directory)
        self._rows = 0
        kept = self.directory / f"{self.package}_id.txt"
        known = kept.read_text(encoding="utf-8").strip() if append and kept.exists() else None
        try:
            kept.write_text(self._begin(known), encoding="utf-8")
        except Exception as error:
            why = " ".join(str(error).split())[:300]
            raise UsageError(f"log format '{self.package}' could not begin ({type(error).__name__}: {why})") from None

    @abstractmethod
    def _begin(self, known: str | None) -> str:
        """Begin a record, or continue the one with this id; return its id."""

    def writekvs(self, kvs: dict[str, Any]) -> None:
        numbers = {key: float(value) for key, value in kvs.items() if hasattr(value, "__float__")}
        self._rows += 1
        step = int(next((numbers[name] for name in STEPS if name in numbers), self._rows))
        try:
            self._write(numbers, step)
        except Exception as error:
            # The package may raise errors of any type; the logger continues after an OSError.
            raise OSError(f"{type(error).__name__}: {error}") from error

    @abstractmethod
    def _write(self, numbers: dict[str, float], step: int) -> None:
        """Write one row; failures of any kind may be raised."""


class Wandb(Service):
    """Weights & Biases."""

    package = requirement = "wandb"

    def _begin(self, known: str | None) -> str:
        project = os.environ.get("WANDB_PROJECT", PROJECT)
        self._run = self._module.init(project=project, dir=str(self.directory), id=known, resume="allow")
        return self._run.id

    def describe(self, parameters: Mapping[str, Any]) -> None:
        self._run.config.update(dict(parameters), allow_val_change=True)

    def _write(self, numbers: dict[str, float], step: int) -> None:
        self._run.log(numbers, step=step)

    def close(self) -> None:
        if self._run is not None:
            self._run.finish()
            self._run = None


class Mlflow(Service):
    """MLflow."""

    package, requirement = "mlflow", "mlflow-skinny"

    def _begin(self, known: str | None) -> str:
        if "MLFLOW_TRACKING_URI" not in os.environ:
            # Plain files need no database; newer versions require this variable for them.
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
            self._module.set_tracking_uri((self.directory.resolve() / "mlruns").as_uri())
        if known is None:
            self._module.set_experiment(PROJECT)
        self._open = True
        return self._module.start_run(run_id=known).info.run_id

    def describe(self, parameters: Mapping[str, Any]) -> None:
        """Record the arguments of a new record; MLflow refuses to change the arguments of a resumed one."""
        if self._rows == 0 and not self._module.active_run().data.params:
            self._module.log_params({name: str(value)[:500] for name, value in parameters.items()})

    def _write(self, numbers: dict[str, float], step: int) -> None:
        # MLflow does not accept every character in a name.
        self._module.log_metrics({key.replace("%", "percent").strip(): value for key, value in numbers.items()}, step)

    def close(self) -> None:
        if self._open:
            self._module.end_run()
            self._open = False


SERVICES: dict[str, type[Service]] = {"wandb": Wandb, "mlflow": Mlflow}


# Wire types of protocol buffers.
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5

# SummaryMetadata.plugin_data.plugin_name = "text"; TensorProto.dtype = DT_STRING.
TEXT_METADATA = b"\x0a\x06\x0a\x04text"
STRING_DTYPE = b"\x08\x07"
# TensorProto.dtype = DT_FLOAT, as _fields gives it, and the size of a float.
FLOAT_DTYPE = (1).to_bytes(8, "little")
FLOAT_SIZE = 4
# Bytes of the largest number in a protocol buffer.
LONGEST_VARINT = 10


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
    with np.errstate(over="ignore"):
        number = np.array(value, "<f4").tobytes()
    return _field(1, name + bytes([2 << 3 | FIXED32]) + number)


def _event(body: bytes) -> bytes:
    return bytes([1 << 3 | FIXED64]) + struct.pack("<d", time.time()) + body


class EventWriter:
    """Appends events to a new file `events.out.tfevents.<time>.<host>.<pid>` of a directory."""

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
        self._file.close()

    def _record(self, data: bytes) -> None:
        length = struct.pack("<Q", len(data))
        self._file.write(length + struct.pack("<I", masked_crc(length)) + data + struct.pack("<I", masked_crc(data)))
        self._file.flush()


def read_events(path: str | os.PathLike) -> Iterator[tuple[int, dict[str, float]]]:
    """Yield (step, scalars) of each event with summaries, up to a record that a crash truncated."""
    for _, step, values in read_summaries(path):
        yield step, {tag: value for tag, value in values.items() if isinstance(value, float)}


def read_summaries(path: str | os.PathLike) -> Iterator[tuple[float, int, dict[str, float | str]]]:
    """Yield (wall time, step, scalars and texts) of each event with summaries."""
    for data in _records(path):
        event = _fields(data)
        (seconds,) = struct.unpack("<d", event.get(1, [bytes(8)])[-1])
        step = int.from_bytes(event.get(2, [b"\0"])[-1], "little")
        for summary in event.get(5, []):
            values = [_fields(value) for value in _fields(summary).get(1, [])]
            found = {value[1][0].decode(): _decoded(value) for value in values if 1 in value}
            yield seconds, step, {tag: value for tag, value in found.items() if value is not None}


def _decoded(value: dict[int, list[bytes]]) -> float | str | None:
    """Return the scalar or text of a Summary.Value; None for images, histograms and the like.

    TensorProto: 1 dtype   4 tensor_content (bytes)   5 float_val   8 string_val
    """
    if 2 in value:
        return struct.unpack("<f", value[2][0])[0]
    tensor = _fields(value[8][0]) if 8 in value else {}
    if 8 in tensor:
        return tensor[8][0].decode(errors="replace")
    content = next((tensor[field][0] for field in (4, 5) if field in tensor), b"")
    is_scalar = len(content) == FLOAT_SIZE and tensor.get(1, [b""])[0] == FLOAT_DTYPE
    return struct.unpack("<f", content)[0] if is_scalar else None


def _records(path: str | os.PathLike) -> Iterator[bytes]:
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        while len(header := file.read(12)) == 12:
            length, crc = struct.unpack("<QI", header)
            if crc != masked_crc(header[:8]):
                raise UsageError(f"{path} is not a TensorBoard event file, or is damaged")
            # A run that goes on may have grown the file.
            if length > size - file.tell():
                return
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
    for byte in message[at : at + LONGEST_VARINT]:
        number |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return number, at
        shift += 7
    raise UsageError("a number of an event has no end")


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


class TensorBoardOutputFormat(KVWriter):
    """Writes event files for TensorBoard; the step is the dump's environment steps, or else the number of dumps.

    Texts go to TensorBoard's text tab.

    Args:
        append: continue counting after the last step in the directory.
    """

    def __init__(self, directory: str | os.PathLike, append: bool = False):
        self.path = Path(directory)
        self.path.mkdir(parents=True, exist_ok=True)
        if not append:
            for old in self.path.glob("events.*"):
                # A new run begins new curves, as in the other formats.
                old.unlink()
        self._writer: EventWriter | None = None
        self._description = ""

    @cached_property
    def step(self) -> int:
        """Step of the next dump; computed on first use, since a resumed run first truncates its logs."""
        return 1 + max((_last_step(path) for path in self.path.glob("events.*")), default=0)

    def writekvs(self, kvs: dict[str, Any]) -> None:
        texts = {key: value for key, value in kvs.items() if isinstance(value, str)}
        drawn = texts | {key: float(value) for key, value in kvs.items() if hasattr(value, "__float__")}
        steps = next((drawn[name] for name in STEPS if name in drawn), self.step)
        if self._writer is None:
            self._writer = EventWriter(self.path)
            if self._description:
                self._writer.write(0, {"hyper-parameters": self._description})
        self._writer.write(int(steps), drawn)
        self.step += 1

    def describe(self, parameters: Mapping[str, Any]) -> None:
        """Write a table under 'hyper-parameters' in the text tab, with the first dump."""
        rows = [f"| {name} | {str(value).replace('|', chr(92) + '|')} |" for name, value in parameters.items()]
        self._description = "\n".join(["| argument | value |", "|---|---|", *rows])

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()

    def lost(self) -> bool:
        return self._writer is not None and not self._writer.path.exists()

    def reopen(self) -> None:
        """Continue in a new file, which the next row begins."""
        with contextlib.suppress(OSError):
            self.close()
        self._writer = None


def _last_step(path: Path) -> int:
    """Read the last step of an event file, up to a damaged record."""
    last = 0
    # A damaged file must not prevent a run from being resumed.
    with contextlib.suppress(ValueError):
        for step, _ in read_events(path):
            last = max(last, step)
    return last
