"""What the coordinator needs of the context: its views, and something that makes observations."""

from collections.abc import Sequence
from typing import Protocol

from ..transcript import Arithmetic, Decision, Edit, ObservationChunk, ObservationRecord
from .events import EventHandlers

__all__ = ["NextView", "Observers", "Reflection", "Views"]


class NextView(Protocol):
    """A view before it is handed out."""

    tokens: int

    def tokens_at(self, first: int, last: int) -> int: ...


class Views(Protocol):
    """The views of the session, as its budget plans them."""

    def next(self) -> NextView:
        """Render the view as it is now."""
        ...

    def plan(self) -> None:
        """Record the compactions that pay."""
        ...

    def record(self, decision: Decision) -> None: ...

    def refold(self) -> None:
        """Let a fold begin where the log ends."""
        ...

    def arithmetic(self, removed_tokens: int, rewritten_tokens: int) -> Arithmetic: ...


class Reflection(Protocol):
    """Edits of a log; `level` is the compression level."""

    @property
    def edits(self) -> Sequence[Edit]: ...

    @property
    def level(self) -> int: ...

    @property
    def record(self) -> ObservationRecord | None: ...


class Observers(Protocol):
    """Makes observations, with or without a model."""

    events: EventHandlers

    @property
    def is_on(self) -> bool:
        """False without a model, unless digests are wanted."""
        ...

    @property
    def is_ready(self) -> bool:
        """False while a model that failed is left alone."""
        ...

    @property
    def window_tokens(self) -> int:
        """The view's window; 0 if it is unknown."""
        ...

    @property
    def lead(self) -> str:
        """Text before a log."""
        ...

    async def light_window_tokens(self) -> int: ...

    async def observe(
        self, first: int, last: int, previous: str, *, is_sync: bool, is_strict: bool = False
    ) -> ObservationChunk:
        """Return the observations of a range; `is_strict` raises LightModelError instead of making a digest."""
        ...

    async def reflection_threshold(self) -> int:
        """Return the log's tokens from which it is condensed."""
        ...

    async def reflect(
        self, chunks: Sequence[ObservationChunk], limit_tokens: int, *, is_sync: bool, is_model_asked: bool = True
    ) -> Reflection: ...
