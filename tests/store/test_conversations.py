"""Archived sessions: nothing twice, nothing overwritten, nothing changed unnoticed, nothing after the deletion."""

import asyncio
import random
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from itertools import count
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memory_context import AgentMemory, MemoryStore, SessionGoneError, StoreError
from memory_context.foundation.identifiers import SessionKey
from memory_context.store import conversations
from memory_context.store import tables as registry
from memory_context.store.codec import canonical_json, read_canonical
from memory_context.store.conversations import ChatMessage, ConversationArchive, NewBatch
from memory_context.store.items import NewItem
from memory_context.store.limits import StoreLimits
from memory_context.store.threads import ThreadElement, ThreadStep
from tests.conftest import Server, database_of
from tests.support.conversations import START, batch
from tests.support.waiting import PATIENT_SECONDS

KEY = SessionKey("alice", "coder", "s")
ODD = "\x00 \ud800 \udc00\ud83d \x1a0000 \r\n \u2028 😀 漢字 \\ \" '"


def said(id: str, minutes: float = 0, text: str = "hello") -> ChatMessage:
    return ChatMessage(id, text, "user", START + timedelta(minutes=minutes))


@pytest.fixture
def archive(store: MemoryStore) -> ConversationArchive:
    return store.conversations


@pytest.fixture
async def other(database_url: str) -> AsyncIterator[ConversationArchive]:
    """The archive as another process sees it."""
    async with MemoryStore(database_url) as store:
        yield store.conversations


# --- batches


async def test_a_transcript_comes_back_batch_by_batch(archive: ConversationArchive) -> None:
    """With all that was told of each, and what is known of the session."""
    first = batch(0, memory_keys=("run_k1", "read_k2"), chat_ids=("m1",))
    second = batch(1, message_count=3)
    for one in (first, second):
        done = await archive.append(KEY, batch=one)
        assert (done.outcome, done.head, done.stored_chat_ids) == ("stored", one.sequence, ())
    read = await archive.read(KEY)
    assert [NewBatch(**{name: getattr(one, name) for name in vars(first)}) for one in read.batches] == [first, second]
    assert all(one.is_intact and len(one.sha256) == 64 for one in read.batches)
    assert all(datetime.now(timezone.utc) - one.archived_at < timedelta(minutes=5) for one in read.batches)
    assert (read.head, read.branches) == (1, ())
    assert read.session is not None
    assert (read.session.session_id, read.session.agent_id, read.session.message_count) == ("s", "coder", 5)
    assert read.session == await archive.session("alice", "s")


async def test_an_unknown_session_reads_as_empty(archive: ConversationArchive) -> None:
    """It is no error: that is how a session begins."""
    read = await archive.read(KEY)
    assert (read.batches, read.head, read.branches, read.session) == ((), -1, (), None)
    assert await archive.session("alice", "s") is None


async def test_the_same_batch_again_is_known(archive: ConversationArchive, other: ConversationArchive) -> None:
    """However its keys are ordered and its numbers are written; nothing is counted twice."""
    await archive.append(KEY, batch=batch(0, {"a": 1e16, "b": [0.0]}))
    done = await other.append(KEY, batch=batch(0, {"b": (-0.0,), "a": 10_000_000_000_000_000.0}))
    assert (done.outcome, done.head) == ("known", 0)
    read = await archive.read(KEY)
    assert read.session is not None
    assert (len(read.batches), read.session.message_count) == (1, 2)


async def test_another_batch_under_a_taken_number_is_a_conflict(archive: ConversationArchive) -> None:
    """The first stays as it is; what people saw is stored all the same."""
    await archive.append(KEY, batch=batch(0, {"by": "first"}))
    await archive.append(KEY, batch=batch(1, {"by": "first"}))
    done = await archive.append(KEY, batch=batch(0, {"by": "second"}), chat=[said("m1")])
    assert (done.outcome, done.head, done.stored_chat_ids) == ("conflict", 1, ("m1",))
    read = await archive.read(KEY)
    assert [one.body for one in read.batches] == [{"by": "first"}] * 2
    assert read.session is not None
    assert (read.session.message_count, read.session.chat_count) == (4, 1)


async def test_of_many_who_bring_a_number_at_once_one_gets_it(
    archive: ConversationArchive, other: ConversationArchive
) -> None:
    """The others learn that; also of the first number of a session that is not there yet."""
    for number in range(3):
        done = await asyncio.gather(
            *((archive, other)[writer % 2].append(KEY, batch=batch(number, {"by": writer})) for writer in range(8))
        )
        assert sorted(one.outcome for one in done) == ["conflict"] * 7 + ["stored"]
        (winner,) = [writer for writer, one in enumerate(done) if one.outcome == "stored"]
        assert (await archive.read(KEY)).batches[-1].body == {"by": winner}


async def test_a_branch_has_numbers_of_its_own(archive: ConversationArchive) -> None:
    """Each line says what others there are, of this agent only."""
    await archive.append(KEY, batch=batch(0))
    await archive.append(KEY, batch=batch(0, {"on": "b1"}), branch="b1")
    done = await archive.append(KEY, batch=batch(1, {"on": "b1"}), branch="b1")
    assert done.head == 1
    await archive.append(SessionKey("alice", "writer", "s"), batch=batch(0, {"of": "writer"}), branch="b2")
    main, beside = (
        await archive.read(KEY, branch=""),
        await archive.read(KEY, branch="b1"),
    )
    assert (main.head, main.branches, [one.body for one in main.batches]) == (0, ("b1",), [{"number": 0}])
    assert (beside.head, beside.branches, [one.body for one in beside.batches]) == (1, ("",), [{"on": "b1"}] * 2)
    assert main.session is not None
    assert (main.session.agent_id, main.session.message_count) == ("coder", 8)


async def test_reading_starts_at_the_last_batch_that_begins_anew(archive: ConversationArchive) -> None:
    """Of the branch that is read; without one, at the first there is."""
    for sequence in range(6):
        await archive.append(KEY, batch=batch(sequence, begins_anew=sequence in (0, 2, 4)))
        await archive.append(KEY, batch=batch(sequence, begins_anew=False), branch="b1")
    assert [one.sequence for one in (await archive.read(KEY)).batches] == [4, 5]
    read = await archive.read(KEY, branch="b1")
    assert [one.sequence for one in read.batches] == list(range(6))


async def test_a_gap_shows_in_the_numbers(archive: ConversationArchive, server: Server, database_url: str) -> None:
    """Whoever resumes decides what to make of it; the head is that of what is there."""
    for sequence in range(4):
        await archive.append(KEY, batch=batch(sequence))
    server.execute(
        "DELETE FROM memory_context.recent_conversation_history WHERE sequence = 1", database_of(database_url)
    )
    read = await archive.read(KEY)
    assert ([one.sequence for one in read.batches], read.head) == ([0, 2, 3], 3)


@pytest.mark.parametrize(
    "change",
    [
        """jsonb_set(message_batch, '{said}', '"something else"')""",
        "message_batch || '{\"more\": null}'",
        "message_batch - 'said'",
        "jsonb_set(message_batch, '{price}', '2.5000000000000001')",
    ],
)
async def test_a_changed_body_is_noticed(
    archive: ConversationArchive, server: Server, database_url: str, change: str
) -> None:
    """Whoever changed it, and be it little; the batches beside it are intact."""
    for sequence in range(2):
        await archive.append(KEY, batch=batch(sequence, {"said": ODD, "price": 1e16}))
    change = change.replace("{", "{{").replace("}", "}}")
    server.execute(
        f"UPDATE memory_context.recent_conversation_history SET message_batch = {change} WHERE sequence = 1",
        database_of(database_url),
    )
    read = await archive.read(KEY)
    assert [one.is_intact for one in read.batches] == [True, False]


_numbers = count(1)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.integers(-(10**300), 10**300) | st.text(st.characters())
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters()), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@given(body=st.dictionaries(st.text(st.characters()), JSON, max_size=3))
@example(body={"n": [1e16, -0.0, 1e-7, 5e-324, 1.7976931348623157e308, 10**400, 0.1 + 0.2, 1e22, 1e23, True, 1, 1.0]})
@example(body={"": "", "\x00": "\x1a", "\ud800": ["\udc00\ud800", ODD], "\x1a0000": {}})
async def test_any_body_comes_back_and_is_intact(archive: ConversationArchive, body: dict[str, Any]) -> None:
    """As it was, numbers of the same type; the same again is known."""
    session = f"s{next(_numbers)}"
    await archive.append(SessionKey("alice", "coder", session), batch=batch(0, body))
    (stored,) = (await archive.read(SessionKey("alice", "coder", session))).batches
    assert stored.body == body
    assert repr(read_canonical(canonical_json(stored.body))) == repr(read_canonical(canonical_json(body)))
    assert stored.is_intact
    assert (await archive.append(SessionKey("alice", "coder", session), batch=batch(0, stored.body))).outcome == "known"


@given(value=JSON)
def test_the_canonical_form_is_one(value: Any) -> None:
    """It reads back as the same value, whose form it is."""
    text = canonical_json(value)
    assert read_canonical(text) == value
    assert canonical_json(read_canonical(text)) == text


@pytest.mark.thorough
async def test_a_body_of_30_megabytes_comes_back(database_url: str) -> None:
    """It is hashed in a thread."""
    body = {"text": "0123456789 é\n" * 2_200_000, "odd": ODD * 10_000}
    limits = StoreLimits(transaction_seconds=PATIENT_SECONDS, statement_seconds=PATIENT_SECONDS)
    async with MemoryStore(database_url, limits=limits) as store:
        await store.conversations.append(KEY, batch=batch(0, body))
        (stored,) = (await store.conversations.read(KEY)).batches
    assert stored.body == body
    assert stored.is_intact


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"a": [float("nan")]}, "nan is no JSON number"),
        ({"a": float("-inf")}, "-inf is no JSON number"),
        ({"a": {1: "x"}}, "keys of a JSON object are str"),
        ({"a": {"b"}}, "not JSON-native"),
        ({"a": START}, "not JSON-native"),
    ],
)
async def test_a_body_that_is_no_json_is_refused(
    archive: ConversationArchive, body: dict[str, Any], reason: str
) -> None:
    """With the reason; nothing is stored, nor is there a session."""
    with pytest.raises(ValueError, match=reason):
        await archive.append(KEY, batch=batch(0, body))
    assert await archive.session("alice", "s") is None


async def test_a_batch_needs_times_with_a_timezone(archive: ConversationArchive) -> None:
    """The server would take them for its own."""
    for name in ("started_at", "ended_at"):
        with pytest.raises(ValueError, match=f"{name}=.* has no timezone"):
            await archive.append(KEY, batch=batch(0, **{name: datetime(2024, 1, 1)}))


# --- chat messages


@pytest.mark.parametrize(
    ("others", "reason"),
    [
        ({"id": ""}, "printable"),
        ({"id": "a\nb"}, "printable"),
        ({"id": "x" * 129}, "128"),
        ({"sender": "system"}, "'user' or 'ai'"),
        ({"timestamp": datetime(2024, 1, 1)}, "has no timezone"),
        ({"timestamp": datetime.min.replace(tzinfo=timezone(timedelta(hours=2)))}, "years 1 to 9999"),
    ],
)
def test_a_chat_message_that_cannot_be_kept_cannot_be_made(others: dict[str, Any], reason: str) -> None:
    """The text says why."""
    given = {"id": "m", "text": "", "sender": "user", "timestamp": START, **others}
    with pytest.raises(ValueError, match=reason):
        ChatMessage(**given)


async def test_any_text_and_time_come_back(archive: ConversationArchive) -> None:
    """Times in UTC, to the microsecond."""
    east = timezone(timedelta(hours=5, minutes=30))
    messages = [
        ChatMessage("m0", "", "ai", datetime.min.replace(tzinfo=timezone.utc)),
        ChatMessage("m1", ODD, "user", START.replace(microsecond=123456).astimezone(east)),
        ChatMessage("漢字 '\" %s", "x" * 3_000_000, "ai", START + timedelta(days=1)),
        ChatMessage("m3", "later", "ai", datetime.max.replace(tzinfo=timezone.utc)),
    ]
    await archive.append(KEY, chat=messages)
    page = await archive.chat_page("alice", "s")
    assert page == messages
    assert page[1].timestamp.utcoffset() == timedelta(0)


async def test_a_chat_message_is_stored_once(archive: ConversationArchive, other: ConversationArchive) -> None:
    """Whoever brings it, with whatever text; twice in one call the first counts. In another session it is another."""
    done = await archive.append(KEY, chat=[said("m1"), said("m2"), said("m1", text="changed")])
    assert done.stored_chat_ids == ("m1", "m2")
    done = await other.append(KEY, chat=[said("m3"), said("m2", text="changed"), said("m0")])
    assert done.stored_chat_ids == ("m3", "m0")
    assert (await other.append(SessionKey("alice", "", "s"), chat=[said("m1"), said("m3")])).stored_chat_ids == ()
    assert (await archive.append(SessionKey("alice", "coder", "t"), chat=[said("m1")])).stored_chat_ids == ("m1",)
    assert [one.text for one in await archive.chat_page("alice", "s")] == ["hello"] * 4
    session = await archive.session("alice", "s")
    assert session is not None
    assert (session.chat_count, session.message_count, session.agent_id) == (4, 0, "coder")
    assert await archive.known_chat_ids("alice", "s", ["m1", "m2", "m9"]) == {"m1", "m2"}
    assert await archive.known_chat_ids("alice", "s", []) == set()


async def test_nothing_new_writes_no_row(archive: ConversationArchive, server: Server, database_url: str) -> None:
    """Only the session's activity."""
    rows = "SELECT count(*) FROM memory_context.recent_conversation_history"
    for _ in range(3):
        await archive.append(KEY, chat=[said("m1")])
    assert server.execute(rows, database_of(database_url)) == [(1,)]


@pytest.mark.thorough
async def test_messages_brought_from_everywhere_at_once_are_stored_once(
    archive: ConversationArchive, other: ConversationArchive
) -> None:
    """By a server, a browser and its second tab; each is claimed by exactly one of them."""
    for round_ in range(5):
        messages = [said(f"m{number}", number) for number in range(20)]
        calls = [
            (archive, other)[caller % 2].append(
                SessionKey("alice", "coder", f"s{round_}"),
                chat=messages[start : start + 12] if caller % 3 else messages,
            )
            for caller, start in enumerate([0, 4, 8, 0, 4, 8, 2, 6])
        ]
        stored = [id for done in await asyncio.gather(*calls) for id in done.stored_chat_ids]
        assert sorted(stored) == sorted(one.id for one in messages)
        assert await archive.chat_page("alice", f"s{round_}") == messages


@pytest.mark.parametrize("seed", range(6))
async def test_pages_together_are_all_messages_in_order(archive: ConversationArchive, seed: int) -> None:
    """By time, then id, whatever batches they came in, with many of one time; each page is as full as can be."""
    rng = random.Random(seed)
    messages = [said(f"m{number:03}", rng.choice([rng.randrange(8), number / 7])) for number in range(120)]
    rng.shuffle(messages) if seed % 2 else messages.sort(key=lambda one: one.timestamp)
    start = 0
    while start < len(messages):
        size = rng.choice([1, 2, 5, 30])
        await archive.append(KEY, chat=messages[start : start + size])
        start += size
    expected = sorted(messages, key=lambda one: (one.timestamp, one.id))
    for limit in (1, 7, 50, 120, 1000):
        found: list[ChatMessage] = []
        before = None
        while page := await archive.chat_page("alice", "s", limit=limit, before=before):
            assert len(page) == min(limit, len(expected) - len(found))
            found = page + found
            before = (page[0].timestamp, page[0].id)
        assert found == expected


@pytest.mark.thorough
async def test_a_page_opens_no_batch_that_cannot_hold_it(
    archive: ConversationArchive, server: Server, database_url: str
) -> None:
    """The newest page is read though an old batch cannot be; the page before that needs it, and fails."""
    for number in range(30):
        await archive.append(KEY, chat=[said(f"m{number:02}", number)])
    server.execute(
        """UPDATE memory_context.recent_conversation_history
        SET message_batch = '[{{"id": "m00", "timestamp": "broken"}}]' WHERE sequence < 3""",
        database_of(database_url),
    )
    page = await archive.chat_page("alice", "s", limit=10)
    assert [one.id for one in page] == [f"m{number:02}" for number in range(20, 30)]
    page = await archive.chat_page("alice", "s", limit=10, before=(page[0].timestamp, page[0].id))
    assert [one.id for one in page] == [f"m{number:02}" for number in range(10, 20)]
    with pytest.raises(StoreError):
        await archive.chat_page("alice", "s", limit=10, before=(page[0].timestamp, page[0].id))


# --- sessions


async def test_sessions_come_in_order_of_activity(
    archive: ConversationArchive, server: Server, database_url: str
) -> None:
    """Page by page, none twice and none left out, with many of one time."""
    for number in range(12):
        chat = [said("m")] if number % 2 else []
        await archive.append(SessionKey("alice", "coder", f"s{number:02}"), chat=chat)
    server.execute(
        """UPDATE memory_context.agent_sessions
        SET last_activity_at = timestamptz '2024-01-01Z' + make_interval(hours => right(session_id, 2)::integer / 5)""",
        database_of(database_url),
    )
    expected = [f"s{number:02}" for number in reversed(range(12))]
    assert [one.session_id for one in await archive.sessions("alice")] == expected
    found: list[str] = []
    before = None
    while page := await archive.sessions("alice", limit=3, before=before):
        found += [one.session_id for one in page]
        before = (page[-1].last_activity_at, page[-1].session_id)
    assert found == expected
    chats = await archive.sessions("alice", only_chats=True)
    assert [one.session_id for one in chats] == expected[::2]
    assert [one.session_id for one in await archive.sessions("alice", words=["S", "1"], agent="coder")] == [
        one for one in expected if "1" in one
    ]
    assert await archive.sessions("alice", agent="writer") == []
    newest = datetime(2024, 1, 1, 2, tzinfo=timezone.utc)
    assert [one.session_id for one in await archive.sessions("alice", since=newest)] == ["s11", "s10"]
    await archive.append(SessionKey("alice", "coder", "s03"))
    assert (await archive.sessions("alice", limit=1))[0].session_id == "s03"


async def test_a_page_that_cannot_be_asked_for_is_refused(archive: ConversationArchive) -> None:
    """With the remedy."""
    for read in (archive.sessions("alice", limit=0), archive.chat_page("alice", "s", limit=-1)):
        with pytest.raises(ValueError, match="at least 1"):
            await read
    naive = (datetime(2024, 1, 1), "")
    for read in (archive.sessions("alice", before=naive), archive.chat_page("alice", "s", before=naive)):
        with pytest.raises(ValueError, match="has no timezone"):
            await read


async def test_the_first_title_stays_until_a_final_one(archive: ConversationArchive) -> None:
    """A summary is always that of the last who gave one."""
    steps: list[tuple[dict[str, Any], tuple[str, str]]] = [
        ({}, ("", "")),
        ({"title": ""}, ("", "")),
        ({"title": f"first {ODD}", "summary": f"one {ODD}"}, (f"first {ODD}", f"one {ODD}")),
        ({"title": "second"}, (f"first {ODD}", f"one {ODD}")),
        ({"title": "final", "title_is_final": True, "summary": "two"}, ("final", "two")),
        ({"title_is_final": True}, ("final", "two")),
        ({"title": "third", "summary": ""}, ("final", "")),
    ]
    for step, expected in steps:
        await archive.append(KEY, **step)
        session = await archive.session("alice", "s")
        assert session is not None
        assert (session.title, session.summary) == expected


async def test_archiving_is_one_transaction_and_resuming_one_round_trip(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is given at once."""
    database, archive = store._database, store.conversations
    before = database.write_transactions
    for number in range(3):
        await archive.append(KEY, batch=batch(number), chat=[said(f"m{number}")], title="t", summary="s")
    assert database.write_transactions - before == archive.write_transactions == 3
    reads: list[int] = []
    read = database.read

    async def counting(user_id: str | None, *statements: Any, **kind: Any) -> Any:
        reads.append(len(statements))
        return await read(user_id, *statements, **kind)

    monkeypatch.setattr(database, "read", counting)
    await archive.read(KEY)
    assert len(reads) == 1


async def test_a_new_session_puts_its_user_on_the_list(
    archive: ConversationArchive, server: Server, database_url: str
) -> None:
    """So that maintenance finds users who have no items; nothing waits for the indexer."""
    await archive.append(KEY, chat=[said("m")])
    rows = server.execute("SELECT user_id, pending_since FROM memory_context.memory_users", database_of(database_url))
    assert rows == [("alice", None)]


# --- deletion


async def fill(store: MemoryStore, session: str) -> dict[str, str]:
    """Archive and store in a session and two of its sub-agents; return the keys of the items by their sessions."""
    keys: dict[str, str] = {}
    for name in (session, f"{session}/reader", f"{session}/reader/clerk"):
        memory = AgentMemory(store, "alice", "coder", name)
        keys[name] = (await memory.store(f"the harbour of {name}")).key
        memory.trail.note("retrieved", [keys[name]], "full")
        await store.conversations.append(
            SessionKey("alice", "coder", name), batch=batch(0), chat=[said("m")], title="a title"
        )
    return keys


async def test_a_deleted_session_is_gone(store: MemoryStore, server: Server, database_url: str) -> None:
    """What was said, its items, what they were found by, and what happened to them; also of its sub-agents."""
    archive = store.conversations
    keys = {**await fill(store, "s"), **await fill(store, "s2"), **await fill(store, "s0")}
    await store.flush_index()
    assert await archive.delete_session("alice", "s")
    memory = AgentMemory(store, "alice", "coder", "s")
    gone = [key for name, key in keys.items() if name.split("/")[0] == "s"]
    for key in gone:
        assert "was forgotten on" in str(await memory.not_found(key))
    assert {hit.item.key for hit in await memory.search("harbour", limit=50)} == set(keys.values()) - set(gone)
    for name in ("s", "s/reader", "s/reader/clerk"):
        assert await archive.session("alice", name) is None
        assert await archive.chat_page("alice", name) == []
        read = await archive.read(SessionKey("alice", "coder", name))
        assert (read.batches, read.head, read.session) == ((), -1, None)
    assert sorted(one.session_id for one in await archive.sessions("alice")) == sorted(
        name for name in keys if name.split("/")[0] != "s"
    )
    database = database_of(database_url)
    trail = server.execute("SELECT DISTINCT session_id FROM memory_context.agent_memory_events", database)
    assert {name for (name,) in trail} == {name for name in keys if name.split("/")[0] != "s"}
    tombstones = server.execute(
        """SELECT title, summary, message_count, chat_count FROM memory_context.agent_sessions
        WHERE deleted_at IS NOT NULL""",
        database,
    )
    assert tombstones == [("", "", 0, 0)] * 3


async def test_interrupted_deletion_shows_nothing_and_goes_on(
    store: MemoryStore, server: Server, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tombstone comes first; the rows follow in batches, which another call continues."""
    small = [replace(table, batch_rows=2) for table in registry.TABLES]
    monkeypatch.setattr(registry, "TABLES", small)
    monkeypatch.setattr(conversations, "BATCH_ITEMS", 2)
    archive, memory = store.conversations, AgentMemory(store, "alice", "coder", "s")
    for number in range(5):
        ref = await memory.store(f"the harbour {number}")
        memory.trail.note("retrieved", [ref.key], "full")
        await archive.append(KEY, batch=batch(number), chat=[said(f"m{number}", number)])
        step = ThreadStep(f"step{number}", "s", {"metadata": {"favorite": True}})
        await store.threads.upsert_step("alice", step, is_update=False)
        await store.threads.upsert_element("alice", ThreadElement(f"e{number}", "s", step.step_id, {}), b"content")
    done: list[tuple[int, int]] = []

    class Stopped(Exception):
        pass

    def stop(rows: int, total: int) -> None:
        done.append((rows, total))
        if len(done) == 2:  # after the first batch
            raise Stopped

    with pytest.raises(Stopped):
        await archive.delete_session("alice", "s", progress=stop)
    rows = "SELECT count(*) FROM memory_context.{}"
    database = database_of(database_url)
    assert server.execute(rows.format("recent_conversation_history"), database) == [(8,)], "a part of it is there"
    read = await archive.read(KEY)
    assert (read.batches, read.head, read.branches, read.later_items, read.session) == ((), -1, (), (), None)
    assert await archive.chat_page("alice", "s") == []
    assert await archive.known_chat_ids("alice", "s", ["m4"]) == set()
    assert await store.threads.thread("alice", "s") is None
    assert await store.threads.favorite_steps("alice") == []
    exported = b"".join([line async for line in store.admin.export_lines("alice")])
    assert not re.search(rb'"record":"(batch|step|element)"', exported)
    with pytest.raises(SessionGoneError):
        await archive.append(KEY, batch=batch(5))

    done.clear()
    assert await archive.delete_session("alice", "s", progress=lambda *one: done.append(one))
    assert done == sorted(done)
    assert done[0][0] == 0
    assert done[-1][0] == done[-1][1] > 15
    tables = ("recent_conversation_history", "agent_memory_events", "ui_steps", "ui_elements", "agent_memory_contents")
    assert {table: server.execute(rows.format(table), database)[0][0] for table in tables} == dict.fromkeys(tables, 0)
    assert await memory.query() == []
    assert not await archive.delete_session("alice", "s")


async def test_whoever_archives_in_a_deleted_session_is_refused(
    archive: ConversationArchive, other: ConversationArchive
) -> None:
    """With the time of its deletion, in it and in those of its sub-agents, known before or not; nothing is stored."""
    for name in ("s", "s/reader"):
        await archive.append(SessionKey("alice", "coder", name), batch=batch(0))
    await other.delete_session("alice", "s")
    year = datetime.now(timezone.utc).year
    for name in ("s", "s/reader", "s/new"):
        with pytest.raises(SessionGoneError, match=rf"'{name}' was deleted on {year}-\d\d-\d\d at \d\d:\d\d"):
            await archive.append(SessionKey("alice", "coder", name), batch=batch(1), chat=[said("m")])
        assert await archive.session("alice", name) is None
        assert (await archive.read(SessionKey("alice", "coder", name))).head == -1
    assert (await archive.append(SessionKey("alice", "coder", "s2"), batch=batch(0))).outcome == "stored"
    assert (await archive.append(SessionKey("bob", "coder", "s"), batch=batch(0))).outcome == "stored"


async def test_deleting_again_says_that_there_is_nothing(store: MemoryStore) -> None:
    """Nor is there for a session nobody knows; what was stored meanwhile is forgotten."""
    archive = store.conversations
    assert not await archive.delete_session("alice", "s")
    await fill(store, "s")
    assert await archive.delete_session("alice", "s")
    assert not await archive.delete_session("alice", "s")
    memory = AgentMemory(store, "alice", "coder", "s")
    late = await memory.store("stored by somebody who did not know")
    assert await archive.delete_session("alice", "s")
    assert "was forgotten on" in str(await memory.not_found(late.key))
    assert (await archive.append(SessionKey("alice", "coder", "unknown"))).head == -1


@pytest.mark.parametrize("session", ["", "a\nb", "x" * 129])
async def test_what_is_no_session_is_neither_archived_nor_deleted(store: MemoryStore, session: str) -> None:
    """The empty id stands for what belongs to no session, which stays."""
    (key,) = await store.items.insert_memories("alice", [NewItem("of no session", "", 1, key="k")])
    with pytest.raises(ValueError, match="printable"):
        await store.conversations.append(SessionKey("alice", "coder", session))
    with pytest.raises(ValueError, match="printable"):
        await store.conversations.delete_session("alice", session)
    assert await store.items.fetch_contents("alice", [key]) == {"k": "of no session"}


async def test_a_session_with_items_only_can_be_deleted(store: MemoryStore) -> None:
    """Before anything of it was archived: who then archives is refused."""
    memory = AgentMemory(store, "alice", "coder", "s")
    ref = await memory.store("the harbour")
    assert await store.conversations.delete_session("alice", "s")
    assert "was forgotten on" in str(await memory.not_found(ref.key))
    with pytest.raises(SessionGoneError):
        await store.conversations.append(KEY, batch=batch(0))


@pytest.mark.thorough
async def test_deleting_blocks_nobody_who_stores_indexes_or_archives(store: MemoryStore) -> None:
    """All at once, many times: each ends well, or learns that the session is gone."""
    archive = store.conversations

    async def archive_some(session: str) -> None:
        for number in range(4):
            try:
                await archive.append(
                    SessionKey("alice", "coder", session), batch=batch(number), chat=[said(f"m{number}")]
                )
            except SessionGoneError:
                return

    async def store_some(session: str) -> None:
        for number in range(4):
            await AgentMemory(store, "alice", "coder", session).store(f"the harbour {session} {number}\n" * 20)

    for round_ in range(8):
        session = f"s{round_}"
        await store_some(session)
        await asyncio.gather(
            archive_some(session), store_some(session), store.flush_index(), archive.delete_session("alice", session),
            archive_some(f"{session}/reader"), archive.delete_session("alice", session), store.flush_index(),
        )  # fmt: skip
        await archive.delete_session("alice", session)
        await store.flush_index()
    assert await AgentMemory(store, "alice", "coder", "s").search("harbour", limit=50) == []
    assert await archive.sessions("alice") == []
