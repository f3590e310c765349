"""The logger's files, byte by byte those of the original, for each recorded order of the formats."""

import json
from typing import Any

import numpy as np
import pytest
from cases import GOLDEN

from tfbaselines.logs.formats import make_output_format
from tfbaselines.logs.logger import Logger

FILES = {"log": "log.txt", "csv": "progress.csv", "json": "progress.json"}
ORDERS = sorted(path.name for path in GOLDEN.glob("logger_*") if path.is_dir())
TYPES = {"float": float, "int": int, "str": str, "bool": bool}

# The calls that logger_input.json tells in words (its field `extra`).
MEAN_KEY, MEAN_VALUES, MEAN_BEFORE_DUMP = "mean_key", (1.0, 2.0, 4.5), 1
FIRST_LINE, LAST_LINE = ("hello", "world", 3, 0.5), ("end",)


def typed(kind: str, value: Any) -> Any:
    return getattr(np, kind[3:])(value) if kind.startswith("np.") else TYPES[kind](value)


def test_there_are_orders_to_check():
    assert ORDERS, f"no logger_* directory in {GOLDEN}"


@pytest.mark.parametrize("order", ORDERS)
def test_files_equal_the_original_ones(order, tmp_path):
    formats = order.split("_")[1:]
    logger = Logger(str(tmp_path), [make_output_format(name, tmp_path) for name in formats])
    rows = json.loads((GOLDEN / "logger_input.json").read_text())["rows"]
    logger.log(*FIRST_LINE)
    for number, row in enumerate(rows):
        for key, kind, value in row:
            logger.logkv(key, typed(kind, value))
        if number == MEAN_BEFORE_DUMP:
            for value in MEAN_VALUES:
                logger.logkv_mean(MEAN_KEY, value)
        logger.dumpkvs()
    logger.log(*LAST_LINE)
    logger.close()
    for name in formats:
        written, expected = (directory / FILES[name] for directory in (tmp_path, GOLDEN / order))
        assert written.read_bytes() == expected.read_bytes(), FILES[name]
