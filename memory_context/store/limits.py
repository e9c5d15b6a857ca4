"""Time limits in seconds: the server limits statements and locks, the client whole transactions."""

import math
import time
from collections.abc import Coroutine, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeVar

from memory_context.foundation.errors import StoreUnavailableError
from memory_context.foundation.runtime.background import attempt, begin

__all__ = ["StoreLimits", "TransactionKind", "Waits", "at_most", "extend", "most_seconds", "within"]

TransactionKind = Literal["call", "content", "transfer", "batch"]
"""`transfer` reads a history, slower than other `content`; `batch` works on many rows."""

_Answer = TypeVar("_Answer")

_CANCEL_SECONDS = 0.2
_most_seconds: ContextVar[float] = ContextVar("memory_context_most_seconds", default=math.inf)


@dataclass(frozen=True)
class Waits:
    """Time limits of one transaction: `seconds` at the client, the others at the server."""

    seconds: float
    statement_seconds: float
    lock_seconds: float
    bytes_per_second: float = math.inf


@dataclass
class _Call:
    ends_at: float  # monotonic


_calls: ContextVar[tuple[_Call, ...]] = ContextVar("memory_context_calls", default=())


@dataclass(frozen=True)
class StoreLimits:
    """The longest waits of a `MemoryStore`, above zero.

    Attributes:
        transaction_seconds: One transaction at the client, connecting included.
        statement_seconds: At the server, like `lock_seconds`.
        slot_seconds: A free connection of the pool.
        opening_seconds: Preparing the first use.
        call_seconds: One call of several transactions, such as a search.
        start_seconds: A starting server or a migration, which continues without the caller.
        batch_seconds: One batch of background work, export, import or pruning.
        bytes_per_second: Bytes carried that add a second; a tenth for reading a history.
    """

    transaction_seconds: float = 5.0
    statement_seconds: float = 4.0
    lock_seconds: float = 3.0
    slot_seconds: float = 3.0
    opening_seconds: float = 4.5
    call_seconds: float = 9.5
    start_seconds: float = 60.0
    migration_seconds: float = 600.0
    batch_seconds: float = 60.0
    bytes_per_second: int = 10_000_000

    def __post_init__(self) -> None:
        # no pydantic model: it would take a third of the time of a command that only reads
        for name, value in asdict(self).items():
            if not value > 0:
                raise ValueError(f"{name}={value!r}: use a number above 0")

    def waits_of(self, kind: TransactionKind, content_bytes: int) -> Waits:
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
    """Limit each transaction begun in this block or its tasks."""
    token = _most_seconds.set(seconds)
    try:
        yield
    finally:
        _most_seconds.reset(token)


def most_seconds() -> float:
    """Return the limit of `at_most`, or infinity."""
    return _most_seconds.get()


def extend(seconds: float) -> None:
    """Extend the running calls."""
    for call in _calls.get():
        call.ends_at += seconds


async def within(seconds: float, call: Coroutine[Any, Any, _Answer]) -> _Answer:
    """Return the answer of a call of several transactions; if late, cancel it and raise `StoreUnavailableError`."""
    limit = _Call(time.monotonic() + seconds)
    token = _calls.set((*_calls.get(), limit))
    try:
        task = begin(call)
    finally:
        _calls.reset(token)
    if await attempt(task, lambda: limit.ends_at - time.monotonic(), cancel_seconds=_CANCEL_SECONDS) is None:
        raise StoreUnavailableError(f"the store did not answer within {seconds:.3g} s; try again")
    return task.result()
