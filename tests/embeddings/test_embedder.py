"""What embed_checked lets through, and what it says of the rest."""

import asyncio
import math
import subprocess
import sys
from array import array
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_context.foundation.embeddings.embedder import (
    Embedder,
    Purpose,
    batches,
    check_embedder,
    cut_to_bytes,
    embed_checked,
)
from memory_context.foundation.embeddings.openai import OpenAIEmbedder
from memory_context.foundation.embeddings.wordllama import WordLlamaEmbedder
from memory_context.foundation.errors import EmbeddingError
from memory_context.foundation.utf8 import sendable
from tests.support.waiting import PATIENT_SECONDS, soon

from .fakes import FakeEmbedder


class Answering(FakeEmbedder):
    """Answers with what it was given, whatever that is."""

    def __init__(self, answer: Any, dimensions: int = 2) -> None:
        super().__init__("answering", dimensions)
        self.answer = answer

    async def embed(self, texts: Any, purpose: Purpose) -> Any:
        self.calls.append((list(texts), purpose))
        return self.answer


async def test_vectors_come_as_floats_of_length_one_in_order() -> None:
    """Any scale goes in, plain floats of length one come out."""
    first, second, third = await embed_checked(
        Answering([[3, 4], (0, -1e-3), array("f", [1e30, 0])]), ["a", "b", "c"], "query"
    )
    assert (first, second, third) == ([0.6, 0.8], [0.0, -1.0], [1.0, 0.0])
    assert all(type(number) is float for vector in (first, second, third) for number in vector or [])


async def test_texts_and_purpose_reach_the_embedder() -> None:
    """Nothing is lost or reordered on the way."""
    embedder = FakeEmbedder()
    await embed_checked(embedder, ("one", "two"), "document")
    await embed_checked(embedder, ["three"], "query")
    assert embedder.calls == [(["one", "two"], "document"), (["three"], "query")]


async def test_a_text_without_meaning_has_no_vector() -> None:
    """A zero vector has no direction: pgvector's cosine distance of it is NaN."""
    vectors = await embed_checked(FakeEmbedder(), ["", "word", "?!"], "document")
    assert [vector is None for vector in vectors] == [True, False, True]


async def test_embedder_is_not_asked_without_texts() -> None:
    """An empty list is answered without asking."""
    embedder = FakeEmbedder(fail_with=RuntimeError())
    assert await embed_checked(embedder, [], "document") == []
    assert embedder.calls == []


async def test_a_single_str_is_refused() -> None:
    """It would be embedded letter by letter."""
    with pytest.raises(ValueError, match="put it into a list"):
        await embed_checked(FakeEmbedder(), cast(Any, "text"), "query")


async def test_embedder_receives_valid_unicode() -> None:
    """Lone surrogates cannot be sent as UTF-8; C libraries stop at NUL."""
    embedder = FakeEmbedder()
    await embed_checked(embedder, ["a\ud800b", "😀", "x\x00y", "ü"], "document")
    assert embedder.calls[0][0] == ["a\ufffdb", "😀", "x\ufffdy", "ü"]


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ([[1.0, 2.0]], "1 vectors for 2 texts"),
        ([[1.0, 2.0]] * 3, "3 vectors for 2 texts"),
        ([[1.0, 2.0], [1.0]], r"1 dimensions, not 2 \(vector 2\)"),
        ([[1.0, math.nan], [1.0, 2.0]], r"NaN or an infinite number \(vector 1\)"),
        ([[1.0, 2.0], [math.inf, 0.0]], r"NaN or an infinite number \(vector 2\)"),
        (None, "NoneType instead of vectors"),
        ([[1.0, 2.0], None], r"no vector of numbers \(vector 2\)"),
        ([[1.0, 2.0], ["a", "b"]], r"no vector of numbers \(vector 2\)"),
        ([[1.0, 2.0], [10**400, 1]], r"no vector of numbers \(vector 2\)"),
    ],
)
async def test_each_defect_of_an_answer_is_named(answer: Any, says: str) -> None:
    """Nothing that is not a vector gets through."""
    with pytest.raises(EmbeddingError, match=f"embedder 'answering' answered with .*{says}"):
        await embed_checked(Answering(answer), ["a", "b"], "document")


@pytest.mark.parametrize("defect", ["nan", "wrong_dimension"])
async def test_defects_are_found_in_large_answers_too(defect: str) -> None:
    """Those are checked in a thread."""
    embedder = FakeEmbedder(dimensions=256, **{defect: True})
    with pytest.raises(EmbeddingError, match="vector 100"):
        await embed_checked(embedder, ["word"] * 100, "document")


async def test_embedding_error_has_embedders_error_as_cause() -> None:
    """The text names the embedder and quotes the reason on one line."""
    error = ConnectionError("no\nroute " + "x" * 1000)
    with pytest.raises(EmbeddingError, match=r"^embedder 'fake' failed: ConnectionError: no route x+$") as caught:
        await embed_checked(FakeEmbedder(fail_with=error), ["a"], "document")
    assert caught.value.__cause__ is error
    assert len(str(caught.value)) < 300


async def test_an_embedder_cancelled_from_within_is_a_failure() -> None:
    """A CancelledError nobody asked for must not end the caller's task."""
    with pytest.raises(EmbeddingError, match="failed: CancelledError"):
        await embed_checked(FakeEmbedder(fail_with=asyncio.CancelledError()), ["a"], "document")


async def test_a_panic_of_a_native_library_is_a_failure() -> None:
    """Rust's panics are no Exception."""

    class Panic(BaseException):
        pass

    with pytest.raises(EmbeddingError, match="failed: Panic"):
        await embed_checked(FakeEmbedder(fail_with=Panic()), ["a"], "document")


async def test_late_embedder_is_abandoned() -> None:
    """The wait ends by itself, and the embedder is cancelled."""
    with pytest.raises(EmbeddingError, match=r"no answer within 0\.01 seconds"):
        await embed_checked(FakeEmbedder(wait_for=asyncio.Event()), ["a"], "document", timeout_seconds=0.01)


async def test_embedder_ignoring_cancellation_delays_nobody() -> None:
    """What it raises later is nobody's concern."""
    release, finished = asyncio.Event(), asyncio.Event()

    class Stubborn(FakeEmbedder):
        async def embed(self, texts: Any, purpose: Purpose) -> Any:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                await release.wait()
                finished.set()
                raise RuntimeError("too late") from None

    with pytest.raises(EmbeddingError, match="no answer"):
        await embed_checked(Stubborn(), ["a"], "document", timeout_seconds=0.01)
    release.set()
    await soon(finished.wait())


@pytest.mark.parametrize("timeout_seconds", [None, 60.0])
async def test_a_cancellation_passes_and_reaches_the_embedder(timeout_seconds: float | None) -> None:
    """The caller's cancellation is no error of the embedder."""
    asked, cancelled = asyncio.Event(), asyncio.Event()

    class Waiting(FakeEmbedder):
        async def embed(self, texts: Any, purpose: Purpose) -> Any:
            asked.set()
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()

    task = asyncio.create_task(embed_checked(Waiting(), ["a"], "document", timeout_seconds=timeout_seconds))
    await soon(asked.wait())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await soon(cancelled.wait())


@given(st.lists(st.floats(-1e100, 1e100), min_size=3, max_size=3))
def test_every_vector_of_usable_length_becomes_one_of_length_one(numbers: list[float]) -> None:
    """Zeros, and what is nearly so, have no direction."""
    (vector,) = asyncio.run(embed_checked(Answering([numbers], dimensions=3), ["a"], "document"))
    if any(abs(number) > 1e-140 for number in numbers):
        assert vector is not None
        assert math.isclose(math.hypot(*vector), 1)
        assert all(a * b >= 0 for a, b in zip(numbers, vector, strict=True))
    elif not any(numbers):
        assert vector is None


@given(st.text(st.characters()), st.integers(0, 50))
def test_a_text_is_cut_between_characters(text: str, limit_bytes: int) -> None:
    """The longest start that fits."""
    text = sendable(text)
    cut = cut_to_bytes(text, limit_bytes)
    assert text.startswith(cut)
    assert len(cut.encode()) <= limit_bytes
    assert cut == text or len(text[: len(cut) + 1].encode()) > limit_bytes


@given(st.lists(st.text(max_size=5)), st.integers(1, 4), st.integers(1, 8))
def test_batches_keep_order_and_bounds(texts: list[str], most_texts: int, most_characters: int) -> None:
    """Only a text that is too long by itself exceeds them."""
    made = list(batches(texts, most_texts, most_characters))
    assert [text for batch in made for text in batch] == texts
    assert all(0 < len(batch) <= most_texts for batch in made)
    assert all(len(batch) == 1 or sum(map(len, batch)) <= most_characters for batch in made)


@pytest.mark.parametrize("name", ["", "x" * 101, "two\nlines", "nul\x00", None])
def test_an_unusable_name_is_refused(name: Any) -> None:
    """It goes into the database and into its indexes."""
    with pytest.raises(ValueError, match="1 to 100 printable characters"):
        check_embedder(FakeEmbedder(name))


@pytest.mark.parametrize("dimensions", [0, -1, 16_001, 1.5, None])
def test_unusable_dimensions_are_refused(dimensions: Any) -> None:
    """pgvector holds up to 16,000."""
    with pytest.raises(ValueError, match="1 to 16,000"):
        check_embedder(FakeEmbedder(dimensions=dimensions))


def test_object_without_embedder_protocol_is_refused() -> None:
    """A function is the likely mistake."""
    with pytest.raises(TypeError, match="async def embed"):
        check_embedder(cast(Any, len))


def test_the_embedders_follow_the_protocol() -> None:
    """The fake of the tests too."""
    for embedder in (WordLlamaEmbedder(), OpenAIEmbedder(), FakeEmbedder()):
        assert isinstance(embedder, Embedder)
        check_embedder(embedder)


def test_importing_loads_nothing_heavy() -> None:
    """Each embedder pays for its library when it is first used."""
    code = (
        "import sys, memory_context.foundation.errors\n"
        "before = set(sys.modules)\n"
        "from memory_context.foundation.embeddings import fastembed, openai, wordllama\n"
        "wordllama.WordLlamaEmbedder()\n"
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "heavy = {'numpy', 'tokenizers', 'wordllama', 'openai', 'fastembed'}\n"
        "sys.exit(f'{new & heavy}' if new & heavy else 0)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=PATIENT_SECONDS)
