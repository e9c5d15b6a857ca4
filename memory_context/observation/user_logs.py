"""Observation logs of the user's sessions, joined when they are read: no row is shared between sessions."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any

from ..memory import AgentMemory
from ..store import SessionInfo
from ..transcript import LOG_DECISIONS, ObservationChunk, ObservationLine, load_log

__all__ = ["SessionObservations", "by_session", "newest_lines", "observations_of_user"]


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


def newest_lines(
    logs: Iterable[SessionObservations], *, since: datetime | None = None, until: datetime | None = None
) -> list[tuple[SessionInfo, ObservationLine]]:
    """Return the lines of a time, newest first."""
    lines = [(log.session, line) for log in logs for chunk in log.chunks for line in chunk.lines]
    wanted = [one for one in lines if (not since or one[1].at >= since) and (not until or one[1].at < until)]
    return sorted(wanted, key=lambda one: (one[1].at, one[0].session_id, one[1].id), reverse=True)


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
