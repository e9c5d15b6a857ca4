"""Checks of requests: hosts and pages, and who asks.

Host, Origin and Sec-Fetch-Site, which no page can change, are checked against DNS rebinding and CSRF. A bearer token or
a trusted proxy names the user; secrets are compared in constant time, never shown.
"""

import hmac
import os
from collections.abc import Awaitable, Callable, Collection, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any, Literal
from urllib.parse import urlsplit

from memory_context.foundation.identifiers import checked_identifier

from .bodies import PROBLEM, send_json

__all__ = ["Gate", "GateRules", "ProxyRefusal", "Refusal", "Tokens", "TrustedProxy", "UsageError", "is_loopback"]

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
        return self._host_refusal(scope) or self._page_refusal(scope)

    def _host_refusal(self, scope: Mapping[str, Any]) -> Refusal | None:
        host = _only(scope, "host")
        name, _ = _split(f"//{host or ''}")
        if host is not None and ("*" in self.hosts or _is_listed(host, self.hosts)):
            return None
        if name and (is_loopback(name) or _same_address(name, (scope.get("server") or ("",))[0])):
            return None
        shown = "a request without one Host" if host is None else repr(host[:_SHOWN_CHARACTERS])
        return Refusal("foreign-host", f"this server does not answer to {shown}; name it in {self.host_setting}")

    def _page_refusal(self, scope: Mapping[str, Any]) -> Refusal | None:
        writes = scope["type"] == "websocket" or scope["method"] not in _READS
        host, origin, site = (_only(scope, name) for name in ("host", "origin", "sec-fetch-site"))
        if any(len(_values(scope, name)) > 1 for name in ("origin", "sec-fetch-site")):
            return Refusal("foreign-page", "send Origin and Sec-Fetch-Site once")
        if origin is not None:
            if self._is_allowed(origin):
                return None
            if not self._is_own(origin, host or ""):
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
        name, _ = _split(f"//{host or ''}")
        has_only_cookie = bool(_values(scope, "cookie")) and not _values(scope, "authorization")
        if origin is None and has_only_cookie and not is_loopback(name):
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


def _values(scope: Mapping[str, Any], name: str) -> list[bytes]:
    headers: Collection[tuple[bytes, bytes]] = scope["headers"]
    wanted = name.lower().encode("latin-1")
    return [value.strip() for key, value in headers if key.lower() == wanted]


def _only(scope: Mapping[str, Any], name: str) -> str | None:
    values = _values(scope, name)
    return values[0].decode("latin-1") if len(values) == 1 else None


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


# --- who asks

_LOOPBACK = ("127.0.0.0/8", "::1/128")


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


class ProxyRefusal(Exception):
    """A user header cannot be believed; the text is the remedy."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status


@dataclass(frozen=True)
class TrustedProxy:
    """A reverse proxy that sends the user's id; with `networks`, only from there."""

    user_header: str
    networks: tuple[IPv4Network | IPv6Network, ...]
    secret_header: str = "X-Proxy-Secret"
    secret: bytes | None = field(default=None, repr=False)

    @classmethod
    def from_options(
        cls, user_header: str, host: str, addresses: Sequence[str], secret_env: str | None, secret_header: str
    ) -> "TrustedProxy":
        """Return the proxy of a command's options; without addresses and secret, loopback on a loopback `host`.

        Raises:
            UsageError: Anybody who connects would be believed, or an option is malformed.
        """
        secret = None if secret_env is None else os.environ.get(secret_env, "")
        if secret == "":
            raise UsageError(f"--proxy-secret-env {secret_env}: set it to the secret that the proxy sends")
        if not addresses and secret is None and not is_loopback(host):
            raise UsageError(
                f"--user-header {user_header} on --host {host}: whoever connects could say who asks: give "
                "--trusted-proxy ADDRESS, where the proxy connects from, or --proxy-secret-env NAME, a secret it sends"
            )
        networks = addresses or (_LOOPBACK if secret is None else ())
        try:
            found = tuple(ip_network(one, strict=False) for one in networks)
        except ValueError as error:
            raise UsageError(f"--trusted-proxy: {error}; use an address or a network such as 10.0.0.0/24") from None
        return cls(user_header, found, secret_header, secret.encode() if secret else None)

    def user_of(self, scope: Mapping[str, Any]) -> str:
        """Return the user of an ASGI scope.

        Raises:
            ProxyRefusal: Not from the proxy (403), without the header (401), or with two (400).
        """
        if self.networks and not self._is_from_proxy((scope.get("client") or ("",))[0]):
            raise ProxyRefusal(403, f"{self.user_header} is believed from the reverse proxy only; ask through it")
        if self.secret is not None:
            given = _values(scope, self.secret_header)
            if len(given) != 1 or not hmac.compare_digest(given[0], self.secret):
                raise ProxyRefusal(403, f"the reverse proxy has to send its secret once, in {self.secret_header}")
        users = _values(scope, self.user_header)
        if len(users) > 1:  # a proxy that adds one may keep a client's
            raise ProxyRefusal(400, f"{self.user_header} came {len(users)} times; have the proxy replace it")
        if not users or not users[0]:
            raise ProxyRefusal(401, f"the reverse proxy has to say who asks, in the header {self.user_header}")
        return users[0].decode("latin-1")

    def _is_from_proxy(self, address: str) -> bool:
        try:
            peer = ip_address(address.partition("%")[0])
        except ValueError:
            return False
        mapped = getattr(peer, "ipv4_mapped", None) or peer
        return any(mapped in network for network in self.networks)
