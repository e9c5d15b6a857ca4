"""Items of one scope: stored, read whole or cut, listed, searched."""

from ..store import MemoryCriteria
from .agent_memory import AgentMemory, is_too_large
from .items import MAX_CONTENT_BYTES, Draft, MemoryItem, MemoryType
from .searching import FoundPassage, SearchHit, SearchScore
from .transforms import FULL, MemoryTransform

__all__ = [
    "FULL",
    "MAX_CONTENT_BYTES",
    "AgentMemory",
    "Draft",
    "FoundPassage",
    "MemoryCriteria",
    "MemoryItem",
    "MemoryTransform",
    "MemoryType",
    "SearchHit",
    "SearchScore",
    "is_too_large",
]
