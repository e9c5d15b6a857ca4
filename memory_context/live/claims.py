"""Which process a live session belongs to: the one that holds its claim.

A claim is held as long as the session is live, not for one request, so that in the steady state a request costs no
round trip. Who wants a session that another holds asks for it, and waits until the other, at the next moment it is not
at work on it, has made it durable and let go. A claim is no lock against writing: the archive notices by itself when
two write the same session, which is what remains when a network splits.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from memory_context.errors import SessionBusyError
from memory_context.identifiers import SessionKey

__all__ = ["Claims", "LocalClaims", "SessionKey", "SessionStates", "busy_text"]


class Claims(Protocol):
    """Gives each session to one holder at a time: a cache, through its own object of this kind.

    Used by one cache, under one event loop. Every wait has a bound, so that a service that dies holds nobody up.
    """

    def watch(self, wanted: Callable[[SessionKey], None], lost: Callable[[SessionKey], None]) -> None:
        """Call these, on the event loop, when another holder asks for a session, and when a claim was lost."""
        ...

    async def claim(self, key: SessionKey, wait_seconds: float) -> None:
        """Return once the session belongs to this holder; cancelled or failed, it leaves nothing behind.

        Raises:
            SessionBusyError: Another holder did not let go in time.
            StoreUnavailableError: The service that keeps the claims does not answer.
        """
        ...

    async def release(self, key: SessionKey) -> None:
        """Let go of a session, of which this need not be the holder; never raises."""
        ...

    async def close(self) -> None:
        """Let go of everything."""
        ...


class SessionStates(Protocol):
    """Saved states of sessions, which the processes share; newer than the archive, and lost with less regret."""

    async def save(self, key: SessionKey, state: Mapping[str, Any]) -> None:
        """Keep a session's state instead of the one before; raises StoreUnavailableError."""
        ...

    async def load(self, key: SessionKey) -> Mapping[str, Any] | None:
        """Return the state kept last, None if there is none; raises StoreUnavailableError."""
        ...

    async def delete(self, key: SessionKey) -> None:
        """Keep none; raises StoreUnavailableError."""
        ...

    async def close(self) -> None:
        """Let go of what is open."""
        ...


class LocalClaims:
    """Claims within one process, in memory: enough where all requests for a session reach the same process.

    Args:
        beside: The claims of another cache of this process, and this event loop, that may want the same sessions.
    """

    def __init__(self, beside: "LocalClaims | None" = None) -> None:
        self._holders: dict[SessionKey, LocalClaims] = {} if beside is None else beside._holders
        self._waiting: dict[SessionKey, deque[_Waiter]] = {} if beside is None else beside._waiting
        self._wanted: Callable[[SessionKey], None] | None = None

    def watch(self, wanted: Callable[[SessionKey], None], lost: Callable[[SessionKey], None]) -> None:
        """Call `wanted` when another cache asks; nothing is ever lost."""
        self._wanted = wanted

    async def claim(self, key: SessionKey, wait_seconds: float) -> None:
        """Return once the session belongs to this cache, first come first served.

        Raises:
            SessionBusyError: Another cache did not let go in time.
            RuntimeError: The session is claimed here already.
        """
        holder = self._holders.get(key)
        if holder is self:
            raise RuntimeError(f"session {key.session_id!r} is claimed here already")
        if holder is None:
            self._holders[key] = self
            return
        waiter = _Waiter(self, asyncio.get_running_loop().create_future())
        self._waiting.setdefault(key, deque()).append(waiter)
        if holder._wanted is not None:
            holder._wanted(key)
        try:
            await asyncio.wait([waiter.turn], timeout=wait_seconds)
        except asyncio.CancelledError:
            if waiter.turn.done():
                self._pass_on(key)
            raise
        finally:
            if not waiter.turn.done():
                self._waiting[key].remove(waiter)
        if not waiter.turn.done():
            raise SessionBusyError(busy_text(key, wait_seconds))
        if self._waiting.get(key) and self._wanted is not None:  # who asked the one before
            asyncio.get_running_loop().call_soon(self._wanted, key)

    async def release(self, key: SessionKey) -> None:
        """Let go of a session; who has waited for it longest has it now."""
        if self._holders.get(key) is self:
            self._pass_on(key)

    async def close(self) -> None:
        """Let go of everything."""
        for key in [key for key, holder in self._holders.items() if holder is self]:
            self._pass_on(key)

    def _pass_on(self, key: SessionKey) -> None:
        waiting = self._waiting.get(key)
        if waiting:
            waiter = waiting.popleft()
            self._holders[key] = waiter.claims
            waiter.turn.set_result(None)
        else:
            del self._holders[key]
            self._waiting.pop(key, None)


class _Waiter(NamedTuple):
    claims: LocalClaims
    turn: "asyncio.Future[None]"


def busy_text(key: SessionKey, wait_seconds: float) -> str:
    """Return what is said when another holder does not let go of a session."""
    return (
        f"another process is at work on session {key.session_id!r} and did not let go of it within "
        f"{wait_seconds:.3g} s; try again"
    )
