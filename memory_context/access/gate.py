"""Checks of Host, Origin and Sec-Fetch-Site, which no page can change, against DNS rebinding and CSRF."""

from collections.abc import Awaitable, Callable, Collection, Mapping, MutableMapping
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import Any, Literal
from urllib.parse import urlsplit

from .authentication import is_loopback
from .bodies import PROBLEM, send_json

__all__ = ["Gate", "GateRules", "Refusal"]

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_READS = ("GET", "HEAD", "OPTIONS", "TRACE")
_OWN_SITES = ("same-origin", "none")  # none: a typed address or a bookmark
_DEFAULT_PORTS = {"http": 80, "https": 443}
_POLICY_VIOLATION = 1008
_SHOWN_CHARACTERS = 100


@dataclass(frozen=True)
class Refusal:
    """A forbidden request; the detail names the setting to change."""

    kind: Literal["foreign-host", "foreign-page"]
    detail: str

    @property
    def status(self) -> int:
        return 421 if self.kind == "foreign-host" else 403

    @property
    def title(self) -> str:
        return "Not a name of this server" if self.kind == "foreign-host" else "Pages of other origins may not do this"

    def problem(self) -> Mapping[str, Any]:
        """Return a problem (RFC 9457)."""
        type_ = f"urn:problem-type:memory-context:{self.kind}"
        return {"type": type_, "title": self.title, "status": self.status, "detail": self.detail}


@dataclass(frozen=True)
class GateRules:
    """Names and origins of a server; loopback names and the connection's own address are always allowed.

    Attributes:
        hosts: Public names, with or without port; `*` for any.
        origins: Other origins that may write; `*` for any.
        loopback_pages: True if pages of this machine's other ports may write.
    """

    hosts: Collection[str] = ()
    origins: Collection[str] = ()
    loopback_pages: bool = False
    host_setting: str = "hosts"
    origin_setting: str = "origins"

    def refusal(self, scope: Mapping[str, Any]) -> Refusal | None:
        """Check the ASGI scope of a request or WebSocket; None if it may pass."""
        given = _Headers(scope["headers"])
        return self._host_refusal(given, scope) or self._page_refusal(given, scope)

    def _host_refusal(self, given: "_Headers", scope: Mapping[str, Any]) -> Refusal | None:
        host = given.one("host")
        name, _ = _split(f"//{host or ''}")
        if host is not None and ("*" in self.hosts or _is_listed(host, self.hosts)):
            return None
        if name and (is_loopback(name) or _same_address(name, (scope.get("server") or ("",))[0])):
            return None
        shown = "a request without one Host" if host is None else repr(host[:_SHOWN_CHARACTERS])
        return Refusal("foreign-host", f"this server does not answer to {shown}; name it in {self.host_setting}")

    def _page_refusal(self, given: "_Headers", scope: Mapping[str, Any]) -> Refusal | None:
        writes = scope["type"] == "websocket" or scope["method"] not in _READS
        origin, site = given.one("origin"), given.one("sec-fetch-site")
        if given.is_repeated("origin") or given.is_repeated("sec-fetch-site"):
            return Refusal("foreign-page", "send Origin and Sec-Fetch-Site once")
        if origin is not None:
            if self._is_allowed(origin):
                return None
            if not self._is_own(origin, given.one("host") or ""):
                shown = repr(origin[:_SHOWN_CHARACTERS])
                text = f"pages of {shown} may not use this server; name the origin in {self.origin_setting}"
                return Refusal("foreign-page", text)
        if not writes:
            return None
        if site is not None:
            if site in _OWN_SITES:
                return None
            text = f"a page of another site may not write here; name its origin in {self.origin_setting}"
            return Refusal("foreign-page", text)
        name, _ = _split(f"//{given.one('host') or ''}")
        if origin is None and given.has("cookie") and not given.has("authorization") and not is_loopback(name):
            text = "a cookie alone does not say that this page asks: send Origin, or a bearer token instead"
            return Refusal("foreign-page", text)
        return None

    def _is_allowed(self, origin: str) -> bool:
        if "*" in self.origins or origin in self.origins:
            return True
        return self.loopback_pages and is_loopback(_split(origin)[0])

    def _is_own(self, origin: str, host: str) -> bool:
        default = _DEFAULT_PORTS.get(origin.partition(":")[0])
        name, port = _split(origin)
        if default is None or not name or "://" not in origin:
            return False
        named = (host, *(one for one in self.hosts if one != "*"))  # a proxy may send its own Host
        split = (_split(f"//{one}") for one in named)
        return any((name, port or default) == (its_name, its_port or default) for its_name, its_port in split)


class Gate:
    """ASGI middleware that applies rules; `body_of` makes a refusal's JSON, by default a problem."""

    def __init__(
        self, app: App, rules: GateRules, body_of: Callable[[Refusal], Mapping[str, Any]] | None = None
    ) -> None:
        self._app = app
        self._rules = rules
        self._body_of = body_of

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._rules.refusal(scope) if scope["type"] in ("http", "websocket") else None
        if refusal is None:
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": _POLICY_VIOLATION, "reason": refusal.title})
        else:
            media_type = b"application/json" if self._body_of else PROBLEM
            await send_json(send, refusal.status, (self._body_of or Refusal.problem)(refusal), media_type)


class _Headers:
    def __init__(self, headers: Collection[tuple[bytes, bytes]]) -> None:
        self._values: dict[bytes, list[str]] = {}
        for name, value in headers:
            self._values.setdefault(name.lower(), []).append(value.decode("latin-1").strip())

    def one(self, name: str) -> str | None:
        values = self._values.get(name.encode(), [])
        return values[0] if len(values) == 1 else None

    def has(self, name: str) -> bool:
        return name.encode() in self._values

    def is_repeated(self, name: str) -> bool:
        return len(self._values.get(name.encode(), [])) > 1


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


def _is_listed(host: str, listed: Collection[str]) -> bool:
    name, port = _split(f"//{host}")
    if not name:
        return False
    return any(
        name == its_name and its_port in (None, port) for its_name, its_port in (_split(f"//{one}") for one in listed)
    )


def _same_address(name: str, address: str | None) -> bool:
    try:
        return _plain_address(name) == _plain_address(address or "")
    except ValueError:
        return name == (address or "").lower()  # in-process clients have no address


def _plain_address(text: str) -> Any:
    address = ip_address(text.strip("[]").partition("%")[0])
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address
