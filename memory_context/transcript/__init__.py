"""Messages and decisions: everything that happened, append-only; saved and loaded."""

from .entries import (
    Cleared,
    Decision,
    Entry,
    Folded,
    Offloaded,
    Part,
    PartId,
    PlannedCompaction,
    Redelivered,
    Shortened,
    Shown,
    Stored,
)
from .saved import load_transcript, save_transcript
from .transcript import Standing, Transcript

__all__ = [
    "Cleared",
    "Decision",
    "Entry",
    "Folded",
    "Offloaded",
    "Part",
    "PartId",
    "PlannedCompaction",
    "Redelivered",
    "Shortened",
    "Shown",
    "Standing",
    "Stored",
    "Transcript",
    "load_transcript",
    "save_transcript",
]
