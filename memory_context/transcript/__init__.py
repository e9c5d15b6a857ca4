"""Messages and decisions: everything that happened, append-only; saved and loaded."""

from .entries import (
    Cleared,
    Compacted,
    Decision,
    Entry,
    Folded,
    Offloaded,
    Part,
    PartId,
    Redelivered,
    Shown,
    Shrunk,
    Stored,
)
from .saved import load_transcript, save_transcript
from .transcript import Standing, Transcript

__all__ = [
    "Cleared",
    "Compacted",
    "Decision",
    "Entry",
    "Folded",
    "Offloaded",
    "Part",
    "PartId",
    "Redelivered",
    "Shown",
    "Shrunk",
    "Standing",
    "Stored",
    "Transcript",
    "load_transcript",
    "save_transcript",
]
