"""Embeddings from OpenAI and from whatever else speaks its `/embeddings` protocol (vLLM, Ollama, LiteLLM, Azure).

Answers are read here instead of by the openai library, which parses them on the event loop: 128 vectors of 1,536
numbers, sent as JSON numbers, held the loop for 0.33 s.
"""

import array
import asyncio
import base64
import json
import os
import sys
from collections.abc import AsyncGenerator, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from .embedder import EmbeddingError, Purpose, check_name
from .inputs import batches, cut_to_bytes, well_formed

if TYPE_CHECKING:
    from openai import AsyncOpenAI

__all__ = ["OpenAIEmbedder"]

_DIMENSIONS = {"text-embedding-3-small": 1536, "text-embedding-3-large": 3072, "text-embedding-ada-002": 1536}
_CAN_SHORTEN = "text-embedding-3-"

_LIMIT_BYTES = 8_191  # OpenAI takes 8,192 tokens a text; a token is at least a byte
_REQUEST_TEXTS = 128
_REQUEST_CHARACTERS = 100_000  # OpenAI takes 300,000 tokens a request; a character has seldom more than three


class _OwnClient(NamedTuple):
    client: "AsyncOpenAI"
    lifetime: AsyncGenerator[None, None]


class OpenAIEmbedder:
    """Embeds through an `openai.AsyncOpenAI` client: yours, or one made from the environment.

    Texts are sent 128 at a time; blank ones are not sent (OpenAI refuses the whole request) and get zeros. Retries and
    timeouts are the client's. Needs the extra: `pip install 'memory-context[openai]'`.

    The client of an AutoGen `OpenAIChatCompletionClient` cannot be reused: it is private there. Make one with the same
    arguments, or let this class make it.

    Args:
        model: As the endpoint calls it, for example `text-embedding-3-small`.
        dimensions: How many numbers the vectors have. None: what OpenAI's model gives; needed for other models.
        client: Used as it is and never closed; it belongs to one event loop. Azure's will do. None: one is made for
            each event loop; `close` closes it, or the end of `asyncio.run`.
        base_url: The address of the endpoint, for a client made here. None: OPENAI_BASE_URL, else OpenAI.
        api_key_env: The environment variable that holds the key, for a client made here; read when it is made.
        shorten: Whether to ask the endpoint for `dimensions`. None: only if one of OpenAI's models that can shorten
            its vectors is to give fewer than it has.
        limit_bytes: Texts are cut to so many bytes of UTF-8, which is the most tokens they can have. Raise it for
            longer texts, lower it for a model with a small window.
        name: What identifies the vectors. None: `openai-<model>-<dimensions>`. Give one if the same model name means
            other vectors elsewhere.

    Raises:
        ImportError: The openai package is not installed.
        ValueError: `dimensions` is needed, or the name is too long; or `base_url` was given beside a client.
    """

    def __init__(
        self,
        model: str = "text-embedding-3-small",
        dimensions: int | None = None,
        *,
        client: "AsyncOpenAI | None" = None,
        base_url: str | None = None,
        api_key_env: str = "OPENAI_API_KEY",
        shorten: bool | None = None,
        limit_bytes: int = _LIMIT_BYTES,
        name: str | None = None,
    ) -> None:
        if client is None and find_spec("openai") is None:
            raise ImportError("OpenAIEmbedder needs the openai package: pip install 'memory-context[openai]'")
        if client is not None and base_url is not None:
            raise ValueError("give OpenAIEmbedder a client or a base_url, not both; the client has an address already")
        native = _DIMENSIONS.get(model)
        dimensions = dimensions or native
        if dimensions is None:
            raise ValueError(f"how many dimensions {model!r} has is not known here; give dimensions=…")
        if shorten is None:
            shorten = model.startswith(_CAN_SHORTEN) and dimensions != native
        self._model = model
        self._dimensions = dimensions
        self._client = client
        self._base_url = base_url
        self._api_key_env = api_key_env
        self._limit_bytes = limit_bytes
        self._further: dict[str, Any] = {"dimensions": dimensions} if shorten else {}
        self._name = check_name(name or f"openai-{model}-{dimensions}")
        self._own: dict[asyncio.AbstractEventLoop, _OwnClient] = {}

    @property
    def name(self) -> str:
        """`openai-<model>-<dimensions>`, or as given."""
        return self._name

    @property
    def dimensions(self) -> int:
        """As given, or what OpenAI's model gives."""
        return self._dimensions

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> list[list[float]]:
        """Return one vector for each text, all zeros for a blank one; the purpose makes no difference.

        Raises:
            openai.OpenAIError: The endpoint refused or could not be reached, or there is no key.
            EmbeddingError: The answer does not follow the protocol.
        """
        vectors = [[0.0] * self._dimensions for _ in texts]
        inputs = [cut_to_bytes(well_formed(text[: self._limit_bytes]), self._limit_bytes) for text in texts]
        places = [place for place, text in enumerate(inputs) if not text.isspace() and text]
        if not places:
            return vectors
        client = self._client or await self._own_client()
        found: list[list[float]] = []
        for batch in batches([inputs[place] for place in places], _REQUEST_TEXTS, _REQUEST_CHARACTERS):
            response = await client.embeddings.with_raw_response.create(input=batch, model=self._model, **self._further)
            found += await asyncio.to_thread(_vectors_of, response.content, len(batch))
        for place, vector in zip(places, found, strict=True):
            vectors[place] = vector
        return vectors

    async def close(self) -> None:
        """Close the client this object made for the running event loop, if any; a later use makes a new one.

        Where it is not called, `asyncio.run` closes that client in its end.
        """
        own = self._own.pop(asyncio.get_running_loop(), None)
        if own is not None:
            await own.lifetime.aclose()

    def __repr__(self) -> str:
        return f"OpenAIEmbedder(name={self._name!r})"

    async def _own_client(self) -> "AsyncOpenAI":
        loop = asyncio.get_running_loop()  # connections belong to an event loop
        own = self._own.get(loop)
        if own is None:
            client = await asyncio.to_thread(self._make_client)  # 0.1 s, or 0.7 s if openai is still to be imported
            own = self._own.get(loop)
            if own is not None:  # another task was faster
                await client.close()
            else:
                own = self._own[loop] = _OwnClient(client, self._lifetime(loop, client))
                await anext(own.lifetime)
        return own.client

    async def _lifetime(self, loop: asyncio.AbstractEventLoop, client: "AsyncOpenAI") -> AsyncGenerator[None, None]:
        """Close the client when this is closed: by `close`, or by asyncio, which so ends all generators of a loop.

        A client that outlives its loop can no longer be closed, and reports that when it is garbage-collected.
        """
        try:
            yield
        finally:
            self._own.pop(loop, None)
            await client.close()

    def _make_client(self) -> "AsyncOpenAI":
        from openai import AsyncOpenAI, OpenAIError  # here, as importing this module should cost nothing

        key = os.environ.get(self._api_key_env)
        if not key:
            raise OpenAIError(f"the environment variable {self._api_key_env} with the key is not set")
        return AsyncOpenAI(api_key=key, base_url=self._base_url)


def _vectors_of(content: bytes, expected: int) -> list[list[float]]:
    """Return the vectors of an answer in the order of the texts."""
    try:
        data = cast(list[dict[str, Any]], json.loads(content)["data"])
        vectors = [_vector_of(entry["embedding"]) for entry in data]
        numbered = {entry.get("index"): vector for entry, vector in zip(data, vectors, strict=True)}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise EmbeddingError(f"the endpoint's answer is not that of OpenAI's /embeddings: {content[:100]!r}") from error
    if len(vectors) != expected:
        raise EmbeddingError(f"the endpoint answered with {len(vectors)} vectors for {expected} texts")
    if all(number in numbered for number in range(expected)):
        return [numbered[number] for number in range(expected)]
    return vectors  # some endpoints number every vector 0 and keep the order


def _vector_of(value: str | list[float]) -> list[float]:
    """Return a vector sent as base64, which the openai library asks for, or as numbers, which some endpoints send."""
    if not isinstance(value, str):
        return value
    numbers = array.array("f", base64.b64decode(value))
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tolist()
