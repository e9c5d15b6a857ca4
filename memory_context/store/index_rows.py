"""What an item is found by, as rows: its passages, and for each term the passages that hold it. Pure."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from memory_context.indexing import Chunk, chunks_of, terms_of

__all__ = ["IndexedItem", "index_item", "vector_literal"]

_MOST_OCCURRENCES = 255
_MOST_LENGTH_CODE = 255


@dataclass(frozen=True)
class IndexedItem:
    """An item's passages and terms.

    Attributes:
        memory_id: The item.
        chunks: Its passages.
        postings: For each term a number for each passage that holds it, as the table says.
    """

    memory_id: int
    chunks: list[Chunk]
    postings: dict[str, list[int]] = field(repr=False)


def index_item(memory_id: int, content: str, names: Sequence[str]) -> IndexedItem:
    """Return the passages and terms of a content.

    Args:
        memory_id: The item.
        content: Its content, or as much of it as is indexed.
        names: What it is called: key, description, source, tags. Their terms count for the first passage, whose
            length they leave as it is.
    """
    chunks = chunks_of(content) or [Chunk(0, 0, 0, 1, 1, "")]  # an empty content is found by its names
    postings: dict[str, list[int]] = {}
    for chunk in chunks:
        terms = terms_of(chunk.text)
        occurrences = Counter(terms)
        if chunk.number == 0:
            occurrences.update(set(terms_of("\n".join(names))))
        base = (chunk.number << 16) | _length_code(len(terms))
        for term, count in occurrences.items():
            postings.setdefault(term, []).append(base | (min(count, _MOST_OCCURRENCES) << 8))
    return IndexedItem(memory_id, chunks, postings)


def vector_literal(vector: Sequence[float]) -> str:
    """Return a vector as Postgres reads it."""
    return "[" + ",".join([f"{value:.5g}" for value in vector]) + "]"


def _length_code(length: int) -> int:
    """Return a length in one byte, 4 % exact: the ranking needs no more."""
    return min(round(16 * math.log2(1 + length)), _MOST_LENGTH_CODE)
