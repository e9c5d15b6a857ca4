"""Whom to believe when a header says who asks: a reverse proxy that is known by its address or by a shared secret.

Promises: a user name counts only if the proxy sent it; it is refused if it came twice, since a proxy that adds a header
may leave the one of a client in place; the secret is compared in constant time and never shown.
"""

import hmac
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Any

from .tokens import UsageError, is_loopback

__all__ = ["ProxyRefusal", "TrustedProxy"]

_LOOPBACK = ("127.0.0.0/8", "::1/128")


class ProxyRefusal(Exception):
    """A request does not say who asks in a way that can be believed; the text says what is missing.

    Args:
        status: The HTTP status to answer with.
        detail: What is missing.
    """

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status


@dataclass(frozen=True)
class TrustedProxy:
    """A reverse proxy that says who asks.

    Attributes:
        user_header: The header with the user's id.
        networks: Where the proxy connects from.
        secret_header: The header with the shared secret.
        secret: The shared secret; None if the address is enough.
    """

    user_header: str
    networks: tuple[IPv4Network | IPv6Network, ...]
    secret_header: str = "X-Proxy-Secret"
    secret: bytes | None = field(default=None, repr=False)

    @classmethod
    def from_options(
        cls, user_header: str, host: str, addresses: Sequence[str], secret_env: str | None, secret_header: str
    ) -> "TrustedProxy":
        """Return what the options of a command describe.

        Args:
            user_header: The header with the user's id.
            host: Where the server listens. Only on loopback the address of the proxy may be left out.
            addresses: Addresses or networks of the proxy, such as `10.0.0.7` or `10.0.0.0/24`.
            secret_env: The environment variable with the shared secret; None for none.
            secret_header: The header with the shared secret.

        Raises:
            UsageError: Whoever connects would be believed, or an option cannot be read.
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
        """Return who asks.

        Args:
            scope: The ASGI scope of the request.

        Raises:
            ProxyRefusal: The proxy did not send it (403), it is missing (401), or it came twice (400).
        """
        if self.networks and not self._is_from_proxy((scope.get("client") or ("",))[0]):
            raise ProxyRefusal(403, f"{self.user_header} is believed from the reverse proxy only; ask through it")
        headers: Collection[tuple[bytes, bytes]] = scope["headers"]
        if self.secret is not None:
            given = _values(headers, self.secret_header)
            if len(given) != 1 or not hmac.compare_digest(given[0], self.secret):
                raise ProxyRefusal(403, f"the reverse proxy has to send its secret once, in {self.secret_header}")
        users = _values(headers, self.user_header)
        if len(users) > 1:
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
