from .archiver import Archiver
from .cursor import ArchiveCursor
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
    "ResumeOutcome",
    "ResumeReport",
    "ResumedSession",
    "Session",
    "load_session",
    "messages_meanwhile",
    "new_session",
    "rebuild_transcript",
    "redacted_session",
    "saved_session",
]
