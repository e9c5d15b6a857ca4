"""What an item is found by, as rows: its passages, and for each term the passages that hold it. Pure."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from memory_context.credentials import masked_in_place
from memory_context.escaping import escape
from memory_context.indexing import Chunk, chunks_of, terms_of

__all__ = ["IndexedItem", "index_item", "text_params", "vector_literal"]

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


def index_item(memory_id: int, content: str, names: Sequence[str], *, masks_credentials: bool = True) -> IndexedItem:
    """Return the passages and terms of a content.

    Args:
        memory_id: The item.
        content: Its content, or as much of it as is indexed.
        names: What it is called: key, description, source, tags. Their terms count for the first passage, whose
            length they leave as it is.
        masks_credentials: Whether credentials are no terms; the passages keep them.
    """
    chunks = chunks_of(content) or [Chunk(0, 0, 0, 1, 1, "")]  # an empty content is found by its names
    searched = masked_in_place(content) if masks_credentials else content  # the whole, as a passage may cut one
    postings: dict[str, list[int]] = {}
    for chunk in chunks:
        terms = terms_of(searched[chunk.start_char : chunk.end_char])
        occurrences = Counter(terms)
        if chunk.number == 0:
            occurrences.update(set(terms_of("\n".join(names))))
        base = (chunk.number << 16) | _length_code(len(terms))
        for term, count in occurrences.items():
            postings.setdefault(term, []).append(base | (min(count, _MOST_OCCURRENCES) << 8))
    return IndexedItem(memory_id, chunks, postings)


def text_params(items: Sequence[IndexedItem]) -> dict[str, Any]:
    """Return the parameters of the statements that write passages and terms.

    The terms are in the order of their index, and spelled out as Postgres reads arrays: there are so many that the
    driver would take longer for its lists than the server for the rows.
    """
    chunks = [(item.memory_id, chunk) for item in items for chunk in item.chunks]
    terms = sorted((term, item.memory_id, numbers) for item in items for term, numbers in item.postings.items())
    return {
        "memory_ids": [item.memory_id for item in items],
        "chunk_counts": [len(item.chunks) for item in items],
        "chunk_memory_ids": [memory_id for memory_id, _ in chunks],
        "chunk_numbers": [chunk.number for _, chunk in chunks],
        "start_chars": [chunk.start_char for _, chunk in chunks],
        "end_chars": [chunk.end_char for _, chunk in chunks],
        "start_lines": [chunk.start_line for _, chunk in chunks],
        "end_lines": [chunk.end_line for _, chunk in chunks],
        "texts": [escape(chunk.text) for _, chunk in chunks],
        "term_memory_ids": _integers(memory_id for _, memory_id, _ in terms),
        "terms": _strings(term for term, _, _ in terms),
        "postings": _strings(_integers(numbers) for _, _, numbers in terms),
    }


def _integers(values: Iterable[int]) -> str:
    return "{" + ",".join(map(str, values)) + "}"


def _strings(values: Iterable[str]) -> str:
    """Return an array of strings that Postgres `text` takes, each in quotation marks, so that none means anything."""
    return "{" + ",".join(['"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"' for value in values]) + "}"


def vector_literal(vector: Sequence[float]) -> str:
    """Return a vector as Postgres reads it."""
    return "[" + ",".join([f"{value:.5g}" for value in vector]) + "]"


def _length_code(length: int) -> int:
    """Return a length in one byte, 4 % exact: the ranking needs no more."""
    return min(round(16 * math.log2(1 + length)), _MOST_LENGTH_CODE)
