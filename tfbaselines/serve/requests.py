"""Requests of the server: JSON becomes arrays that fit the policy, or an error for the client."""

import json
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces

from tfbaselines.export.interface import MASKS, STATES, Interface, Port

# Observations in one request.
MOST_ROWS = 1024
KEYS = ("observations", "states", "masks", "deterministic")


class BadRequestError(Exception):
    """A request that cannot be answered, with the HTTP status that says why."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Request:
    """A request with a batch of observations.

    Attributes:
        parts: [B, ...] observations by part.
        states: [B, S] memory, or None for a feed-forward policy.
        masks: [B] 1 for the first observations of episodes, or None.
        deterministic: take the most likely actions.
        single: the request had one observation without the axis of a batch.
    """

    parts: dict[str, np.ndarray]
    states: np.ndarray | None
    masks: np.ndarray | None
    deterministic: bool
    single: bool

    @property
    def rows(self) -> int:
        """Number of observations."""
        return len(next(iter(self.parts.values())))


class Reader:
    """Read requests for a policy.

    Args:
        interface: inputs of the policy.
        space: spaces of the observations by part.
        only: name of the part of an observation without parts; None for Dict observations.
        initial: [1, S] memory at the start of an episode, or None.
    """

    def __init__(
        self, interface: Interface, space: dict[str, spaces.Space], only: str | None, initial: np.ndarray | None
    ) -> None:
        self._ports = interface.observations
        self._bounds = {name: _bounds(part) for name, part in space.items()}
        self._only = only
        self._initial = initial
        self._memory = {port.name: port for port in interface.inputs if port.name in (STATES, MASKS)}

    def read(self, body: bytes) -> Request:
        """Return the request of a body; BadRequestError names what is wrong."""
        document = _document(body)
        observations = document.get("observations")
        if observations is None:
            raise BadRequestError(422, f"'observations' is missing: give {self._accepted()}")
        deterministic = document.get("deterministic", True)
        if not isinstance(deterministic, bool):
            raise BadRequestError(422, "'deterministic' is true or false")
        parts = self._parts(observations)
        name, first = next(iter(parts.items()))
        single = first.ndim == len(self._ports[name].shape)
        if single:
            parts = {name: part[None] for name, part in parts.items()}
        rows = self._checked_rows(parts, single)
        states, masks = self._read_memory(document, rows)
        return Request(parts, states, masks, deterministic, single)

    def _accepted(self) -> str:
        shapes = {name: list(port.shape) for name, port in self._ports.items()}
        if self._only is not None:
            return f"one observation of shape {shapes[self._only]} or a list of them"
        return f"an object with the parts {', '.join(f'{name} {shape}' for name, shape in shapes.items())}"

    def _parts(self, observations: Any) -> dict[str, np.ndarray]:
        if self._only is not None:
            observations = {self._only: observations}
        if not isinstance(observations, dict) or observations.keys() != self._ports.keys():
            raise BadRequestError(422, f"'observations' is not valid: give {self._accepted()}")
        return {name: _array(self._label(name), observations[name], port) for name, port in self._ports.items()}

    def _label(self, name: str) -> str:
        return "observations" if self._only is not None else f"observations.{name}"

    def _checked_rows(self, parts: dict[str, np.ndarray], single: bool) -> int:
        rows = len(next(iter(parts.values()))) if all(part.ndim for part in parts.values()) else 0
        for name, part in parts.items():
            expected = (rows, *self._ports[name].shape)
            if part.shape != expected:
                shown = list(part.shape[1:] if single else part.shape)
                raise BadRequestError(422, f"'{self._label(name)}' has the shape {shown}: give {self._accepted()}")
            low, high = self._bounds[name]
            if not ((part >= low) & (part <= high)).all():
                raise BadRequestError(422, f"'{self._label(name)}' has a number outside of {low:g} to {high:g}")
        if not 1 <= rows <= MOST_ROWS:
            raise BadRequestError(422, f"'observations' has {rows} observations: 1 to {MOST_ROWS} are accepted")
        return rows

    def _read_memory(self, document: dict[str, Any], rows: int) -> tuple[np.ndarray | None, np.ndarray | None]:
        if not self._memory:
            for name in (STATES, MASKS):
                if document.get(name) is not None:
                    raise BadRequestError(422, f"'{name}' is not valid: the policy has no memory")
            return None, None
        states = np.repeat(self._initial, rows, axis=0)
        masks = np.zeros(rows, np.float32)
        found = []
        for name, default in ((STATES, states), (MASKS, masks)):
            value = document.get(name)
            array = default if value is None else _array(name, value, self._memory[name])
            # One observation has one state without the axis of a batch.
            array = array[None] if rows == 1 and array.ndim == default.ndim - 1 else array
            if array.shape != default.shape:
                raise BadRequestError(422, f"'{name}' has the shape {list(array.shape)}: give {list(default.shape)}")
            found.append(array)
        return found[0], found[1]


def _document(body: bytes) -> dict[str, Any]:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BadRequestError(400, f"the body is not JSON: {str(error)[:100]}") from None
    if not isinstance(document, dict):
        raise BadRequestError(400, "the body is not a JSON object")
    unknown = document.keys() - set(KEYS)
    if unknown:
        raise BadRequestError(400, f"unknown '{min(unknown)[:50]}': the body has {', '.join(KEYS)}")
    return document


def _array(name: str, value: Any, port: Port) -> np.ndarray:
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, OverflowError):
        raise BadRequestError(422, f"'{name}' is not an array: its rows differ") from None
    if array.dtype.kind not in "biuf":
        raise BadRequestError(422, f"'{name}' has something that is not a number")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise BadRequestError(422, f"'{name}' has a number that is not finite")
    dtype = np.dtype(port.dtype)
    if dtype.kind != "f":
        limits = np.iinfo(dtype)
        if ((array < limits.min) | (array > limits.max) | (array != np.floor(array))).any():
            raise BadRequestError(422, f"'{name}' has whole numbers from {limits.min} to {limits.max}")
        return array.astype(dtype)
    if array.size and np.abs(array).max() > np.finfo(dtype).max:
        raise BadRequestError(422, f"'{name}' has a number that is too large for {port.dtype}")
    return array.astype(dtype)


def _bounds(space: spaces.Space) -> tuple[float, float]:
    """Return the bounds of discrete values, beyond which an observation has no meaning; a Box has none here."""
    if isinstance(space, spaces.Discrete):
        return int(space.start), int(space.start + space.n - 1)
    if isinstance(space, spaces.MultiDiscrete):
        return int(space.start.min()), int((space.start + space.nvec - 1).max())
    return (0, 1) if isinstance(space, spaces.MultiBinary) else (-math.inf, math.inf)
