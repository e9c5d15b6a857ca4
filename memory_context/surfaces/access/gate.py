"""Checks of requests: names of the server, pages that write, bearer tokens, sizes of bodies.

`Gate` and `BodyLimit` are ASGI middleware for any application. Host and Origin, which no page can change, are checked
against DNS rebinding and CSRF. Tokens are compared in constant time and never shown.
"""

import hmac
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from memory_context.foundation.identifiers import checked_identifier

__all__ = ["BodyLimit", "Gate", "Tokens", "UsageError", "is_loopback"]

_READS = ("GET", "HEAD", "OPTIONS", "TRACE")
_OWN_SITES = ("same-origin", "none")  # none: a typed address or a bookmark
_DEFAULT_PORTS = {"http": 80, "https": 443}
_POLICY_VIOLATION = 1008
_SHOWN_CHARACTERS = 100


class UsageError(ValueError):
    """Unusable options of a command; the text is the remedy."""


@lru_cache(maxsize=64)
def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches a host, such as `[::1]`."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


@dataclass(frozen=True)
class Tokens:
    """Bearer tokens of users."""

    users_by_token: Mapping[str, str] = field(repr=False)

    @classmethod
    def from_environment(cls, variable: str) -> "Tokens":
        """Read the `user:token` pairs of a variable, separated by spaces or commas; raise UsageError."""
        remedy = f"--token-env {variable}: set it to user:token pairs with spaces or commas between them"
        users: dict[str, str] = {}
        for pair in os.environ.get(variable, "").replace(",", " ").split():
            user, _, token = pair.partition(":")
            if not user or not token:
                raise UsageError(remedy)
            if users.setdefault(token, user) != user:
                raise UsageError(f"{remedy}; {users[token]} and {user} have the same token there")
            try:
                checked_identifier("user", user)
            except ValueError as error:
                raise UsageError(f"{remedy}; {error}") from None
        if not users:
            raise UsageError(remedy)
        return cls(users)

    @property
    def users(self) -> frozenset[str]:
        return frozenset(self.users_by_token.values())

    def user_of(self, authorization: str) -> str | None:
        """Return the user of an Authorization header in latin-1, if known."""
        scheme, _, given = authorization.partition(" ")
        data = given.strip().encode("latin-1", "replace")
        # all are compared: the time reveals nothing
        found = [user for token, user in self.users_by_token.items() if hmac.compare_digest(os.fsencode(token), data)]
        return found[0] if found and scheme.lower() == "bearer" else None


class Gate:
    """ASGI middleware that lets in requests to this server's names, from its own pages and from programs.

    A refusal is `{"detail": …}` with the setting to change: 421 for another Host, 403 for a foreign page.

    Starlette's TrustedHostMiddleware is not used: its answer names no remedy, and it refuses the address that the
    connection came in on.

    Args:
        hosts: Public names, with or without port; `*` for any. Loopback names and the connection's own address pass.
        origins: Other origins that may write, such as `https://app.example.org`; `*` for any.
        loopback_pages: Pages of this machine's other ports may write.
        host_setting: Name of the setting that a refusal by Host tells.
        origin_setting: Name of the setting that a refusal by Origin tells.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        hosts: Collection[str] = (),
        origins: Collection[str] = (),
        loopback_pages: bool = False,
        host_setting: str = "hosts",
        origin_setting: str = "origins",
    ) -> None:
        self._app = app
        self._hosts = hosts  # not copied: an application may learn its own names at its start
        self._origins = origins
        self._loopback_pages = loopback_pages
        self._host_setting = host_setting
        self._origin_setting = origin_setting

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        error = self._error(scope, Headers(scope=scope))
        if error is None:
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await WebSocketClose(_POLICY_VIOLATION, error.detail)(scope, receive, send)
        else:
            await JSONResponse({"detail": error.detail}, error.status_code, error.headers)(scope, receive, send)

    def _error(self, scope: Scope, headers: Headers) -> HTTPException | None:
        # several headers of a name are joined, which makes them a foreign one
        host, origin, site = (", ".join(headers.getlist(name)) for name in ("host", "origin", "sec-fetch-site"))
        if not self._is_own_name(host, (scope.get("server") or ("",))[0] or ""):
            shown = host[:_SHOWN_CHARACTERS]
            return HTTPException(421, f"this server does not answer to {shown!r}; name it in {self._host_setting}")
        is_write = scope["type"] == "websocket" or scope["method"] not in _READS
        if "origin" in headers:
            is_foreign = not self._is_own_page(origin, host)
        else:
            is_foreign = is_write and site != "" and site not in _OWN_SITES
        if is_foreign:
            page = f"pages of {origin[:_SHOWN_CHARACTERS]!r}" if "origin" in headers else "pages of another site"
            return HTTPException(403, f"{page} may not use this server; name the origin in {self._origin_setting}")
        return None

    def _is_own_name(self, host: str, address: str) -> bool:
        name, port = _split(f"//{host}")
        if not name:
            return False
        listed = (_split(f"//{one}") for one in self._hosts)
        if "*" in self._hosts or any(name == its and its_port in (None, port) for its, its_port in listed):
            return True
        try:  # a server on [::] sees IPv4 clients under mapped addresses
            is_peer_address = ip_address(name) == ip_address(address.removeprefix("::ffff:"))
        except ValueError:
            is_peer_address = name == address.lower()  # in-process clients have no address
        return is_loopback(name) or is_peer_address

    def _is_own_page(self, origin: str, host: str) -> bool:
        if "*" in self._origins or origin in self._origins:
            return True
        default = _DEFAULT_PORTS.get(origin.partition("://")[0])
        name, port = _split(origin)
        if default is None or not name:
            return False
        if self._loopback_pages and is_loopback(name):
            return True
        own = (_split(f"//{one}") for one in (host, *self._hosts) if one != "*")  # a proxy may send its own Host
        return any((name, port or default) == (its, its_port or default) for its, its_port in own)


class BodyLimit:
    """ASGI middleware that refuses bodies of more than `size_bytes` with 413, announced or not."""

    def __init__(self, app: ASGIApp, size_bytes: int) -> None:
        self._app = app
        self._size_bytes = size_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        error = HTTPException(413, f"a body has at most {self._size_bytes:,} bytes: send less at a time")
        length = Headers(scope=scope).get("content-length", "")
        if length.isascii() and length.isdigit() and int(length[:20]) > self._size_bytes:
            await JSONResponse({"detail": error.detail}, error.status_code)(scope, receive, send)
            return
        received = 0

        async def limited() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self._size_bytes:
                raise error
            return message

        await self._app(scope, limited, send)


@lru_cache(maxsize=64)
def _split(address: str) -> tuple[str, int | None]:
    """Return host and port, empty for a malformed address."""
    try:
        parts = urlsplit(address)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return "", None
    is_plain = not parts.path and not parts.query and not parts.fragment and "@" not in parts.netloc
    return (host.rstrip("."), port) if is_plain else ("", None)
