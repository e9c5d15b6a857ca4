"""OpenAI's protocol, spoken by the real client to a server on this machine."""

import asyncio
import gc
import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from openai import AsyncOpenAI

from memory_context.foundation.embeddings.embedder import embed_checked
from memory_context.foundation.embeddings.openai import OpenAIEmbedder
from memory_context.foundation.errors import EmbeddingError

from ..context.steps import a_turn_of_the_loop
from ..support.openai_stub import EmbeddingStub, running

pytestmark = pytest.mark.thorough

KEY = "key-that-nobody-should-see"


@pytest.fixture
def stub() -> Iterator[EmbeddingStub]:
    with running(EmbeddingStub) as stub:
        yield stub


@pytest.fixture
async def client(stub: EmbeddingStub) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(api_key=KEY, base_url=stub.url, max_retries=1) as client:
        yield client


@pytest.fixture
async def embedder(stub: EmbeddingStub, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[OpenAIEmbedder]:
    """An embedder that makes its client itself."""
    monkeypatch.setenv("STUB_KEY", KEY)
    embedder = OpenAIEmbedder("tiny", 8, base_url=stub.url, api_key_env="STUB_KEY")
    yield embedder
    await embedder.close()


@pytest.mark.parametrize("numbers_only", [False, True])
async def test_texts_come_back_as_vectors(embedder: OpenAIEmbedder, stub: EmbeddingStub, numbers_only: bool) -> None:
    """Whether the server sends base64, as the client wishes, or numbers."""
    stub.numbers_only = numbers_only
    assert await embedder.embed(["a", "bb"], "document") == [[1.0, *[0.5] * 7], [2.0, *[0.5] * 7]]
    (request,) = stub.requests
    assert (request["model"], request["input"], request["encoding_format"]) == ("tiny", ["a", "bb"], "base64")
    assert "dimensions" not in request
    assert stub.keys == {f"Bearer {KEY}"}


async def test_the_given_client_is_used(client: AsyncOpenAI, stub: EmbeddingStub) -> None:
    """And not closed with the embedder."""
    embedder = OpenAIEmbedder("tiny", 8, client=client)
    await embedder.close()
    vectors = await embed_checked(embedder, ["text", ""], "query")
    assert [vector is None for vector in vectors] == [False, True]
    assert not client.is_closed()


async def test_many_texts_go_in_batches_and_keep_their_order(embedder: OpenAIEmbedder, stub: EmbeddingStub) -> None:
    """128 a request, and no more than 100,000 characters."""
    lengths = [*range(1, 301), *[8000] * 30]
    vectors = await embedder.embed(["x" * length for length in lengths], "document")
    assert [vector[0] for vector in vectors] == lengths
    assert [len(request["input"]) for request in stub.requests] == [128, 128, 44 + 10, 12, 8]


async def test_vectors_are_put_in_the_order_of_the_texts(embedder: OpenAIEmbedder, stub: EmbeddingStub) -> None:
    """The protocol numbers them; servers that number all alike keep the order."""
    stub.change = lambda answer: {**answer, "data": answer["data"][::-1]}
    assert [vector[0] for vector in await embedder.embed(["a", "bb", "ccc"], "document")] == [1, 2, 3]
    stub.change = lambda answer: {**answer, "data": [{**entry, "index": 0} for entry in answer["data"]]}
    assert [vector[0] for vector in await embedder.embed(["a", "bb", "ccc"], "document")] == [1, 2, 3]


async def test_blank_texts_are_not_sent(embedder: OpenAIEmbedder, stub: EmbeddingStub) -> None:
    """OpenAI refuses a whole request for one of them."""
    vectors = await embedder.embed(["", "a", " \n"], "document")
    assert [vector[0] for vector in vectors] == [0, 1, 0]
    assert [request["input"] for request in stub.requests] == [["a"]]
    assert await embedder.embed(["", ""], "document") == [[0.0] * 8] * 2
    assert len(stub.requests) == 1


async def test_long_and_broken_texts_can_be_sent(embedder: OpenAIEmbedder, stub: EmbeddingStub) -> None:
    """Cut to as many bytes as OpenAI takes tokens, and valid Unicode."""
    await embedder.embed(["字" * 10_000, "x" * 2_000_000, "a\ud800\x00b"], "document")
    assert [len(text.encode()) for text in stub.requests[0]["input"]] == [8190, 8191, 8]
    assert stub.requests[0]["input"][2] == "a\ufffd\ufffdb"


@pytest.mark.parametrize(
    ("arguments", "dimensions", "asked"),
    [
        ({}, 1536, None),
        ({"model": "text-embedding-3-large"}, 3072, None),
        ({"dimensions": 256}, 256, 256),
        ({"model": "other", "dimensions": 8}, 8, None),
        ({"model": "other", "dimensions": 4, "shorten": True}, 4, 4),
        ({"dimensions": 8, "shorten": False}, 8, None),
    ],
)
async def test_fewer_dimensions_are_asked_for_where_that_is_known_to_work(
    client: AsyncOpenAI, stub: EmbeddingStub, arguments: dict[str, Any], dimensions: int, asked: int | None
) -> None:
    """Servers with models of one size refuse the wish."""
    embedder = OpenAIEmbedder(client=client, **arguments)
    stub.dimensions = dimensions
    (vector,) = await embed_checked(embedder, ["text"], "document")
    assert vector is not None
    assert len(vector) == embedder.dimensions == dimensions
    assert stub.requests[0].get("dimensions") == asked
    assert embedder.name == f"openai-{arguments.get('model', 'text-embedding-3-small')}-{dimensions}"


def test_the_dimensions_of_an_unknown_model_are_asked_of_the_user() -> None:
    """They cannot be found out without a request."""
    with pytest.raises(ValueError, match=r"'bge-m3'.*give dimensions="):
        OpenAIEmbedder("bge-m3")
    assert OpenAIEmbedder("bge-m3", 1024, name="our-bge").name == "our-bge"
    with pytest.raises(ValueError, match="printable characters"):
        OpenAIEmbedder("x" * 100, 8)


async def test_client_and_base_url_are_refused_together(client: AsyncOpenAI) -> None:
    """A second one would be ignored."""
    with pytest.raises(ValueError, match="not both"):
        OpenAIEmbedder(client=client, base_url="http://elsewhere")


async def test_client_retries_failed_requests(client: AsyncOpenAI, stub: EmbeddingStub) -> None:
    """It was made with one retry: one failure is mended, two are an error with its cause."""
    embedder = OpenAIEmbedder("tiny", 8, client=client)
    stub.failures = [500]
    assert len(await embed_checked(embedder, ["text"], "query")) == 1
    stub.failures = [500, 500]
    with pytest.raises(EmbeddingError, match=r"'openai-tiny-8' failed: InternalServerError: .*refused"):
        await embed_checked(embedder, ["text"], "query")


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ({"data": []}, "0 vectors for 1 texts"),
        ({"detail": "wrong door"}, "wrong door"),
        ({"data": [{"embedding": "no base64!"}]}, "not that of OpenAI"),
        ({"data": [None]}, "not that of OpenAI"),
        ({"data": [{"embedding": [1.0], "index": []}]}, "not that of OpenAI"),
        ([1], "not that of OpenAI"),
        ({"data": [{"embedding": [1.0, 2.0], "index": 0}]}, "2 dimensions, not 8"),
    ],
)
async def test_an_answer_of_another_kind_is_shown(
    embedder: OpenAIEmbedder, stub: EmbeddingStub, answer: Any, says: str
) -> None:
    """Its beginning tells what is there instead."""
    stub.change = lambda _: answer
    with pytest.raises(EmbeddingError, match=says):
        await embed_checked(embedder, ["text"], "query")


async def test_api_key_is_never_shown(embedder: OpenAIEmbedder, stub: EmbeddingStub) -> None:
    """Not in the representation, not in the object, not in errors."""
    stub.failures = [401]
    with pytest.raises(EmbeddingError) as caught:
        await embed_checked(embedder, ["text"], "query")
    assert repr(embedder) == "OpenAIEmbedder(name='openai-tiny-8')"
    assert KEY not in f"{caught.value!r} {caught.value.__cause__!r} {vars(embedder)}"


async def test_a_missing_key_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """When it is first needed; a program without search needs none."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(EmbeddingError, match="OPENAI_API_KEY"):
        await embed_checked(OpenAIEmbedder(), ["text"], "query")


def test_one_embedder_serves_event_loops_one_after_the_other(
    stub: EmbeddingStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Connections belong to a loop, so each gets a client."""
    monkeypatch.setenv("STUB_KEY", KEY)
    embedder = OpenAIEmbedder("tiny", 8, base_url=stub.url, api_key_env="STUB_KEY")

    async def embed_twice() -> list[list[float]]:
        await embedder.embed(["a"], "document")
        vectors = await embedder.embed(["a"], "document")
        assert len(embedder._own) == 1
        await embedder.close()
        return vectors

    assert asyncio.run(embed_twice()) == asyncio.run(embed_twice())


def test_a_loop_that_ended_without_closing_does_not_disturb_the_next(
    stub: EmbeddingStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program may use `asyncio.run` several times; nothing is reported of the connections of a dead loop."""
    monkeypatch.setenv("STUB_KEY", KEY)
    embedder = OpenAIEmbedder("tiny", 8, base_url=stub.url, api_key_env="STUB_KEY")
    reported: list[Any] = []

    async def embed() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
        await asyncio.gather(*(embedder.embed(["a"], "document") for _ in range(3)))
        gc.collect()
        await a_turn_of_the_loop()
        assert len(embedder._own) == 1

    for _ in range(3):
        asyncio.run(embed())
        assert not embedder._own
    gc.collect()
    assert reported == []


def test_the_extra_is_named_when_openai_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """As soon as the embedder is made."""
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(ImportError, match=r"memory-context\[openai\]"):
        OpenAIEmbedder()
