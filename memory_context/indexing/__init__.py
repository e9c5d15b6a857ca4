"""How a text is made findable: cut into passages, and each passage into the terms it is found by."""

from .candidates import Candidate, PassagePlace, QueryProfile
from .chunking import INDEXED_CHARACTERS, Chunk, chunks_of
from .terms import TERM_LIMIT_CHARACTERS, query_terms, query_words, telling_terms, terms_of

__all__ = [
    "INDEXED_CHARACTERS",
    "TERM_LIMIT_CHARACTERS",
    "Candidate",
    "Chunk",
    "PassagePlace",
    "QueryProfile",
    "chunks_of",
    "query_terms",
    "query_words",
    "telling_terms",
    "terms_of",
]
