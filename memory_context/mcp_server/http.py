"""The protocol over HTTP: who is let in, and to whose memory.

    POST, DELETE /mcp    the protocol ("streamable HTTP", each answer as one JSON body)
    GET          /health whether the database answers

Promises: each user has a server of their own, so a session of one is unknown to another, whatever token they bring; the
gate lets in pages of this machine only, such as a local inspector, and only under names that are listed.
"""

from collections.abc import AsyncGenerator, Callable, Collection, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from ..access import Gate, GateRules, Tokens
from ..errors import StoreError
from ..outages import outages_of
from ..store import MemoryStore
from .bodies import BoundedBodies, error_of

__all__ = ["create_app"]


_IDLE_SECONDS = 3600  # then a client has to begin a session again


def create_app(
    store: MemoryStore,
    server_for: Callable[[str | None], Server[Any, Any]],
    tokens: Tokens | None,
    hosts: Collection[str] = (),
) -> Starlette:
    """Return an application that serves a memory to each user who has a token, or one to whoever is on this machine.

    Args:
        store: What `/health` asks.
        server_for: Makes the server of a user; of None, the one that needs no token.
        tokens: Who is let in; None for whoever reaches the port.
        hosts: Names under which clients reach it, beside those of this machine.
    """
    users = [None] if tokens is None else sorted(tokens.users)
    managers = {user: _manager(server_for(user)) for user in users}

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None, None]:
        async with AsyncExitStack() as running:
            for manager in managers.values():
                await running.enter_async_context(manager.run())
            yield

    async def health(_: Request) -> Response:
        try:
            await store.user_stats.only_user()
        except StoreError as error:  # it names hosts, which are not for everybody who can ask
            outages_of(store).failed("healthy", "not healthy: %s", error)
            return JSONResponse({"status": "unavailable"}, 503)
        outages_of(store).worked("healthy")
        return JSONResponse({"status": "ok"})

    routes = [Route("/mcp", _Memories(managers, tokens)), Route("/health", health)]
    rules = GateRules(hosts, loopback_pages=True, host_setting="--public-host")
    gate = Middleware(Gate, rules=rules, body_of=lambda refusal: error_of(refusal.detail))
    return Starlette(routes=routes, lifespan=lifespan, middleware=[gate])


def _manager(server: Server[Any, Any]) -> StreamableHTTPSessionManager:
    # the server never speaks unasked, so an answer needs no stream, and nothing is left open when it stops
    return StreamableHTTPSessionManager(server, json_response=True, session_idle_timeout=_IDLE_SECONDS)


class _Memories:
    """Lets a request through to the server of whoever sent it."""

    def __init__(self, managers: Mapping[str | None, StreamableHTTPSessionManager], tokens: Tokens | None) -> None:
        self._managers = managers
        self._tokens = tokens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        user = self._tokens and self._tokens.user_of(headers.get("authorization", ""))
        if self._tokens is not None and user is None:
            refused = _refusal(401, "send Authorization: Bearer <token>", {"WWW-Authenticate": "Bearer"})
        elif scope["method"] not in ("POST", "DELETE"):
            refused = _refusal(405, "use POST; this server sends nothing unasked", {"Allow": "POST, DELETE"})
        else:
            refused = None
        answer = refused or BoundedBodies(self._managers[user].handle_request)
        await answer(scope, receive, send)


def _refusal(status: int, text: str, headers: Mapping[str, str] | None = None) -> Response:
    return JSONResponse(error_of(text), status, headers)
