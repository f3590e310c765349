import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfbaselines.logs.services import EventWriter, masked_crc, read_events

SCALARS = st.dictionaries(st.text(min_size=1), st.floats(width=32, allow_nan=False), max_size=4)


def unmask(masked: int) -> int:
    rotated = (masked - 0xA282EAD8) & 0xFFFFFFFF
    return (rotated >> 17 | rotated << 15) & 0xFFFFFFFF


def test_checksum_is_crc32c():
    # The check value of CRC-32C's specification, and a vector of RFC 3720.
    assert unmask(masked_crc(b"123456789")) == 0xE3069283
    assert unmask(masked_crc(bytes(32))) == 0x8A9136AA


@given(st.lists(st.tuples(st.integers(1, 2**62), SCALARS), max_size=5))
def test_what_was_written_is_read(tmp_path_factory, events):
    writer = EventWriter(tmp_path_factory.mktemp("tb"))
    for step, values in events:
        writer.write(step, values)
    writer.close()
    assert list(read_events(writer.path)) == events


def test_a_record_cut_short_ends_the_file_and_a_damaged_one_is_an_error(tmp_path):
    writer = EventWriter(tmp_path)
    writer.write(1, {"a": 1.0})
    writer.write(2, {"a": 2.0})
    writer.close()
    content = writer.path.read_bytes()
    writer.path.write_bytes(content[:-3])
    assert list(read_events(writer.path)) == [(1, {"a": 1.0})]
    writer.path.write_bytes(content[:-6] + b"\xff" + content[-5:])
    with pytest.raises(ValueError, match="damaged"):
        list(read_events(writer.path))
    writer.path.write_bytes(b"a,b,c\n1,2,3\n4,5,6\n")
    with pytest.raises(ValueError, match="not a TensorBoard event file"):
        list(read_events(writer.path))


def test_tensorflow_reads_it(tmp_path):
    from tensorflow.compat.v1.train import summary_iterator

    writer = EventWriter(tmp_path)
    writer.write(300, {"loss/é": 0.1, "note": "text", "huge": 1e300, "nan": float("nan")})
    writer.close()
    version, event = summary_iterator(str(writer.path))
    assert version.file_version == "brain.Event:2"
    assert event.step == 300 and event.wall_time >= version.wall_time > 1e9
    loss, note, huge, nan = event.summary.value
    assert (loss.tag, loss.simple_value) == ("loss/é", struct.unpack("f", struct.pack("f", 0.1))[0])
    assert note.tensor.string_val == [b"text"] and note.metadata.plugin_data.plugin_name == "text"
    assert np.isposinf(huge.simple_value) and np.isnan(nan.simple_value)
