"""Refuses requests of a browser that lead to hosts or addresses that are not allowed.

Chromium asks before it sends a request of any tab, frame or worker, and before it follows a redirect. (Playwright's
`route` is not asked about redirects, so a public page could lead to a private address.)
"""

import asyncio
import socket
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from memory_context.foundation.errors import ConnectorError
from memory_context.foundation.runtime.background import begin, in_own_thread

from .addresses import HostRules, Target, address_problem, check_port, parse_authority
from .capture import PlaywrightError

if TYPE_CHECKING:
    from playwright.async_api import Browser, CDPSession

__all__ = ["RequestFilter", "addresses_of"]

_REFUSALS = 50
_LOOK_UP_SECONDS = 10.0
_LOOK_UPS = 8  # at once: a page may name any number of hosts
_KNOWN_SECONDS = 60.0
_MOST_KNOWN = 1000
_PORTS = {"http": 80, "https": 443}


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

    _looking_up: asyncio.Semaphore

    def __init__(self, allowed_hosts: Sequence[str] | None = None, *, allow_private: bool = False) -> None:
        self.refused: deque[str] = deque(maxlen=_REFUSALS)
        self._rules = HostRules(allowed_hosts)
        self._allow_private = allow_private
        self._known: dict[str, tuple[float, Sequence[str]]] = {}

    async def attach(self, browser: "Browser") -> None:
        """Filter all requests of a browser from now on."""
        self._looking_up = asyncio.Semaphore(_LOOK_UPS)  # of this event loop
        session = await browser.new_browser_cdp_session()
        session.on("Fetch.requestPaused", lambda event: begin(self._answer(session, event)))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
        patterns = [{"urlPattern": f"{scheme}://*"} for scheme in _PORTS]
        await session.send("Fetch.enable", {"patterns": patterns})  # pyright: ignore[reportUnknownMemberType]

    async def _answer(self, session: "CDPSession", event: dict[str, Any]) -> None:
        method, reason = "Fetch.failRequest", {"errorReason": "BlockedByClient"}
        try:
            if await self._is_allowed(event["request"]["url"]):
                method, reason = "Fetch.continueRequest", {}
        except (OSError, asyncio.TimeoutError):
            reason = {"errorReason": "NameNotResolved"}
        with suppress(PlaywrightError):  # the request, or the browser, ended meanwhile
            await session.send(method, {"requestId": event["requestId"], **reason})  # pyright: ignore[reportUnknownMemberType]

    async def _is_allowed(self, url: str) -> bool:
        asked = url
        try:
            parts = urlsplit(url)
            target = parse_authority(parts.netloc.rpartition("@")[2], _PORTS[parts.scheme])
            asked = str(target)
            await self._check(target)
        except (ConnectorError, ValueError) as error:
            refusal = f"{asked[:200]}: {error}"
            if refusal in self.refused:
                self.refused.remove(refusal)
            self.refused.append(refusal)
            return False
        return True

    async def _check(self, target: Target) -> None:
        self._rules.check(target)
        check_port(target.port)
        # Chromium may choose any of the addresses
        for address in await self._addresses(target.host):
            if problem := address_problem(address, allow_private=self._allow_private):
                raise ConnectorError(problem)

    async def _addresses(self, host: str) -> Sequence[str]:
        ends_at, addresses = self._known.get(host, (0.0, ()))
        if time.monotonic() > ends_at:
            async with self._looking_up:
                look_up = asyncio.wrap_future(in_own_thread(lambda: addresses_of(host), "memory_context look-up"))
                addresses = await asyncio.wait_for(look_up, _LOOK_UP_SECONDS)
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[host] = (time.monotonic() + _KNOWN_SECONDS, addresses)
        return addresses


def addresses_of(host: str) -> list[str]:
    """Return the addresses of a host; raises OSError if there are none.

    Names of `localhost` are this machine, as for Chromium, whatever a name server says.
    """
    if host == "localhost" or host.endswith(".localhost"):
        return ["127.0.0.1"]
    found = socket.getaddrinfo(host.encode(), None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))
