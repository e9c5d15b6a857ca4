"""The state of observation that an application saves by itself; `save_state` and the archive hold it anyway."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any, cast

from pydantic import TypeAdapter, ValidationError

from ..transcript import ObservationChunk, ObservationLog
from ..utf8 import escape_json, unescape_json

__all__ = ["BufferState", "ContinuationHint"]


@dataclass(frozen=True)
class ContinuationHint:
    """What the newest observation tells the agent; empty where it tells nothing."""

    current_task: str = ""
    suggested_response: str = ""


@dataclass(frozen=True)
class BufferState:
    """The log, and what is finished for it.

    Attributes:
        buffered_chunks: Finished, not in the log.
        buffer_watermark: Position up to which messages are observed; a state without it drops `buffered_chunks`.
        left: Position up to which messages left the view, except `kept`.
        lead: Text before the log.
    """

    observations: tuple[ObservationChunk, ...] = ()
    continuation_hint: ContinuationHint = ContinuationHint()
    observation_token_count: int = 0
    generation_count: int = 0
    buffered_chunks: tuple[ObservationChunk, ...] = ()
    buffer_watermark: int | None = None
    left: int = 0
    kept: tuple[int, ...] = ()
    lead: str = ""
    lead_tokens: int = 0

    @classmethod
    def of(cls, log: ObservationLog) -> "BufferState":
        hints = log.hints
        hint = ContinuationHint() if hints is None else ContinuationHint(hints.current_task, hints.suggested_response)
        chunks, buffered = tuple(log.chunks), tuple(log.buffered)
        places = (log.left, log.kept, log.lead, log.lead_tokens)
        return cls(chunks, hint, log.tokens, log.generation, buffered, log.observed, *places)

    def to_log(self) -> ObservationLog:
        """Return the log that was saved."""
        buffered = [*self.buffered_chunks] if self.buffer_watermark is not None else []
        logged = self.observations[-1].last if self.observations else self.left
        log = ObservationLog(min(self.left, logged), logged, buffered[-1].last if buffered else logged)
        return replace(
            log,
            kept=self.kept,
            chunks=[*self.observations],
            buffered=buffered,
            lead=self.lead,
            lead_tokens=self.lead_tokens,
            generation=self.generation_count,
        )

    def to_json(self) -> dict[str, Any]:
        """Return it JSON-native."""
        return escape_json(asdict(self, dict_factory=_json_object))

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "BufferState":
        """Return a saved state, its dates as datetimes; raise ValueError if it is none."""
        try:
            return _STATE.validate_python(unescape_json(dict(data)))
        except (ValidationError, TypeError) as error:
            raise ValueError(f"this is no state of observations: {error}") from error


_STATE: TypeAdapter[BufferState] = TypeAdapter(BufferState)


def _json_object(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    return {name: _json_value(value) for name, value in pairs}


def _json_value(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_json_value(one) for one in cast("tuple[Any, ...]", value)]
    return value.isoformat() if isinstance(value, datetime) else value
