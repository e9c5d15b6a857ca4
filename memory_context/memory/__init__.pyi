from .agent_memory import AgentMemory, MemoryCriteria, SearchHit
from .items import (
    KNOWN_TYPES,
    MAX_CONTENT_BYTES,
    MemoryItem,
    MemoryType,
    NewItem,
    is_too_large,
)
from .scope import AuditEvent, AuditTrail, MemorySnapshot
from .secret_traces import (
    ClearSecrets,
    SecretTraces,
    adopt_clear_secrets,
    clear_secrets_in,
    keep_clear_secret,
    without_clear_secrets,
)
from .statements import STATEMENT_LIMIT_CHARACTERS, StatementType, checked_statement, ended_by, insert_statement
from .user_memory import UserMemoryText

__all__ = [
    "KNOWN_TYPES",
    "MAX_CONTENT_BYTES",
    "STATEMENT_LIMIT_CHARACTERS",
    "AgentMemory",
    "AuditEvent",
    "AuditTrail",
    "ClearSecrets",
    "MemoryCriteria",
    "MemoryItem",
    "MemorySnapshot",
    "MemoryType",
    "NewItem",
    "SearchHit",
    "SecretTraces",
    "StatementType",
    "UserMemoryText",
    "adopt_clear_secrets",
    "checked_statement",
    "clear_secrets_in",
    "ended_by",
    "insert_statement",
    "is_too_large",
    "keep_clear_secret",
    "without_clear_secrets",
]
