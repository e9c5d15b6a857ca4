from .archive import ResumeReport
from .autogen_memory import PostgresMemory, PostgresMemoryConfig
from .compaction import Compacted, Compactor, Compactors, Hint, Result
from .context import MemoryContext
from .context_builder import LightModelChoice, MemoryContextBuilder, choose_light_model
from .context_config import MemoryContextConfig
from .embeddings import Embedder, FastEmbedEmbedder, OpenAIEmbedder, WordLlamaEmbedder
from .errors import (
    ConflictError,
    EmbeddingError,
    ItemDamagedError,
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
    MemoryItem,
    MemorySnapshot,
    MemoryTransform,
    MemoryType,
    SearchHit,
    SearchScore,
    Sharing,
)
from .policy import ArchivePolicy, CachePolicy, CompactionPolicy, ContextPolicy, ExpansionPolicy, RecallPolicy
from .references import MemoryRef
from .stats import ContextStats
from .store import (
    ChatMessage,
    IndexReport,
    MemoryCriteria,
    MemoryStore,
    PruneProgress,
    PruneReport,
    SessionInfo,
    StoreLimits,
)
from .tokens import TokenCounter
from .view import Decided, Segment, SegmentChange, ViewReport

__version__: str

__all__ = [
    "AgentMemory",
    "ArchivePolicy",
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
    "Hint",
    "IndexReport",
    "ItemDamagedError",
    "ItemNotFoundError",
    "LightModelChoice",
    "LightModelError",
    "MemoryContext",
    "MemoryContextBuilder",
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
    "Result",
    "ResumeReport",
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
    "choose_light_model",
]
