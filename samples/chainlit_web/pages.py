"""Chainlit's pages as this application serves them: complete, without other hosts, in nobody's frame."""

import re
from html import escape

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["OwnPages"]

_FOREIGN = re.compile(rb"""<link\b[^>]*?href\s*=\s*["']https?://[^>]*>""")
_HEADERS = {  # custom elements are compiled in the browser, which is what 'unsafe-eval' is for
    "Content-Security-Policy": (
        "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data: blob:; font-src 'self' data:; worker-src 'self' blob:; frame-ancestors 'none'; "
        "form-action 'self'; base-uri 'self'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",  # no other page gets a handle of this window to post messages to
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
}


class OwnPages:
    """Middleware: pages load nothing from other hosts, nobody frames them, and the login page names demo logins.

    Args:
        app: The application.
        login_hint: What the login page says beneath its form; "" for nothing.
    """

    def __init__(self, app: ASGIApp, login_hint: str = "") -> None:
        self._app = app
        self._meta = f'<meta name="login-hint" content="{escape(login_hint)}"></head>'.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        begun: list[Message] = []
        body = bytearray()

        async def send_own(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)  # what is stricter already stays: elements are sandboxed
                is_page = headers.get("content-type", "").startswith("text/html")
                if is_page and "content-encoding" not in headers:
                    begun.append(message)
                    return
            elif begun and message["type"] == "http.response.body":
                body.extend(message.get("body", b""))
                if message.get("more_body"):
                    return
                page = _FOREIGN.sub(b"", bytes(body)).replace(b"</head>", self._meta)
                MutableHeaders(scope=begun[0])["content-length"] = str(len(page))
                await send(begun.pop())
                message = {"type": "http.response.body", "body": page}
            await send(message)

        # compressed pages could not be read here; they are small
        headers = [(name, value) for name, value in scope["headers"] if name != b"accept-encoding"]
        plain = {**scope, "headers": headers} if _is_page(scope) else scope
        return await self._app(plain, receive, send_own)


def _is_page(scope: Scope) -> bool:
    accepted = dict(scope["headers"]).get(b"accept", b"")
    return b"text/html" in accepted
