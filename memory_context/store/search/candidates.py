"""What a search knows of a passage that could answer, and of the query: values between the store and the ranking."""

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["Candidate", "PassagePlace", "QueryProfile"]

PassagePlace = tuple[int, int]
"""The content that a passage is of, and the number of the passage there."""


@dataclass(frozen=True)
class Candidate:
    """A passage that could answer a query, or stands beside one.

    Attributes:
        content_id: What it is a passage of.
        chunk_number: Its number there.
        lexical: BM25 of the query's terms; 0 if it has none of them.
        semantic: Cosine similarity of its embedding to the query's; None without one.
        length: Characters.
        before: The passage before it: in its content, or of the item before it in its session; None if none is known.
        after: The passage after it.
    """

    content_id: int
    chunk_number: int
    lexical: float
    semantic: float | None
    length: int
    before: PassagePlace | None
    after: PassagePlace | None


@dataclass(frozen=True)
class QueryProfile:
    """How rare the terms of a query are in the user's memory.

    Attributes:
        passages: How many passages the user has.
        frequencies: For each of its terms, in how many of them it occurs.
    """

    passages: int
    frequencies: Mapping[str, int]
