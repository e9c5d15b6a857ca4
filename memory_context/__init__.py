"""A context and memory layer for AutoGen agents: the chat context stays small, and nothing is lost."""

from .autogen_memory import PostgresMemory, PostgresMemoryConfig
from .context import MemoryContext, MemoryContextConfig
from .embeddings import Embedder, FastEmbedEmbedder, OpenAIEmbedder, WordLlamaEmbedder
from .errors import (
    ConflictError,
    EmbeddingError,
    ItemNotFoundError,
    LightModelError,
    MemoryContextError,
    SchemaError,
    StoreError,
    StoreUnavailableError,
    TransformError,
)
from .memory import (
    AgentMemory,
    FoundPassage,
    MemoryCriteria,
    MemoryItem,
    MemoryTransform,
    MemoryType,
    SearchHit,
    SearchScore,
)
from .policy import ContextPolicy, ExpansionPolicy, RecallPolicy
from .references import MemoryRef
from .stats import ContextStats
from .store import IndexReport, MemoryStore
from .tokens import TokenCounter
from .view import Segment, SegmentChange, ViewReport

__all__ = [
    "AgentMemory",
    "ConflictError",
    "ContextPolicy",
    "ContextStats",
    "Embedder",
    "EmbeddingError",
    "ExpansionPolicy",
    "FastEmbedEmbedder",
    "FoundPassage",
    "IndexReport",
    "ItemNotFoundError",
    "LightModelError",
    "MemoryContext",
    "MemoryContextConfig",
    "MemoryContextError",
    "MemoryCriteria",
    "MemoryItem",
    "MemoryRef",
    "MemoryStore",
    "MemoryTransform",
    "MemoryType",
    "OpenAIEmbedder",
    "PostgresMemory",
    "PostgresMemoryConfig",
    "RecallPolicy",
    "SchemaError",
    "SearchHit",
    "SearchScore",
    "Segment",
    "SegmentChange",
    "StoreError",
    "StoreUnavailableError",
    "TokenCounter",
    "TransformError",
    "ViewReport",
    "WordLlamaEmbedder",
]
