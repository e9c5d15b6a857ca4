"""Claims: which process holds a live session.

A claim is no write lock: after a network split, the archive detects two writers.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple, Protocol

from memory_context.foundation.errors import SessionBusyError
from memory_context.foundation.identifiers import SessionKey

__all__ = ["Claims", "LocalClaims", "Redaction", "SessionKey", "SessionStates", "busy_text"]


class Claims(Protocol):
    """Gives each session to one holder; for one cache and event loop."""

    def watch(self, wanted: Callable[[SessionKey], None], lost: Callable[[SessionKey], None]) -> None:
        """Register callbacks on the event loop: another holder wants a session; a claim was lost."""
        ...

    async def claim(self, key: SessionKey, wait_seconds: float) -> None:
        """Return once this holder has the session; leave nothing behind if cancelled or failed.

        Raises:
            SessionBusyError: Another holder did not release it in time.
            StoreUnavailableError: The claims service does not answer.
        """
        ...

    async def release(self, key: SessionKey) -> None:
        """Release a session, held or not; never raises."""
        ...

    async def close(self) -> None: ...


class Redaction(Protocol):
    """What removes forgotten contents from a saved state."""

    def redacted(self, body: Any) -> Any: ...


class SessionStates(Protocol):
    """Saved states shared by processes: newer but less durable than the archive. All raise StoreUnavailableError."""

    async def save(self, key: SessionKey, state: Mapping[str, Any]) -> None: ...

    async def load(self, key: SessionKey) -> Mapping[str, Any] | None: ...

    async def delete(self, key: SessionKey) -> None: ...

    async def erase_traces(self, traces: Redaction, sessions: Collection[SessionKey]) -> None:
        """Rewrite the states of these sessions without forgotten contents."""
        ...

    async def close(self) -> None: ...


class LocalClaims:
    """Claims in memory; `beside` are those of another cache in this event loop for the same sessions."""

    def __init__(self, beside: "LocalClaims | None" = None) -> None:
        self._holders: dict[SessionKey, LocalClaims] = {} if beside is None else beside._holders
        self._waiting: dict[SessionKey, deque[_Waiter]] = {} if beside is None else beside._waiting
        self._wanted: Callable[[SessionKey], None] | None = None

    def watch(self, wanted: Callable[[SessionKey], None], lost: Callable[[SessionKey], None]) -> None:
        """Register `wanted`; local claims are never lost."""
        self._wanted = wanted

    async def claim(self, key: SessionKey, wait_seconds: float) -> None:
        """Return once this cache has the session, in FIFO order; `RuntimeError` if it has it already."""
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
        if self._waiting.get(key) and self._wanted is not None:  # they asked the previous holder
            asyncio.get_running_loop().call_soon(self._wanted, key)

    async def release(self, key: SessionKey) -> None:
        if self._holders.get(key) is self:
            self._pass_on(key)

    async def close(self) -> None:
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
    """Return the error text for a session held elsewhere."""
    return (
        f"another process is at work on session {key.session_id!r} and did not let go of it within "
        f"{wait_seconds:.3g} s; try again"
    )
