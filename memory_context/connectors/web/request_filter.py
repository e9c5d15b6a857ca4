"""Refuses requests of a browser that lead to hosts or addresses that are not allowed.

Chromium asks before it sends a request of any tab, frame or worker, and before it follows a redirect. (Playwright's
`route` is not asked about redirects, so a public page could lead to a private address.)
"""

import asyncio
import re
import socket
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Any
from urllib.parse import urlsplit

from playwright.async_api import Browser, CDPSession
from playwright.async_api import Error as PlaywrightError

from memory_context.foundation.errors import ConnectorError
from memory_context.foundation.patterns import regex
from memory_context.foundation.runtime.background import begin

__all__ = ["RequestFilter", "address_problem", "addresses_of", "host_rule"]

_REFUSALS = 50
_LOOK_UP_SECONDS = 10.0
_KNOWN_SECONDS, _MOST_KNOWN = 60.0, 1000
_PORTS = {"http": 80, "https": 443}
_HOST = regex(r"(\*\.)?(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::([0-9]{1,5}))?", re.IGNORECASE | re.ASCII)
_METADATA = frozenset(map(ip_address, ("168.63.129.16", "100.100.100.200", "192.0.0.192", "fd00:ec2::254")))
_NAT64 = IPv6Network("64:ff9b::/96")


class RequestFilter:
    """Lets a browser send requests to allowed hosts at public addresses only.

    Names are looked up here and again by Chromium, so a name server that answers differently is not stopped.

    Args:
        allowed_hosts: `example.org`, `*.example.org` (hosts below it), also with a port; None allows every public host.
        allow_private: Allow this machine and private networks. Link-local addresses and the metadata services of
            clouds stay refused.

    Attributes:
        refused: The newest refusals as text, each once; readers may clear it. Pages choose the hosts in it.

    Raises:
        ValueError: A rule of `allowed_hosts` is not a host.
    """

    def __init__(self, allowed_hosts: Sequence[str] | None = None, *, allow_private: bool = False) -> None:
        self.refused: deque[str] = deque(maxlen=_REFUSALS)
        if isinstance(allowed_hosts, str):
            raise ValueError(f"allowed_hosts={allowed_hosts!r}: give a list of hosts")
        self._rules = None if allowed_hosts is None else [host_rule(one) for one in allowed_hosts]
        self._allow_private = allow_private
        self._known: dict[str, tuple[float, Sequence[str]]] = {}

    async def attach(self, browser: Browser) -> None:
        """Filter all requests of a browser from now on."""
        session = await browser.new_browser_cdp_session()
        session.on("Fetch.requestPaused", lambda event: begin(self._answer(session, event)))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
        patterns = [{"urlPattern": f"{scheme}://*"} for scheme in _PORTS]
        await session.send("Fetch.enable", {"patterns": patterns})  # pyright: ignore[reportUnknownMemberType]

    async def _answer(self, session: CDPSession, event: dict[str, Any]) -> None:
        method, reason = "Fetch.failRequest", {"errorReason": "BlockedByClient"}
        try:
            if await self._is_allowed(event["request"]["url"]):
                method, reason = "Fetch.continueRequest", {}
        except (OSError, asyncio.TimeoutError):
            reason = {"errorReason": "NameNotResolved"}
        with suppress(PlaywrightError):  # the request, or the browser, ended meanwhile
            await session.send(method, {"requestId": event["requestId"], **reason})  # pyright: ignore[reportUnknownMemberType]

    async def _is_allowed(self, url: str) -> bool:
        parts = urlsplit(url)  # as Chromium spells it: numbers and names in one way
        host, port = (parts.hostname or "").removesuffix("."), parts.port or _PORTS[parts.scheme]
        try:
            is_named = self._rules is None or any(
                (host.endswith(f".{name}") if is_below else host == name) and only in (None, port)
                for is_below, name, only in self._rules
            )
            if not is_named:
                raise ConnectorError("it is not among the allowed hosts")
            # Chromium may choose any of the addresses
            for address in await self._known_addresses(host):
                if problem := address_problem(address, allow_private=self._allow_private):
                    raise ConnectorError(problem)
        except (ConnectorError, ValueError) as error:
            refusal = f"{parts.netloc.rpartition('@')[2][:200]}: {error}"
            if refusal in self.refused:
                self.refused.remove(refusal)
            self.refused.append(refusal)
            return False
        return True

    async def _known_addresses(self, host: str) -> Sequence[str]:
        ends_at, addresses = self._known.get(host, (0.0, ()))
        if time.monotonic() > ends_at:
            addresses = await asyncio.wait_for(addresses_of(host), _LOOK_UP_SECONDS)
            if len(self._known) >= _MOST_KNOWN:  # a page may name any number of hosts
                self._known.clear()
            self._known[host] = (time.monotonic() + _KNOWN_SECONDS, addresses)
        return addresses


async def addresses_of(host: str) -> list[str]:
    """Return the addresses of a host; OSError if there are none."""
    # as for Chromium, whatever a name server says
    if host == "localhost" or host.endswith(".localhost"):
        return ["127.0.0.1"]
    found = await asyncio.get_running_loop().getaddrinfo(host.encode(), None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


def host_rule(text: str) -> tuple[bool, str, int | None]:
    """Return a rule such as `*.example.org:443`: whether it is of the hosts below, the host, and the port if any."""
    match = None
    with suppress(UnicodeError):
        match = _HOST.fullmatch(text if text.isascii() else text.encode("idna").decode("ascii"))
    if match is None:
        raise ValueError(f"allowed host {text!r}: use a host, *.host, or host:port")
    return bool(match[1]), match[2].strip("[]").lower().removesuffix("."), int(match[3]) if match[3] else None


def address_problem(text: str, *, allow_private: bool) -> str:
    """Return why no connection may be made to an address; empty if one may.

    Link-local, multicast, unspecified and reserved addresses and the metadata services of clouds are never allowed.
    IPv6 addresses that carry an IPv4 address (mapped, NAT64, 6to4, Teredo) are judged by that.
    """
    address: IPv4Address | IPv6Address = ip_address(text)
    if isinstance(address, IPv6Address):
        is_carrying = address in _NAT64
        carried = IPv4Address(int(address) & 0xFFFFFFFF) if is_carrying else address.ipv4_mapped or address.sixtofour
        address = carried or (address.teredo or (None, address))[1]
    if address in _METADATA:
        return f"{text} is the metadata service of a cloud"
    for kind in ("unspecified", "multicast", "link_local", "site_local", "reserved"):
        if getattr(address, f"is_{kind}", False) and not address.is_loopback:  # ::1 counts as reserved, too
            return f"{text} is {kind.replace('_', '-')}"
    if not address.is_global and not allow_private:
        return f"{text} is an address of this machine or a private network, which are not allowed here"
    return ""
