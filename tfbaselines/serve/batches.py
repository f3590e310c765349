"""Concurrent requests act together, as one batch of the policy."""

import asyncio
from typing import Any

import numpy as np

from tfbaselines.export.describe import observed
from tfbaselines.export.interface import Interface
from tfbaselines.serve.requests import MOST_ROWS, Request

Answer = tuple[np.ndarray, np.ndarray | None]


class Batches:
    """Act for requests: those that arrive before the policy acts are one batch.

    The policy acts in the thread of the event loop: for a small network another thread would cost more than the
    batch, and while a large one acts, the next requests arrive.

    Args:
        model: model that acts on raw observations.
        interface: inputs of the policy.

    Attributes:
        count: batches so far.
        rows: observations so far.
    """

    def __init__(self, model: Any, interface: Interface) -> None:
        self._model = model
        self._interface = interface
        self._waiting: list[tuple[Request, asyncio.Future[Answer]]] = []
        self.count = 0
        self.rows = 0

    async def act(self, request: Request) -> Answer:
        """Return the actions and new states of a request's observations."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Answer] = loop.create_future()
        if not self._waiting:
            loop.call_soon(self._flush)
        self._waiting.append((request, answer))
        return await answer

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        for deterministic in (True, False):
            batch = []
            for one in waiting:
                if one[0].deterministic != deterministic or one[1].done():
                    continue
                if sum(request.rows for request, _ in batch) + one[0].rows > MOST_ROWS:
                    self._answer(batch)
                    batch = []
                batch.append(one)
            if batch:
                self._answer(batch)

    def _answer(self, batch: list[tuple[Request, asyncio.Future[Answer]]]) -> None:
        try:
            actions, states = self._act([request for request, _ in batch])
        except Exception as error:  # Each request reports it.
            for _, answer in batch:
                answer.set_exception(error)
            return
        start = 0
        for request, answer in batch:
            rows = slice(start, start + request.rows)
            answer.set_result((actions[rows], None if states is None else states[rows]))
            start += request.rows

    def _act(self, requests: list[Request]) -> Answer:
        first = requests[0]
        if len(requests) == 1:
            parts, states, masks = first.parts, first.states, first.masks
        else:
            parts = {name: np.concatenate([one.parts[name] for one in requests]) for name in first.parts}
            states = None if first.states is None else np.concatenate([one.states for one in requests])
            masks = None if first.masks is None else np.concatenate([one.masks for one in requests])
        self.count += 1
        self.rows += len(next(iter(parts.values())))
        return self._model.act(observed(parts, self._interface), states, first.deterministic, masks)
