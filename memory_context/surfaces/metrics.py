"""`/metrics` of every server: the numbers of its process, and the jobs that wait in its database."""

import asyncio
import time
from contextlib import suppress

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memory_context.foundation.errors import StoreError
from memory_context.foundation.telemetry import REQUESTS, count, prometheus_text
from memory_context.store.memory_store import MemoryStore

__all__ = ["CountRequests", "Metrics"]

_LOOK_SECONDS = 1.0
_LOOK_EVERY_SECONDS = 10.0
_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))


class Metrics:
    """Answers with the metrics in Prometheus' text format; without the database, with those that this process knows."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._looked_at = 0.0  # monotonic

    async def answer(self, _: Request) -> Response:
        if time.monotonic() - self._looked_at > _LOOK_EVERY_SECONDS:
            self._looked_at = time.monotonic()
            with suppress(StoreError, asyncio.TimeoutError):
                await asyncio.wait_for(self._store.jobs.look(), _LOOK_SECONDS)
        return Response(prometheus_text(), media_type="text/plain; version=0.0.4; charset=utf-8")


class CountRequests:
    """ASGI middleware that counts answered requests by method and status; no paths, which hold ids."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        method = scope["method"] if scope["method"] in _METHODS else "_OTHER"

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                labels = {"http.request.method": method, "http.response.status_code": message["status"]}
                count(REQUESTS, labels)
            await send(message)

        await self._app(scope, receive, counted)
