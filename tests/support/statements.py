"""Every statement of the package, with parameters to run it."""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

import psycopg
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from memory_context.store import tables
from memory_context.store.search.passages import ranking_statement
from memory_context.store.sql import load_queries
from tests.conftest import REPOSITORY

FILES = sorted((REPOSITORY / "sql" / "queries").glob("*.sql"))


BLOCKS = [(path.stem, name) for path in FILES for name in load_queries(path.stem)]


TABLES = (
    "agent_memories",
    "consolidation",
    "conversations",
    "events",
    "index",
    "jobs",
    "notes",
    "user_stats",
    "prune",
    "redact",
    "search",
    "statements",
    "secrets",
    "session_claims",
    "status",
    "threads",
    "transfer",
)


NEEDED = {"count_old_rows": "age", "delete_old_rows": "age"}


OF_TABLES = [
    ("tables", f"{name} {table.record}")
    for name in load_queries("tables")
    for table in tables.TABLES
    if name not in NEEDED or getattr(table, NEEDED[name])
]


RANKINGS = ("select_candidates",)


BY_INDEX = "select_candidates user crowd/8"
OF_RANKINGS = [
    ("search", BY_INDEX),
    *(("search", f"{name} {reach}") for name in RANKINGS for reach in ("user", "narrow", "filtered")),
]


OF_USERS = [(file, name) for file, name in BLOCKS if file in TABLES and name not in RANKINGS] + OF_RANKINGS + OF_TABLES


ACROSS_USERS = (  # functions of the owner answer these
    "select_pending_users",
    "fetch_counts",
    "select_row_counts",
    "fetch_thread_owner",
    "select_columns",
    "renew_claims",
)


PARAMS: dict[str, Any] = {
    "notes": "## Work",
    "operation": "append",
    "based_on": 0,
    "repeats": None,
    "is_erased": False,
    "is_known": True,
    "kept_versions": 20,
    "claims": [],
    "least_seconds": 7.0,
    "is_shared": True,
    "user_id": "alice",
    "beginning": "k",
    "memory_key": "k",
    "agent_id": "coder",
    "session_id": "s",
    "memory_type": "custom",
    "source": "",
    "origin": "application",
    "claimed_types": ["user_fact"],
    "trusted_origins": ["application"],
    "summary": "",
    "model_summary": "",
    "content": "c",
    "data": b"c",
    "is_text": True,
    "content_type": None,
    "content_bytes": 1,
    "token_count": 1,
    "forgotten": "[forgotten]",
    "probes": ["some"],
    "beginnings": ["some"],
    "said": ["some"],
    "kept_key": "k",
    "topic": "Orders",
    "before": "",
    "run_id": None,
    "changes": Jsonb({}),
    "report": Jsonb({}),
    "redacted": "{}",
    "redacted_sha256": hashlib.sha256(b"{}").digest(),
    "content_sha256": hashlib.sha256(b"c").digest(),
    "tags": ["t"],
    "related_to": "k",
    "related_keys": ["k"],
    "is_private": False,
    "with_statements": True,
    "with_superseded": False,
    "as_of": None,
    "valid_from": datetime(2026, 1, 1, tzinfo=timezone.utc),
    "subject": "my database",
    "position": 1,
    "bytes_pattern": "k",
    "supersedes": ["k"],
    "reader_agent": "coder",
    "reader_session": "s",
    "within_agent": None,
    "within_session": None,
    "only_keys": None,
    "order_by": "created",
    "metadata": Jsonb({}),
    "memory_keys": ["k"],
    "limit": 5,
    "history_limit": 5,
    "events_limit": 5,
    "steps_limit": 5,
    "elements_limit": 5,
    "with_neighbours": 30,
    "bytes_limit": 1000,
    "with_failed": False,
    "offset": 0,
    "oldest_first": False,
    "types": ["custom"],
    "sources": None,
    "created_after": None,
    "created_before": None,
    "conversation": None,
    "first": 1,
    "messages_before": 3,
    "with_conversation": True,
    "said_at": datetime(2026, 1, 1, tzinfo=timezone.utc),
    "session_ids": ["s"],
    "memory_ids": [1, 2],
    "content_ids": [1, 2],
    "chunk_content_ids": [1, 2],
    "term_content_ids": [1, 2],
    "indexed_memory_ids": [1, 2],
    "indexed_content_ids": [1, 2],
    "name_memory_ids": [1, 2],
    "name_content_ids": [1, 2],
    "names": ["w1", "w2"],
    "name_postings": [336, 336],
    "with_agent": "critic",
    "chunk_memory_ids": [1, 2],
    "chunk_numbers": [0, 1],
    "chunk_counts": [1, 1],
    "start": 0,
    "length": None,
    "start_chars": [0, 5],
    "end_chars": [5, 9],
    "start_lines": [1, 1],
    "end_lines": [1, 1],
    "texts": ["some", "text"],
    "masked_texts": ["", "mask"],
    "file_sha256": bytes(32),
    "term_memory_ids": [1, 2],
    "terms": ["w1", "w100"],
    "patterns": ["%w1%"],
    "written": ["w1"],
    "folded": ["w1"],
    "characters_before": 500,
    "postings": ["{256}", "{256}"],
    "emphases": [1.4, 1.0],
    "postings_limit": 10_000,
    "nearest": 5,
    "sample": 5,
    "embedding": "[" + ",".join(["0.5"] * 8) + "]",
    "embeddings": ["[" + ",".join(["0.5"] * 8) + "]"] * 2,
    "embedding_model": "crowd/8",
    "dimensions": 8,
    "ef_search": 40,
    "claim": "00000000-0000-0000-0000-000000000000",
    "lease_seconds": 60.0,
    "kind": "index",
    "kinds": ["index", "embed"],
    "ids": [1, 2],
    "payload": Jsonb({}),
    "delay_seconds": 0.0,
    "attempts_limit": 8,
    "attempts_not_counted": 1,
    "characters_limit": 1000,
    "first_wait_seconds": 2.0,
    "longest_wait_seconds": 3600.0,
    "error": "failed",
    "after": "",
    "after_memory_id": 0,
    "after_content_id": 0,
    "after_chunk_number": 0,
    "after_session_id": "",
    "after_kind": "",
    "after_agent_id": "",
    "after_branch": "",
    "after_sequence": -1,
    "after_version": -1,
    "after_event_id": "00000000-0000-0000-0000-000000000000",
    "after_user_id": "",
    "after_thread_id": "",
    "after_created_at": "-infinity",
    "after_position": 0,
    "packed_bytes_limit": 1000,
    "records": '[{"place": 1, "memory_key": "k", "session_id": "s", "is_active": true}]',
    "contents": ["c"],
    "contents_raw": [None],
    "content_types": [None],
    "hashes": [bytes(32)],
    "sizes": [1],
    "event_ids": ["00000000-0000-0000-0000-000000000000"],
    "event_agent_ids": ["coder"],
    "event_session_ids": ["s"],
    "event_are_private": [False],
    "event_kinds": ["retrieved"],
    "event_keys": ["k"],
    "event_details": ["full"],
    "event_ages_seconds": [1.0],
    "used_keys": ["k"],
    "used_ages_seconds": [1.0],
    "after_at": None,
    "after_id": "",
    "newest_first": False,
    "title": "t",
    "title_is_final": False,
    "branch": "",
    "is_repeatable": False,
    "sequence": 0,
    "message_batch": "{}",
    "batch_sha256": hashlib.sha256(b"{}").digest(),
    "message_count": 1,
    "begins_anew": True,
    "message_ids": ["m"],
    "messages": "[]",
    "started_at": datetime(2024, 1, 1, tzinfo=timezone.utc),
    "ended_at": datetime(2024, 1, 1, tzinfo=timezone.utc),
    "only_chats": False,
    "words": ["some"],
    "agent": "a",
    "since": None,
    "before_at": None,
    "before_id": "",
    "thread_id": "s",
    "removed_keys": ["k"],
    "pattern": "%some%",
    "step_id": "step",
    "input": "",
    "output": "some",
    "fields": "{}",
    "is_update": True,
    "created_at": None,
    "feedback_id": None,
    "new_feedback_id": "f",
    "feedback_value": 1,
    "feedback_comment": None,
    "element_id": "e",
    "keeps_content": True,
    "cutoff": datetime(2024, 1, 1, tzinfo=timezone.utc),
    "name": "somebody",
    "version": 1,
    "checksum": "",
    "after_name": "",
    "key_id": "one",
    "nonce": bytes(12),
    "known_nonce": bytes(12),
    "ciphertext": bytes(24),
}


OTHER_PARAMS: dict[str, dict[str, Any]] = {  # of blocks that call something else by the same name
    "select_columns": {"names": ["agent_memories"]},
    "upsert_memories": {"items": "[]"},
    "upsert_said_contents": {"contents": "[]"},
    "update_statement_kept": {"related_to": ["k"]},
    "upsert_element": {"content": b"c"},
    "select_page consolidation": {"after_id": 0},
    "select_page event": {"after_id": "00000000-0000-0000-0000-000000000000"},
}


def statement_of(file: str, name: str, columns: Mapping[str, Sequence[tables.Column]] = {}) -> bytes:
    """Return a block as it is run; of what all tables have alike, for one of them."""
    if file == "tables":
        name, record = name.split()
        table = next(table for table in tables.TABLES if table.record == record)
        return table.statement(name, columns.get(table.name, ()))
    if name.split()[0] in RANKINGS:
        ranking, reach, *model = name.split()
        return ranking_statement(ranking, reach, *model, dimensions=8)
    return load_queries(file)[name]


def all_columns(connection: psycopg.Connection[Any]) -> Mapping[str, Sequence[tables.Column]]:
    """Return the columns of the tables that travel."""
    with connection.cursor(row_factory=dict_row) as cursor:
        names = {"names": [table.name for table in tables.TABLES]}
        return tables.columns_of(cursor.execute(load_queries("transfer")["select_columns"], names).fetchall())


def params_of(name: str, **others: Any) -> dict[str, Any]:
    """Return sample parameters of a block."""
    return {**PARAMS, **OTHER_PARAMS.get(name, {}), **others}


def login_of(database: str) -> str:
    """Return the name of the pool's login."""
    return "memory_context_login_" + hashlib.sha256(database.encode()).hexdigest()[:8]
