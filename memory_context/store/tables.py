"""The registry of tables for export, import, erasing, pruning and counts.

A new table needs a migration that calls `fence_table`, queries that list its user (`insert_known_user`), and an entry
here. Derived tables, jobs and claims have none.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from memory_context.foundation.patterns import regex

from .sql import expanded, load_queries

__all__ = ["ITEMS", "TABLES", "Column", "Table", "columns_of"]

_NAME = regex(r"\{(\w+)\}")


class Column(NamedTuple):
    """A column of an exported table."""

    name: str
    type: str


def columns_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Column]]:
    """Return the exported columns of each table, in order."""
    derived = {table.name: table.derived for table in TABLES}
    found: dict[str, list[Column]] = {}
    for row in rows:
        if row["name"] not in ("user_id", *derived[row["table_name"]]):
            found.setdefault(row["table_name"], []).append(Column(row["name"], row["type"]))
    return found


@dataclass(frozen=True)
class Table:
    """A table of users' rows.

    Attributes:
        record: Name of a row in exports and reports.
        order: Unique export order: columns, each with a value before the first.
        has_tombstones: Deleted rows stay, empty, and refuse imports.
        large: Columns that limit export pages.
        derived: Columns that are not exported.
        batch_rows: Rows deleted per transaction.
        age: Column compared by pruning.
        own: Statements of `transfer.sql` that replace those of `tables.sql`.
        if_left_out: After an import left out rows: the first names those whose place another row has.
    """

    name: str
    record: str
    order: Mapping[str, str | int]
    session: Literal["session_id", "thread_id"] | None = None
    parent: Literal["agent_sessions", "ui_threads"] | None = None
    has_tombstones: bool = False
    large: tuple[str, ...] = ()
    encodings: Mapping[str, Literal["hex", "base64"]] = field(default_factory=dict[str, Literal["hex", "base64"]])
    derived: tuple[str, ...] = ()
    batch_rows: int = 1000
    age: str | None = None
    own: Mapping[str, str] = field(default_factory=dict[str, str])
    if_left_out: tuple[str, ...] = ()
    before_insert: tuple[str, ...] = ()
    after_insert: tuple[str, ...] = ()

    @property
    def start(self) -> dict[str, str | int]:
        return {f"after_{column}": value for column, value in self.order.items()}

    def encoding(self, column: Column) -> Literal["hex", "base64"] | None:
        """Return a binary column's encoding in exports."""
        return self.encodings.get(column.name, "hex") if column.type == "bytea" else None

    def statement(self, name: str, columns: Sequence[Column] = ()) -> bytes:
        """Return the table's own statement, or one of `tables.sql`."""
        if name in self.own:
            return load_queries("transfer")[self.own[name]]
        text, names = load_queries("tables")[name].decode(), self._names(columns)
        while (whole := _NAME.sub(lambda found: names[found[1]], text)) != text:
            text = whole
        return text.encode()

    def _names(self, columns: Sequence[Column]) -> dict[str, str]:
        codes = {column.name: code for column in columns if (code := self.encoding(column))}
        written = {name: f"encode(one.{name}, '{code}') AS {name}" for name, code in codes.items()}
        read = {name: f"decode(one.value ->> '{name}', '{code}')" for name, code in codes.items()}
        names = [column.name for column in columns]
        within = {
            None: "{within_nothing()}",
            "session_id": "{within_session(one.session_id)}",
            "thread_id": "{within_thread(one.thread_id)}",
        }
        return {
            "table": self.name,
            "parent": self.parent or "",
            "session": self.session or "",
            "age": self.age or "",
            "batch_rows": str(self.batch_rows),
            "order": ", ".join(self.order),
            "one_order": ", ".join(f"one.{name}" for name in self.order),
            "after": ", ".join(f"%(after_{name})s" for name in self.order),
            "places": ", ".join(f"one.{name} AS after_{name}" for name in self.order),
            "is_same_place": " AND ".join(f"one.{name} = sized.{name}" for name in self.order),
            "bytes": " + ".join(f"coalesce(pg_column_size({name}), 0)" for name in self.large) or "0",
            "names": ", ".join(names),
            "columns": ", ".join(written.get(name, f"one.{name}") for name in names),
            "values": ", ".join(read.get(name, f"one.{name}") for name in names),
            "within": expanded(within[self.session]),
            "has_live_parent": expanded("{has_live_parent()}") if self.parent else "true",
        }


ITEMS = Table(
    name="agent_memories",
    record="item",
    order={"memory_id": 0},
    session="session_id",
    own={
        "select_page": "select_item_page",
        "count_rows": "count_items",
        "insert_rows": "insert_transferred_items",
    },
    derived=("content_id", "content_bytes"),
    if_left_out=("select_different_items", "delete_unused_contents"),
)

TABLES = [
    ITEMS,
    Table(
        name="agent_sessions",
        record="session",
        order={"session_id": ""},
        session="session_id",
        has_tombstones=True,
        derived=("message_count", "chat_count"),
        own={"insert_rows": "insert_transferred_sessions"},
    ),
    Table(
        name="recent_conversation_history",
        record="batch",
        order={"session_id": "", "kind": "", "agent_id": "", "branch": "", "sequence": -1},
        if_left_out=("select_different_batches",),
        session="session_id",
        parent="agent_sessions",
        large=("message_batch",),
        batch_rows=500,
        before_insert=("lock_batch_sessions",),
        after_insert=("update_session_counts", "insert_conversation_jobs"),
    ),
    Table(
        name="agent_memory_events",
        record="event",
        order={"id": "00000000-0000-0000-0000-000000000000"},
        session="session_id",
        batch_rows=5000,
        age="created_at",
    ),
    Table(
        name="user_secrets",
        record="secret",
        order={"name": ""},
        session="session_id",
        derived=("key_id", "nonce", "ciphertext"),  # values never travel
    ),
    Table(
        name="agent_long_term_memory",
        record="notes",
        order={"agent_id": ""},
        large=("notes",),
        if_left_out=("select_different_notes",),
    ),
    Table(
        name="agent_long_term_memory_versions",
        record="notes_version",
        order={"agent_id": "", "version": -1},
        large=("notes",),
        own={"insert_rows": "insert_transferred_notes_versions"},
    ),
    Table(
        name="consolidations",
        record="consolidation",
        order={"id": 0},
        age="started_at",
    ),
    Table(name="ui_users", record="ui_user", order={"user_id": ""}),
    Table(
        name="ui_threads",
        record="thread",
        order={"thread_id": ""},
        session="thread_id",
        has_tombstones=True,
    ),
    Table(
        name="ui_steps",
        record="step",
        order={"thread_id": "", "created_at": "-infinity", "position": 0},
        session="thread_id",
        parent="ui_threads",
        large=("fields", "input", "output"),
        batch_rows=2000,
    ),
    Table(
        name="ui_elements",
        record="element",
        order={"thread_id": "", "position": 0},
        session="thread_id",
        parent="ui_threads",
        large=("fields", "content"),
        encodings={"content": "base64"},
        batch_rows=20,  # up to 50 MB each
    ),
]
"""In export order: parents first."""
