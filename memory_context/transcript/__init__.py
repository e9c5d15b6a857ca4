"""Messages and decisions: everything that happened, append-only; saved and loaded."""

from .entries import (
    Arithmetic,
    Cleared,
    Decision,
    Entry,
    Expanded,
    Folded,
    Offloaded,
    Opened,
    Part,
    PartId,
    PlannedCompaction,
    Redelivered,
    Retained,
    Shortened,
    Shown,
    Stored,
    Withdrawn,
)
from .saved import load_transcript, save_transcript
from .transcript import Standing, Transcript

__all__ = [
    "Arithmetic",
    "Cleared",
    "Decision",
    "Entry",
    "Expanded",
    "Folded",
    "Offloaded",
    "Opened",
    "Part",
    "PartId",
    "PlannedCompaction",
    "Redelivered",
    "Retained",
    "Shortened",
    "Shown",
    "Standing",
    "Stored",
    "Transcript",
    "Withdrawn",
    "load_transcript",
    "save_transcript",
]
