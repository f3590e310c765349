"""The server's addresses: POST /act, and GET /, /health and /metrics."""

import json
import time
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from tfbaselines.envs.vec.observations import ONLY, parts_of
from tfbaselines.envs.vec.packed import opened
from tfbaselines.export.describe import interface_of
from tfbaselines.export.interface import ACTIONS, STATES, Interface
from tfbaselines.serve.batches import Batches
from tfbaselines.serve.metrics import Metrics
from tfbaselines.serve.requests import BadRequestError, Reader

# Bytes of a request's body.
LARGEST_BODY = 2**24


class Server:
    """Answer requests with a model's actions.

    Args:
        model: model that acts on raw observations.
    """

    def __init__(self, model: Any) -> None:
        interface = interface_of(model, sampled=False)
        joined = interface.joined
        parts = parts_of(opened(model.policy.observation_space)) if joined is None else joined.parts
        self._reader = Reader(interface, parts, ONLY if list(parts) == [ONLY] else None, model.initial_state)
        self._batches = Batches(model, interface)
        self._metrics = Metrics()
        self._about = {
            "algorithm": model.config.get("alg"),
            "environment": (model.config.get("env") or {}).get("env"),
            **_ports(interface),
        }

    def app(self) -> Starlette:
        """Return the application."""
        routes = [
            Route("/act", self._act, methods=["POST"]),
            Route("/", self._describe),
            Route("/health", self._health),
            Route("/metrics", self._show_metrics),
        ]
        return Starlette(routes=routes)

    async def _act(self, http: HttpRequest) -> Response:
        begin = time.perf_counter()
        try:
            request = self._reader.read(await _body(http))
            begin = time.perf_counter()
            actions, states = await self._batches.act(request)
            first = 0 if request.single else slice(None)
            answer = {ACTIONS: actions[first].tolist()}
            if states is not None:
                answer[STATES] = states[first].tolist()
            status = 200
        except BadRequestError as error:
            answer, status = {"error": str(error)}, error.status
        except ValueError as error:
            # An action mask that allows nothing, for one.
            answer, status = {"error": " ".join(str(error).split())[:300]}, 422
        self._metrics.add(status, time.perf_counter() - begin)
        return Response(json.dumps(answer), status, media_type="application/json")

    async def _describe(self, http: HttpRequest) -> Response:
        return JSONResponse(self._about)

    async def _health(self, http: HttpRequest) -> Response:
        return JSONResponse({"status": "ok"})

    async def _show_metrics(self, http: HttpRequest) -> Response:
        return PlainTextResponse(self._metrics.text(self._batches.count, self._batches.rows))


def _ports(interface: Interface) -> dict[str, list[dict[str, Any]]]:
    return {kind: [vars(port) for port in getattr(interface, kind)] for kind in ("inputs", "outputs")}


async def _body(http: HttpRequest) -> bytes:
    """Read the body, unless it is too large."""
    too_large = BadRequestError(413, f"the body has more than {LARGEST_BODY} bytes")
    declared = http.headers.get("content-length", "0")
    if not declared.isdecimal() or int(declared) > LARGEST_BODY:
        raise too_large
    chunks, size = [], 0
    async for chunk in http.stream():
        size += len(chunk)
        if size > LARGEST_BODY:
            raise too_large
        chunks.append(chunk)
    return b"".join(chunks)
