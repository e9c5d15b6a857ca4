"""The protocol over HTTP, with a server for each user, so that sessions are unknown to other users.

POST, DELETE /mcp    "streamable HTTP", each answer one JSON body
GET          /health whether the database answers
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, MutableMapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from memory_context.foundation.errors import StoreError
from memory_context.foundation.outages import outages_of
from memory_context.store.memory_store import MemoryStore

from ..access.bodies import BodyLimits, BodyRefusal, ClientGone, check_json, off_the_loop, read_body, replayed
from ..access.gate import Gate, GateRules, Tokens

__all__ = ["create_app"]

_IDLE_SECONDS = 3600  # until a client has to initialize again
_LIMITS = BodyLimits(4 * 1024 * 1024)
_DRAINED_BYTES = 64 * 1024 * 1024
_KEPT_BYTES = 1000
_INVALID_REQUEST = -32600
_ID = rb'"id"\s*:\s*(?:(?P<number>-?\d{1,18})|"(?P<text>[\w.:-]{1,100})")'
_LAST = re.compile(_ID + rb"\s*\}\s*\Z")  # as the SDKs write it
_FIRST = re.compile(rb'\A\s*\{\s*(?:"(?:jsonrpc|method)"\s*:\s*"[^"\\]*"\s*,\s*)*' + _ID)


def create_app(
    store: MemoryStore,
    server_for: Callable[[str | None], Server[Any, Any]],
    tokens: Tokens | None,
    hosts: Collection[str] = (),
) -> Starlette:
    """Return an application with a server for each user with a token; without tokens, for anybody.

    Pages of this machine, such as a local inspector, may write. `hosts` are the public names.
    """
    users = [None] if tokens is None else sorted(tokens.users)
    # json_response leaves no stream open at the end
    managers = {
        user: StreamableHTTPSessionManager(server_for(user), json_response=True, session_idle_timeout=_IDLE_SECONDS)
        for user in users
    }

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None, None]:
        async with AsyncExitStack() as running:
            for manager in managers.values():
                await running.enter_async_context(manager.run())
            yield

    async def health(_: Request) -> Response:
        try:
            await store.user_stats.only_user()
        except StoreError as error:  # names hosts: only for the log
            outages_of(store).failed("healthy", "not healthy: %s", error)
            return JSONResponse({"status": "unavailable"}, 503)
        outages_of(store).worked("healthy")
        return JSONResponse({"status": "ok"})

    routes = [Route("/mcp", _Memories(managers, tokens)), Route("/health", health)]
    rules = GateRules(hosts, loopback_pages=True, host_setting="--public-host")
    gate = Middleware(Gate, rules=rules, body_of=lambda refusal: _error(refusal.detail))
    return Starlette(routes=routes, lifespan=lifespan, middleware=[gate])


class _Memories:
    def __init__(self, managers: Mapping[str | None, StreamableHTTPSessionManager], tokens: Tokens | None) -> None:
        self._apps = {user: _BoundedBodies(manager.handle_request) for user, manager in managers.items()}
        self._tokens = tokens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        user = self._tokens and self._tokens.user_of(Headers(scope=scope).get("authorization", ""))
        answer: ASGIApp
        if self._tokens is not None and user is None:
            authenticate = {"WWW-Authenticate": "Bearer"}
            answer = JSONResponse(_error("send Authorization: Bearer <token>"), 401, authenticate)
        elif scope["method"] not in ("POST", "DELETE"):
            allow = {"Allow": "POST, DELETE"}
            answer = JSONResponse(_error("use POST; this server sends nothing unasked"), 405, allow)
        else:
            answer = self._apps[user]
        await answer(scope, receive, send)


class _BoundedBodies:
    """Enforces body limits; a too large body is drained first.

    Refusals are JSON-RPC errors under the message's id, since an HTTP error ends an SDK client's session.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        seen = _Ends(receive)
        try:
            body = await read_body(seen.receive, _LIMITS)
            await off_the_loop(lambda body: check_json(body, _LIMITS), body)
        except ClientGone:
            return
        except BodyRefusal as refusal:
            if refusal.kind == "too-large":
                with suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(seen.drain(), _LIMITS.seconds)
            status = refusal.status if seen.id_ is None else 200
            await JSONResponse(_error(str(refusal), seen.id_, _INVALID_REQUEST), status)(scope, receive, send)
            return
        await self._app(scope, replayed(body, receive), send)


class _Ends:
    """Receives a body and keeps its beginning and end, which hold the id."""

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
        # a client that is still sending does not read the answer
        while self._has_more and self._size <= _DRAINED_BYTES:
            await self.receive()

    @property
    def id_(self) -> int | str | None:
        found = (None if self._has_more else _LAST.search(self._last)) or _FIRST.search(self._first)
        if found is None:
            return None
        return int(found["number"]) if found["number"] else found["text"].decode()


def _error(text: str, id_: int | str | None = None, code: int = -32000) -> Mapping[str, Any]:
    return {"jsonrpc": "2.0", "id": id_, "error": {"code": code, "message": text}}
