"""The default embedder: the mean of WordLlama's static vectors of a text's tokens.

The package is not imported: it configures the root logger, and pads batches (2.5 to 6 times slower).
"""

import hashlib
import logging
import struct
import sys
import threading
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from ..utf8 import sendable
from .embedder import Batching, Purpose, embed_in_threads

if TYPE_CHECKING:
    from tokenizers import Tokenizer

__all__ = ["WordLlamaEmbedder", "default_embedder"]

_logger = logging.getLogger("memory_context")

_WEIGHTS_FILE = "weights/l2_supercat_256.safetensors"
_WEIGHTS_SHA256 = "de97c2a08f83487e93a931d91a275668a97a1a04131292fa74d272215abaea6c"
_WEIGHTS_OFFSET_BYTES = 96
_TOKENIZER_FILE = "tokenizers/l2_supercat_tokenizer_config.json"
_TOKENIZER_SHA256 = "dfaa42db9b5093747d9af59f42be0c61d8aaf59c8ed97330ac200e12cd3313bd"
_DIMENSIONS = 256
_VECTOR = struct.Struct(f"<{_DIMENSIONS}e")
_HASHED_BYTES = 1 << 21  # all of the tokenizer, and an eighth of the weights: the rest takes 20 ms of each command
_SHORT_TOKENS = 32  # 0.3 ms without numpy, which takes 90 ms to import

# a mean over more says little; the tokenizer keeps 150 bytes a token
_BATCHING = Batching(text_characters=16_384, texts=64, characters=65_536)


class WordLlamaEmbedder:
    """Embeds with WordLlama's `l2_supercat` model, loaded on first use (0.15 s, 16 MB).

    tokenizers up to 0.22 warns at a later fork, unless TOKENIZERS_PARALLELISM is set.
    """

    name = "wordllama-l2-supercat-256"
    dimensions = _DIMENSIONS

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> list[list[float]]:
        """Texts are cut at 16,384 characters; the purpose is ignored.

        Raises:
            ImportError: wordllama is not installed.
            RuntimeError: Its model files are missing or unknown.
        """
        if _model is not None and sum(map(len, texts)) <= 1_000:  # handing over to a thread would take longer
            return _embed([*map(sendable, texts)])
        return await embed_in_threads(_embed, texts, _BATCHING)

    def __repr__(self) -> str:
        return "WordLlamaEmbedder()"


@cache
def default_embedder() -> WordLlamaEmbedder | None:
    """Return a store's default embedder; None, logged once, without WordLlama."""
    if all(map(find_spec, ("wordllama", "tokenizers", "numpy"))):
        return WordLlamaEmbedder()
    _logger.warning(
        "search goes by words alone, since WordLlama is not installed: pip install 'memory-context[local]' (it has no "
        "wheel for Linux on ARM and for Python 3.14), or give the store another embedder"
    )
    return None


_model: "tuple[Tokenizer, bytes] | None" = None
_loading = threading.Lock()


def _load() -> "tuple[Tokenizer, bytes]":
    global _model
    with _loading:
        if _model is None:
            _model = _read_model(_package_folder())
        return _model


def _package_folder() -> Path:
    package = find_spec("wordllama")
    if package is None or not package.submodule_search_locations:
        raise ImportError("WordLlamaEmbedder needs the wordllama package: pip install 'memory-context[local]'")
    return Path(next(iter(package.submodule_search_locations)))


def _read_model(folder: Path) -> "tuple[Tokenizer, bytes]":
    from tokenizers import Tokenizer

    weights = _read(folder / _WEIGHTS_FILE, _WEIGHTS_SHA256)
    tokenizer = _read(folder / _TOKENIZER_FILE, _TOKENIZER_SHA256)
    return Tokenizer.from_str(tokenizer.decode()), weights


def _read(file: Path, sha256: str) -> bytes:
    try:
        data = file.read_bytes().rstrip(b"\n")  # releases differ in the last newline
    except OSError as error:
        raise RuntimeError(f"{file} cannot be read ({error}); reinstall wordllama") from error
    # other weights would change vectors; all of them differ in another model
    if hashlib.sha256(data[:_HASHED_BYTES] + str(len(data)).encode()).hexdigest() != sha256:
        raise RuntimeError(f"{file} is not the known model; install a wordllama version that memory-context allows")
    return data


def _embed(texts: list[str]) -> list[list[float]]:
    tokenizer, weights = _load()
    encodings = tokenizer.encode_batch_fast(texts, add_special_tokens=False)  # encode would hold the GIL
    return [_mean(one.ids, weights) for one in encodings]


def _mean(tokens: list[int], weights: bytes) -> list[float]:
    if len(tokens) <= _SHORT_TOKENS and "numpy" not in sys.modules:
        rows = [_VECTOR.unpack_from(weights, _WEIGHTS_OFFSET_BYTES + token * _VECTOR.size) for token in tokens]
        return [sum(column) / len(rows) for column in zip(*rows, strict=True)] or [0.0] * _DIMENSIONS
    import numpy

    vectors = numpy.frombuffer(weights, "<f2", offset=_WEIGHTS_OFFSET_BYTES).reshape(-1, _DIMENSIONS)
    if len(tokens) <= _SHORT_TOKENS:  # the same to the last bit: so few halves add up exactly
        return (vectors[tokens].astype(float).sum(axis=0) / max(len(tokens), 1)).tolist()
    # counts of distinct tokens need less memory
    unique, counts = numpy.unique(numpy.array(tokens, dtype=numpy.int32), return_counts=True)
    shares = counts.astype(numpy.float32) / numpy.float32(len(tokens))
    return (shares @ vectors[unique].astype(numpy.float32)).tolist()
