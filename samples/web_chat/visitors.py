"""Who is asking: one anonymous user per browser, by a random name in a signed cookie.

Enough for a page without logins, where everybody is to see their own conversations only. With logins, have
`current_user` return the name of who is logged in instead.
"""

import hashlib
import hmac
import os
import secrets
from http.cookies import CookieError, SimpleCookie
from pathlib import Path

from fastapi import Request
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["Visitors", "current_user", "kept_secret"]

_COOKIE = "web_chat_visitor"
_YEAR_SECONDS = 365 * 24 * 3600
_HEADERS = {  # for every answer: no page may frame this one or guess at types
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
}


class Visitors:
    """Middleware that knows each browser again, and gives a new one its cookie.

    Args:
        app: The application.
        secret: Signs the names. Who has it can pretend to be anybody; another one makes everybody a stranger.
    """

    def __init__(self, app: ASGIApp, secret: bytes) -> None:
        self._app = app
        self._secret = secret

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        known = self._recognised(Request(scope).headers.get("cookie", ""))
        visitor = known or f"visitor-{secrets.token_urlsafe(16)}"
        scope.setdefault("state", {})["visitor"] = visitor

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(_HEADERS)
                if known is None:
                    cookie = f"{_COOKIE}={visitor}.{self._signature(visitor)}"
                    headers.append("Set-Cookie", f"{cookie}; Max-Age={_YEAR_SECONDS}; Path=/; HttpOnly; SameSite=Lax")
            await send(message)

        return await self._app(scope, receive, send_with_headers)

    def _recognised(self, cookies: str) -> str | None:
        """Return the visitor in a cookie that was made here."""
        try:
            cookie = SimpleCookie(cookies)[_COOKIE].value
        except (CookieError, KeyError):
            return None
        visitor, _, signature = cookie.rpartition(".")
        is_ours = hmac.compare_digest(signature.encode(), self._signature(visitor).encode())
        return visitor if is_ours else None

    def _signature(self, visitor: str) -> str:
        return hmac.new(self._secret, visitor.encode(), hashlib.sha256).hexdigest()


async def current_user(request: Request) -> str:
    """Return the user that a request comes from."""
    return str(request.state.visitor)


def kept_secret(file: Path) -> bytes:
    """Return the secret in a file that only its owner reads; it is made if it is not there."""
    try:
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as new:
            new.write(secrets.token_hex(32).encode())
    except FileExistsError:
        pass
    return file.read_bytes()
