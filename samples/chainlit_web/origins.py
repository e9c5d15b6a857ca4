"""Which pages may talk to this server with a visitor's cookies: its own, and those of `allow_origins`.

Chainlit gives `allow_origins` to CORS only, and CORS covers no WebSocket: without this, a page on another port of the
same machine, or on a sibling domain, could chat as whoever is logged in. The name a page was opened by is checked too,
so a foreign name that was made to point at this machine (DNS rebinding) is refused.
"""

from collections.abc import Collection

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

__all__ = ["OwnOrigins"]

_POLICY_VIOLATION = 1008


class OwnOrigins:
    """Middleware: refuses what a browser sends for a page of another origin; clients without an origin are let in.

    Args:
        app: The application.
        allowed: The origins, such as `http://localhost:8000`; with "*" among them, all. It may still grow.
    """

    def __init__(self, app: ASGIApp, allowed: Collection[str]) -> None:
        self._app = app
        self._allowed = allowed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request or connection, or refuse it."""
        if scope["type"] == "lifespan" or self._is_allowed(Headers(scope=scope).get("origin")):
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": _POLICY_VIOLATION})
        else:
            refusal = PlainTextResponse("This address is not in allow_origins of .chainlit/config.toml.", 403)
            await refusal(scope, receive, send)

    def _is_allowed(self, origin: str | None) -> bool:
        return origin is None or origin in self._allowed or "*" in self._allowed
