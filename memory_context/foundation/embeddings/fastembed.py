"""Embeddings by Qdrant's fastembed on this machine."""

import threading
from collections.abc import Iterable, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Protocol, cast

from .embedder import Batching, Purpose, check_name, embed_in_threads

__all__ = ["FastEmbedEmbedder"]

_DEFAULT_MODEL = "BAAI/bge-small-en-v1.5"
_DEFAULT_DIMENSIONS = 384

# models tokenize a whole text before cutting; batches are padded to the longest
_BATCHING = Batching(text_characters=32_768, texts=32, characters=131_072)


class _Vector(Protocol):
    def tolist(self) -> list[float]: ...


class _TextEmbedding(Protocol):
    def passage_embed(self, texts: Iterable[str]) -> Iterable[_Vector]: ...
    def query_embed(self, query: Iterable[str]) -> Iterable[_Vector]: ...


class FastEmbedEmbedder:
    """Embeds with a fastembed model, downloaded on first use. Needs `memory-context[fastembed]`.

    Args:
        model: One of `fastembed.TextEmbedding.list_supported_models()`.
        dimensions: None asks fastembed, which imports it unless the model is the default.
        name: None for `fastembed-<model>`; give one if `options` change the vectors.
        **options: Arguments of `fastembed.TextEmbedding`.

    Raises:
        ImportError: fastembed is not installed.
        ValueError: The model is unknown, or the name too long.
    """

    def __init__(
        self, model: str = _DEFAULT_MODEL, dimensions: int | None = None, *, name: str | None = None, **options: Any
    ) -> None:
        if find_spec("fastembed") is None:
            raise ImportError("FastEmbedEmbedder needs the fastembed package: pip install 'memory-context[fastembed]'")
        self._model_name = model
        self.name = check_name(name or f"fastembed-{model}")
        self.dimensions = dimensions or (_DEFAULT_DIMENSIONS if model == _DEFAULT_MODEL else _dimensions_of(model))
        self._options = options
        self._model: _TextEmbedding | None = None
        self._loading = threading.Lock()

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> list[list[float]]:
        """Texts are cut at 32,768 characters or the model's limit."""
        return await embed_in_threads(lambda batch: self._embed(batch, purpose), texts, _BATCHING)

    def __repr__(self) -> str:
        return f"FastEmbedEmbedder(name={self.name!r})"

    def _embed(self, texts: list[str], purpose: Purpose) -> list[list[float]]:
        model = self._load()
        vectors = model.query_embed(texts) if purpose == "query" else model.passage_embed(texts)
        return [vector.tolist() for vector in vectors]

    def _load(self) -> _TextEmbedding:
        with self._loading:
            if self._model is None:
                self._model = cast(_TextEmbedding, _text_embedding()(self._model_name, **self._options))
            return self._model


def _text_embedding() -> Any:
    return import_module("fastembed").TextEmbedding


def _dimensions_of(model: str) -> int:
    known = {str(entry["model"]).lower(): int(entry["dim"]) for entry in _text_embedding().list_supported_models()}
    try:
        return known[model.lower()]
    except KeyError:
        raise ValueError(f"fastembed does not know the model {model!r}; it knows {', '.join(sorted(known))}") from None
