"""The wrapping of fastembed, with a package of the same shape; and with fastembed itself where that is installed.

Its models come from a hub, so the real one is given WordLlama's weights as the files of a static model.
"""

import asyncio
import json
import sys
import threading
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from memory_context.foundation.embeddings import fastembed as wrapping
from memory_context.foundation.embeddings import wordllama as default
from memory_context.foundation.embeddings.embedder import Embedder, check_embedder, embed_checked
from memory_context.foundation.embeddings.fastembed import FastEmbedEmbedder
from memory_context.foundation.errors import EmbeddingError

needs_fastembed = pytest.mark.skipif(find_spec("fastembed") is None, reason="fastembed is not installed")


class TextEmbedding:
    """What `fastembed.TextEmbedding` looks like to a caller (0.9)."""

    made: list[dict[str, Any]] = []  # noqa: RUF012 - emptied by the fixture
    threads: set[int] = set()  # noqa: RUF012

    def __init__(self, model_name: str = "BAAI/bge-small-en-v1.5", cache_dir: str | None = None, **kwargs: Any) -> None:
        if kwargs.get("local_files_only"):
            raise ValueError("Could not find the model in the cache")
        self.made.append({"model_name": model_name, "cache_dir": cache_dir, **kwargs})

    @classmethod
    def list_supported_models(cls) -> list[dict[str, Any]]:
        return [{"model": "BAAI/bge-small-en-v1.5", "dim": 384}, {"model": "some/Tiny", "dim": 3}]

    def query_embed(self, query: Any, **kwargs: Any) -> Any:
        return (_Array([1.0, float(len(text)), 0.0]) for text in query)

    def passage_embed(self, texts: Any, **kwargs: Any) -> Any:
        self.threads.add(threading.get_ident())
        for text in texts:
            yield _Array([0.0, float(len(text)), 0.0])


class _Array:
    def __init__(self, numbers: list[float]) -> None:
        self.numbers = numbers

    def tolist(self) -> list[float]:
        return self.numbers


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> type[TextEmbedding]:
    """Put a module named fastembed with the class above in place."""
    module = ModuleType("fastembed")
    module.__spec__ = ModuleSpec("fastembed", None)
    monkeypatch.setattr(module, "TextEmbedding", TextEmbedding, raising=False)
    monkeypatch.setitem(sys.modules, "fastembed", module)
    monkeypatch.setattr(TextEmbedding, "made", [])
    monkeypatch.setattr(TextEmbedding, "threads", set())
    return TextEmbedding


async def test_documents_and_queries_are_embedded_by_their_own_methods(library: type[TextEmbedding]) -> None:
    """Some models put different words before them."""
    embedder = FastEmbedEmbedder("some/tiny", cache_dir="somewhere", threads=1)
    assert await embedder.embed(["a", "bb"], "document") == [[0, 1, 0], [0, 2, 0]]
    assert await embedder.embed(["a"], "query") == [[1, 1, 0]]
    assert library.made == [{"model_name": "some/tiny", "cache_dir": "somewhere", "threads": 1}]
    assert threading.get_ident() not in library.threads


async def test_many_texts_keep_their_order_and_long_ones_are_cut(library: type[TextEmbedding]) -> None:
    """In batches of 32, as a batch is padded to its longest text."""
    lengths = [*range(100), 1_000_000]
    vectors = await FastEmbedEmbedder("some/tiny").embed(["x" * length for length in lengths], "document")
    assert [vector[1] for vector in vectors] == [*range(100), 32_768]


async def test_the_model_is_loaded_once_by_the_first_use(library: type[TextEmbedding]) -> None:
    """However many use it at the same time."""
    embedder = FastEmbedEmbedder("some/tiny")
    assert library.made == []
    await asyncio.gather(*(embedder.embed(["a"], "document") for _ in range(5)))
    assert len(library.made) == 1


async def test_a_model_that_cannot_be_fetched_is_an_error_each_time(library: type[TextEmbedding]) -> None:
    """It may be there later."""
    embedder = FastEmbedEmbedder("some/tiny", local_files_only=True)
    for _ in range(2):
        with pytest.raises(EmbeddingError, match="'fastembed-some/tiny' failed: ValueError: Could not find the model"):
            await embed_checked(embedder, ["a"], "query")


def test_name_and_dimensions_come_from_the_model(library: type[TextEmbedding]) -> None:
    """Unless they are given."""
    assert isinstance(FastEmbedEmbedder(), Embedder)
    assert (FastEmbedEmbedder().name, FastEmbedEmbedder().dimensions) == ("fastembed-BAAI/bge-small-en-v1.5", 384)
    assert FastEmbedEmbedder("some/Tiny").dimensions == 3
    ours = FastEmbedEmbedder("our/own", 7, name="ours")
    check_embedder(ours)
    assert (ours.name, ours.dimensions, repr(ours)) == ("ours", 7, "FastEmbedEmbedder(name='ours')")
    with pytest.raises(ValueError, match=r"does not know the model 'our/own'; it knows .*some/tiny"):
        FastEmbedEmbedder("our/own")


def test_the_extra_is_named_when_fastembed_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """As soon as the embedder is made."""
    monkeypatch.setitem(sys.modules, "fastembed", None)
    with pytest.raises(ImportError, match=r"memory-context\[fastembed\]"):
        FastEmbedEmbedder()


@needs_fastembed
async def test_the_real_library_embeds(tmp_path: Path) -> None:
    """A static model of its list, with WordLlama's weights in the place of the model's own."""
    folder = default._package_folder()
    (tmp_path / "tokenizer.json").write_bytes((folder / default._TOKENIZER_FILE).read_bytes())
    weights = (folder / default._WEIGHTS_FILE).read_bytes()
    size = int.from_bytes(weights[:8], "little")
    header = {"embeddings": json.loads(weights[8 : 8 + size])["embedding.weight"]}
    encoded = json.dumps(header).encode().ljust(size)
    assert len(encoded) == size
    (tmp_path / "model.safetensors").write_bytes(weights[:8] + encoded + weights[8 + size :])

    embedder = FastEmbedEmbedder("minishlab/potion-base-8M", specific_model_path=str(tmp_path))
    assert embedder.dimensions == 256
    texts = ["The cat sat on the mat.", "", "a\ud800\x00b", "long " * 100_000]
    vectors = await embed_checked(embedder, texts, "document")
    (expected,) = await embed_checked(default.WordLlamaEmbedder(), texts[:1], "document")
    assert [vector is None for vector in vectors] == [False, True, False, False]
    assert sum(a * b for a, b in zip(vectors[0] or [], expected or [], strict=True)) > 0.999
    assert len(await embed_checked(embedder, ["cat"] * 100, "query")) == 100


@needs_fastembed
def test_the_default_model_has_the_dimensions_said_here() -> None:
    """They are written down, so that making the embedder does not import fastembed."""
    assert wrapping._dimensions_of(wrapping._DEFAULT_MODEL) == wrapping._DEFAULT_DIMENSIONS
