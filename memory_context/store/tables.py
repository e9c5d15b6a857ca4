"""The registry of tables for export, import, erasing, pruning and counts.

A new table needs a migration that calls `fence_table`, queries that list its user (`insert_known_user`), and an entry
here. Derived tables, jobs and claims have none.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from .sql import expanded, load_queries

__all__ = ["ITEMS", "TABLES", "Column", "Table", "columns_of"]

_NAME = re.compile(r"\{(\w+)\}")
_QUOTES = {
    "line": "strpos({0}, %(beginning)s) > 0",
    "text": "strpos({0}, %(text)s) > 0",
    "jsonb": "strpos({0}::text, %(json_text)s) > 0",
}
_CUTS = {
    "line": "{0} = CASE WHEN strpos({0}, %(beginning)s) > 0 THEN %(forgotten)s ELSE {0} END",
    "text": "{0} = replace({0}, %(text)s, %(forgotten)s)",
    "jsonb": "{0} = replace({0}::text, %(json_text)s, %(forgotten)s)::jsonb",
}


Quoting = Literal["line", "text", "jsonb"]
"""A line, such as a title, may begin with the first words of a content."""


@dataclass(frozen=True)
class Column:
    """A column; `conditions` are its table's check constraints."""

    name: str
    type: str
    is_required: bool
    conditions: str = field(repr=False)


def columns_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Column]]:
    """Return the exported columns of each table, in order."""
    derived = {table.name: table.derived for table in TABLES}
    found: dict[str, list[Column]] = {}
    for row in rows:
        if row["name"] not in ("user_id", *derived[row["table_name"]]):
            column = Column(row["name"], row["type"], row["is_required"], row["conditions"])
            found.setdefault(row["table_name"], []).append(column)
    return found


@dataclass(frozen=True)
class Table:
    """A table of users' rows.

    Attributes:
        record: Name of a row in exports and reports.
        order: Unique export order: columns, each with a value before the first.
        key: Columns that identify an imported row within the user.
        same: Columns that must agree then; else it is a conflict.
        has_tombstones: Deleted rows stay, empty, and refuse imports.
        large: Columns that limit export pages.
        derived: Columns that are not exported.
        batch_rows: Rows deleted per transaction.
        age: Column compared by pruning.
        own: Statements of `transfer.sql` that replace those of `tables.sql`.
        identity: Parameters of its own comparison.
        quoting: Columns that may quote a content, by type; forgetting cuts it out.
    """

    name: str
    record: str
    order: Mapping[str, str | int]
    key: tuple[str, ...]
    same: tuple[str, ...] = ()
    session: Literal["session_id", "thread_id"] | None = None
    parent: Literal["agent_sessions", "ui_threads"] | None = None
    has_tombstones: bool = False
    large: tuple[str, ...] = ()
    encodings: Mapping[str, Literal["hex", "base64"]] = field(default_factory=dict[str, Literal["hex", "base64"]])
    derived: tuple[str, ...] = ()
    batch_rows: int = 1000
    age: str | None = None
    own: Mapping[str, str] = field(default_factory=dict[str, str])
    identity: tuple[str, ...] = ()
    before_insert: tuple[str, ...] = ()
    after_insert: tuple[str, ...] = ()
    quoting: Mapping[str, Quoting] = field(default_factory=dict[str, Quoting])

    @property
    def start(self) -> dict[str, str | int]:
        return {f"after_{column}": value for column, value in self.order.items()}

    @property
    def compared(self) -> tuple[str, ...]:
        """Fields that show whether a row exists."""
        parents = (self.session,) if self.parent and self.session else ()
        tombstones = ("deleted_at",) if self.has_tombstones else ()
        return self.identity or tuple(dict.fromkeys((*self.key, *self.same, *parents, *tombstones)))

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
        read = {name: f"decode(line.fields ->> '{name}', '{code}')" for name, code in codes.items()}
        names = [column.name for column in columns]
        within = {
            None: "{within_nothing()}",
            "session_id": "{within_session(one.session_id)}",
            "thread_id": "{within_thread(one.thread_id)}",
        }
        is_gone = {None: "false", "agent_sessions": "{is_session_gone()}", "ui_threads": "{is_thread_gone()}"}
        is_same = (f"there.{name} IS NOT DISTINCT FROM {read.get(name, f'given.{name}')}" for name in self.same)
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
            "is_same_row": " AND ".join(f"there.{name} = given.{name}" for name in self.key) or "true",
            "is_same": " AND ".join(is_same) or "true",
            "bytes": " + ".join(f"coalesce(pg_column_size({name}), 0)" for name in self.large) or "0",
            "names": ", ".join(names),
            "columns": ", ".join(written.get(name, f"one.{name}") for name in names),
            "values": ", ".join(read.get(name, f"one.{name}") for name in names),
            "within": expanded(within[self.session]),
            "has_live_parent": expanded("{has_live_parent()}") if self.parent else "true",
            "is_gone": expanded("{is_others()}" if self.name == "ui_threads" else is_gone[self.parent]),
            "is_deleted_once": expanded("{is_deleted_once()}") if self.has_tombstones else "false",
            "cut": ", ".join(_CUTS[type].format(name) for name, type in self.quoting.items()),
            "quotes": " OR ".join(_QUOTES[type].format(name) for name, type in self.quoting.items()),
        }


ITEMS = Table(
    name="agent_memories",
    record="item",
    order={"memory_id": 0},
    key=("memory_key",),
    session="session_id",
    own={
        "select_page": "select_item_page",
        "count_rows": "count_items",
        "compare_rows": "compare_items",
        "insert_rows": "insert_transferred_items",
    },
    derived=("content_id", "content_bytes"),
    identity=("memory_key", "agent_id", "session_id", "memory_type", "source", "origin", "content_sha256", "is_active"),
    before_insert=("insert_transferred_contents",),
    after_insert=("delete_unused_contents",),
    quoting={"summary": "text", "model_summary": "text", "content_metadata": "jsonb"},
)

TABLES = [
    ITEMS,
    Table(
        name="agent_sessions",
        record="session",
        order={"session_id": ""},
        key=("session_id",),
        session="session_id",
        has_tombstones=True,
        derived=("message_count", "chat_count"),
        own={"insert_rows": "insert_transferred_sessions"},
        quoting={"title": "line", "summary": "line"},
    ),
    Table(
        name="recent_conversation_history",
        record="batch",
        order={"session_id": "", "kind": "", "agent_id": "", "branch": "", "sequence": -1},
        key=("session_id", "kind", "agent_id", "branch", "sequence"),
        same=("batch_sha256", "message_ids"),
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
        key=("id",),
        session="session_id",
        batch_rows=5000,
        age="created_at",
    ),
    Table(
        name="user_secrets",
        record="secret",
        order={"name": ""},
        key=("name",),
        session="session_id",
        derived=("key_id", "nonce", "ciphertext"),  # values never travel
    ),
    Table(
        name="agent_long_term_memory",
        record="notes",
        order={"agent_id": ""},
        key=("agent_id",),
        large=("notes",),
        quoting={"notes": "text"},
    ),
    Table(
        name="agent_long_term_memory_versions",
        record="notes_version",
        order={"agent_id": "", "version": -1},
        key=("agent_id", "version"),
        large=("notes",),
        own={"insert_rows": "insert_transferred_notes_versions"},
        quoting={"notes": "text"},
    ),
    Table(
        name="consolidations",
        record="consolidation",
        order={"id": 0},
        key=("id",),
        age="started_at",
        quoting={"changes": "jsonb", "report": "jsonb"},
    ),
    Table(name="ui_users", record="ui_user", order={"user_id": ""}, key=()),
    Table(
        name="ui_threads",
        record="thread",
        order={"thread_id": ""},
        key=("thread_id",),
        session="thread_id",
        has_tombstones=True,
        quoting={"name": "line"},
    ),
    Table(
        name="ui_steps",
        record="step",
        order={"thread_id": "", "created_at": "-infinity", "position": 0},
        key=("step_id",),
        session="thread_id",
        parent="ui_threads",
        large=("fields", "input", "output"),
        batch_rows=2000,
        quoting={"fields": "jsonb", "input": "text", "output": "text", "feedback_comment": "text"},
    ),
    Table(
        name="ui_elements",
        record="element",
        order={"thread_id": "", "position": 0},
        key=("element_id",),
        session="thread_id",
        parent="ui_threads",
        large=("fields", "content"),
        encodings={"content": "base64"},
        batch_rows=20,  # up to 50 MB each
        quoting={"fields": "jsonb"},
    ),
]
"""In export order: parents first."""
