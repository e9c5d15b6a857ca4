"""Embedding of texts: the protocol for embedders, the check of their answers, and three embedders.

numpy, tokenizers, openai and fastembed are imported by the first use of an embedder.
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
