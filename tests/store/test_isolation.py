"""One user never sees another's rows, and Postgres enforces it, failing closed."""

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone

import psycopg
import pytest

from memory_context.foundation import errors
from memory_context.foundation.identifiers import SessionKey
from memory_context.store.conversations import ChatMessage, NewBatch
from memory_context.store.items import NewItem
from memory_context.store.memory_store import MemoryStore
from memory_context.store.secret_rows import SealedSecret
from memory_context.store.threads import ThreadElement, ThreadStep
from tests.conftest import Server, database_of

NOW = datetime.now(timezone.utc)


@pytest.fixture
async def database(store: MemoryStore, database_url: str) -> str:
    """The name of a database in which alice and bob keep one item each under the same key."""
    for user in ("alice", "bob"):
        await store.items.insert_memories(user, [NewItem(f"of {user}", "", 1, key="k")])
    return database_of(database_url)


@pytest.fixture
def login(server: Server, database: str) -> str:
    """The name of the pool's login."""
    rows = server.execute(
        "SELECT DISTINCT usename::text, datname::text FROM pg_stat_activity WHERE usename <> 'postgres'"
    )
    (name,) = [user for user, of in rows if of == database]
    return str(name)


@pytest.fixture
def pooled(server: Server, database: str, login: str) -> Iterator[psycopg.Connection]:
    """A bare connection as the pool's login."""
    with psycopg.connect(server.url(database, user=login), autocommit=True) as connection:
        yield connection


def act_as(connection: psycopg.Connection, user: str) -> None:
    connection.execute("SELECT memory_context.act_as(%s)", [user])


ROWS = "SELECT user_id FROM memory_context.agent_memories"


async def test_one_key_of_two_users_is_two_items(store: MemoryStore, database: str) -> None:
    """Each sees the own one only."""
    for user in ("alice", "bob"):
        assert await store.items.fetch_contents(user, ["k"]) == {"k": f"of {user}"}
    assert await store.items.fetch_memory("carol", "k") is None
    assert await store.items.select_keys("carol") == []


def test_whoever_is_nobody_sees_nothing(pooled: psycopg.Connection) -> None:
    """Before the first act_as the setting is unset, after a transaction it is empty: neither matches a row."""
    assert pooled.execute(ROWS).fetchall() == []
    with pooled.transaction():
        act_as(pooled, "alice")
        assert pooled.execute(ROWS).fetchall() == [("alice",)]
    assert pooled.execute(ROWS).fetchall() == []
    assert pooled.execute(ROWS + " WHERE user_id = ''").fetchall() == []


def test_asking_for_another_user_finds_nothing(pooled: psycopg.Connection) -> None:
    """A forgotten filter shows the own rows, a wrong one none."""
    with pooled.transaction():
        act_as(pooled, "alice")
        assert pooled.execute(ROWS + " WHERE user_id = 'bob'").fetchall() == []
        assert (
            pooled.execute("UPDATE memory_context.agent_memories SET summary = 'x' WHERE user_id = 'bob'").rowcount == 0
        )


def batch_of(user: str) -> NewBatch:
    return NewBatch(0, {"of": user}, 1, True, (), (), NOW, NOW)


def chat_of(user: str) -> ChatMessage:
    return ChatMessage("m", f"of {user}", "user", NOW)


async def test_one_session_of_two_users_is_two_sessions(store: MemoryStore, database: str) -> None:
    """Each reads, lists and deletes the own one only."""
    archive = store.conversations
    for user in ("alice", "bob"):
        key = SessionKey(user, "coder", "s")
        done = await archive.append(key, batch=batch_of(user), chat=[chat_of(user)], title=f"of {user}")
        assert (done.outcome, done.stored_chat_ids) == ("stored", ("m",))
    for user in ("alice", "bob"):
        read = await archive.read(SessionKey(user, "coder", "s"))
        assert [batch.body for batch in read.batches] == [{"of": user}]
        assert [session.title for session in await archive.sessions(user)] == [f"of {user}"]
        assert await archive.chat_page(user, "s") == [chat_of(user)]
    assert (await archive.read(SessionKey("carol", "coder", "s"))).head == -1
    assert await archive.session("carol", "s") is None
    assert await archive.chat_page("carol", "s") == []
    assert await archive.known_chat_ids("carol", "s", ["m"]) == set()
    assert not await archive.delete_session("carol", "s")
    assert await archive.delete_session("alice", "s")
    assert (await archive.read(SessionKey("bob", "coder", "s"))).head == 0


INDEX_TABLES = [
    "agent_memory_chunks",
    "agent_memory_terms",
    "agent_memory_names",
    "agent_memory_embeddings",
    "agent_memory_statistics",
    "jobs",
    "agent_sessions",
    "recent_conversation_history",
    "ui_users",
    "ui_threads",
    "ui_steps",
    "ui_elements",
    "user_secrets",
]


@pytest.fixture
async def indexed(store: MemoryStore, server: Server, database: str) -> None:
    """Both users' items are indexed, each has one job that waits, and something was said in a session of each."""
    await store.flush_index()
    for user in ("alice", "bob"):
        await store.conversations.append(SessionKey(user, "coder", "s"), batch=batch_of(user), chat=[chat_of(user)])
        await store.threads.upsert_user(user, {})
        await store.threads.upsert_step(user, ThreadStep("step", f"of {user}", {}), is_update=False)
        await store.threads.upsert_element(user, ThreadElement("element", f"of {user}", "step", {}))
        await store.secret_rows.upsert(user, [SealedSecret("TOKEN", "", "one", bytes(12), bytes(24))])
    items = "SELECT user_id, 'index', id FROM memory_context.agent_memories"
    server.execute(f"INSERT INTO memory_context.jobs (user_id, kind, id) {items}", database)


def test_the_contents_of_one_user_are_hidden_from_others(pooled: psycopg.Connection, indexed: None) -> None:
    """Read and changed by nobody else; while an item has one nobody deletes it."""
    rows = b"SELECT DISTINCT user_id FROM memory_context.agent_memory_contents"
    assert pooled.execute(rows).fetchall() == []
    with pooled.transaction(force_rollback=True):
        act_as(pooled, "alice")
        assert pooled.execute(rows).fetchall() == [("alice",)]
        assert pooled.execute(b"DELETE FROM memory_context.agent_memory_contents WHERE user_id = 'bob'").rowcount == 0
        with pytest.raises(psycopg.errors.ForeignKeyViolation), pooled.transaction():
            pooled.execute(b"DELETE FROM memory_context.agent_memory_contents")
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
            pooled.execute(b"UPDATE memory_context.agent_memory_contents SET user_id = 'bob'")


@pytest.mark.parametrize("table", INDEX_TABLES)
def test_the_index_of_one_user_is_hidden_from_others(pooled: psycopg.Connection, indexed: None, table: str) -> None:
    """Reading, changing and deleting reach the own rows only; as nobody there are none."""
    rows = f"SELECT DISTINCT user_id FROM memory_context.{table}"
    assert pooled.execute(rows.encode()).fetchall() == []
    with pooled.transaction(force_rollback=True):
        act_as(pooled, "alice")
        assert pooled.execute(rows.encode()).fetchall() == [("alice",)]
        assert pooled.execute(f"{rows} WHERE user_id = 'bob'".encode()).fetchall() == []
        assert pooled.execute(f"DELETE FROM memory_context.{table} WHERE user_id = 'bob'".encode()).rowcount == 0
        assert pooled.execute(f"DELETE FROM memory_context.{table}".encode()).rowcount > 0
        act_as(pooled, "bob")
        assert pooled.execute(rows.encode()).fetchall() == [("bob",)]
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
            pooled.execute(f"UPDATE memory_context.{table} SET user_id = 'alice'".encode())


async def test_of_a_thread_its_owner_is_all_that_others_learn(store: MemoryStore, pooled: psycopg.Connection) -> None:
    """By its id, which they have to know; of one that was deleted not even that."""
    await store.threads.update_thread("alice", "t", name="secret")
    assert not await store.threads.update_thread("bob", "t", name="taken")
    assert pooled.execute("SELECT memory_context.ui_thread_owner('t')").fetchall() == [("alice",)]
    assert pooled.execute("SELECT memory_context.ui_thread_owner('other')").fetchall() == [(None,)]
    assert await store.threads.thread("bob", "t") is None
    await store.conversations.delete_session("alice", "t")
    assert pooled.execute("SELECT memory_context.ui_thread_owner('t')").fetchall() == [(None,)]
    assert not await store.threads.update_thread("bob", "t", name="taken")


def test_pool_login_cannot_list_users(pooled: psycopg.Connection, indexed: None) -> None:
    """It reads and changes the acting user's row of the list, and none as nobody."""
    listed = "SELECT user_id FROM memory_context.memory_users"
    assert pooled.execute(listed).fetchall() == []
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="list_users"):
        pooled.execute("SELECT memory_context.list_users('', 10)")
    with pooled.transaction(force_rollback=True):
        act_as(pooled, "alice")
        assert pooled.execute(listed).fetchall() == [("alice",)]
        assert pooled.execute("UPDATE memory_context.memory_users SET pending_since = now()").rowcount == 1
        assert pooled.execute("DELETE FROM memory_context.memory_users").rowcount == 1
        act_as(pooled, "bob")
        assert pooled.execute(listed).fetchall() == [("bob",)]


def test_pool_login_learns_only_of_users_with_something_to_index(
    pooled: psycopg.Connection, indexed: None, server: Server, database: str
) -> None:
    """In pages of at most 1,000, whatever it asks for."""
    pending = "SELECT memory_context.pending_users(%s, %s, %s)"
    assert pooled.execute(pending, ["", True, 10]).fetchall() == []
    server.execute("UPDATE memory_context.memory_users SET pending_since = now() WHERE user_id = 'bob'", database)
    assert pooled.execute(pending, ["", False, 10]).fetchall() == [("bob",)]
    server.execute(
        "INSERT INTO memory_context.memory_users SELECT 'user' || n, now() FROM generate_series(1, 1100) AS n", database
    )
    assert len(pooled.execute(pending, ["", False, 1_000_000]).fetchall()) == 1000


def test_only_user_is_told_where_there_is_one(
    pooled: psycopg.Connection, indexed: None, server: Server, database: str
) -> None:
    """Of several it says no more than that."""
    only_user = "SELECT users, user_id FROM memory_context.only_user()"
    assert pooled.execute(only_user).fetchall() == [(2, None)]
    server.execute("DELETE FROM memory_context.memory_users WHERE user_id = 'bob'", database)
    assert pooled.execute(only_user).fetchall() == [(1, "alice")]


def test_functions_of_the_owner_lock_their_search_path(server: Server, database: str) -> None:
    """And none of them is executable by everybody."""
    rows = server.execute(
        """SELECT proname::text, proconfig, has_function_privilege('public', oid, 'EXECUTE')
        FROM pg_proc WHERE pronamespace = 'memory_context'::regnamespace AND prosecdef""",
        database,
    )
    assert len(rows) >= 6
    assert {(tuple(config), is_public) for _, config, is_public in rows} == {
        (("search_path=pg_catalog, pg_temp",), False)
    }


async def test_maintenance_as_an_ordinary_login_needs_the_right_to_list_users(
    store: MemoryStore, server: Server, database: str, login: str, database_url: str
) -> None:
    """The error names both remedies, and both help."""
    url = server.url(database, user=login)
    ordinary = MemoryStore(url)
    with pytest.raises(errors.StoreError, match=r"may not list the users.*OWNER_URL.*GRANT EXECUTE ON FUNCTION"):
        await ordinary.prune(timedelta(days=90))
    beside_the_owner = MemoryStore(url, owner_url=database_url)
    assert [user async for user in beside_the_owner.every_user()] == ["alice", "bob"]
    await beside_the_owner.close()
    server.execute(
        "GRANT EXECUTE ON FUNCTION memory_context.list_users(text, integer) TO {login}", database, login=login
    )
    assert [user async for user in ordinary.every_user()] == ["alice", "bob"]
    assert (await ordinary.admin.status()).users == 2
    await ordinary.close()


ENSURE = "SELECT memory_context.ensure_embedding_index(%s, %s)"


def test_an_index_of_embeddings_is_all_the_pool_can_make(pooled: psycopg.Connection, indexed: None) -> None:
    """The function that runs as the owner quotes what it is given."""
    pooled.execute(ENSURE, ["x'); DROP TABLE index_jobs; --/3", 3])
    for statement in (
        "CREATE INDEX ON memory_context.agent_memory_embeddings (chunk_number)",
        "DROP INDEX memory_context.agent_memories_session_order",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            pooled.execute(statement.encode())
    with pooled.transaction():
        act_as(pooled, "alice")
        assert pooled.execute("SELECT count(*) FROM memory_context.jobs").fetchall() == [(1,)]


def test_pool_login_makes_at_most_sixteen_embedding_indexes(
    pooled: psycopg.Connection, indexed: None, server: Server, database: str
) -> None:
    """Those that are there stay usable, and none can be made with another model's dimensions."""
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="<name>/<dimensions>"):
        pooled.execute(ENSURE, ["other/256", 3])
    count = "SELECT count(*) FROM pg_indexes WHERE tablename = 'agent_memory_embeddings' AND indexdef LIKE '%hnsw%'"
    ((there,),) = server.execute(count, database)
    assert there > 0
    for number in range(16 - there):
        pooled.execute(ENSURE, [f"model{number}/3", 3])
    with pytest.raises(psycopg.errors.ProgramLimitExceeded, match="there are 16 already"):
        pooled.execute(ENSURE, ["another/3", 3])
    pooled.execute(ENSURE, ["model0/3", 3])
    assert server.execute(count, database) == [(16,)]


@pytest.mark.parametrize("acting", ["alice", None])
@pytest.mark.parametrize(
    "statement",
    [
        """INSERT INTO memory_context.agent_memories (user_id, memory_key, agent_id, session_id, memory_type, source,
        origin, summary, content_bytes, token_count, tags, content_metadata, is_active)
        VALUES ('bob', 'new', '', '', '', '', 'tool', '', 0, 0, '{}', '{}', false)""",
        "UPDATE memory_context.agent_memories SET user_id = 'bob'",
    ],
    ids=["insert", "update"],
)
def test_nobody_writes_for_another_user(pooled: psycopg.Connection, acting: str | None, statement: str) -> None:
    """Neither as somebody else nor as nobody, who has no rows to give away."""
    with pooled.transaction(force_rollback=True):
        if acting:
            act_as(pooled, acting)
        if acting is None and statement.startswith("UPDATE"):
            assert pooled.execute(statement).rowcount == 0
            return
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
            pooled.execute(statement)


async def test_the_empty_user_is_refused(store: MemoryStore, server: Server, database: str) -> None:
    """By act_as, and for the owner by the table."""
    with pytest.raises(errors.StoreError, match="act_as needs a user id"):
        await store.items.fetch_memory("", "k")
    with pytest.raises(psycopg.errors.CheckViolation, match="agent_memories_user_id_named"):
        server.execute("UPDATE memory_context.agent_memories SET user_id = '' WHERE user_id = 'bob'", database)


def test_the_pool_logs_in_as_an_ordinary_role(server: Server, database: str, login: str) -> None:
    """No attribute that lifts row-level security, and nothing that belongs to it."""
    flags = "rolsuper OR rolbypassrls OR rolcreaterole OR rolcreatedb OR rolreplication"
    rows = server.execute(f"SELECT rolname::text, {flags} FROM pg_roles")
    assert dict(rows)[login] is False
    owned = server.execute(
        """SELECT r.rolname::text FROM pg_shdepend d JOIN pg_roles r ON r.oid = d.refobjid WHERE d.deptype = 'o'"""
    )
    assert (login,) not in owned
    assert ("memory_context_app",) not in owned


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE memory_context.agent_memories DISABLE ROW LEVEL SECURITY",
        "DROP POLICY agent_memories_own_rows ON memory_context.agent_memories",
        "CREATE POLICY all_rows ON memory_context.agent_memories USING (true)",
        "CREATE TABLE memory_context.mine (id int)",
        "TRUNCATE memory_context.agent_memories",
        "DELETE FROM memory_context.schema_migrations",
        "SET ROLE postgres",
        "CREATE OR REPLACE FUNCTION memory_context.act_as(acting_user_id text) RETURNS void LANGUAGE sql AS ''",
    ],
)
def test_the_pool_cannot_lift_the_fence(pooled: psycopg.Connection, statement: str) -> None:
    """Whatever is run through it."""
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        pooled.execute(statement)


def test_every_table_is_fenced(server: Server, database: str) -> None:
    """Row-level security is on for all of them, with a policy; without one only the owner reads `installation`."""
    rows = server.execute(
        """SELECT relname, relrowsecurity, EXISTS (SELECT FROM pg_policy WHERE polrelid = pg_class.oid)
        FROM pg_class WHERE relnamespace = 'memory_context'::regnamespace AND relkind = 'r'""",
        database,
    )
    assert rows
    assert all(enabled and (has_policy or name == "installation") for name, enabled, has_policy in rows)


def test_every_key_starts_with_the_user(server: Server, database: str) -> None:
    """Primary keys, unique and foreign ones, of every table but the two that hold nothing of users."""
    rows = server.execute(
        """SELECT conname::text, attname::text
        FROM pg_constraint JOIN pg_attribute ON attrelid = conrelid AND attnum = conkey[1]
        WHERE connamespace = 'memory_context'::regnamespace AND contype IN ('p', 'u', 'f')
        AND conrelid NOT IN (
            'memory_context.schema_migrations'::regclass, 'memory_context.installation'::regclass
        )""",
        database,
    )
    assert rows
    assert {column for _, column in rows} == {"user_id"}
