"""Index rows of items: contents cut into passages, and their terms. Pure.

Passages have about 1,000 characters and end at paragraphs, headings, definitions, else lines or words.
"""

import math
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from memory_context.foundation.credentials.masks import masked_in_place, without_padding
from memory_context.foundation.errors import ItemDamagedError
from memory_context.foundation.patterns import regex
from memory_context.foundation.text.landmarks import KEYWORDS, MODIFIERS
from memory_context.foundation.text.tokenize import terms_of
from memory_context.foundation.utf8 import to_utf8

from ..items import content_of

__all__ = [
    "CHUNK_CHARACTERS",
    "INDEXED_CHARACTERS",
    "Chunk",
    "IndexedItem",
    "chunks_of",
    "index_claimed",
    "index_item",
    "strings_literal",
    "written_date",
]

CHUNK_CHARACTERS = 1_000
"""Target length; passages have half to one and a half of it, short contents less."""
INDEXED_CHARACTERS = 2_000_000
"""Only this much of a content, from its beginning, can be found."""

_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_MOST_OCCURRENCES = 255
_MOST_LENGTH_CODE = 255
_SHORTEST = CHUNK_CHARACTERS // 2
_LONGEST = CHUNK_CHARACTERS + _SHORTEST

_BEGINNING = regex(
    r"(?<=\n)(?=[^\r\n])(?:(?<=\n\n)|(?<=\n\r\n)"  # a paragraph
    r"|(?=#{1,6} |={3,} |-{3,} |diff --git |@@ |<h[1-6]\b"  # a heading
    rf"|{MODIFIERS}(?:{KEYWORDS}|namespace|CREATE) ))"
)
"""Every alternative looks at a bounded number of characters."""


@dataclass(frozen=True)
class Chunk:
    """A passage of a content.

    Attributes:
        start_char: From 0; `end_char` is exclusive.
        start_line: From 1, as `split("\\n")` counts.
    """

    number: int
    start_char: int
    end_char: int
    start_line: int
    end_line: int
    text: str


def chunks_of(content: str) -> list[Chunk]:
    """Return the passages of a content, without gaps; none only if it is empty."""
    chunks: list[Chunk] = []
    start, line = 0, 1
    for end in _ends(content):
        text = content[start:end]
        end_line = line + text.count("\n", 0, -1)
        chunks.append(Chunk(len(chunks), start, end, line, end_line, text))
        start, line = end, end_line + text.endswith("\n")
    return chunks


def _ends(content: str) -> Iterator[int]:
    stop = min(len(content), INDEXED_CHARACTERS)
    start = 0
    while stop - start > _LONGEST:
        # the rest is never shorter than _SHORTEST
        start = _best_cut(content, start + _SHORTEST, start + CHUNK_CHARACTERS, min(start + _LONGEST, stop - _SHORTEST))
        yield start
    if start < stop:
        yield stop


def _best_cut(content: str, low: int, aim: int, high: int) -> int:
    beginnings = [match.start() for match in _BEGINNING.finditer(content, low, high + 1)]
    if beginnings:
        return min(beginnings, key=lambda cut: (abs(cut - aim), cut))
    for end_of in ("\n", " "):
        if (cut := content.rfind(end_of, low, aim) + 1) or (cut := content.find(end_of, aim, high) + 1):
            return cut
    return _after_word(content, low, aim)


def _after_word(content: str, low: int, aim: int) -> int:
    """Return the last end of a word; `aim` if there is none."""
    for cut in range(aim, low, -1):
        last = content[cut - 1]
        if not (last.isalnum() or last == "_") and (content[cut].isalnum() or content[cut] == "_"):
            return cut
    return aim


@dataclass(frozen=True)
class IndexedItem:
    """The index entries of an item.

    Attributes:
        chunks: Empty if its content is indexed.
        masked_texts: Passages without credentials; "" if unchanged.
        postings: One number per passage. Bytes: garbage collection of lists stops all threads.
        names: Terms of its names, with a posting of the first passage: one occurrence, or none if the passage holds the
            term itself. Of a content that is one passage such terms are left out.
    """

    memory_id: int
    chunks: list[Chunk]
    masked_texts: list[str] = field(repr=False)
    postings: dict[str, bytearray] = field(repr=False)
    names: Mapping[str, int]


def index_item(memory_id: int, content: str, names: Sequence[str], *, masks_credentials: bool = True) -> IndexedItem:
    """Return the index entries of a content; names count for its first passage."""
    chunks = chunks_of(content) or [Chunk(0, 0, 0, 1, 1, "")]  # empty contents have names, too
    searched = masked_in_place(content) if masks_credentials else content  # whole, as a passage may cut a credential
    postings: defaultdict[str, bytearray] = defaultdict(bytearray)
    masked_texts: list[str] = []
    first_terms: list[str] = []
    for chunk in chunks:
        time.sleep(0)  # a thread that waits for the interpreter would wait 5 ms
        text = searched[chunk.start_char : chunk.end_char]
        masked_texts.append("" if text == chunk.text else without_padding(text))
        terms = terms_of(text)
        if chunk.number == 0:
            first_terms = terms
        base = (chunk.number << 16) | _length_code(len(terms))
        for term, count in Counter(terms).items():
            postings[term] += b"%d," % (base | (min(count, _MOST_OCCURRENCES) << 8))
    called = _names(names, first_terms, is_whole=len(chunks) == 1)
    return IndexedItem(memory_id, chunks, masked_texts, postings, called)


def _names(names: Sequence[str], first_terms: Sequence[str], *, is_whole: bool) -> dict[str, int]:
    """Return the postings of an item's names beside its first passage; `is_whole`: the content is one passage."""
    held, code = set(first_terms), _length_code(len(first_terms))
    called = sorted(set(terms_of("\n".join(names))))
    return {term: code if term in held else (1 << 8) | code for term in called if not (is_whole and term in held)}


def written_date(moment: datetime) -> str:
    """Return the day of a moment, in UTC, as people write it: `8 May 2023 2023-05-08`."""
    day = moment.astimezone(timezone.utc).date()
    return f"{day.day} {_MONTHS[day.month - 1]} {day.year} {day.isoformat()}"


def index_claimed(
    rows: Sequence[Mapping[str, Any]], masks: bool
) -> tuple[dict[str, Any], dict[int, list[dict[str, Any]]]]:
    """Return the parameters that index items, and their passages to embed, by item, of contents that have none yet.

    Raises:
        ItemDamagedError: A content is damaged.
    """
    items: list[tuple[int, IndexedItem]] = []
    first_passages = {row["content_id"]: row["first_text"] for row in rows if row["first_text"] is not None}
    for row in rows:
        memory_id, content_id = row["memory_id"], row["content_id"]
        names = [row["memory_key"], row["summary"], row["source"], *row["tags"]]
        if row["said_at"] is not None:
            names.append(written_date(row["said_at"]))
        if content_id in first_passages:
            first = first_passages[content_id]
            terms = terms_of(masked_in_place(first) if masks else first)
            called = _names(names, terms, is_whole=len(to_utf8(first)) == row["content_bytes"])
            item = IndexedItem(memory_id, [], [], {}, called)
        elif row["is_damaged"]:
            key = row["memory_key"]
            raise ItemDamagedError(f"item {key!r} is damaged in the database: it is not indexed")
        else:
            item = index_item(memory_id, content_of(row), names, masks_credentials=masks)
            first_passages[content_id] = item.chunks[0].text
        items.append((content_id, item))
    return _text_params(items), {
        item.memory_id: _to_embed(content_id, item) for content_id, item in items if item.chunks
    }


def _to_embed(content_id: int, item: IndexedItem) -> list[dict[str, Any]]:
    return [
        {"content_id": content_id, "chunk_number": chunk.number, "text": masked_text or chunk.text}
        for chunk, masked_text in zip(item.chunks, item.masked_texts, strict=True)
    ]


def _text_params(items: Sequence[tuple[int, IndexedItem]]) -> dict[str, Any]:
    """Array literals: faster than the driver's lists. Sorting here would hold all threads."""
    indexed = [(content_id, item) for content_id, item in items if item.chunks]
    chunks = [(item.memory_id, content_id, chunk) for content_id, item in indexed for chunk in item.chunks]
    names = sorted(
        (term, content_id, item.memory_id, posting)
        for content_id, item in items
        for term, posting in item.names.items()
    )
    return {
        "memory_ids": [item.memory_id for _, item in items],
        "content_ids": sorted({content_id for content_id, _ in items}),
        "indexed_memory_ids": [item.memory_id for _, item in indexed],
        "indexed_content_ids": [content_id for content_id, _ in indexed],
        "chunk_counts": [len(item.chunks) for _, item in indexed],
        "chunk_memory_ids": _integers(memory_id for memory_id, _, _ in chunks),
        "chunk_content_ids": _integers(content_id for _, content_id, _ in chunks),
        "chunk_numbers": _integers(chunk.number for _, _, chunk in chunks),
        "start_chars": _integers(chunk.start_char for _, _, chunk in chunks),
        "end_chars": _integers(chunk.end_char for _, _, chunk in chunks),
        "start_lines": _integers(chunk.start_line for _, _, chunk in chunks),
        "end_lines": _integers(chunk.end_line for _, _, chunk in chunks),
        "texts": strings_literal(chunk.text for _, _, chunk in chunks),
        "masked_texts": strings_literal(text for _, item in indexed for text in item.masked_texts),
        "term_memory_ids": _integers(item.memory_id for _, item in indexed for _ in item.postings),
        "term_content_ids": _integers(content_id for content_id, item in indexed for _ in item.postings),
        "terms": strings_literal(term for _, item in indexed for term in item.postings),
        "postings": strings_literal(
            f"{{{one[:-1].decode()}}}" for _, item in indexed for one in item.postings.values()
        ),
        "name_memory_ids": [memory_id for _, _, memory_id, _ in names],
        "name_content_ids": [content_id for _, content_id, _, _ in names],
        "names": strings_literal(term for term, _, _, _ in names),
        "name_postings": [posting for _, _, _, posting in names],
    }


def _integers(values: Iterable[int]) -> str:
    return "{" + ",".join(map(str, values)) + "}"


def strings_literal(values: Iterable[str]) -> str:
    """Return an array literal of strings."""
    return "{" + ",".join(['"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"' for value in values]) + "}"


def _length_code(length: int) -> int:
    return min(round(16 * math.log2(1 + length)), _MOST_LENGTH_CODE)
