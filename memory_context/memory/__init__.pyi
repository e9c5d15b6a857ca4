from .agent_memory import AgentMemory, MemoryCriteria, SearchHit
from .audit import AuditEvent, AuditTrail
from .items import KNOWN_TYPES, MAX_CONTENT_BYTES, MemoryItem, MemoryType, NewItem, is_too_large
from .sharing import MemorySnapshot, Sharing

__all__ = [
    "KNOWN_TYPES",
    "MAX_CONTENT_BYTES",
    "AgentMemory",
    "AuditEvent",
    "AuditTrail",
    "MemoryCriteria",
    "MemoryItem",
    "MemorySnapshot",
    "MemoryType",
    "NewItem",
    "SearchHit",
    "Sharing",
    "is_too_large",
]
