"""How long the store waits for its database: one frozen value, every limit in seconds.

The limits hold at both ends. The server ends a statement or a wait for a lock by itself; the client's deadline bounds
the whole transaction, whether the server answers or not. A call that has to make the database ready first and then
runs one transaction ends within `opening_seconds` + `transaction_seconds`, which the defaults keep under 10 s.
"""

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["StoreLimits"]


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
        batch_seconds: One batch of work over many rows: indexing, export, import, pruning, erasing.
        bytes_per_second: A transaction that carries content gets a further second for so many bytes.
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
    batch_seconds: float = Field(default=60.0, gt=0)
    bytes_per_second: int = Field(default=10_000_000, gt=0)
