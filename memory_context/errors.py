"""Every error this library raises on purpose.

MemoryContextError
├ StoreError                 the driver's error is its __cause__; never a password in its text
│ ├ StoreUnavailableError    retryable: the database is down, starting, or too slow
│ ├ SchemaError              the schema is missing, too old or too new; says which command mends it
│ ├ ConflictError            a conditional write lost
│ ├ ItemDamagedError         the content of an item is not what was stored; names the item
│ └ SessionGoneError         the session was deleted; says when
├ SessionBusyError           somebody else is at work on the session; try again
├ ItemNotFoundError          no such item in this scope, or it was forgotten
├ SecretError                a secret that would be stored, or shown to a model, in clear; says what to do instead
├ TransformError             the transform, pattern or range is unusable; says what to send instead
├ EmbeddingError             the embedder failed, or answered with something that is no vector
└ LightModelError            never leaves the library: logged, the stand-in takes over

Bad arguments raise ValueError (or pydantic's error) with the value shown and the remedy.
"""

__all__ = [
    "ConflictError",
    "EmbeddingError",
    "ItemDamagedError",
    "ItemNotFoundError",
    "LightModelError",
    "MemoryContextError",
    "SchemaError",
    "SecretError",
    "SessionBusyError",
    "SessionGoneError",
    "StoreError",
    "StoreUnavailableError",
    "TransformError",
]


class MemoryContextError(Exception):
    """Base of every error this library raises on purpose."""


class StoreError(MemoryContextError):
    """The store refused or failed; the driver's error is the `__cause__`."""


class StoreUnavailableError(StoreError):
    """The database cannot be reached or does not answer in time; the same call may succeed later."""


class SchemaError(StoreError):
    """The database schema is missing, too old or too new for this version; the text says what mends it."""


class ConflictError(StoreError):
    """A conditional write lost: the key is taken by something else."""


class ItemDamagedError(StoreError):
    """The content of an item in the database is not what was stored; the text names the item, never the content."""


class SessionGoneError(StoreError):
    """The session was deleted; the text says when."""


class SessionBusyError(MemoryContextError):
    """Another request, or another process, is at work on the session; try again."""


class ItemNotFoundError(MemoryContextError):
    """No such item in this scope; the text offers the nearest keys."""


class SecretError(MemoryContextError):
    """A secret would be stored, or shown to a model, in clear; the text says what to do instead."""


class TransformError(MemoryContextError):
    """The transform cannot be applied; the text says what to send instead."""


class EmbeddingError(MemoryContextError):
    """The embedder failed, took too long, or answered with something that is no vector; the text says which.

    What the embedder itself raised is the `__cause__`.
    """


class LightModelError(MemoryContextError):
    """The light model gave no usable answer in time; never leaves the library, as the stand-in takes over."""


for _name in __all__:  # tracebacks name the public module
    globals()[_name].__module__ = "memory_context"
