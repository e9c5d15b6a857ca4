"""Passages of contents, and what a search knows of them."""

from .candidates import Candidate, PassagePlace, QueryProfile
from .chunking import INDEXED_CHARACTERS, Chunk, chunks_of

__all__ = [
    "INDEXED_CHARACTERS",
    "Candidate",
    "Chunk",
    "PassagePlace",
    "QueryProfile",
    "chunks_of",
]
