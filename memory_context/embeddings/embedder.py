"""What an embedder is, and the one place where its answers are checked.

Embedders are plug-ins: they answer late, with the wrong number of vectors, with NaN, or not at all. `embed_checked`
stands between them and the store, so that whatever reaches an index is a unit vector of the right dimension.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any, Literal, Protocol, cast, runtime_checkable

from ..errors import EmbeddingError
from ..runtime import attempt, in_thread_if_large
from .inputs import well_formed

__all__ = ["Embedder", "Purpose", "check_embedder", "check_name", "embed_checked"]

Purpose = Literal["document", "query"]
"""What a text is embedded for: to be found, or to find. Some models treat the two differently."""

_NAME_LIMIT_CHARACTERS = 100
_DIMENSIONS_LIMIT = 16_000  # of pgvector's type `vector`
_QUOTED_LIMIT_CHARACTERS = 200


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors whose cosine similarity is the texts' likeness; bring your own by this protocol."""

    @property
    def name(self) -> str:
        """What identifies the vectors, in 1 to 100 printable characters.

        Vectors of different names are never compared, so everything that changes them belongs into it: the model, its
        version, a prefix, a shortened dimension.
        """
        ...

    @property
    def dimensions(self) -> int:
        """How many numbers each vector has: 1 to 16,000."""
        ...

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> Sequence[Sequence[float]]:
        """Return one vector for each text, in the same order and of any scale; all zeros for a text without meaning.

        It is called by `embed_checked`: the texts are valid Unicode without NUL, may be empty and may be long (cut
        them). It may raise anything. It runs on the event loop, so work that takes long belongs into a thread.
        """
        ...


def check_embedder(embedder: Embedder) -> None:
    """Do nothing if `embedder` can be used, as far as that shows without asking it for a vector.

    Raises:
        TypeError: It lacks a part of the protocol.
        ValueError: Its name or its dimensions are unusable.
    """
    if not isinstance(embedder, Embedder):  # pyright: ignore[reportUnnecessaryIsInstance] - users may not check types
        raise TypeError(f"{embedder!r} is no embedder: it needs `name`, `dimensions` and `async def embed`")
    check_name(embedder.name)
    dimensions = cast(Any, embedder.dimensions)
    if not isinstance(dimensions, int) or not 1 <= dimensions <= _DIMENSIONS_LIMIT:
        raise ValueError(f"embedder {embedder.name!r} has {dimensions!r} dimensions; give 1 to {_DIMENSIONS_LIMIT:,}")


def check_name(name: str) -> str:
    """Return the name of an embedder if it is one.

    Raises:
        ValueError: It is not 1 to 100 printable characters.
    """
    if not isinstance(cast(Any, name), str) or not 0 < len(name) <= _NAME_LIMIT_CHARACTERS or not name.isprintable():
        raise ValueError(f"the name of an embedder is 1 to {_NAME_LIMIT_CHARACTERS} printable characters, not {name!r}")
    return name


async def embed_checked(
    embedder: Embedder, texts: Sequence[str], purpose: Purpose, *, timeout_seconds: float | None = None
) -> list[list[float] | None]:
    """Return one vector of length 1 for each text; None where the embedder sees no meaning.

    None stands for a vector of zeros, such as that of an empty text: it has no direction, and its cosine distance to
    anything is NaN in pgvector. Lone surrogates reach the embedder as U+FFFD, NUL as a space. A cancelled or late
    embedder is cancelled and not waited for.

    Args:
        embedder: Anything that follows the protocol.
        texts: May be empty; then the embedder is not asked.
        purpose: Whether the texts are to be found or to find.
        timeout_seconds: How long to wait for the answer; None waits as long as it takes.

    Raises:
        EmbeddingError: The embedder failed, took too long, or its answer is not what was asked for.
        ValueError: `texts` is a single str.
    """
    if isinstance(texts, str):
        raise ValueError(f"embed_checked takes a list of texts, not the str {texts[:40]!r}; put it into a list")
    if not texts:
        return []
    answer = await _ask(embedder, [well_formed(text) for text in texts], purpose, timeout_seconds)
    return await in_thread_if_large(len(texts) * embedder.dimensions, _unit_vectors, embedder, answer, len(texts))


async def _ask(embedder: Embedder, texts: list[str], purpose: Purpose, timeout_seconds: float | None) -> Any:
    """Return the answer as it came.

    The embedder runs in a task of its own: one that does not let itself be cancelled holds up nobody, and one that was
    cancelled from within does not look like a cancellation of the caller.
    """

    async def embed() -> Any:
        return await embedder.embed(texts, purpose)

    task = await attempt(embed(), timeout_seconds)
    if task is None:
        raise EmbeddingError(f"embedder {embedder.name!r} gave no answer within {timeout_seconds:g} seconds")
    try:
        return task.result()
    except BaseException as error:  # panics of native libraries are no Exception
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
    if not all(map(math.isfinite, numbers)):
        raise _defect(embedder, f"answered with NaN or an infinite number (vector {number})")
    return _normalised(numbers)


def _normalised(numbers: list[float]) -> list[float] | None:
    length = math.hypot(*numbers)
    if not 1e-150 < length < 1e150:  # near the ends of what a float can say its length is inexact or infinite
        largest = max(map(abs, numbers))
        if largest == 0:
            return None
        numbers = [number / largest for number in numbers]
        length = math.hypot(*numbers)
    return [number / length for number in numbers]


def _defect(embedder: Embedder, what: str) -> EmbeddingError:
    return EmbeddingError(f"embedder {embedder.name!r} {what}")
