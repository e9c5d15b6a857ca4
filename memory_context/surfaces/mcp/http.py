"""The protocol over HTTP, with a server for each user, so that sessions are unknown to other users.

POST, DELETE /mcp    "streamable HTTP", each answer one JSON body
GET          /health whether the database answers
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
from starlette.types import ASGIApp, Receive, Scope, Send

from memory_context.foundation.errors import StoreError
from memory_context.foundation.outages import outages_of
from memory_context.store.memory_store import MemoryStore

from ..access.gate import BodyLimit, Gate, Tokens

__all__ = ["create_app"]

_IDLE_SECONDS = 3600  # until a client has to initialize again
_BODY_BYTES = 4 * 1024 * 1024


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
    gate = Middleware(Gate, hosts=hosts, loopback_pages=True, host_setting="--public-host")
    return Starlette(routes=routes, lifespan=lifespan, middleware=[gate])


class _Memories:
    def __init__(self, managers: Mapping[str | None, StreamableHTTPSessionManager], tokens: Tokens | None) -> None:
        self._apps = {user: BodyLimit(manager.handle_request, _BODY_BYTES) for user, manager in managers.items()}
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


def _error(text: str) -> Mapping[str, Any]:
    return {"jsonrpc": "2.0", "id": None, "error": {"code": -32000, "message": text}}
