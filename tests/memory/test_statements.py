"""User memory: stored, superseded, confirmed, edited, forgotten, and read as of a time."""

import json
from collections.abc import AsyncIterator
from datetime import datetime, timedelta, timezone

import psycopg
import pytest

from memory_context import AgentMemory, MemoryStore
from memory_context.foundation.errors import ItemNotFoundError, SecretError
from memory_context.foundation.tokens import default_token_counter
from memory_context.memory.statements import insert_statement
from memory_context.store.items import ReadScope
from memory_context.store.statements import select_statements
from tests.conftest import Server, database_of
from tests.embeddings.fakes import FakeEmbedder
from tests.support.exports import many
from tests.support.statements import login_of
from tests.support.waiting import until

START = datetime(2026, 1, 1, tzinfo=timezone.utc)


@pytest.fixture
async def memory(database_url: str) -> AsyncIterator[AgentMemory]:
    async with MemoryStore(database_url, FakeEmbedder()) as store:
        yield AgentMemory(store, "alice", "coder", "monday")


async def texts(memory: AgentMemory, as_of: datetime | None = None) -> list[str]:
    return [item.content for item in await memory.user_memory(as_of)]


async def said(memory: AgentMemory, statement: str, day: int) -> tuple[str, bool]:
    """Have the user say something on a day."""
    ref, is_new = await insert_statement(
        memory.memory_store,
        "alice",
        statement,
        type="user_fact",
        origin="user_words",
        valid_from=START + timedelta(days=day),
        counter=default_token_counter(),
        metadata={"quote": statement},
    )
    return ref.key, is_new


async def test_application_statements_are_listed_newest_first(memory: AgentMemory) -> None:
    await memory.remember("The user works in  Hamburg.\n")
    await memory.remember("The user likes green.", type="user_preference")
    listed = await memory.user_memory()
    assert [(one.content, one.type, one.origin) for one in listed] == [
        ("The user likes green.", "user_preference", "application"),
        ("The user works in Hamburg.", "user_fact", "application"),
    ]
    assert [one.agent_id + one.session_id for one in listed] == ["", ""]


async def test_a_statement_is_embedded_soon_without_anybody_asking(database_url: str) -> None:
    embedder = FakeEmbedder()
    async with MemoryStore(database_url, embedder) as store:
        await AgentMemory(store, "alice", "coder").remember("The user works in Hamburg.")
        await until(lambda: any(purpose == "document" for _, purpose in embedder.calls))


async def test_newer_statement_supersedes_older_one_with_link_and_both_times(memory: AgentMemory) -> None:
    for day, name in enumerate(("Orders", "Sales", "Stock")):
        await said(memory, f"my database is {name}", day)
    assert await texts(memory) == ["my database is Stock"]
    for day, name in enumerate(("Orders", "Sales", "Stock")):
        assert await texts(memory, START + timedelta(days=day, hours=1)) == [f"my database is {name}"]
    assert await texts(memory, START - timedelta(days=1)) == []
    stock, sales, orders = await memory.user_memory(with_superseded=True)
    assert (orders.superseded_by, sales.superseded_by, stock.superseded_by) == (sales.key, stock.key, None)
    assert (orders.valid_until, sales.valid_until) == (sales.valid_from, stock.valid_from)


async def test_statement_said_late_takes_its_place_in_time(memory: AgentMemory) -> None:
    """A killed process learns later than others."""
    await said(memory, "my database is Orders", 0)
    await said(memory, "my database is Stock", 2)
    await said(memory, "my database is Sales", 1)
    assert await texts(memory) == ["my database is Stock"]
    assert await texts(memory, START + timedelta(days=1)) == ["my database is Sales"]
    assert await texts(memory, START) == ["my database is Orders"]


async def test_statement_can_hold_again_after_it_was_superseded(memory: AgentMemory) -> None:
    for day, name in enumerate(("Orders", "Sales", "Orders")):
        assert (await said(memory, f"my database is {name}", day))[1]
    assert await texts(memory) == ["my database is Orders"]
    assert len(await memory.user_memory(with_superseded=True)) == 3


@pytest.mark.parametrize(
    "statements",
    [
        ("My dog is called Bruno.", "My dog is allergic to chicken."),
        ("My sister is a nurse.", "My sister lives in Lyon."),
        ("My daughter is called Lea.", "My daughter is called Mia."),
        ("Our office is in Leith.", "Our office is closed on Fridays."),
        ("Meine Katze heißt Minka.", "Meine Katze ist Diabetikerin."),
        ("I live in Porto.", "I live in a flat without a lift."),
    ],
)
async def test_true_statements_about_one_thing_both_hold(memory: AgentMemory, statements: tuple[str, str]) -> None:
    for day, one in enumerate(statements):
        await said(memory, one, day)
    assert await texts(memory) == [*reversed(statements)]


async def test_denial_ends_what_it_denies_and_nothing_else(memory: AgentMemory) -> None:
    for day, one in enumerate(("I live in Porto.", "I live in Lisbon.", "I drink coffee black.")):
        await said(memory, one, day)
    denied = "I no longer live in Porto."
    assert (await said(memory, denied, 3))[1]
    assert await texts(memory) == [denied, "I drink coffee black.", "I live in Lisbon."]
    await said(memory, "I don't drink coffee any more.", 4)
    assert await texts(memory) == ["I don't drink coffee any more.", denied, "I live in Lisbon."]
    *_, porto = await memory.user_memory(with_superseded=True)
    assert await texts(memory, START) == [porto.content] == ["I live in Porto."]


async def test_confirmed_denial_ends_what_it_denies(memory: AgentMemory) -> None:
    await said(memory, "I work at Kelp as an analyst.", 0)
    ref = await memory.store("I no longer work at Kelp.", type="user_fact", origin="agent")
    await memory.confirm(ref.key)
    assert await texts(memory) == ["I no longer work at Kelp."]


async def test_relative_time_said_again_replaces_the_older_day(memory: AgentMemory) -> None:
    """ "Next month" of March is another one than that of January."""
    away = "I am in Oslo next month."
    (first, _), (again, is_new) = await said(memory, away, 0), await said(memory, away, 60)
    assert (first != again, is_new) == (True, True)
    (item,) = await memory.user_memory()
    assert item.valid_from == START + timedelta(days=60)
    assert await said(memory, away, 60) == (again, False)  # the same message, learned twice


async def test_as_of_a_day_is_the_end_of_that_day(memory: AgentMemory) -> None:
    await said(memory, "my database is Orders", 0)
    await said(memory, "my database is Sales", 1)
    for day, name in enumerate(("Orders", "Sales", "Sales")):
        at = (START + timedelta(days=day)).date()
        assert [one.content for one in await memory.user_memory(at)] == [f"my database is {name}"]
    assert await memory.user_memory((START - timedelta(days=1)).date()) == []


async def test_same_statement_is_stored_once(memory: AgentMemory) -> None:
    first = await said(memory, "my cat is called Minka", 0)
    assert await said(memory, "my cat is called Minka", 0) == (first[0], False)
    assert await said(memory, "my cat is called Minka", 5) == (first[0], False)


async def test_forgotten_statement_is_not_learned_again_from_the_same_message(memory: AgentMemory) -> None:
    key, _ = await said(memory, "my cat is called Minka", 0)
    assert await memory.forget(key)
    assert await said(memory, "my cat is called Minka", 0) == (key, False)
    assert await texts(memory) == []
    assert (await said(memory, "my cat is called Minka", 1))[1]  # said again


async def test_forgetting_the_newest_does_not_revive_the_older_one(memory: AgentMemory) -> None:
    await said(memory, "my database is Orders", 0)
    key, _ = await said(memory, "my database is Sales", 1)
    assert await memory.forget(key)
    assert await texts(memory) == []


async def test_confirming_makes_an_unconfirmed_item_the_users(memory: AgentMemory) -> None:
    """Who and when is recorded; older statements about its subject end."""
    await said(memory, "my editor is vim", 0)
    ref = await memory.store("My editor is Emacs.", type="user_preference", origin="agent")
    assert await texts(memory) == ["my editor is vim"]
    await memory.confirm(ref.key, by="alice@example.org")
    (item,) = await memory.user_memory()
    assert (item.key, item.origin, item.caveat, item.agent_id) == (ref.key, "user_edit", "", "")
    assert item.metadata["confirmed_by"] == "alice@example.org"
    assert item.metadata["confirmed_at"] == (item.valid_from or START).isoformat()


async def test_editing_keeps_the_older_statement_linked(memory: AgentMemory) -> None:
    key, _ = await said(memory, "I like gren", 0)
    ref = await memory.edit(key, "I like green")
    assert await texts(memory) == ["I like green"]
    new, old = await memory.user_memory(with_superseded=True)
    assert (new.key, new.origin, new.metadata["confirmed_by"], old.superseded_by) == (
        ref.key,
        "user_edit",
        "alice",
        ref.key,
    )


async def test_only_statements_that_hold_are_confirmed_or_edited(memory: AgentMemory) -> None:
    other = await memory.store("text", type="custom")
    key, _ = await said(memory, "my database is Orders", 0)
    await said(memory, "my database is Sales", 1)
    for wrong, why in ((other.key, "of type custom"), (key, "was replaced by"), ("nothing_1", "no item")):
        with pytest.raises(ItemNotFoundError, match=why):
            await memory.confirm(wrong)
        with pytest.raises(ItemNotFoundError, match=why):
            await memory.edit(wrong, "else")


async def test_unusable_statements_are_refused_with_a_remedy(memory: AgentMemory) -> None:
    with pytest.raises(ValueError, match="empty"):
        await memory.remember(" \n")
    with pytest.raises(ValueError, match="at most 300"):
        await memory.remember("x" * 301)
    with pytest.raises(SecretError, match="credential"):
        await memory.remember("my token is ghp_16C7e42F292c6912E7710c838347Ae178B4a")
    with pytest.raises(ValueError, match="user_preference, user_fact"):
        await memory.remember("text", type="custom")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="as_of='2026-03-14' is no day"):
        await memory.user_memory(as_of="2026-03-14")  # type: ignore[arg-type]
    long = await memory.store("page\n" * 100, type="user_fact", origin="agent")
    with pytest.raises(ValueError, match="at most 300"):
        await memory.confirm(long.key)


async def test_isolated_agent_sees_and_changes_nothing_of_it(memory: AgentMemory) -> None:
    key, _ = await said(memory, "my database is Orders", 0)
    isolated = AgentMemory(memory.memory_store, "alice", "other", "monday", sharing="isolated")
    assert await isolated.user_memory() == []
    assert await isolated.retrieve(key) is None
    assert not await isolated.forget(key)
    for change in (isolated.remember("text"), isolated.confirm(key), isolated.edit(key, "text"), isolated.add("text")):
        with pytest.raises(ValueError, match="isolated"):
            await change
    assert await texts(AgentMemory(memory.memory_store, "bob")) == []
    narrow = AgentMemory(memory.memory_store, "alice", "third", "tuesday", reach="session")
    assert await texts(narrow) == ["my database is Orders"]


async def test_callers_cannot_set_what_a_statement_rests_on(memory: AgentMemory) -> None:
    for name in ("quote", "quoted_session", "confirmed_by", "subject"):
        with pytest.raises(ValueError, match=name):
            await memory.store("text", type="user_fact", metadata={name: "forged"})
    await memory.store("text", type="custom", metadata={"quote": "of a book"})


@pytest.mark.thorough
async def test_user_memory_is_read_by_its_index_among_many_items(
    memory: AgentMemory, server: Server, database_url: str
) -> None:
    await memory.remember("The user likes green.")
    many(database_url, "alice", 3000)
    database = database_of(database_url)
    server.execute("ANALYZE memory_context.agent_memories", database)
    statement = select_statements(ReadScope())
    with psycopg.connect(server.url(database, user=login_of(database)), autocommit=True) as connection:
        connection.execute("SELECT set_config('memory_context.user_id', 'alice', false)")
        plan = connection.execute(b"EXPLAIN " + statement.query, {"user_id": "alice", **statement.params}).fetchall()
    assert "agent_memories_statements" in str(plan)


async def test_export_and_import_keep_both_times_and_links(memory: AgentMemory) -> None:
    """As claims, which wait for the user: confirmed, they hold when they held before."""
    for day, name in enumerate(("Orders", "Sales")):
        await said(memory, f"my database is {name}", day)
    store = memory.memory_store

    async def exported() -> list[bytes]:
        whole = b"".join([piece async for piece in store.admin.export_lines("alice")])
        return whole.splitlines(keepends=True)

    def times(lines: list[bytes]) -> list[tuple[str, ...]]:
        items = [json.loads(line) for line in lines if b'"record":"item"' in line]
        return [tuple(one[name] for name in ("content", "valid_from", "valid_until", "superseded_by")) for one in items]

    file = await exported()
    assert len({since for _, since, *_ in times(file)}) == 2
    await store.erase_user("alice")
    await store.admin.import_lines(file)
    assert times(await exported()) == times(file)
    assert await memory.user_memory(with_superseded=True) == []
    (claim,) = await memory.unconfirmed()  # the other one is superseded
    assert (claim.content, "quote" in claim.metadata) == ("my database is Sales", False)
    assert await memory.confirm(claim.key)
    assert [one.content for one in await memory.user_memory()] == ["my database is Sales"]
