"""How long the store waits for its database: one frozen value, every limit in seconds.

The limits hold at both ends: the server ends a statement or a wait for a lock, the client's deadline the transaction. A
call that first makes the database ready and then runs one transaction ends within `opening_seconds` +
`transaction_seconds`, under 10 s by default.
"""

import math
import time
from collections.abc import Coroutine, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from memory_context.errors import StoreUnavailableError
from memory_context.runtime import attempt, begin

__all__ = ["StoreLimits", "TransactionKind", "Waits", "at_most", "extend", "most_seconds", "within"]

TransactionKind = Literal["call", "content", "transfer", "batch"]
"""What a transaction is: a `call` that somebody waits for; one that carries `content`, which takes the longer the more
there is; the `transfer` of a history, which may come at a tenth of that rate; a `batch` of work over many rows."""

_Answer = TypeVar("_Answer")

_CANCEL_SECONDS = 0.2
_most_seconds: ContextVar[float] = ContextVar("memory_context_most_seconds", default=math.inf)


@dataclass(frozen=True)
class Waits:
    """How long one transaction waits.

    Attributes:
        seconds: All of it, at the client.
        statement_seconds: Each statement, at the server.
        lock_seconds: Each lock, at the server; half of a batch, which would rather wait than be done again.
        bytes_per_second: A further second for so many bytes that come.
    """

    seconds: float
    statement_seconds: float
    lock_seconds: float
    bytes_per_second: float = math.inf


class _Call:
    def __init__(self, seconds: float) -> None:
        self.ends_at = time.monotonic() + seconds
        self.outer = _call.get()


_call: ContextVar[_Call | None] = ContextVar("memory_context_call", default=None)


class StoreLimits(BaseModel):
    """The longest waits of a `MemoryStore`.

    Attributes:
        transaction_seconds: One transaction at the client: waiting for a connection, connecting and running it.
        statement_seconds: One statement at the server.
        lock_seconds: One wait for a lock at the server.
        slot_seconds: Waiting for one of the pool's connections while all are in use.
        opening_seconds: Looking at the database before its first use: connecting, its version, the pool's login.
        call_seconds: One call that runs several transactions, such as a search.
        start_seconds: Waiting for an embedded server that starts, or for a schema that is brought up to date. That
            goes on behind a caller who stopped waiting.
        migration_seconds: One migration.
        probe_seconds: Between two questions to the connection that keeps the claims of sessions. Its silence is noticed
            within `probe_seconds` + `transaction_seconds`.
        batch_seconds: One batch of work over many rows: indexing, export, import, pruning, erasing.
        bytes_per_second: A transaction, and the call that it is a part of, gets a further second for so many bytes that
            it carries, in either direction. A history that is read may come at a tenth of this rate.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    transaction_seconds: float = Field(default=5.0, gt=0)
    statement_seconds: float = Field(default=4.0, gt=0)
    lock_seconds: float = Field(default=3.0, gt=0)
    slot_seconds: float = Field(default=3.0, gt=0)
    opening_seconds: float = Field(default=4.5, gt=0)
    call_seconds: float = Field(default=9.5, gt=0)
    start_seconds: float = Field(default=60.0, gt=0)
    migration_seconds: float = Field(default=600.0, gt=0)
    probe_seconds: float = Field(default=4.0, gt=0)
    batch_seconds: float = Field(default=60.0, gt=0)
    bytes_per_second: int = Field(default=10_000_000, gt=0)

    def waits_of(self, kind: TransactionKind, content_bytes: int) -> Waits:
        """Return the waits of a transaction that sends so many bytes of content."""
        more = content_bytes / self.bytes_per_second
        if kind == "batch":
            return Waits(self.batch_seconds + more, self.batch_seconds + more, self.batch_seconds / 2)
        if kind == "transfer":
            return Waits(self.transaction_seconds, self.batch_seconds, self.lock_seconds, self.bytes_per_second / 10)
        statement_seconds = self.statement_seconds if kind == "call" else self.batch_seconds
        return Waits(
            self.transaction_seconds + more, statement_seconds + more, self.lock_seconds, self.bytes_per_second
        )


@contextmanager
def at_most(seconds: float) -> Generator[None, None, None]:
    """Limit each transaction that is begun in this block, also by tasks made in it, to so many seconds.

    For an agent's step, which would rather go on without than wait.
    """
    token = _most_seconds.set(seconds)
    try:
        yield
    finally:
        _most_seconds.reset(token)


def most_seconds() -> float:
    """Return what `at_most` says here; infinity outside of it."""
    return _most_seconds.get()


def extend(seconds: float) -> None:
    """Give the running calls so many seconds more, for the bytes that this transaction carries."""
    call = _call.get()
    while call is not None:
        call.ends_at += seconds
        call = call.outer


async def within(seconds: float, call: Coroutine[Any, Any, _Answer]) -> _Answer:
    """Return the answer of a call of several transactions, or cancel it after so many seconds.

    It gets more time for the bytes that its transactions carry (`StoreLimits.bytes_per_second`).

    Raises:
        StoreUnavailableError: It did not end in time.
    """
    limit = _Call(seconds)
    token = _call.set(limit)
    try:
        task = begin(call)
    finally:
        _call.reset(token)
    if await attempt(task, lambda: limit.ends_at - time.monotonic(), cancel_seconds=_CANCEL_SECONDS) is None:
        raise StoreUnavailableError(f"the store did not answer within {seconds:.3g} s; try again")
    return task.result()
