"""Texts become vectors: the protocol for your own embedder, the check of its answers, and three embedders.

Nothing heavy is imported before an embedder is first used: not numpy, not tokenizers, not openai, not fastembed.
"""

from ..errors import EmbeddingError
from .embedder import Embedder, Purpose, check_embedder, embed_checked
from .fastembed import FastEmbedEmbedder
from .openai import OpenAIEmbedder
from .wordllama import WordLlamaEmbedder, default_embedder

__all__ = [
    "Embedder",
    "EmbeddingError",
    "FastEmbedEmbedder",
    "OpenAIEmbedder",
    "Purpose",
    "WordLlamaEmbedder",
    "check_embedder",
    "default_embedder",
    "embed_checked",
]
