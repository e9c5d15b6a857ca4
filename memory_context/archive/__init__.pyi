from .archiver import Archiver
from .progress import Progress
from .report import ResumeReport
from .resuming import said_meanwhile
from .session import Session, saved_session
from .taking_up import TakenUp

__all__ = [
    "Archiver",
    "Progress",
    "ResumeReport",
    "Session",
    "TakenUp",
    "said_meanwhile",
    "saved_session",
]
