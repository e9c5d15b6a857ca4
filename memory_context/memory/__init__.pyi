from .agent_memory import AgentMemory
from .audit import AuditEvent, AuditTrail
from .items import KNOWN_TYPES, MAX_CONTENT_BYTES, MemoryItem, MemoryType, NewItem, is_too_large
from .search import FoundPassage, MemoryCriteria, SearchHit, SearchScore
from .sharing import MemorySnapshot, Sharing

__all__ = [
    "KNOWN_TYPES",
    "MAX_CONTENT_BYTES",
    "AgentMemory",
    "AuditEvent",
    "AuditTrail",
    "FoundPassage",
    "MemoryCriteria",
    "MemoryItem",
    "MemorySnapshot",
    "MemoryType",
    "NewItem",
    "SearchHit",
    "SearchScore",
    "Sharing",
    "is_too_large",
]
