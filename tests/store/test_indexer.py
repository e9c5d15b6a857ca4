"""The background index: everything stored becomes findable, once, whatever fails, hangs or is killed meanwhile."""

import asyncio
import logging
import math
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_context.foundation.embeddings.embedder import Purpose
from memory_context.foundation.errors import EmbeddingError, StoreUnavailableError
from memory_context.foundation.text.tokenize import query_terms
from memory_context.foundation.utf8 import unescape
from memory_context.memory.agent_memory import AgentMemory
from memory_context.store import jobs
from memory_context.store.items import MemoryCriteria, NewItem
from memory_context.store.jobs import JobReport
from memory_context.store.memory_store import MemoryStore
from memory_context.store.search import indexer, postings
from memory_context.store.search.postings import INDEXED_CHARACTERS
from tests.conftest import Server, StartPython, database_of
from tests.context.steps import a_turn_of_the_loop
from tests.embeddings.fakes import FakeEmbedder
from tests.support.waiting import PATIENT_SECONDS, soon, until

ANY = MemoryCriteria()
MAKE_DUE = "UPDATE memory_context.jobs SET due_at = now(), claim = NULL WHERE NOT is_failed"


def memory(key: str, content: str = "content", **others: Any) -> NewItem:
    return NewItem(content, "", 1, key=key, **others)


class Database:
    """What the tables of the index hold, as the superuser sees it."""

    def __init__(self, server: Server, url: str) -> None:
        self.server, self.url, self.name = server, url, database_of(url)

    def __call__(self, statement: str) -> list[tuple[Any, ...]]:
        return self.server.execute(statement, self.name)  # type: ignore[return-value]

    def count(self, table: str) -> int:
        return self(f"SELECT count(*) FROM memory_context.{table}")[0][0]

    def check(self, items: int, *, embedded: bool = True) -> None:
        """Assert that every item is indexed, once and whole."""
        assert self.count("jobs") == 0
        assert self("SELECT count(DISTINCT content_id) FROM memory_context.agent_memory_chunks") == [(items,)]
        assert self(
            """SELECT count(DISTINCT content_id) FROM (
                SELECT content_id FROM memory_context.agent_memory_terms
                UNION SELECT content_id FROM memory_context.agent_memory_names
            ) AS found"""
        ) == [(items,)]
        chunks = self.count("agent_memory_chunks")
        assert self("SELECT sum(chunk_count) FROM memory_context.agent_memory_statistics") == [(chunks,)]
        if embedded:
            assert self.count("agent_memory_embeddings") == chunks
        # passages follow each other without gap, and no posting is there twice
        assert self(
            """SELECT count(*) FROM (SELECT start_char, lag(end_char, 1, 0) OVER (
                PARTITION BY user_id, content_id ORDER BY chunk_number) AS before
            FROM memory_context.agent_memory_chunks) AS chunk WHERE start_char <> before"""
        ) == [(0,)]
        assert self(
            """SELECT count(*) FROM memory_context.agent_memory_terms
            WHERE cardinality(postings) <> (SELECT count(DISTINCT posting >> 16) FROM unnest(postings) AS posting)"""
        ) == [(0,)]


@pytest.fixture
def database(server: Server, database_url: str) -> Database:
    return Database(server, database_url)


@pytest.fixture
def embedder() -> FakeEmbedder:
    return FakeEmbedder()


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """What failed is not due again, and claims are given back in time, while a busy machine works on."""
    monkeypatch.setattr(jobs, "FIRST_WAIT_SECONDS", 200.0)
    monkeypatch.setattr(jobs, "_RELEASE_SECONDS", PATIENT_SECONDS)


async def keys_found(store: MemoryStore, query: str, user: str = "alice", **criteria: Any) -> list[str]:
    hits = await AgentMemory(store, user).search(query, limit=20, criteria=MemoryCriteria(**criteria))
    return [hit.item.key for hit in hits]


# --- what is made


async def test_what_was_stored_is_found_after_a_flush(store: MemoryStore, database: Database) -> None:
    """By words and by meaning; nothing is left to do."""
    await store.items.insert_memories("alice", [memory("a", "the harbour at dawn"), memory("b", "quarterly numbers")])
    assert await store.flush_index() == JobReport(0, 0)
    database.check(2)
    assert (await keys_found(store, "harbour"))[0] == "a"
    candidates, _ = await store.search.candidates("alice", "quarterly", [], ANY)
    assert all(one.semantic is not None for one in candidates)


async def test_the_background_indexes_by_itself(store: MemoryStore, database: Database) -> None:
    """Soon, and without anybody asking."""
    await store.items.insert_memories("alice", [memory("a", "the harbour at dawn")])
    await until(lambda: database.count("jobs") == 0)
    database.check(1)
    # and again, after it had nothing to do
    await store.items.insert_memories("bob", [memory("a", "of bob")])
    await until(lambda: database.count("jobs") == 0)
    database.check(2)
    pending = "SELECT count(*) FROM memory_context.memory_users WHERE pending_since IS NOT NULL"
    await until(lambda: database(pending) == [(0,)])


async def test_storing_does_not_wait_for_the_embedder(store: MemoryStore, embedder: FakeEmbedder) -> None:
    """Nor does searching what it has not embedded yet."""
    embedder.wait_for = asyncio.Event()
    await store.items.insert_memories("alice", [memory("a", "the harbour at dawn")])
    await until(lambda: any(purpose == "document" for _, purpose in embedder.calls))
    await soon(store.items.insert_memories("alice", [memory("b", "dusk at the harbour")]))
    embedder.wait_for.set()
    await store.flush_index()


async def test_stores_of_one_user_do_not_wait_for_each_other(
    store: MemoryStore, embedder: FakeEmbedder, database: Database
) -> None:
    embedder.wait_for = asyncio.Event()
    await store.items.insert_memories("alice", [memory("a", "the harbour at dawn")])
    with psycopg.connect(database.url) as other:
        other.execute("SELECT set_config('memory_context.user_id', 'alice', true)")
        other.execute("SELECT memory_context.store_memories('alice', '[]')")
        await soon(store.items.insert_memories("alice", [memory("b", "dusk at the harbour")]))
    embedder.wait_for.set()
    await store.flush_index()
    database.check(2)


HARD = [
    "",
    "\x00",
    "\ud800 lone \udfff\x00 and NUL\r\n" * 400,
    "one line\r\nanother\r\n" * 300,
    "漢字と仮名の文章。" * 500,
    "x" * 5000,
    "\n" * 4000,
    "😀é" * 2000,
    "\x1a0000\x1a",
    "a paragraph\n\n" * 700,
]


async def check_spans(database: Database, contents: dict[str, str]) -> None:
    """Assert that each passage is where it says, and that they make up the content."""
    rows = database(
        """SELECT memory_key, start_char, end_char, start_line, end_line, text FROM memory_context.agent_memory_chunks
        JOIN memory_context.agent_memories USING (user_id, content_id) ORDER BY memory_key, chunk_number"""
    )
    whole = dict.fromkeys(contents, "")
    for key, start, end, first, last, escaped in rows:
        content, text = contents[key], unescape(escaped)
        assert content[start:end] == text
        assert start == len(whole[key])
        assert first == content.count("\n", 0, start) + 1
        assert last == content.count("\n", 0, max(end - 1, start)) + 1
        whole[key] += text
    assert whole == {key: content[:INDEXED_CHARACTERS] for key, content in contents.items()}


async def test_every_passage_is_exactly_where_it_says(store: MemoryStore, database: Database) -> None:
    """Whatever the content holds."""
    contents = {f"k{number}": content for number, content in enumerate(HARD)}
    await store.items.insert_memories("alice", [memory(key, content) for key, content in contents.items()])
    await store.flush_index()
    await check_spans(database, contents)
    database.check(len(contents), embedded=False)  # what has no words has no embedding


@given(
    st.lists(
        st.text(st.characters(exclude_categories=()), max_size=40).flatmap(
            lambda piece: st.integers(0, 200).map(lambda times: piece * times)
        ),
        min_size=1,
        max_size=4,
        unique=True,
    )
)
async def test_any_content_is_cut_exactly(store: MemoryStore, database: Database, contents: list[str]) -> None:
    """Any characters, repeated to any length."""
    for table in ("memories", "memory_contents", "memory_terms", "memory_names", "memory_statistics"):
        database(f"TRUNCATE memory_context.agent_{table} CASCADE")
    made = {f"k{number}": content for number, content in enumerate(contents)}
    await store.items.insert_memories("alice", [memory(key, content) for key, content in made.items()])
    assert await store.flush_index() == JobReport(0, 0)
    await check_spans(database, made)
    database.check(len(made), embedded=False)


async def test_a_hit_is_the_part_of_the_content_it_names(store: MemoryStore) -> None:
    """Characters and lines count from 1, up to and with the last."""
    content = "".join(f"line {number} é\r\n" for number in range(1, 1001)).replace("line 700 ", "the needle\x00 here ")
    ref = await AgentMemory(store, "alice").store(content)
    await store.flush_index()
    (hit,) = await AgentMemory(store, "alice").search("needle")
    assert hit.ref == ref
    assert content[hit.start_char - 1 : hit.end_char] == hit.passage
    assert "needle\x00" in hit.passage
    assert hit.start_line <= 700 <= hit.end_line
    lines = content.split("\n")[hit.start_line - 1 : hit.end_line]
    assert hit.passage.rstrip("\n") in "\n".join(lines)


@pytest.mark.parametrize("filler", ["word and word\n", "a\x00b \ud800é\n"], ids=["text", "bytes"])
@pytest.mark.thorough
async def test_of_a_huge_content_the_first_two_million_characters_are_indexed(
    store: MemoryStore, database: Database, filler: str
) -> None:
    """As text and as bytes, which a cut may go through; what comes later is stored all the same."""
    count = INDEXED_CHARACTERS // len(filler)
    content = filler * (count - 1) + "nearneedle\n" + filler * 100_000 + "farneedle"
    await store.items.insert_memories("alice", [memory("huge", content)])
    assert await store.flush_index() == JobReport(0, 0)
    assert database("SELECT max(end_char) FROM memory_context.agent_memory_chunks") == [(INDEXED_CHARACTERS,)]
    assert await keys_found(store, "nearneedle") == ["huge"]
    ((frequency,),) = [list((await store.search.candidates("alice", "", ["farneedle"], ANY))[1].frequencies.values())]
    assert frequency == 0
    assert (await store.items.fetch_contents("alice", ["huge"]))["huge"] == content


async def test_an_empty_content_is_found_by_its_names(store: MemoryStore) -> None:
    """Of two items with it the newer is shown, which names the other; names of either find it."""
    agent = AgentMemory(store, "alice")
    first = await agent.store("", description="the empty harbour report", source="one")
    second = await agent.store("", description="another empty harbour report", source="two")
    for _ in range(2):
        (hit,) = await agent.search("harbour report")
        assert (hit.item.key, hit.item.other_keys) == (second.key, (first.key,))
        await store.flush_index()
    assert [hit.item.key for hit in await agent.search("one")] == [second.key]


# --- several workers


async def test_two_stores_index_each_item_once(database_url: str, database: Database) -> None:
    """Both at work at the same time: nothing is lost, doubled or counted twice."""
    texts = [f"item {number} " + "words of it\n" * (number % 7 * 60) for number in range(120)]
    async with MemoryStore(database_url, FakeEmbedder()) as one, MemoryStore(database_url, FakeEmbedder()) as other:
        for start in range(0, 120, 20):
            batch = [memory(f"k{number}", texts[number]) for number in range(start, start + 20)]
            await asyncio.gather(
                one.items.insert_memories("alice", batch[:12]), other.items.insert_memories("alice", batch[8:])
            )
        reports = await asyncio.gather(one.flush_index(), other.flush_index(), one.flush_index())
        assert reports == [JobReport(0, 0)] * 3
    database.check(120)


WORK = """
import asyncio, os, signal, sys
from memory_context.store.memory_store import MemoryStore
from memory_context.store import jobs
from tests.embeddings.fakes import FakeEmbedder
url = os.environ["TEST_URL"]
"""


@pytest.mark.thorough
async def test_four_processes_index_each_item_once(
    database_url: str, database: Database, start_python: StartPython, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All begin with the same list of what is to be done."""
    monkeypatch.setattr(jobs.Jobs, "wake", lambda self, user_id: None)
    async with MemoryStore(database_url, FakeEmbedder()) as store:
        for user in ("alice", "bob"):
            items = [memory(f"k{number}", f"item {number}\n" * (number % 5 * 200 + 1)) for number in range(100)]
            await store.items.insert_memories(user, items)
    script = WORK + (
        "async def main():\n"
        "    async with MemoryStore(url, FakeEmbedder()) as store:\n"
        "        print('ready', flush=True)\n"
        "        sys.stdin.readline()\n"
        "        print(await store.flush_index())\n"
        "asyncio.run(main())\n"
    )
    processes = [await start_python(script, TEST_URL=database_url) for _ in range(4)]
    for process in processes:
        assert await process.stdout.readline() == b"ready\n"
    for process in processes:
        process.stdin.write(b"\n")
    for out, err in await soon(asyncio.gather(*(process.communicate() for process in processes))):
        assert (out.decode(), err.decode()) == ("JobReport(pending=0, failed=0)\n", "")
    database.check(200)


# The forking process has everything imported. Each child indexes, counts the lines of the indexer it executes, and
# kills itself at a given one; leases are so short that the next child takes on what it had.
KILLED = (
    WORK
    + """
jobs.LEASE_SECONDS = 0.05
KILLS = 14
TRACED = "store/pool", "store/jobs", "search/indexer", "search/postings"

async def work():
    # not through `open`, so that all of it happens in one task
    store = MemoryStore(url, FakeEmbedder())
    await store.flush_index()

def run_child(last_line):
    lines = 0
    def trace(frame, event, argument):
        nonlocal lines
        if not frame.f_code.co_filename.endswith(tuple(f"{name}.py" for name in TRACED)):
            return None
        if event == "line":
            lines += 1
            if lines == last_line:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace
    sys.settrace(trace)
    asyncio.run(work())
    return lines

killed = 0
for number in range(1, KILLS + 1):
    pid = os.fork()
    if pid == 0:
        run_child(number * 160)
        os._exit(0)
    killed += os.WIFSIGNALED(os.waitpid(pid, 0)[1])
print("killed", killed)
"""
)


@pytest.mark.thorough
async def test_what_killed_workers_had_in_hand_is_done_by_the_next(
    database_url: str,
    database: Database,
    embedder: FakeEmbedder,
    start_python: StartPython,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Killed at many places of its work: nothing is lost, doubled or counted twice."""
    with monkeypatch.context() as patch:
        patch.setattr(jobs.Jobs, "wake", lambda self, user_id: None)
        async with MemoryStore(database_url, embedder) as store:
            items = [memory(f"k{number}", f"item {number}\n" * (number % 4 * 150 + 1)) for number in range(150)]
            await store.items.insert_memories("alice", items)
    process = await start_python(KILLED, TEST_URL=database_url)
    out, err = await soon(process.communicate())
    assert process.returncode == 0, err.decode()
    assert int(out.split()[1]) >= 8
    assert database.count("jobs") > 0
    # of the last one killed
    database("UPDATE memory_context.jobs SET due_at = now()")
    async with MemoryStore(database_url, embedder) as store:
        assert await store.flush_index() == JobReport(0, 0)
    database.check(150)


async def test_an_item_that_kills_its_workers_is_failed_and_takes_no_other_with_it(
    database_url: str, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A claim that is never finished stands for a killed worker."""
    claimed: list[list[int]] = []

    class Killed(BaseException):
        pass

    async def die(self: Any, claim: jobs.Claim, rows: Sequence[dict[str, Any]]) -> Any:
        claimed.append([row["memory_id"] for row in rows])
        if any(row["memory_key"] == "killer" for row in rows):
            raise Killed
        return await write_text(self, claim, rows)

    write_text = indexer.Indexer._write_text
    monkeypatch.setattr(indexer.Indexer, "_write_text", die)
    monkeypatch.setattr(jobs.Jobs, "wake", lambda self, user_id: None)
    async with MemoryStore(database_url, FakeEmbedder()) as store:
        keys = ["a", "b", "killer", "c", "d"]
        await store.items.insert_memories("alice", [memory(key, f"words of {key}") for key in keys])
    for _ in range(jobs.ATTEMPTS_LIMIT + 1):
        store = MemoryStore(database_url, FakeEmbedder())  # another process
        try:
            await store.flush_index()
            break
        except Killed:
            store._database.close()
            database("UPDATE memory_context.jobs SET due_at = now() WHERE NOT is_failed")
    assert await store.flush_index() == JobReport(0, 1)
    assert await store.index_failures("alice") == [("killer", "its workers were killed")]
    assert database("SELECT count(DISTINCT content_id) FROM memory_context.agent_memory_chunks") == [(4,)]
    assert len(claimed[0]) == 5
    assert all(len(ids) == 1 for ids in claimed[1:])
    assert await keys_found(store, "words of killer", types=("custom",)) != []
    await store.close()


# --- embedders that fail


class Hanging(FakeEmbedder):
    """Answers queries only."""

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> list[list[float]]:
        if purpose == "document":
            await asyncio.Event().wait()
        return await super().embed(texts, purpose)


class Miscounting(FakeEmbedder):
    """Returns one vector too few."""

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> list[list[float]]:
        return (await super().embed(texts, purpose))[1:]


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        (FakeEmbedder(fail_with=RuntimeError("no power")), "failed: RuntimeError: no power"),
        (FakeEmbedder(nan=True), "NaN"),
        (FakeEmbedder(wrong_dimension=True), "17 dimensions, not 16"),
        (Miscounting(), "vectors for"),
        (Hanging(), "gave no answer within"),
    ],
    ids=["raises", "nan", "dimension", "count", "hangs"],
)
@pytest.mark.thorough
async def test_a_broken_embedder_delays_nothing_but_embeddings(
    database_url: str, database: Database, monkeypatch: pytest.MonkeyPatch, broken: FakeEmbedder, says: str
) -> None:
    """What is stored is found by its text, is tried again later each time, and embedded when one works."""
    seconds = 0.2 if isinstance(broken, Hanging) else PATIENT_SECONDS
    monkeypatch.setattr(indexer, "EMBED_SECONDS", seconds)
    monkeypatch.setattr(indexer, "_PROBE_SECONDS", seconds)
    monkeypatch.setattr(jobs.Jobs, "wake", lambda self, user_id: None)
    async with MemoryStore(database_url, broken) as store:
        await store.items.insert_memories("alice", [memory(f"k{n}", f"harbour number{n}") for n in range(40)])
        waits = []
        for _ in range(3):
            calls = len(broken.calls)
            assert await store.flush_index() == JobReport(40, 0)
            assert len(broken.calls) - calls <= 3  # not once for each item
            assert (await keys_found(store, "number7"))[0] == "k7"
            rows = database(
                """SELECT last_error, kind = 'embed', extract(epoch FROM due_at - now()), claim
                FROM memory_context.jobs"""
            )
            assert all(says in error and done and claim is None for error, done, _, claim in rows)
            waits.append(min(wait for *_, wait, _ in rows))
            database(MAKE_DUE)
        assert 0 < waits[0] < waits[1] < waits[2]
        assert await store.index_failures("alice") == []
    assert database.count("agent_memory_embeddings") == 0
    async with MemoryStore(database_url, FakeEmbedder()) as store:
        assert await store.flush_index() == JobReport(0, 0)
    database.check(40)


class Choosy(FakeEmbedder):
    """Fails with whatever has a poisonous text in it."""

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> list[list[float]]:
        vectors = await super().embed(texts, purpose)
        if any("poison" in text for text in texts):
            raise RuntimeError("cannot take it")
        return vectors


@pytest.mark.parametrize("poisoned", [{3}, {0, 1}, {0, 1, 2, 15}, {17}])
async def test_a_text_the_embedder_cannot_take_keeps_no_other_from_being_embedded(
    database_url: str, database: Database, poisoned: set[int]
) -> None:
    """Nor do several, side by side at the beginning of a batch."""
    async with MemoryStore(database_url, Choosy()) as store:
        await store.items.insert_memories(
            "alice", [memory(f"k{n:02}", f"text {n}" + " poison" * (n in poisoned)) for n in range(20)]
        )
        assert await store.flush_index() == JobReport(len(poisoned), 0)
    rows = database(
        """SELECT memory_key FROM memory_context.agent_memories JOIN memory_context.jobs USING (user_id, id)
        WHERE last_error LIKE '%cannot take it' AND kind = 'embed'"""
    )
    assert {key for (key,) in rows} == {f"k{number:02}" for number in poisoned}
    assert database.count("agent_memory_embeddings") == 20 - len(poisoned)


async def test_what_was_embedded_before_a_failure_is_not_embedded_again(
    database_url: str, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long item goes on where it was."""
    monkeypatch.setattr(indexer, "EMBED_TEXTS", 4)
    monkeypatch.setattr(jobs.Jobs, "wake", lambda self, user_id: None)
    embedder = Choosy()
    async with MemoryStore(database_url, embedder) as store:
        content = "".join(f"part {number}\n" + "words\n" * 150 for number in range(12)) + "poison\n" * 200
        await store.items.insert_memories("alice", [memory("long", content)])
        assert await store.flush_index() == JobReport(1, 0)
        before = database.count("agent_memory_embeddings")
        assert before >= 8
        embedder.calls.clear()
        database(MAKE_DUE)
        await store.flush_index()
        texts = [text for texts, _ in embedder.calls for text in texts]
        assert not any("part 1\n" in text for text in texts)
        store._indexer.embedder = FakeEmbedder()
        database(MAKE_DUE)
        assert await store.flush_index() == JobReport(0, 0)
    database.check(1)


async def test_a_search_outlives_its_embedder(store: MemoryStore, caplog: pytest.LogCaptureFixture) -> None:
    """It then ranks by terms, and says so."""
    await store.items.insert_memories("alice", [memory("a", "the harbour at dawn")])
    await store.flush_index()
    store._indexer.embedder = FakeEmbedder(fail_with=RuntimeError("no power"))
    for _ in range(3):
        assert await keys_found(store, "harbour") == ["a"]
    assert caplog.text.count("searching by terms alone") == 1


async def test_each_outage_of_store_and_embedder_is_logged_once_by_the_background(
    store: MemoryStore, database: Database, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """However often they are tried; and once more in the next outage."""
    caplog.set_level(logging.INFO, "memory_context")
    monkeypatch.setattr(jobs, "_RETRY_SECONDS", 0.001)
    write, tries = store._database.write, asyncio.Semaphore(0)

    async def refuse(*_: Any, **__: Any) -> Any:
        tries.release()
        raise StoreUnavailableError("away")

    async def fail_four_times_and_recover(recovered: int) -> None:
        while not tries.locked():  # of the outage before
            await tries.acquire()
        monkeypatch.setattr(store._database, "write", refuse)
        store.jobs.wake("alice")
        for _ in range(4):
            await soon(tries.acquire())
        monkeypatch.setattr(store._database, "write", write)
        await store.flush_index()
        await until(lambda: caplog.text.count("background jobs again") == recovered)

    for outage in range(1, 3):
        await store.items.insert_memories("alice", [memory(f"k{outage}", f"harbour {outage}")])
        await fail_four_times_and_recover(outage)
        await until(lambda: database.count("jobs") == 0)
        assert caplog.text.count("background jobs go on later: away") == outage
    store._indexer.embedder = FakeEmbedder(fail_with=RuntimeError("no power"))
    await store.items.insert_memories("alice", [memory("k3", "harbour 3")])
    for _ in range(3):
        await store.flush_index()
        database(MAKE_DUE)
    assert caplog.text.count("no power") == 1


# --- texts that cannot be indexed


async def test_a_text_that_cannot_be_indexed_is_failed_in_the_end(
    database_url: str, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others are indexed at once; it is tried again, and still found by its first lines."""
    index_item = postings.index_item

    def picky(memory_id: int, content: str, names: Sequence[str], **how: bool) -> Any:
        if "poison" in content:
            raise ValueError("cannot be cut")
        return index_item(memory_id, content, names, **how)

    monkeypatch.setattr(postings, "index_item", picky)
    monkeypatch.setattr(jobs.Jobs, "wake", lambda self, user_id: None)
    async with MemoryStore(database_url, FakeEmbedder()) as store:
        contents = {f"k{n}": f"text {n}" + " poison" * (n == 4) for n in range(10)}
        await store.items.insert_memories("alice", [memory(key, content) for key, content in contents.items()])
        for _ in range(jobs.ATTEMPTS_LIMIT - 1):
            assert await soon(store.flush_index(), 30) == JobReport(1, 0)
            assert database("SELECT count(DISTINCT content_id) FROM memory_context.agent_memory_chunks") == [(9,)]
            assert await store.index_failures("alice") == []
            database(MAKE_DUE)
        for _ in range(2):
            assert await soon(store.flush_index(), 30) == JobReport(0, 1)
        assert await store.index_failures("alice") == [("k4", "ValueError: cannot be cut")]
        assert await store.index_failures("bob") == []
        assert database("SELECT pending_since, has_failed_jobs FROM memory_context.memory_users") == [(None, True)]
        assert await store.items.forget_memories("alice", agent_id="", session_id="", memory_key="k4") == ["k4"]
        assert await store.flush_index() == JobReport(0, 0)
    assert database("SELECT pending_since, has_failed_jobs FROM memory_context.memory_users") == [(None, False)]
    database.check(9)


async def test_embeddings_of_a_model_without_room_for_its_index_wait(database_url: str, database: Database) -> None:
    """The text is found meanwhile; nothing is embedded without an index, and the error tells the owner what to do."""
    for number in range(16):
        database(f"SELECT memory_context.ensure_embedding_index('m{number}/3', 3)")
    async with MemoryStore(database_url, FakeEmbedder()) as store:
        await store.items.insert_memories("alice", [memory("k", "the harbour at dawn")])
        assert await store.flush_index() == JobReport(1, 0)
        assert await keys_found(store, "harbour") == ["k"]
    ((error,),) = database("SELECT last_error FROM memory_context.jobs")
    assert "there are 16 already" in str(error)
    assert "as the owner" in str(error)
    assert database.count("agent_memory_embeddings") == 0


# --- outages, ends and beginnings


async def test_a_store_that_goes_down_in_the_middle_loses_nothing(
    server: Server, database: Database, store: MemoryStore, embedder: FakeEmbedder
) -> None:
    """Its connections die while a batch is in work; what was claimed is given back before the next."""
    embedder.wait_for = asyncio.Event()
    await store.items.insert_memories("alice", [memory(f"k{number}", f"text {number}") for number in range(40)])
    flush = asyncio.create_task(store.flush_index())
    await until(lambda: any(purpose == "document" for _, purpose in embedder.calls))
    ended = server.execute(
        "SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity WHERE usename LIKE 'memory%'"
    )
    assert ended != [(0,)]
    embedder.wait_for.set()
    with suppress(StoreUnavailableError):  # unless its connections were idle just then
        await soon(flush, 30)
    assert await soon(store.flush_index(), 30) == JobReport(0, 0)
    database.check(40)


async def test_close_gives_back_what_was_claimed(database_url: str, database: Database) -> None:
    """The next store need not wait for the lease."""
    embedder = FakeEmbedder(wait_for=asyncio.Event())
    store = MemoryStore(database_url, embedder)
    await store.items.insert_memories("alice", [memory(f"k{number}", f"text {number}") for number in range(30)])
    await until(lambda: embedder.calls != [])
    await store.close()
    assert database("SELECT count(*), max(attempts) FROM memory_context.jobs WHERE claim IS NULL") == [(30, 0)]
    async with MemoryStore(database_url, FakeEmbedder()) as other:
        assert await soon(other.flush_index(), 20) == JobReport(0, 0)
    database.check(30)


async def test_close_ends_the_background_at_once(database_url: str, database: Database) -> None:
    """Whatever it is at, even if another worker has something in hand for long."""
    store = MemoryStore(database_url, FakeEmbedder())
    await store.items.insert_memories("alice", [memory("a")])
    await store.close()
    database("UPDATE memory_context.jobs SET claim = gen_random_uuid(), due_at = now() + interval '1 hour'")
    for number in range(12):
        await store.items.insert_memories("bob", [memory(f"k{number}", f"text {number}")])
        for _ in range(number):
            await a_turn_of_the_loop()  # a few steps of the background
        store.jobs.wake("alice")
        await soon(store.close(), 5)
    assert database("SELECT count(*) FROM memory_context.jobs WHERE user_id = 'alice'") == [(1,)]


async def test_open_takes_on_what_others_left(
    database_url: str, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the background, for all users, page by page."""
    monkeypatch.setattr(jobs, "_USERS_PER_PAGE", 3)
    with monkeypatch.context() as patch:
        patch.setattr(jobs.Jobs, "wake", lambda self, user_id: None)
        async with MemoryStore(database_url, FakeEmbedder()) as store:
            for number in range(10):
                await store.items.insert_memories(f"user\x00{number}", [memory("a", f"of {number}")])
    async with MemoryStore(database_url, FakeEmbedder()):
        await until(lambda: database.count("jobs") == 0)
    database.check(10)


def test_a_store_indexes_in_one_event_loop_after_the_other(database_url: str, database: Database) -> None:
    """What one loop left is done in the next; nothing is printed or raised."""
    store = MemoryStore(database_url, FakeEmbedder())

    async def use(number: int) -> None:
        await store.items.insert_memories("alice", [memory(f"k{number}", f"text {number}")])

    for number in range(3):
        asyncio.run(use(number))

    async def finish() -> None:
        assert await soon(store.flush_index(), 20) == JobReport(0, 0)
        await store.close()

    asyncio.run(finish())
    database.check(3)


def test_two_threads_with_a_loop_each_share_a_store(database_url: str, database: Database) -> None:
    """Each loop has one task at most, and closing in one breaks off nothing of the other."""
    embedder = FakeEmbedder()
    store = MemoryStore(database_url, embedder)
    is_other_stopped = threading.Event()
    most_tasks: list[int] = []

    async def use(name: str, *, is_last: bool) -> None:
        most = 0
        for number in range(30):
            await store.items.insert_memories(name, [memory(f"k{number}", f"text {number} of {name}")])
            await store.items.insert_memories("both", [memory(f"{name}{number}", f"text {number} by {name}")])
            most = max(most, sum(task.get_name() == "memory_context jobs" for task in asyncio.all_tasks()))
        most_tasks.append(most)
        if is_last:
            await until(is_other_stopped.is_set)
            assert await soon(store.flush_index()) == JobReport(0, 0)
        await store.close()
        is_other_stopped.set()

    with ThreadPoolExecutor(2) as threads:
        calls = [
            threads.submit(asyncio.run, use(name, is_last=is_last)) for name, is_last in (("a", False), ("b", True))
        ]
        for call in calls:
            call.result(PATIENT_SECONDS)
    assert max(most_tasks) <= 1
    assert len(store.jobs._due.all()) <= 2
    database.check(120)


async def test_a_close_in_one_loop_leaves_the_batches_of_another_alone(database_url: str, database: Database) -> None:
    """The claim of a batch in work is given back by nobody else."""
    embedder = FakeEmbedder(wait_for=asyncio.Event())
    async with MemoryStore(database_url, embedder) as store:
        await store.items.insert_memories("alice", [memory("a")])
        await until(lambda: embedder.calls != [])
        await asyncio.to_thread(lambda: asyncio.run(store.close()))
        assert database("SELECT claim IS NOT NULL, attempts FROM memory_context.jobs") == [(True, 1)]
        embedder.wait_for.set()
        await until(lambda: database.count("jobs") == 0)
    database.check(1)


async def test_a_batch_that_was_broken_off_is_taken_on_again_by_this_process(
    database_url: str, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without anybody storing or asking, also if no background was at work."""
    monkeypatch.setattr(jobs, "_RETRY_SECONDS", 0.1)
    embedder = FakeEmbedder(wait_for=asyncio.Event())
    async with MemoryStore(database_url, embedder) as store:
        with monkeypatch.context() as patch:
            patch.setattr(jobs.Jobs, "wake", lambda self, user_id: None)
            await store.items.insert_memories("alice", [memory("a")])
        flush = asyncio.create_task(store.flush_index())
        await until(lambda: embedder.calls != [])
        embedder.wait_for.set()
        flush.cancel()
        with pytest.raises(asyncio.CancelledError):
            await flush
        await until(lambda: database.count("jobs") == 0)
    database.check(1)


async def test_a_lease_does_not_end_while_an_embedder_is_waited_for(
    database_url: str, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is renewed before it could: each of these texts hangs, and each gets its full time."""

    class Slow(Choosy):
        async def embed(self, texts: Sequence[str], purpose: Purpose) -> list[list[float]]:
            remaining = database(
                """SELECT extract(epoch FROM min(due_at) - now())::float8 FROM memory_context.jobs
                WHERE claim IS NOT NULL"""
            )
            left.append(remaining[0][0])
            database(
                """UPDATE memory_context.jobs SET due_at = due_at - interval '100 seconds'
                WHERE claim IS NOT NULL"""
            )
            clock[0] += 100
            return await super().embed(texts, purpose)

    left: list[float] = []
    clock = [0.0]
    monkeypatch.setattr(jobs.Jobs, "wake", lambda self, user_id: None)
    monkeypatch.setattr(jobs, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + clock[0]))
    monkeypatch.setattr(indexer, "_CALL_SECONDS", 250)
    monkeypatch.setattr(jobs, "LEASE_SECONDS", 400)
    monkeypatch.setattr(indexer, "_PROBE_SECONDS", 50)
    async with MemoryStore(database_url, Slow()) as store:
        await store.items.insert_memories("alice", [memory(f"k{n}", f"poison {n}") for n in range(6)])
        assert await store.flush_index() == JobReport(6, 0)
    assert min(left) > 100
    assert database("SELECT max(attempts) FROM memory_context.jobs") == [(1,)]


@given(st.lists(st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"])), max_size=5))
async def test_an_array_that_is_spelled_out_is_read_as_it_was(database: Database, values: list[str]) -> None:
    """Whatever is in its strings."""
    with psycopg.connect(database.url) as connection:
        row = connection.execute("SELECT %s::text[]", [postings.strings_literal(values)]).fetchone()
    assert row == (values,)


async def test_forgetting_what_is_being_indexed_leaves_nothing(
    store: MemoryStore, database: Database, embedder: FakeEmbedder
) -> None:
    """While its embedding is awaited, and while it is not begun."""
    embedder.wait_for = asyncio.Event()
    await store.items.insert_memories("alice", [memory("a", "text a"), memory("b", "text b")])
    await until(lambda: any(purpose == "document" for _, purpose in embedder.calls))
    await store.items.insert_memories("alice", [memory("c", "text c")])
    for key in ("a", "c"):
        assert await store.items.forget_memories("alice", agent_id="", session_id="", memory_key=key) == [key]
    embedder.wait_for.set()
    assert await store.flush_index() == JobReport(0, 0)
    database.check(1)


@pytest.mark.thorough
async def test_forgetting_and_indexing_at_once_never_block_each_other(
    store: MemoryStore, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a deadlock nor a wrong count, whoever comes first."""
    monkeypatch.setattr(jobs, "_GATHER_SECONDS", 0.0)
    store.jobs.register(replace(store.jobs._kinds["index"], batch_jobs=4))
    for number in range(6):
        batch = [
            memory(f"k{number}_{i}", f"round {number} item {i}\n" + f"words {i}\n" * 3000, session_id=f"s{number}")
            for i in range(6)
        ]
        await store.items.insert_memories("alice", batch)
        flush = asyncio.create_task(store.flush_index())
        forget = [
            store.items.forget_memories("alice", agent_id="", session_id=f"s{number}", memory_key=f"k{number}_{i}")
            for i in range(5)
        ]
        assert await asyncio.gather(*forget) == [[f"k{number}_{i}"] for i in range(5)]
        assert await flush == JobReport(0, 0)
    await store.flush_index()
    database.check(6)


async def test_tasks_that_store_overlapping_items_never_block_each_other(store: MemoryStore) -> None:
    """Whatever each begins with."""
    for round_ in range(5):
        items = [memory(f"k{round_}_{number}", f"{round_} {number}") for number in range(12)]
        calls = [store.items.insert_memories("alice", items[start : start + 6]) for start in range(7)]
        await asyncio.gather(*calls)


async def test_what_was_stored_just_now_is_found_by_names_and_words(
    store: MemoryStore, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Key, description, source, tags and text: the search indexes what waits. Filters count, too."""
    monkeypatch.setattr(jobs.Jobs, "wake", lambda self, user_id: None)
    agent = AgentMemory(store, "alice")
    ref = await agent.store(
        "first lines tell of harbours\n" + "é\x00 more\n" * 3000 + "hidden",
        description="a survey of lighthouses",
        source="run_tool",
        tags=["coastal"],
        type="article",
    )
    await agent.store("something else entirely")
    for query in (ref.key, "lighthouse survey", "run tool", "coastal", "harbour", "hidden"):
        assert ref.key in await keys_found(store, query), query
        assert await keys_found(store, query, types=("article",)) == [ref.key]
        assert await keys_found(store, query, types=("user_fact",)) == []
        assert await keys_found(store, query, user="bob") == []
    await store.flush_index()
    assert database.count("jobs") == 0


def test_the_bounds_are_what_is_promised() -> None:
    """A lease is longer than an embedder that hangs is waited for; waits have an end."""
    assert jobs.LEASE_SECONDS > indexer.EMBED_SECONDS + 2 * indexer._PROBE_SECONDS
    assert jobs.ATTEMPTS_LIMIT >= 3
    assert math.isfinite(indexer.EMBED_SECONDS)
    assert issubclass(EmbeddingError, Exception)
    assert query_terms("harbours") == query_terms("harbour")


async def test_indexer_waits_as_long_as_work_over_many_rows_and_makes_an_index_once(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
):
    """None of its statements has the short limit of a call; the index of a model is looked after once in a process."""
    kinds: dict[str, set[str]] = {"read": set(), "write": set()}
    ensured: list[str] = []
    seconds: list[float] = []
    embed_checked = indexer.embed_checked

    def noting(name: str) -> Callable[..., Awaitable[Any]]:
        real = getattr(store._database, name)

        def noted(user_id: str, *statements: Any, kind: str = "call") -> Awaitable[Any]:
            kinds[name].add(kind)
            ensured.extend("ensure" for one in statements if b"ensure_embedding_index" in one.query)
            return real(user_id, *statements, kind=kind)

        return noted

    async def embedding(*arguments: Any, timeout_seconds: float = math.inf) -> Any:
        seconds.append(timeout_seconds)
        return await embed_checked(*arguments, timeout_seconds=timeout_seconds)

    await store.open()
    for key in ("one", "two"):
        await store.items.insert_memories("alice", [memory(key, f"content {key}")])
        for name in kinds:
            monkeypatch.setattr(store._database, name, noting(name))
        monkeypatch.setattr(indexer, "embed_checked", embedding)
        await store.flush_index()
        monkeypatch.undo()
    assert kinds == {"read": {"batch"}, "write": {"batch"}}
    assert len(ensured) <= 1
    assert seconds
    assert max(seconds) < math.inf


@pytest.mark.thorough
async def test_passages_are_masked_and_vectors_spelled_off_the_event_loop(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
):
    on_loop: set[tuple[str, bool]] = set()

    def watched(name: str, function: Any) -> Any:
        def call(*given: Any) -> Any:
            on_loop.add((name, threading.current_thread() is threading.main_thread()))
            return function(*given)

        return call

    for module, name in ((postings, "masked_in_place"), (indexer, "HalfVector")):
        monkeypatch.setattr(module, name, watched(name, getattr(module, name)))
    await store.items.insert_memories("alice", [memory("k", "the ship is called Ida")])
    await store.flush_index()
    assert on_loop == {("masked_in_place", False), ("HalfVector", False)}
