"""A context and memory layer for AutoGen agents: the chat context stays small, and nothing is lost."""

from .context import MemoryContext, MemoryContextConfig
from .errors import (
    ConflictError,
    ItemNotFoundError,
    MemoryContextError,
    SchemaError,
    StoreError,
    StoreUnavailableError,
    TransformError,
)
from .memory import AgentMemory, MemoryItem, MemoryTransform, MemoryType
from .policy import ContextPolicy
from .references import MemoryRef
from .stats import ContextStats
from .store import MemoryStore
from .tokens import TokenCounter
from .view import Segment, SegmentChange, ViewReport

__all__ = [
    "AgentMemory",
    "ConflictError",
    "ContextPolicy",
    "ContextStats",
    "ItemNotFoundError",
    "MemoryContext",
    "MemoryContextConfig",
    "MemoryContextError",
    "MemoryItem",
    "MemoryRef",
    "MemoryStore",
    "MemoryTransform",
    "MemoryType",
    "SchemaError",
    "Segment",
    "SegmentChange",
    "StoreError",
    "StoreUnavailableError",
    "TokenCounter",
    "TransformError",
    "ViewReport",
]
