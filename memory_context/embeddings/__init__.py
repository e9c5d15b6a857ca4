"""Embedders of texts; their libraries are imported on first use."""

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
