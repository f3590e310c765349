"""Places of a program's values in one block of memory: values that are never needed together share numbers."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple


class Place(NamedTuple):
    """The place of a value: numbers from `offset` in a block, or in the block of an input by its name."""

    block: str
    offset: int


# Name of the block of values that operations make.
BLOCK = "m"


class Memory(NamedTuple):
    """Places of values by number, and the size of the block."""

    places: dict[int, Place]
    size: int


def placed(
    operations: Sequence[dict[str, Any]], inputs: dict[int, Place], results: Iterable[int], sizes: Sequence[int]
) -> Memory:
    """Place the values of operations in order; `results` are needed until the end.

    A slice has no numbers of its own: it lies in the value that it is cut from.
    """
    roots = _roots(operations)
    last = {number: len(operations) for number in (roots.get(result, (result, 0))[0] for result in results)}
    for step, operation in enumerate(operations):
        for number in operation["inputs"]:
            root = roots.get(number, (number, 0))[0]
            last[root] = max(last.get(root, 0), step)
    places, size = dict(inputs), 0
    taken: dict[int, tuple[int, int]] = {}
    for step, operation in enumerate(operations):
        number = operation["output"]
        if operation["kind"] == "slice":
            root, begin = roots[number]
            places[number] = Place(places[root].block, places[root].offset + begin)
            continue
        offset = _gap(sorted(taken.values()), sizes[number])
        places[number] = Place(BLOCK, offset)
        taken[number] = (offset, offset + sizes[number])
        size = max(size, offset + sizes[number])
        taken = {one: room for one, room in taken.items() if last.get(one, step) > step}
    return Memory(places, size)


def _roots(operations: Iterable[dict[str, Any]]) -> dict[int, tuple[int, int]]:
    """Map slices to the value that they are cut from, and to their begin in it."""
    roots: dict[int, tuple[int, int]] = {}
    for operation in operations:
        if operation["kind"] == "slice":
            (source,) = operation["inputs"]
            root, begin = roots.get(source, (source, 0))
            roots[operation["output"]] = (root, begin + operation["settings"]["begin"])
    return roots


def _gap(taken: Iterable[tuple[int, int]], size: int) -> int:
    """Find the first place for `size` numbers between places that are taken, in ascending order."""
    place = 0
    for begin, end in taken:
        if begin - place >= size:
            break
        place = max(place, end)
    return place
