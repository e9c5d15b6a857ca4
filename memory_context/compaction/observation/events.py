"""Events of observations for applications."""

from dataclasses import dataclass, field
from datetime import datetime, timezone

from autogen_core.models import LLMMessage

__all__ = ["ObservationEvent", "ReflectionEvent"]


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
