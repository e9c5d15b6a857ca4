from .archiver import Archiver
from .cursor import ArchiveCursor, BatchJob, conversation_job, is_said, known_items, traces_of
from .resume import (
    ResumedSession,
    ResumeOutcome,
    ResumeReport,
    load_session,
    messages_meanwhile,
    new_session,
    rebuild_transcript,
    redacted_session,
    saved_session,
)
from .session import MISSING_HISTORY, Session

__all__ = [
    "MISSING_HISTORY",
    "ArchiveCursor",
    "Archiver",
    "BatchJob",
    "ResumeOutcome",
    "ResumeReport",
    "ResumedSession",
    "Session",
    "conversation_job",
    "is_said",
    "known_items",
    "load_session",
    "messages_meanwhile",
    "new_session",
    "rebuild_transcript",
    "redacted_session",
    "saved_session",
    "traces_of",
]
