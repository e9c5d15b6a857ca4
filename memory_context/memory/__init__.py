"""Items of one scope: stored, read whole or cut."""

from .agent_memory import AgentMemory, is_too_large
from .items import MAX_CONTENT_BYTES, Draft, MemoryItem, MemoryType
from .transforms import FULL, MemoryTransform

__all__ = [
    "FULL",
    "MAX_CONTENT_BYTES",
    "AgentMemory",
    "Draft",
    "MemoryItem",
    "MemoryTransform",
    "MemoryType",
    "is_too_large",
]
