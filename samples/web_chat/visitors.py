"""Who is asking: one anonymous user per browser, by a random name in a signed cookie.

Enough for a page without logins. With logins, have `current_user` return the name of who is logged in instead.
"""

import hashlib
import hmac
import os
import secrets
from contextlib import suppress
from pathlib import Path

from fastapi import Request
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["Visitors", "current_user", "kept_secret"]

_COOKIE = "web_chat_visitor"
_ATTRIBUTES = "Max-Age=31536000; Path=/; HttpOnly; SameSite=Lax"
_HEADERS = {  # for every answer: no page may frame this one or guess at types
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
}


class Visitors:
    """Middleware that knows each browser again by a cookie that `secret` signs."""

    def __init__(self, app: ASGIApp, secret: bytes) -> None:
        self._app, self._secret = app, secret

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        given = Request(scope).cookies.get(_COOKIE, "")
        is_ours = hmac.compare_digest(given.encode(), self._signed(given.rpartition(".")[0]).encode())
        cookie = given if is_ours else self._signed(f"visitor-{secrets.token_urlsafe(16)}")
        scope.setdefault("state", {})["visitor"] = cookie.rpartition(".")[0]

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(_HEADERS)
                if not is_ours:
                    headers.append("Set-Cookie", f"{_COOKIE}={cookie}; {_ATTRIBUTES}")
            await send(message)

        return await self._app(scope, receive, send_with_headers)

    def _signed(self, visitor: str) -> str:
        return f"{visitor}.{hmac.new(self._secret, visitor.encode(), hashlib.sha256).hexdigest()}"


async def current_user(request: Request) -> str:
    """Return the user that a request comes from."""
    return str(request.state.visitor)


def kept_secret(file: Path) -> bytes:
    """Return the secret in a file that only its owner reads; it is made if it is not there."""
    with suppress(FileExistsError), open(file, "xb", opener=lambda *path_flags: os.open(*path_flags, 0o600)) as new:
        new.write(secrets.token_hex(32).encode())
    return file.read_bytes()
