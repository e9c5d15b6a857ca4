"""Forgetting items, which leaves tombstones, and erasing a user, which leaves nothing.

Both take what an item is found by away first, and lock in the order of those who store, index and archive: jobs,
contents, items, sessions, threads, the rest, the list of users at last. So nobody waits for each other, and a worker
that holds a claim finds it gone. A content goes with its last item.
"""

from collections.abc import Iterator, Sequence

from psycopg.rows import DictRow

from memory_context.escaping import escape, unescape

from .database import Database
from .limits import Kind
from .pool import Statement
from .sqlfiles import load_queries

__all__ = ["erase_user", "forget_memories", "forgetting"]

_ITEMS = load_queries("agent_memories")
_USERS = load_queries("index")
_SESSIONS = load_queries("conversations")
_THREADS = load_queries("threads")

_LOCK = ("lock_jobs", "lock_contents")  # what others lock in this order too, before the items
_UNFIND = ("delete_names", "delete_index_jobs")
_PASSES = 10
BATCH_ITEMS = 1000


async def forget_memories(
    database: Database, user_id: str, agent_id: str, session_id: str, memory_key: str | None
) -> list[str]:
    """Erase one item, or all, of exactly this agent and session; return the keys, which are tombstones now.

    Many go in several transactions; what is interrupted can be run again.
    """
    params: dict[str, object] = {
        "user_id": escape(user_id),
        "agent_id": escape(agent_id),
        "session_id": escape(session_id),
        "memory_key": None if memory_key is None else escape(memory_key),
    }
    kind: Kind = "batch" if memory_key is None else "call"
    (rows,) = await database.write(user_id, Statement(_ITEMS["select_own_ids"], params), kind=kind)
    keys: list[str] = []
    for items in _batches(rows):
        *_, forgotten, _ = await database.write(user_id, *forgetting(user_id, items), kind=kind)
        keys += [unescape(row["memory_key"]) for row in forgotten]
    return keys


def forgetting(user_id: str, items: Sequence[DictRow]) -> list[Statement]:
    """Return the statements that forget items, in the order in which they lock; the last but one returns the keys.

    Args:
        user_id: Whose items.
        items: Their ids, with those of their contents, which go if no other item has them.
    """
    params: dict[str, object] = {"user_id": escape(user_id), **_ids(items)}
    steps = (*_LOCK, "lock_memories", *_UNFIND, "update_memories_forgotten", "delete_orphaned_contents")
    return _statements(steps, params)


async def erase_user(database: Database, user_id: str) -> int:
    """Erase every row of a user; return how many items there were, forgotten ones not counted.

    The items that are there go in batches; then the sessions, the threads and, if nobody stored anything meanwhile, the
    rest in one transaction. What was stored meanwhile goes in the next pass. Interrupted it can be run again.
    """
    params: dict[str, object] = {"user_id": escape(user_id)}
    erased = 0
    for _ in range(_PASSES):
        (rows,) = await database.read(user_id, Statement(_ITEMS["select_ids"], params), kind="batch")
        steps = (*_LOCK, "lock_memories", *_UNFIND, "delete_memories", "delete_orphaned_contents")
        for some in _batches(rows):
            statements = _statements(steps, {**params, **_ids(some)})
            *_, gone, _ = await database.write(user_id, *statements, kind="batch")
            erased += sum(row["is_active"] for row in gone)
        *_, items, sessions, threads = await database.write(
            user_id,
            Statement(_SESSIONS["lock_sessions"], params),
            Statement(_SESSIONS["delete_sessions"], params),
            Statement(_THREADS["delete_threads"], params),
            Statement(_THREADS["delete_ui_user"], params),
            Statement(_USERS["lock_user"], params),
            *_statements(("delete_events", "delete_statistics", "delete_user", "select_ids"), params),
            Statement(_SESSIONS["select_session_ids"], params),
            Statement(_THREADS["select_thread_ids"], params),
            kind="batch",
        )
        if not items and not sessions and not threads:
            break
    return erased


def _batches(rows: Sequence[DictRow]) -> Iterator[Sequence[DictRow]]:
    """Yield items, so many at a time that one transaction has them."""
    for start in range(0, len(rows), BATCH_ITEMS):
        yield rows[start : start + BATCH_ITEMS]


def _ids(items: Sequence[DictRow]) -> dict[str, object]:
    contents = {row["content_id"] for row in items} - {None}
    return {"memory_ids": [row["id"] for row in items], "content_ids": sorted(contents)}


def _statements(names: Sequence[str], params: dict[str, object]) -> list[Statement]:
    return [Statement(_ITEMS[name], params) for name in names]
