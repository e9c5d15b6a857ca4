"""Errors of this library. Bad arguments raise ValueError with value and remedy.

MemoryContextError
├ StoreError
│ ├ StoreUnavailableError
│ ├ SchemaError
│ ├ ConflictError
│ ├ ItemDamagedError
│ └ SessionGoneError
├ SessionBusyError
├ ItemNotFoundError
├ NotesError
├ SecretError
├ TransformError
├ ConnectorError
├ EmbeddingError
└ LightModelError
"""

__all__ = [
    "ConflictError",
    "ConnectorError",
    "EmbeddingError",
    "ItemDamagedError",
    "ItemNotFoundError",
    "LightModelError",
    "MemoryContextError",
    "NotesError",
    "SchemaError",
    "SecretError",
    "SessionBusyError",
    "SessionGoneError",
    "StoreError",
    "StoreUnavailableError",
    "TransformError",
]


class MemoryContextError(Exception):
    """Base of all."""


class StoreError(MemoryContextError):
    """The store failed. `__cause__` is the driver's error; no text has a password."""


class StoreUnavailableError(StoreError):
    """The database is unreachable or too slow; retryable."""


class SchemaError(StoreError):
    """The database schema does not fit this version; the text names the remedy."""


class ConflictError(StoreError):
    """A conditional write lost: the key is taken, or another session changed the notes."""


class ItemDamagedError(StoreError):
    """The stored content is damaged; the text never quotes it."""


class SessionGoneError(StoreError):
    """The session was deleted; the text says when."""


class SessionBusyError(MemoryContextError):
    """Another request or process uses the session; retryable."""


class ItemNotFoundError(MemoryContextError):
    """The item does not exist or was forgotten; the text offers nearest keys."""


class NotesError(MemoryContextError):
    """An operation on long-term notes makes no sense; nothing was written, and the text says what to send instead."""


class SecretError(MemoryContextError):
    """A secret would be stored or shown to a model in clear."""


class TransformError(MemoryContextError):
    """The transform, pattern or range is unusable."""


class EmbeddingError(MemoryContextError):
    """The embedder failed, took too long, or returned invalid vectors."""


class ConnectorError(MemoryContextError):
    """A connector cannot do what was asked; the text says what to do instead."""


class LightModelError(MemoryContextError):
    """The light model gave no usable answer; never leaves the library."""


for _name in __all__:  # tracebacks name the public module
    globals()[_name].__module__ = "memory_context"
