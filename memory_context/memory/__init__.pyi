from .agent_memory import AgentMemory
from .audit import AuditEvent, AuditTrail
from .items import KNOWN_TYPES, MAX_CONTENT_BYTES, Draft, MemoryItem, MemoryType, is_too_large
from .search import FoundPassage, MemoryCriteria, SearchHit, SearchScore
from .sharing import MemorySnapshot, Sharing

__all__ = [
    "KNOWN_TYPES",
    "MAX_CONTENT_BYTES",
    "AgentMemory",
    "AuditEvent",
    "AuditTrail",
    "Draft",
    "FoundPassage",
    "MemoryCriteria",
    "MemoryItem",
    "MemorySnapshot",
    "MemoryType",
    "SearchHit",
    "SearchScore",
    "Sharing",
    "is_too_large",
]
