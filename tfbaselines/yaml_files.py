"""YAML files of strangers: read safely, with a bound of their size; JSON is read as well."""

import datetime
from collections import Counter
from pathlib import Path
from typing import Any

from tfbaselines.errors import UsageError
from tfbaselines.files import open_regular

# Largest size of a file, in bytes, and number of values with aliases written out. PyYAML reads 100 kB in a second.
LARGEST = 2**16
MOST_VALUES = 10_000
# Longest whole number, in bits.
LONGEST_NUMBER = 1024


def read_yaml(path: Path) -> Any:
    """Read a file as numbers, texts, lists and dictionaries; raise a UsageError of one line for any other content."""
    import yaml

    try:
        with open_regular(path) as file:
            text = file.read(LARGEST + 1)
        if len(text) > LARGEST:
            raise UsageError(f"'{path}' is too large for arguments: at most {LARGEST} bytes")
        # YAML forbids the tabs with which JSON may be indented.
        return _plain(_load(text.replace(b"\t", b"  ") if text.lstrip().startswith(b"{") else text))
    except OSError as error:
        raise UsageError(f"'{path}' cannot be read ({(error.strerror or str(error)).lower()})") from None
    except UsageError:
        raise
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UsageError(f"'{path}' is not YAML: {' '.join(str(error).split())[:200]}") from None


def _load(text: bytes) -> Any:
    """Load YAML; refuse duplicate keys, where YAML takes the last one, and aliases that stand for too much."""
    import yaml

    loader = yaml.SafeLoader(text)
    try:
        root = loader.get_single_node()
        _count(root, {})
        return None if root is None else loader.construct_document(root)
    finally:
        loader.dispose()


def _count(node: Any, counted: dict[int, int]) -> int:
    """Count the values of a YAML node with aliases written out, each node once; refuse too many, and circles."""
    import yaml

    if node is None or isinstance(node, yaml.ScalarNode):
        return 1
    if id(node) not in counted:
        # A node that is met again before it is counted contains itself.
        counted[id(node)] = MOST_VALUES
        inner = node.value
        if isinstance(node, yaml.MappingNode):
            keys = Counter(key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode))
            twice = next((key for key, count in keys.items() if count > 1 and key != "<<"), None)
            if twice is not None:
                raise yaml.YAMLError(f"'{twice}' is there twice, in line {node.start_mark.line + 1} or below")
            inner = [part for pair in node.value for part in pair]
        counted[id(node)] = 1 + sum(_count(part, counted) for part in inner)
    if counted[id(node)] >= MOST_VALUES:
        raise yaml.YAMLError(f"more than {MOST_VALUES} values, with aliases written out")
    return counted[id(node)]


def _plain(value: Any) -> Any:
    """Return a value of numbers, texts, lists and dictionaries; a date is its text, and others are refused."""
    if isinstance(value, dict):
        return {_plain(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    if isinstance(value, datetime.date):
        return str(value)
    if not isinstance(value, bool | int | float | str | None):
        raise ValueError(f"a value of type {type(value).__name__} is no argument")
    if isinstance(value, int) and value.bit_length() > LONGEST_NUMBER:
        raise ValueError("a number of many digits")
    return value
