"""Bodies of the protocol's messages: bounded before the SDK parses them, and refused so that a client goes on.

The SDK's client ends its whole session when a request is answered with an HTTP error. A request that is over a limit is
therefore answered with a JSON-RPC error under its id; what has no id is answered with the HTTP status.

Promises: the SDK parses no more than `LIMITS` allow; a message over the limit is read to its end without being kept, up
to 64 MiB and for as long as a body may take.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextlib import suppress
from typing import Any

from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from ..access import BodyLimits, BodyRefusal, ClientGone, check_json, off_the_loop, read_body, replayed

__all__ = ["LIMITS", "BoundedBodies", "error_of"]

LIMITS = BodyLimits(4 * 1024 * 1024)
_DRAINED_BYTES = 64 * 1024 * 1024
_KEPT_BYTES = 1000
_INVALID_REQUEST = -32600
_ID = rb'"id"\s*:\s*(?:(?P<number>-?\d{1,18})|"(?P<text>[\w.:-]{1,100})")'
_LAST = re.compile(_ID + rb"\s*\}\s*\Z")  # as the SDKs write it
_FIRST = re.compile(rb'\A\s*\{\s*(?:"(?:jsonrpc|method)"\s*:\s*"[^"\\]*"\s*,\s*)*' + _ID)


def error_of(text: str, id_: int | str | None = None, code: int = -32000) -> Mapping[str, Any]:
    """Return an error of JSON-RPC."""
    return {"jsonrpc": "2.0", "id": id_, "error": {"code": code, "message": text}}


class BoundedBodies:
    """ASGI middleware that hands on a body which is within the limits, and refuses any other.

    Args:
        app: What parses the body.
        limits: What a body may be.
    """

    def __init__(self, app: Callable[[Scope, Receive, Send], Awaitable[None]], limits: BodyLimits = LIMITS) -> None:
        self._app = app
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        seen = _Ends(receive)
        try:
            body = await read_body(seen.receive, self._limits)
            await off_the_loop(lambda body: check_json(body, self._limits), body)
        except ClientGone:
            return
        except BodyRefusal as refusal:
            if refusal.kind == "too-large":
                with suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(seen.drain(), self._limits.seconds)
            id_ = seen.id_
            status = refusal.status if id_ is None else 200
            answer = JSONResponse(error_of(str(refusal), id_, _INVALID_REQUEST), status)
            await answer(scope, receive, send)
            return
        await self._app(scope, replayed(body, receive), send)


class _Ends:
    """Receives a body and keeps its beginning and its end, where the id of a message stands."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._first = b""
        self._last = b""
        self._size = 0
        self._has_more = True

    async def receive(self) -> MutableMapping[str, Any]:
        message = await self._receive()
        part = bytes(message.get("body", b""))
        self._size += len(part)
        self._has_more = bool(message.get("more_body"))
        self._first += part[: _KEPT_BYTES - len(self._first)]
        self._last = (self._last + part[-_KEPT_BYTES:])[-_KEPT_BYTES:]
        return message

    async def drain(self) -> None:
        """Read the rest: a client that is still sending does not read the answer."""
        while self._has_more and self._size <= _DRAINED_BYTES:
            await self.receive()

    @property
    def id_(self) -> int | str | None:
        """The id of the message; None if it has none, or it was not found."""
        found = (None if self._has_more else _LAST.search(self._last)) or _FIRST.search(self._first)
        if found is None:
            return None
        return int(found["number"]) if found["number"] else found["text"].decode()
