"""What MemoryStore promises its callers while the database is well."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
import pytest

from memory_context import AgentMemory
from memory_context.foundation import errors
from memory_context.store.items import NewItem, ReadScope
from memory_context.store.memory_store import MemoryStore
from memory_context.store.pool import Connection
from memory_context.store.sql import Statement
from tests.conftest import Server, database_of
from tests.context.steps import a_turn_of_the_loop
from tests.embeddings.fakes import FakeEmbedder
from tests.support.scratch import SCRATCH
from tests.support.waiting import soon, until


def memory(key: str, content: str = "content", **place: str) -> NewItem:
    return NewItem(content, "a summary", 3, "command_output", key=key, **place)


async def test_keys_come_back_in_the_order_given(store: MemoryStore) -> None:
    """Whatever order the rows are written in."""
    keys = [f"k{number * 37 % 101}" for number in range(50)]
    assert await store.items.insert_memories("alice", [memory(key, key) for key in keys]) == keys
    assert sorted(await store.items.select_keys("alice")) == sorted(keys)


async def test_the_same_content_in_the_same_place_has_one_key(store: MemoryStore) -> None:
    """The first key stays, later and within one call."""
    assert await store.items.insert_memories("alice", [memory("a"), memory("b")]) == ["a", "a"]
    assert await store.items.insert_memories("alice", [memory("c")]) == ["a"]
    elsewhere = [memory("d", source="x"), memory("e", agent_id="x"), memory("f", session_id="x")]
    assert await store.items.insert_memories("alice", elsewhere) == ["d", "e", "f"]


async def test_storing_again_says_when(store: MemoryStore) -> None:
    """`updated_at` moves, `created_at` stays."""
    await store.items.insert_memories("alice", [memory("a")])
    first = await store.items.fetch_memory("alice", "a")
    await store.items.insert_memories("alice", [memory("a")])
    second = await store.items.fetch_memory("alice", "a")
    assert first is not None
    assert second is not None
    assert first.created_at == second.created_at == first.updated_at < second.updated_at


async def test_a_taken_key_stores_nothing_at_all(store: MemoryStore) -> None:
    """All or none, also for items before the conflicting one; the store goes on."""
    await store.items.insert_memories("alice", [memory("taken", "one")])
    with pytest.raises(errors.ConflictError):
        await store.items.insert_memories("alice", [memory("a", "two"), memory("taken", "three"), memory("z", "four")])
    with pytest.raises(errors.ConflictError):
        await store.items.insert_memories("alice", [memory("twice", "five"), memory("twice", "six")])
    assert await store.items.select_keys("alice") == ["taken"]
    assert store.items.write_transactions == 1


async def test_tasks_that_store_the_same_at_once_agree(store: MemoryStore) -> None:
    """Neither a conflict nor a deadlock, whatever order each has them in."""
    batch = [memory(f"k{number}", str(number)) for number in range(10)]
    orders = [batch, batch[::-1]] * 8
    answers = await asyncio.gather(*(store.items.insert_memories("alice", order) for order in orders))
    assert answers == [[item.key for item in order] for order in orders]


async def test_many_items_are_one_transaction(store: MemoryStore, server: Server, database_url: str) -> None:
    """All rows of a call carry one transaction id; reading writes nothing."""
    await store.items.insert_memories("alice", [memory(f"k{number}", str(number)) for number in range(30)])
    await store.items.fetch_memory("alice", "k1")
    assert await store.items.insert_memories("alice", []) == []
    name = database_of(database_url)
    rows = server.execute("SELECT count(DISTINCT xmin::text), count(*) FROM memory_context.agent_memories", name)
    assert rows == [(1, 30)]
    assert store.items.write_transactions == 1


@pytest.fixture
async def turns(server: Server) -> AsyncIterator[tuple[Path, list[str]]]:
    """A folder with a socket in front of the server's, and the list of who spoke, each turn once."""
    turns: list[str] = []
    relays: list[asyncio.Task[None]] = []
    name = f".s.PGSQL.{server.params['port']}"

    async def relay(speaker: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            if turns[-1:] != [speaker]:
                turns.append(speaker)
            writer.write(data)
        writer.close()
        await writer.wait_closed()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_unix_connection(f"{server.params['host']}/{name}")
        relays.append(asyncio.create_task(relay("client", reader, inner_writer)))
        relays.append(asyncio.create_task(relay("server", inner_reader, writer)))

    with TemporaryDirectory(prefix="mc-", dir=SCRATCH) as folder:
        proxy = await asyncio.start_unix_server(accept, f"{folder}/{name}")
        yield Path(folder), turns
        await asyncio.gather(*relays)
        proxy.close()
        await proxy.wait_closed()


async def test_an_operation_is_one_round_trip(server: Server, database_url: str, turns: tuple[Path, list[str]]) -> None:
    """However many items it carries: begin, act as the user, insert, commit travel together."""
    folder, spoken = turns
    async with MemoryStore(server.url(database_of(database_url), host=str(folder))) as store:
        await store.items.fetch_memory("alice", "warm-up")
        spoken.clear()
        await store.items.insert_memories("alice", [memory(f"k{number}", str(number)) for number in range(20)])
        assert spoken.count("server") == 1
        spoken.clear()
        await store.items.fetch_memory("alice", "k1")
        assert spoken.count("server") == 1


async def test_reads_respect_agent_and_session(store: MemoryStore) -> None:
    """None means any; a name means only that one."""
    await store.items.insert_memories("alice", [memory("k", agent_id="coder", session_id="s1")])
    assert await store.items.fetch_memory("alice", "k") is not None
    assert await store.items.fetch_memory("alice", "k", scope=ReadScope("coder", "s1", "session")) is not None
    assert await store.items.fetch_memory("alice", "k", scope=ReadScope("writer", "s1", "agent")) is None
    assert await store.items.fetch_memory("alice", "k", scope=ReadScope("coder", "", "session")) is None
    assert await store.items.select_keys("alice", scope=ReadScope("coder", "s9", "agent")) == ["k"]
    assert await store.items.select_keys("alice", scope=ReadScope("coder", "s2", "session")) == []


async def test_newest_keys_come_first_and_mistyped_ones_are_found(store: MemoryStore) -> None:
    """`like` ranks by resemblance."""
    for key in ("npm_install_k3f9x2", "read_file_aaaaaa", "run_shell_zzzzzz"):
        await store.items.insert_memories("alice", [memory(key, key)])
    assert await store.items.select_keys("alice", limit=2) == ["run_shell_zzzzzz", "read_file_aaaaaa"]
    assert await store.items.select_keys("alice", like="npm_instal_k3f9x2", limit=3) == ["npm_install_k3f9x2"]
    assert await store.items.select_keys("alice", like="%") == []


async def test_contents_of_unknown_keys_are_left_out(store: MemoryStore) -> None:
    """Also when a key is no key at all."""
    await store.items.insert_memories("alice", [memory("a", "one"), memory("b", "two")])
    assert await store.items.fetch_contents("alice", ["a", "b", "c", "\x00\ud800"]) == {"a": "one", "b": "two"}
    assert await store.items.fetch_contents("alice", []) == {}


async def test_forgotten_items_give_no_content(store: MemoryStore, server: Server, database_url: str) -> None:
    """They are told apart from items that never were."""
    await store.items.insert_memories("alice", [memory("a", "one")])
    name = database_of(database_url)
    server.execute("UPDATE memory_context.agent_memories SET is_active = false, content_id = NULL", name)
    stored = await store.items.fetch_memory("alice", "a")
    assert stored is not None
    assert (stored.is_active, stored.content) == (False, "")
    assert await store.items.fetch_contents("alice", ["a"]) == {}
    assert await store.items.select_keys("alice") == []


async def test_a_name_that_is_too_long_is_refused_and_not_retryable(store: MemoryStore) -> None:
    """The limit keeps index entries within what a B-tree takes."""
    with pytest.raises(errors.StoreError, match="agent_memories_lengths") as caught:
        await store.items.insert_memories("alice", [memory("k", source="s" * 513)])
    assert not isinstance(caught.value, errors.StoreUnavailableError)
    longest = {"source": "é" * 256, "agent_id": "é" * 256, "session_id": "é" * 256}
    assert await store.items.insert_memories("ü" * 256, [memory("k", **longest)]) == ["k"]


async def test_more_tasks_than_connections_all_get_their_turn(database_url: str) -> None:
    """Waiting ends as soon as a connection is free."""
    async with MemoryStore(database_url, pool_size=2) as store:
        jobs = (store.items.insert_memories("alice", [memory(f"k{number}", str(number))]) for number in range(40))
        assert sorted(key for keys in await asyncio.gather(*jobs) for key in keys) == sorted(
            f"k{number}" for number in range(40)
        )


async def test_a_store_opens_by_itself_and_again_after_close(database_url: str) -> None:
    """`open` and `close` may be called any number of times, or not at all."""
    store = MemoryStore(database_url)
    await asyncio.gather(*(store.items.insert_memories("alice", [memory("k")]) for _ in range(5)))
    await store.open()
    await store.close()
    await store.close()
    assert await store.items.select_keys("alice") == ["k"]
    await store.close()


@pytest.mark.parametrize(("way", "statements"), [("at once", 5), ("by the index", 6)])
async def test_plans_of_searches_stay_on_a_connection_and_settings_do_not(
    database_url: str, monkeypatch: pytest.MonkeyPatch, way: str, statements: int
) -> None:
    """One plan for each statement that searches, also a large memory, or stores."""
    if way == "by the index":
        monkeypatch.setattr("memory_context.store.search.passages._Size.is_for_index", True)
    async with MemoryStore(database_url, FakeEmbedder(), pool_size=1) as store:
        for number in range(12):
            await store.items.insert_memories("alice", [memory(f"k{number}", str(number))])
        await store.flush_index()
        for _ in range(8):
            assert (await AgentMemory(store, "alice").search("7"))[0].item.key == "k7"
        pool, login = await store._database.ready()  # type: ignore[attr-defined]
        query = b"""SELECT
            (SELECT count(*) FROM pg_prepared_statements) AS prepared,
            (SELECT sum(custom_plans) FROM pg_prepared_statements WHERE statement !~ 'lock_timeout') AS planned_again,
            current_setting('memory_context.user_id', true) AS user_id, current_setting('enable_sort') AS sorts,
            current_setting('plan_cache_mode') AS plans"""
        ((row,),) = await pool.run(login, [Statement(query)], 5)
        assert row == {"prepared": statements, "planned_again": 0, "user_id": "", "sorts": "on", "plans": "auto"}


async def test_connections_that_nobody_needs_are_closed_after_a_while(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that was used last is used first, so that the others grow old."""
    async with MemoryStore(database_url, pool_size=3) as store:
        await asyncio.gather(*(store.items.select_keys("alice") for _ in range(3)))
        pool, _ = await store._database.ready()
        opened = set(pool._open)
        assert len(opened) == 3
        used: set[object] = set()
        take = pool._take_idle

        def taking() -> Connection | None:
            taken = take()
            used.add(taken)
            return taken

        monkeypatch.setattr(pool, "_take_idle", taking)
        for _ in range(3):
            await store.items.select_keys("alice")
        assert len(used) == 1
        assert pool._open == opened
        monkeypatch.setattr("memory_context.store.pool.IDLE_SECONDS", 0)
        await store.items.select_keys("alice")
        assert pool._open == used
        assert [connection.closed for connection in opened - used] == [True, True]


@pytest.mark.usefixtures("index_when_flushed")
async def test_connection_in_use_when_the_store_closes_is_closed_after_it(database_url: str) -> None:
    """The operation ends as if nothing had happened."""
    store = MemoryStore(database_url)
    await store.items.insert_memories("alice", [memory("k")])
    pool, _ = await store._database.ready()
    (connection,) = pool._open
    with psycopg.connect(database_url) as other:
        other.execute("LOCK TABLE memory_context.agent_memories")
        reading = asyncio.create_task(store.items.select_keys("alice"))
        await until(lambda: not pool._idle, "in use")
        closing = asyncio.create_task(store.close())
        await a_turn_of_the_loop()
    assert await soon(reading) == ["k"]
    await soon(closing)
    assert connection.closed
    assert not pool._open


def test_several_event_loops_one_after_the_other(server: Server, empty_database_url: str) -> None:
    """A store outlives `asyncio.run`, leaves no connection behind and prints nothing."""
    store = MemoryStore(empty_database_url)

    async def use(number: int) -> list[str]:
        return await store.items.insert_memories("alice", [memory(f"k{number}", str(number))])

    assert [asyncio.run(use(number)) for number in range(3)] == [["k0"], ["k1"], ["k2"]]
    asyncio.run(store.close())
    # without FORCE this waits a moment and then fails if anyone is still connected
    name = database_of(empty_database_url)
    server.execute("ALTER DATABASE {name} RENAME TO renamed_for_a_moment", name=name)
    server.execute("ALTER DATABASE renamed_for_a_moment RENAME TO {name}", name=name)


def test_the_default_store_is_one_per_address(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment is read when it is asked for."""
    monkeypatch.setenv("MEMORY_CONTEXT_URL", database_url)
    first = MemoryStore.default()
    assert first is MemoryStore.default()
    monkeypatch.setenv("MEMORY_CONTEXT_URL", "postgresql://elsewhere/db")
    assert first is not MemoryStore.default()
    monkeypatch.delenv("MEMORY_CONTEXT_URL")
    assert "embedded" in MemoryStore.default().describe()
