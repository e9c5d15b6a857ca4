"""Events of a context, and the handlers of applications that are called for them."""

import inspect
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from .runtime.background import Background, attempt

__all__ = ["ContextEvent", "EventHandlers", "EventName", "Handler"]

EventName = Literal["stored", "compacted", "folded", "expanded", "recalled", "observed", "forgotten", "failed"]
"""The events that applications can hear of."""

Handler = Callable[[Any], object]

_HANDLER_SECONDS = 1.0


@dataclass(frozen=True)
class ContextEvent:
    """Something that happened in a context.

    Attributes:
        what: An `EventName`, or a kind that only the audit trail knows.
        keys: Of the items that it is about.
        why: In words, without secrets; it may quote the user.
        tokens: Of the contents that were stored, compacted, folded or opened, or of the observations. What opens for
            several reasons is one event for each, of which the first has all tokens.
        reason: One of a few words, such as `budget`.
    """

    what: str
    keys: tuple[str, ...] = ()
    why: str = ""
    tokens: int = 0
    reason: str = ""
    session_id: str = ""


class EventHandlers:
    """Handlers by kind of event, called in order, one after another. One that raises, or takes a second, is logged.

    They run at the end of the step in which something happened, or soon after it in the background.
    """

    def __init__(self) -> None:
        self.logger = logging.getLogger("memory_context")
        self._handlers: dict[Hashable, list[Handler]] = {}
        self._waiting: deque[Callable[[], Awaitable[None]]] = deque()
        self._soon = Background[None]("memory_context handlers")
        self._is_firing = False

    def add(self, kind: Hashable, handler: Handler) -> Callable[[], None]:
        """Call a function with each event of this kind; the returned function ends that."""
        handlers = self._handlers.setdefault(kind, [])
        handlers.append(handler)

        def remove() -> None:
            with suppress(ValueError):  # removed already
                handlers.remove(handler)

        return remove

    def note(self, kind: Hashable, make: Callable[[], object]) -> None:
        """Keep an event for its handlers; without any it is not made."""
        if not (handlers := self._handlers.get(kind)):
            return
        event = make()
        self._waiting += [partial(self._call, handler, event) for handler in handlers]
        with suppress(RuntimeError):  # a thread without an event loop: the next step calls them
            self._soon.start(self.fire)

    async def fire(self) -> None:
        """Call the handlers of the events so far, unless that goes on already. Never raises."""
        if self._is_firing:  # a handler uses its context, or is awaited elsewhere: the order stays
            return
        self._is_firing = True
        try:
            while self._waiting:
                await self._waiting.popleft()()
        finally:
            self._is_firing = False

    async def settle(self, seconds: float) -> None:
        """Wait in limits until no event waits."""
        await self.fire()
        await self._soon.wait(seconds)

    async def _call(self, handler: Handler, event: object) -> None:
        try:
            result = handler(event)
            if inspect.isawaitable(result):
                task = await attempt(result, _HANDLER_SECONDS)
                if task is None:
                    raise TimeoutError(f"it took over {_HANDLER_SECONDS:g} s")
                task.result()
        except Exception:
            self.logger.exception("a handler of %s failed", type(event).__name__)
