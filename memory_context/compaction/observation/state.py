"""The state of observation that an application saves by itself; `save_state` and the archive hold it anyway."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from itertools import groupby
from typing import Any, cast

from pydantic import TypeAdapter, ValidationError

from memory_context.foundation.utf8 import escape_json, unescape_json
from memory_context.memory.agent_memory import AgentMemory
from memory_context.sessions.transcript.codec import LOG_DECISIONS, load_log
from memory_context.sessions.transcript.observations import ObservationChunk, ObservationLine, ObservationLog
from memory_context.store.conversations import SessionInfo

__all__ = [
    "BufferState",
    "ContinuationHint",
    "SessionObservations",
    "by_session",
    "newest_lines",
    "observations_of_user",
]


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


@dataclass(frozen=True)
class SessionObservations:
    """The observation log of one session, as far as it was archived; finished chunks of it included."""

    session: SessionInfo
    chunks: tuple[ObservationChunk, ...]


async def observations_of_user(memory: AgentMemory, limit: int = 20) -> list[SessionObservations]:
    """Return the logs of the user's other sessions, last used first; none for an agent that reads its own items only.

    Raises:
        StoreError: The archive cannot be read.
    """
    if memory.sharing != "shared":
        return []
    archived = await memory.memory_store.conversations.log_decisions(
        memory.user_id, LOG_DECISIONS, session_id=memory.session_id, limit=limit
    )
    logs = [SessionObservations(session, _chunks(decisions)) for session, decisions in archived]
    return [log for log in logs if log.chunks]


def newest_lines(logs: Iterable[SessionObservations]) -> list[tuple[SessionInfo, ObservationLine]]:
    """Return the lines of all logs, newest first."""
    lines = [(log.session, line) for log in logs for chunk in log.chunks for line in chunk.lines]
    return sorted(lines, key=lambda one: (one[1].at, one[0].session_id, one[1].id), reverse=True)


def by_session(lines: Sequence[tuple[SessionInfo, ObservationLine]]) -> list[tuple[SessionInfo, ObservationChunk]]:
    """Return consecutive lines of a session as chunks, each in the session's order."""
    joined: list[tuple[SessionInfo, ObservationChunk]] = []
    for session, group in groupby(lines, lambda one: one[0]):
        own = tuple(sorted((line for _, line in group), key=lambda line: (line.at, line.id)))
        first = min(begin for line in own for begin, _ in line.ranges)
        last = max(end for line in own for _, end in line.ranges)
        joined.append((session, ObservationChunk(first, last, own)))
    return joined


def _chunks(saved: Sequence[Mapping[str, Any]]) -> tuple[ObservationChunk, ...]:
    log = load_log(saved)
    return (*log.chunks, *log.buffered)
