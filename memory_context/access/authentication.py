"""Authentication by bearer token or trusted proxy; secrets are compared in constant time, never shown."""

import hmac
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Any

from ..identifiers import checked_identifier

__all__ = ["ProxyRefusal", "Tokens", "TrustedProxy", "UsageError", "is_loopback"]

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
        headers: Collection[tuple[bytes, bytes]] = scope["headers"]
        if self.secret is not None:
            given = _values(headers, self.secret_header)
            if len(given) != 1 or not hmac.compare_digest(given[0], self.secret):
                raise ProxyRefusal(403, f"the reverse proxy has to send its secret once, in {self.secret_header}")
        users = _values(headers, self.user_header)
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


def _values(headers: Collection[tuple[bytes, bytes]], name: str) -> list[bytes]:
    wanted = name.lower().encode("latin-1")
    return [value.strip() for key, value in headers if key.lower() == wanted]
