"""Long parameters, sent in pieces, so that no call of the driver holds the event loop for long.

libpq copies a statement with all of its parameters in one call: 60 ms for 30 MB. So a long text goes ahead of its
statement in pieces, each of which becomes a setting of the transaction; the statement itself joins them. The settings
end with the transaction, also behind PgBouncer.
"""

from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any, NamedTuple

from .sqlfiles import load_queries

__all__ = ["PIECE_LENGTH", "Statement", "split"]

PIECE_LENGTH = 3 * 65_536
"""The most characters, or bytes, of one parameter: a millisecond of copying. A multiple of three, since base64 is."""

_JOINED_AT_ONCE = 50
"""Arguments of one concat(); Postgres takes 100 at most."""
_QUERIES = load_queries("transactions")


class Statement(NamedTuple):
    """A block of SQL and its parameters."""

    query: bytes
    params: Mapping[str, Any] | None = None


def split(statement: Statement, numbers: "count[int]") -> Iterator[Statement]:
    """Yield the pieces of a statement's long parameters, each to be sent when it comes, and then the statement.

    Args:
        statement: Its texts are given as `%(name)s`, its bytes as `%(name)b`.
        numbers: Names the pieces; the same for all statements of a transaction.
    """
    query, params = statement.query, dict(statement.params or {})
    for name, value in (statement.params or {}).items():
        if not isinstance(value, (str, bytes)) or len(value) <= PIECE_LENGTH:
            continue
        pieces: list[str] = []
        for start in range(0, len(value), PIECE_LENGTH):
            setting = f"memory_context.piece_{next(numbers)}"
            pieces.append(f"current_setting('{setting}')")
            piece = {"setting": setting, "piece": value[start : start + PIECE_LENGTH]}
            yield Statement(_QUERIES["set_bytes_piece" if isinstance(value, bytes) else "set_piece"], piece)
        while len(pieces) > 1:
            groups = [pieces[start : start + _JOINED_AT_ONCE] for start in range(0, len(pieces), _JOINED_AT_ONCE)]
            pieces = [f"concat({', '.join(group)})" for group in groups]
        if isinstance(value, bytes):
            query = query.replace(f"%({name})b".encode(), f"decode({pieces[0]}, 'base64')".encode())
        else:
            query = query.replace(f"%({name})s".encode(), pieces[0].encode())
        del params[name]
    yield Statement(query, params) if len(params) < len(statement.params or {}) else statement
