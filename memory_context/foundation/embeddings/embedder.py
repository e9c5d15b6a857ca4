"""The protocol of embedders, checks of answers, preparation of texts."""

import asyncio
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, Protocol, cast, runtime_checkable

from ..errors import EmbeddingError
from ..runtime.background import attempt, in_thread_if_large
from ..utf8 import sendable

__all__ = [
    "Batching",
    "Embedder",
    "Purpose",
    "batches",
    "check_embedder",
    "check_name",
    "cut_to_bytes",
    "embed_checked",
    "embed_in_threads",
]

Purpose = Literal["document", "query"]
"""The text is found (a document), or finds others (a query)."""

_NAME_LIMIT_CHARACTERS = 100
_DIMENSIONS_LIMIT = 16_000  # of pgvector's type `vector`
_QUOTED_LIMIT_CHARACTERS = 200
_LEAST_LENGTH = 1e-150  # of a vector that has a direction; near the limits of float the length is inexact


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors; likeness is cosine similarity."""

    @property
    def name(self) -> str:
        """1 to 100 printable characters; only vectors of one name are compared."""
        ...

    @property
    def dimensions(self) -> int:
        """1 to 16,000."""
        ...

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> Sequence[Sequence[float]]:
        """Return a vector of any scale for each text, in order; all zeros for a text without meaning.

        Texts are valid Unicode without NUL, may be empty or long (cut them). Work in a thread.
        """
        ...


def check_embedder(embedder: Embedder) -> None:
    """Raise TypeError or ValueError for an unusable embedder."""
    if not isinstance(embedder, Embedder):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"{embedder!r} is no embedder: it needs `name`, `dimensions` and `async def embed`")
    check_name(embedder.name)
    dimensions = cast(Any, embedder.dimensions)
    if not isinstance(dimensions, int) or not 1 <= dimensions <= _DIMENSIONS_LIMIT:
        raise ValueError(f"embedder {embedder.name!r} has {dimensions!r} dimensions; give 1 to {_DIMENSIONS_LIMIT:,}")


def check_name(name: str) -> str:
    """Return the name, or raise ValueError."""
    if not isinstance(cast(Any, name), str) or not 0 < len(name) <= _NAME_LIMIT_CHARACTERS or not name.isprintable():
        raise ValueError(f"the name of an embedder is 1 to {_NAME_LIMIT_CHARACTERS} printable characters, not {name!r}")
    return name


async def embed_checked(
    embedder: Embedder, texts: Sequence[str], purpose: Purpose, *, timeout_seconds: float | None = None
) -> list[list[float] | None]:
    """Return unit vectors; None for a vector of zeros. A late embedder is cancelled, not awaited.

    Raises:
        EmbeddingError: The embedder failed, took too long, or gave an unusable answer.
    """
    if isinstance(texts, str):
        raise ValueError(f"embed_checked takes a list of texts, not the str {texts[:40]!r}; put it into a list")
    if not texts:
        return []
    answer = await _ask(embedder, [*map(sendable, texts)], purpose, timeout_seconds)
    return await in_thread_if_large(len(texts) * embedder.dimensions, _unit_vectors, embedder, answer, len(texts))


async def _ask(embedder: Embedder, texts: list[str], purpose: Purpose, timeout_seconds: float | None) -> Any:
    async def embed() -> Any:
        return await embedder.embed(texts, purpose)

    # embedders may ignore or raise a cancellation
    task = await attempt(embed(), timeout_seconds)
    if task is None:
        raise EmbeddingError(f"embedder {embedder.name!r} gave no answer within {timeout_seconds:g} seconds")
    try:
        return task.result()
    except BaseException as error:  # panics of native libraries
        reason = " ".join(str(error).split())[:_QUOTED_LIMIT_CHARACTERS]
        what = f"{type(error).__name__}: {reason}" if reason else type(error).__name__
        raise EmbeddingError(f"embedder {embedder.name!r} failed: {what}") from error


def _unit_vectors(embedder: Embedder, answer: Any, expected: int) -> list[list[float] | None]:
    try:
        vectors = list(cast(Iterable[Any], answer))
    except TypeError as error:
        raise _defect(embedder, f"answered with {type(answer).__name__} instead of vectors") from error
    if len(vectors) != expected:
        raise _defect(embedder, f"answered with {len(vectors)} vectors for {expected} texts")
    return [_unit_vector(embedder, vector, number) for number, vector in enumerate(vectors, 1)]


def _unit_vector(embedder: Embedder, vector: Any, number: int) -> list[float] | None:
    try:
        numbers = list(map(float, cast(Iterable[Any], vector)))
    except (TypeError, ValueError, OverflowError) as error:
        raise _defect(embedder, f"answered with something that is no vector of numbers (vector {number})") from error
    if len(numbers) != embedder.dimensions:
        raise _defect(embedder, f"answered with {len(numbers)} dimensions, not {embedder.dimensions} (vector {number})")
    length = math.hypot(*numbers)
    if not math.isfinite(length):
        raise _defect(embedder, f"answered with NaN or an infinite number (vector {number})")
    return [one / length for one in numbers] if length > _LEAST_LENGTH else None


def _defect(embedder: Embedder, what: str) -> EmbeddingError:
    return EmbeddingError(f"embedder {embedder.name!r} {what}")


# --- texts for models


class Batching(NamedTuple):
    """Limits of a text and of a batch."""

    text_characters: int
    texts: int
    characters: int


async def embed_in_threads(
    embed: Callable[[list[str]], list[list[float]]], texts: Sequence[str], batching: Batching
) -> list[list[float]]:
    """Embed texts batch by batch."""
    beginnings = [sendable(text[: batching.text_characters]) for text in texts]
    vectors: list[list[float]] = []
    for batch in batches(beginnings, batching.texts, batching.characters):
        vectors += await asyncio.to_thread(embed, batch)
    return vectors


def cut_to_bytes(text: str, limit_bytes: int) -> str:
    """Return the longest start within a limit."""
    start = text[:limit_bytes]
    if start.isascii():
        return start
    return start.encode()[:limit_bytes].decode(errors="ignore")


def batches(texts: Sequence[str], most_texts: int, most_characters: int) -> Iterator[list[str]]:
    """Yield batches within both limits; longer texts alone."""
    batch: list[str] = []
    characters = 0
    for text in texts:
        if batch and (len(batch) == most_texts or characters + len(text) > most_characters):
            yield batch
            batch, characters = [], 0
        batch.append(text)
        characters += len(text)
    if batch:
        yield batch
