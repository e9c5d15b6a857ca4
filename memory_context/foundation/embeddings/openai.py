"""Embeddings of OpenAI's protocol (vLLM, Ollama, LiteLLM, Azure)."""

import array
import asyncio
import base64
import json
import os
import sys
from collections.abc import AsyncGenerator, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ..utf8 import sendable
from .embedder import EmbeddingError, Purpose, batches, check_name, cut_to_bytes

if TYPE_CHECKING:
    from openai import AsyncOpenAI

__all__ = ["OpenAIEmbedder"]

_DIMENSIONS = {"text-embedding-3-small": 1536, "text-embedding-3-large": 3072, "text-embedding-ada-002": 1536}
_CAN_SHORTEN = "text-embedding-3-"

_LIMIT_BYTES = 8_191  # OpenAI's limit is 8,192 tokens, each at least a byte
_REQUEST_TEXTS = 128
_REQUEST_CHARACTERS = 100_000  # OpenAI's limit is 300,000 tokens, seldom over three a character


class _OwnClient(NamedTuple):
    client: "AsyncOpenAI"
    lifetime: AsyncGenerator[None, None]


class OpenAIEmbedder:
    """Embeds through an `openai.AsyncOpenAI` client. Needs `memory-context[openai]`.

    Args:
        dimensions: Required for models that are not OpenAI's.
        client: Client of one event loop, which stays open; None makes one for each loop.
        base_url: None for OPENAI_BASE_URL, else OpenAI.
        shorten: Request `dimensions`; None requests them if the model is one of OpenAI's that can give fewer.
        limit_bytes: UTF-8 bytes to keep, an upper bound of tokens.
        name: None for `openai-<model>-<dimensions>`; give one if the vectors differ.

    Raises:
        ImportError: openai is not installed.
        ValueError: `dimensions` is missing, the name is too long, or `base_url` came with a client.
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
        self.dimensions = dimensions
        self._client = client
        self._base_url = base_url
        self._api_key_env = api_key_env
        self._limit_bytes = limit_bytes
        self._further: dict[str, Any] = {"dimensions": dimensions} if shorten else {}
        self.name = check_name(name or f"openai-{model}-{dimensions}")
        self._own: dict[asyncio.AbstractEventLoop, _OwnClient] = {}

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> list[list[float]]:
        """Ignores the purpose; blank texts, which OpenAI refuses, become zeros."""
        vectors = [[0.0] * self.dimensions for _ in texts]
        inputs = [cut_to_bytes(sendable(text[: self._limit_bytes]), self._limit_bytes) for text in texts]
        places = [place for place, text in enumerate(inputs) if not text.isspace() and text]
        if not places:
            return vectors
        client = self._client or await self._own_client()
        found: list[list[float]] = []
        for batch in batches([inputs[place] for place in places], _REQUEST_TEXTS, _REQUEST_CHARACTERS):
            response = await client.embeddings.with_raw_response.create(input=batch, model=self._model, **self._further)
            # the library blocked the loop for 0.33 s
            found += await asyncio.to_thread(_vectors_of, response.content, len(batch))
        for place, vector in zip(places, found, strict=True):
            vectors[place] = vector
        return vectors

    async def close(self) -> None:
        """Close this loop's own client, as `asyncio.run` does."""
        own = self._own.pop(asyncio.get_running_loop(), None)
        if own is not None:
            await own.lifetime.aclose()

    def __repr__(self) -> str:
        return f"OpenAIEmbedder(name={self.name!r})"

    async def _own_client(self) -> "AsyncOpenAI":
        loop = asyncio.get_running_loop()
        own = self._own.get(loop)
        if own is None:
            client = await asyncio.to_thread(self._make_client)  # up to 0.7 s
            own = self._own.get(loop)
            if own is not None:  # another task was faster
                await client.close()
            else:
                own = self._own[loop] = _OwnClient(client, self._lifetime(loop, client))
                await anext(own.lifetime)
        return own.client

    async def _lifetime(self, loop: asyncio.AbstractEventLoop, client: "AsyncOpenAI") -> AsyncGenerator[None, None]:
        # asyncio closes generators at a loop's end, the last chance
        try:
            yield
        finally:
            self._own.pop(loop, None)
            await client.close()

    def _make_client(self) -> "AsyncOpenAI":
        from openai import AsyncOpenAI, OpenAIError

        key = os.environ.get(self._api_key_env)
        if not key:
            raise OpenAIError(f"the environment variable {self._api_key_env} with the key is not set")
        return AsyncOpenAI(api_key=key, base_url=self._base_url)


def _vectors_of(content: bytes, expected: int) -> list[list[float]]:
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
    return vectors  # some endpoints number all 0


def _vector_of(value: str | list[float]) -> list[float]:
    if not isinstance(value, str):
        return value
    numbers = array.array("f", base64.b64decode(value))
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tolist()
