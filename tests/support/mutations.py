"""Files that are almost what they should be."""

import re

import numpy as np

from tfbaselines.errors import UsageError

# Of arrays that would not fit, that are none, or that would run code.
HEADERS = (
    b"{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999,), }",
    b"{'descr': '<f8', 'fortran_order': False, 'shape': (-3, -8), }",
    b"{'descr': '|O', 'fortran_order': False, 'shape': (3,), }",
    b"{'descr': '<U0', 'fortran_order': False, 'shape': (99999999999999,), }",
    b"{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (3,), }",
    b"{'descr': ('<f8', (9,)), 'fortran_order': False, 'shape': (3,), }",
    b"{'descr': '<f8', 'fortran_order': 3, 'shape': 7, }",
    b"(" * 5000,
    b"__import__('os')",
)


def mutations(whole, count, seed=0):
    """Files that are almost like `whole`: flipped bits, cuts, repeated and overwritten parts, and other headers."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        data = bytearray(whole)
        place, length = int(rng.integers(len(data))), int(rng.integers(1, 64))
        kind = number % 5
        if kind == 0:
            for position in rng.integers(len(data), size=int(rng.integers(1, 9))):
                data[position] ^= 1 << int(rng.integers(8))
        elif kind == 1:
            del data[place:]
        elif kind == 2:
            data[place : place + length] = rng.bytes(length)
        elif kind == 3:
            data[place:place] = data[place : place + length]
        else:
            starts = [match.start() for match in re.finditer(b"\x93NUMPY", whole)] or [place]
            at, header = starts[number % len(starts)], HEADERS[number % len(HEADERS)][:118]
            data[at + 10 : at + 10 + len(header)] = header
        yield bytes(data)


def refused_or_read(load, path):
    """Whether a file is read; anything but a UsageError of one line fails."""
    try:
        load(path)
    except UsageError as error:
        assert len(str(error).splitlines()) == 1 and len(str(error)) < 1000
        return False
    return True
