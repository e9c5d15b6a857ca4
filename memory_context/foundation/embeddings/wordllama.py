"""The default embedder: the mean of WordLlama's static vectors of a text's tokens.

The package is not imported: it configures the root logger, and pads batches (2.5 to 6 times slower).
"""

import hashlib
import json
import logging
import struct
import threading
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import TYPE_CHECKING

from .embedder import Batching, Purpose, embed_in_threads

if TYPE_CHECKING:
    from tokenizers import Tokenizer

__all__ = ["WordLlamaEmbedder", "default_embedder"]

_logger = logging.getLogger("memory_context")

_WEIGHTS_FILE = "weights/l2_supercat_256.safetensors"
_WEIGHTS_SAMPLE_SHA256 = "bfb002b49c6c86946eec4460613d6e2342f59c53947cc2677f0d16c9ad895eb7"
_WEIGHTS_OFFSET_BYTES = 96
_TOKENIZER_FILE = "tokenizers/l2_supercat_tokenizer_config.json"
_TOKENIZER_SHA256 = "bf467c9e0f536bda271283c6ef85eb1a943e3196b621c8a912d64953b205df83"
_DIMENSIONS = 256
_VECTOR = struct.Struct(f"<{_DIMENSIONS}e")
_SAMPLE_BYTES, _SAMPLE_EVERY_BYTES = 4096, 1 << 18
_SHORT_TOKENS = 32  # 0.3 ms without numpy, which takes 90 ms to import
_SHORT_CHARACTERS = 200
_LONGEST_PIECE = 16  # characters
_BYTES_END = 259  # the first pieces are signs, and bytes for characters without a piece

# a mean over more says little; the tokenizer keeps 150 bytes a token
_BATCHING = Batching(text_characters=16_384, texts=64, characters=65_536)


class WordLlamaEmbedder:
    """Embeds with WordLlama's `l2_supercat` model, loaded on first use (0.1 s; 16 MB are mapped).

    tokenizers up to 0.22 warns at a later fork, unless TOKENIZERS_PARALLELISM is set.
    """

    @property
    def name(self) -> str:
        return "wordllama-l2-supercat-256"

    @property
    def dimensions(self) -> int:
        return _DIMENSIONS

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> list[list[float]]:
        """Texts are cut at 16,384 characters; the purpose is ignored.

        Raises:
            ImportError: wordllama is not installed.
            RuntimeError: Its model files are missing or unknown.
        """
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


_model: "tuple[Tokenizer, mmap] | None" = None
_has_embedded = False
_loading = threading.Lock()


def _load() -> "tuple[Tokenizer, mmap]":
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


def _read_model(folder: Path, only: str | None = None) -> "tuple[Tokenizer, mmap]":
    """Read the model; with `only`, a tokenizer for that text alone."""
    from tokenizers import Tokenizer

    weights, description = _opened(folder / _WEIGHTS_FILE), _opened(folder / _TOKENIZER_FILE)
    # other weights would change vectors: all are different in another model, so a sample tells it
    sample = b"".join(weights[at : at + _SAMPLE_BYTES] for at in range(0, len(weights), _SAMPLE_EVERY_BYTES))
    config = description[:].rstrip(b"\n")  # releases differ in the last newline
    for known, data in ((_WEIGHTS_SAMPLE_SHA256, sample), (_TOKENIZER_SHA256, config)):
        if hashlib.sha256(data).hexdigest() != known:
            raise RuntimeError(f"{folder} has not the known model; install a wordllama that memory-context allows")
    return Tokenizer.from_str(config.decode() if only is None else _reduced(config, only)), weights


def _opened(file: Path) -> mmap:
    try:
        with file.open("rb") as opened:
            return mmap(opened.fileno(), 0, access=ACCESS_READ)
    except (OSError, ValueError) as error:
        raise RuntimeError(f"{file} cannot be read ({error}); reinstall wordllama") from error


def _reduced(config: bytes, text: str) -> str:
    """Return a tokenizer's description with only those pieces and merges that can occur in a text.

    Merges join neighbours, so every token is a part of the text, or one of the bytes that stand for other characters.
    """
    parsed = json.loads(config)
    model = parsed["model"]
    text = f"▁{text.replace(' ', '▁')}"  # as the normalizer does
    parts = {text[start : start + length] for start in range(len(text)) for length in range(1, _LONGEST_PIECE + 1)}
    merges = {f"{part[:at]} {part[at:]}" for part in parts for at in range(1, len(part))}
    model["vocab"] = {piece: id for piece, id in model["vocab"].items() if id < _BYTES_END or piece in parts}
    model["merges"] = [*filter(merges.__contains__, model["merges"])]
    return json.dumps(parsed)


def _embed(texts: list[str]) -> list[list[float]]:
    global _has_embedded
    # a command embeds one query and ends: all pieces would take it a third of its time
    is_for_one = not _has_embedded and len(texts) == 1 and len(texts[0]) <= _SHORT_CHARACTERS and "<" not in texts[0]
    _has_embedded = True
    tokenizer, weights = _read_model(_package_folder(), texts[0]) if is_for_one else _load()
    encodings = tokenizer.encode_batch_fast(texts, add_special_tokens=False)  # encode would hold the GIL
    return [_mean(one.ids, weights) for one in encodings]


def _mean(tokens: list[int], weights: mmap) -> list[float]:
    if len(tokens) <= _SHORT_TOKENS:
        rows = [_VECTOR.unpack_from(weights, _WEIGHTS_OFFSET_BYTES + token * _VECTOR.size) for token in tokens]
        return [sum(column) / len(rows) for column in zip(*rows, strict=True)] or [0.0] * _DIMENSIONS
    import numpy

    vectors = numpy.frombuffer(weights, "<f2", offset=_WEIGHTS_OFFSET_BYTES).reshape(-1, _DIMENSIONS)
    # counts of distinct tokens need less memory
    unique, counts = numpy.unique(numpy.array(tokens, dtype=numpy.int32), return_counts=True)
    shares = counts.astype(numpy.float32) / numpy.float32(len(tokens))
    return (shares @ vectors[unique].astype(numpy.float32)).tolist()
