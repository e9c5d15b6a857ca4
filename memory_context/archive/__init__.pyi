from .archiver import Archiver
from .cursor import ArchiveCursor
from .loader import messages_meanwhile
from .report import ResumeReport
from .resume import ResumedSession
from .session import Session, saved_session

__all__ = [
    "ArchiveCursor",
    "Archiver",
    "ResumeReport",
    "ResumedSession",
    "Session",
    "messages_meanwhile",
    "saved_session",
]
