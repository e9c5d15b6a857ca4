"""The protocol over HTTP, stateless, with a server for each user.

POST /mcp       "streamable HTTP", each answer one JSON body
GET  /health    whether the database answers
GET  /metrics   numbers of the process and of the database
"""

from collections.abc import AsyncGenerator, Callable, Collection, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from memory_context.foundation.errors import StoreError
from memory_context.foundation.runtime.background import outages_of
from memory_context.store.memory_store import MemoryStore

from ..access.gate import Gate, Tokens
from ..metrics import CountRequests, Metrics
from .server import MemoryServer

__all__ = ["create_app"]


def create_app(
    store: MemoryStore,
    server_for: Callable[[str | None], MemoryServer],
    tokens: Tokens | None,
    hosts: Collection[str] = (),
) -> Starlette:
    """Return an application with a server for each user with a token; without tokens, for anybody.

    Pages of this machine, such as a local inspector, may write. `hosts` are the public names.
    """
    users = [None] if tokens is None else sorted(tokens.users)
    apps = {user: server_for(user).streamable_http_app() for user in users}

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None, None]:
        async with AsyncExitStack() as running:
            for app in apps.values():
                await running.enter_async_context(app.router.lifespan_context(app))
            yield

    async def health(_: Request) -> Response:
        try:
            await store.user_stats.only_user()
        except StoreError as error:  # names hosts: only for the log
            outages_of(store).failed("healthy", "not healthy: %s", error)
            return JSONResponse({"status": "unavailable"}, 503)
        outages_of(store).worked("healthy")
        return JSONResponse({"status": "ok"})

    # without GET: the SDK would keep a stream open for it, and send nothing
    routes = [Route("/mcp", _Users(apps, tokens), methods=["POST"]), Route("/health", health)]
    routes.append(Route("/metrics", Metrics(store).answer))
    gate = Middleware(Gate, hosts=hosts, loopback_pages=True, host_setting="--public-host")
    return Starlette(routes=routes, lifespan=lifespan, middleware=[Middleware(CountRequests), gate])


class _Users:
    """Passes a request on to the server of the user whose token it holds."""

    def __init__(self, apps: Mapping[str | None, ASGIApp], tokens: Tokens | None) -> None:
        self._apps = apps
        self._tokens = tokens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        user = self._tokens and self._tokens.user_of(Headers(scope=scope).get("authorization", ""))
        if self._tokens is not None and user is None:
            raise HTTPException(401, "send Authorization: Bearer <token>", {"WWW-Authenticate": "Bearer"})
        await self._apps[user](scope, receive, send)
