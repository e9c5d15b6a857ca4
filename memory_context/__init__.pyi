from .autogen_memory import PostgresMemory, PostgresMemoryConfig
from .compaction import Compacted, Compactor, Compactors
from .context import MemoryContext
from .context_config import MemoryContextConfig
from .embeddings import Embedder, FastEmbedEmbedder, OpenAIEmbedder, WordLlamaEmbedder
from .errors import (
    ConflictError,
    EmbeddingError,
    ItemNotFoundError,
    LightModelError,
    MemoryContextError,
    SchemaError,
    SecretError,
    SessionBusyError,
    SessionGoneError,
    StoreError,
    StoreUnavailableError,
    TransformError,
)
from .memory import (
    AgentMemory,
    AuditEvent,
    FoundPassage,
    MemoryCriteria,
    MemoryItem,
    MemorySnapshot,
    MemoryTransform,
    MemoryType,
    SearchHit,
    SearchScore,
    Sharing,
)
from .policy import CachePolicy, CompactionPolicy, ContextPolicy, ExpansionPolicy, RecallPolicy
from .references import MemoryRef
from .stats import ContextStats
from .store import ChatMessage, IndexReport, MemoryStore, PruneProgress, PruneReport, SessionInfo, StoreLimits
from .tokens import TokenCounter
from .view import Decided, Segment, SegmentChange, ViewReport

__all__ = [
    "AgentMemory",
    "AuditEvent",
    "CachePolicy",
    "ChatMessage",
    "Compacted",
    "CompactionPolicy",
    "Compactor",
    "Compactors",
    "ConflictError",
    "ContextPolicy",
    "ContextStats",
    "Decided",
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
    "MemorySnapshot",
    "MemoryStore",
    "MemoryTransform",
    "MemoryType",
    "OpenAIEmbedder",
    "PostgresMemory",
    "PostgresMemoryConfig",
    "PruneProgress",
    "PruneReport",
    "RecallPolicy",
    "SchemaError",
    "SearchHit",
    "SearchScore",
    "SecretError",
    "Segment",
    "SegmentChange",
    "SessionBusyError",
    "SessionGoneError",
    "SessionInfo",
    "Sharing",
    "StoreError",
    "StoreLimits",
    "StoreUnavailableError",
    "TokenCounter",
    "TransformError",
    "ViewReport",
    "WordLlamaEmbedder",
]
