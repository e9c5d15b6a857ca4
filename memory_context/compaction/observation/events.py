"""Events of observations for applications."""

import inspect
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import partial
from typing import Any

from autogen_core.models import LLMMessage

from memory_context.foundation.runtime.background import attempt

__all__ = ["EventHandlers", "ObservationEvent", "ReflectionEvent"]

_HANDLER_SECONDS = 1.0


def _now() -> datetime:
    return datetime.now(timezone.utc)


@dataclass(frozen=True)
class ObservationEvent:
    """Messages gave way to observations, or `observe_now` added some.

    Attributes:
        compacted_messages: Those that the observations stand for; texts that only the store holds are empty.
        observations: As the view shows them.
        context_utilization: Share of the window that the view took before; 0.0 for `observe_now`.
        sync: True if the step waited for the observer.
    """

    compacted_messages: tuple[LLMMessage, ...]
    observations: str
    context_utilization: float
    sync: bool
    timestamp: datetime = field(default_factory=_now)


@dataclass(frozen=True)
class ReflectionEvent:
    """The log was condensed.

    Attributes:
        generation_count: Reflections of the session so far.
        compression_level: 0 to 4.
    """

    previous_observations: str
    new_observations: str
    generation_count: int
    compression_level: int
    timestamp: datetime = field(default_factory=_now)


Handler = Callable[[Any], object]


class EventHandlers:
    """Handlers by type of event, called in order. One that raises, or takes over a second, is logged."""

    def __init__(self) -> None:
        self.logger = logging.getLogger("memory_context")
        self._handlers: dict[type, list[Handler]] = {}
        self._waiting: list[Callable[[], Awaitable[None]]] = []

    def add(self, kind: type, handler: Handler) -> None:
        self._handlers.setdefault(kind, []).append(handler)

    def note(self, kind: type, make: Callable[[], object]) -> None:
        """Keep an event until `fire`; without handlers it is not made."""
        if handlers := self._handlers.get(kind):
            event = make()
            self._waiting += [partial(self._call, handler, event) for handler in handlers]

    @property
    def has_news(self) -> bool:
        return bool(self._waiting)

    async def fire(self) -> None:
        """Call the handlers of the events so far. Never raises."""
        while self._waiting:
            await self._waiting.pop(0)()

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
