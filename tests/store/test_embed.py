"""Going over to another embedding model while the store is in use."""

import asyncio
from collections.abc import Sequence

import pytest

from memory_context.foundation.embeddings.embedder import Purpose
from memory_context.foundation.errors import EmbeddingError
from memory_context.store import database
from memory_context.store.items import MemoryCriteria, NewItem, ReadScope
from memory_context.store.jobs import JobReport
from memory_context.store.memory_store import MemoryStore
from memory_context.store.search import indexer
from memory_context.store.search.passages import PassageSearch, QueryVector
from tests.conftest import Server, StartPython, database_of
from tests.embeddings.fakes import FakeEmbedder
from tests.support.waiting import soon

ANY = MemoryCriteria()


def memory(key: str, content: str) -> NewItem:
    return NewItem(content, "", 1, key=key)


@pytest.fixture
def embedder() -> FakeEmbedder:
    """A model of 16 dimensions."""
    return FakeEmbedder("old")


@pytest.fixture
async def store(store: MemoryStore) -> MemoryStore:
    """An open store with 60 embedded passages of three users."""
    for user in ("alice", "bob", "carol"):
        await store.items.insert_memories(user, [memory(f"k{n}", f"harbour {user} text {n}") for n in range(20)])
    await store.flush_index()
    return store


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexer, "EMBED_TEXTS", 7)
    monkeypatch.setattr(database, "_USERS_PER_PAGE", 2)


def embedded(server: Server, url: str) -> dict[str, int]:
    """Return how many passages each model has embedded."""
    rows = server.execute(
        "SELECT embedding_model, count(*) FROM memory_context.agent_memory_embeddings GROUP BY 1", database_of(url)
    )
    return dict(rows)  # type: ignore[arg-type]


def check_progress(calls: list[tuple[int, int]]) -> None:
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)
    assert all(done <= total for done, total in calls)
    assert calls[-1][0] == calls[-1][1]


async def test_another_model_takes_over(store: MemoryStore, server: Server, database_url: str) -> None:
    """All users' passages; search then asks the new one, and the old vectors stay."""
    new, calls = FakeEmbedder("new", 40), list[tuple[int, int]]()
    assert await store.reindex(new, progress=lambda done, total: calls.append((done, total))) == 60
    assert calls[0] == (0, 60)
    assert len(calls) > 8
    check_progress(calls)
    assert embedded(server, database_url) == {"old/16": 60, "new/40": 60}
    assert store.embedder is new
    new.calls.clear()
    candidates, _ = await store.search.candidates("alice", "harbour text 3", [], ANY)
    assert [purpose for _, purpose in new.calls] == ["query"]
    assert len(candidates) == 20
    assert all(one.semantic is not None for one in candidates)
    indexes = server.execute("SELECT count(*) FROM pg_indexes WHERE indexdef LIKE '%hnsw%'", database_of(database_url))
    assert indexes == [(2,)]


async def test_it_may_be_done_again_and_does_nothing_then(store: MemoryStore) -> None:
    """What is embedded is left out, and texts without words are no work."""
    await store.items.insert_memories("alice", [memory("dots", "...")])
    await store.flush_index()
    new = FakeEmbedder("new", 40)
    assert await store.reindex(new) == 60
    new.calls.clear()
    calls: list[tuple[int, int]] = []
    assert await store.reindex(new, progress=lambda done, total: calls.append((done, total))) == 0
    assert {text for texts, _ in new.calls for text in texts} <= {"..."}
    check_progress(calls)


class Breaking(FakeEmbedder):
    """Works for so many calls, then fails until it is repaired."""

    def __init__(self, after: int) -> None:
        super().__init__("new", 40)
        self.after: int | None = after

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> list[list[float]]:
        if self.after is not None and len(self.calls) >= self.after:
            raise RuntimeError("no power")
        return await super().embed(texts, purpose)


async def test_an_interruption_costs_nothing_that_was_done(
    store: MemoryStore, server: Server, database_url: str
) -> None:
    """The store goes on with the model it had; the next attempt does the rest only."""
    new, calls = Breaking(4), list[tuple[int, int]]()
    old = store.embedder
    with pytest.raises(EmbeddingError, match="no power"):
        await store.reindex(new, progress=lambda done, total: calls.append((done, total)))
    assert store.embedder is old
    done = embedded(server, database_url)["new/40"]
    assert calls[-1] == (done, 60)
    assert 0 < done < 60
    candidates, _ = await store.search.candidates("alice", "harbour", [], ANY)
    assert all(one.semantic is not None for one in candidates)
    first = [text for texts, _ in new.calls for text in texts]
    new.after, new.calls = None, []
    calls.clear()
    assert await store.reindex(new, progress=lambda done, total: calls.append((done, total))) == 60 - done
    assert calls[0] == (done, 60)
    check_progress(calls)
    again = [text for texts, _ in new.calls for text in texts]
    assert sorted(first + again) == sorted({*first, *again})
    assert embedded(server, database_url)["new/40"] == 60


async def test_the_store_is_written_and_searched_meanwhile(
    store: MemoryStore, server: Server, database_url: str
) -> None:
    """What is stored and forgotten while it runs: nothing is missing in the end, nothing fails."""
    at_work, go_on = asyncio.Event(), asyncio.Event()

    class Slow(FakeEmbedder):
        async def embed(self, texts: Sequence[str], purpose: Purpose) -> list[list[float]]:
            if len(self.calls) == 2:
                at_work.set()
                await go_on.wait()
            return await super().embed(texts, purpose)

    calls: list[tuple[int, int]] = []
    task = asyncio.create_task(store.reindex(Slow("new", 40), progress=lambda done, total: calls.append((done, total))))
    await soon(at_work.wait())
    for user in ("alice", "carol", "dora"):
        await store.items.insert_memories(user, [memory(f"new{n}", f"harbour stored later {n}") for n in range(5)])
        candidates, _ = await store.search.candidates(user, "harbour", ["harbour"], ANY, limit=30)
        assert len(candidates) == (5 if user == "dora" else 25)  # what was stored is found at once
    assert await store.flush_index() == JobReport(0, 0)
    assert await store.items.forget_memories("carol", agent_id="", session_id="", memory_key="k3") == ["k3"]
    assert await store.items.forget_memories("alice", agent_id="", session_id="", memory_key="k2") == ["k2"]
    writing = [store.items.insert_memories("bob", [memory(f"late{n}", f"harbour even later {n}")]) for n in range(5)]
    go_on.set()
    await asyncio.gather(*writing)
    await soon(task)
    assert await store.flush_index() == JobReport(0, 0)
    check_progress(calls)
    name = database_of(database_url)
    missing = server.execute(
        """SELECT count(*) FROM memory_context.agent_memory_chunks AS chunk WHERE NOT EXISTS (
            SELECT FROM memory_context.agent_memory_embeddings AS made WHERE embedding_model = 'new/40'
            AND (made.user_id, made.content_id) = (chunk.user_id, chunk.content_id)
            AND made.chunk_number = chunk.chunk_number
        )""",
        name,
    )
    assert missing == [(0,)]
    assert server.execute("SELECT count(*) FROM memory_context.agent_memory_chunks", name) == [(60 + 15 + 5 - 2,)]


async def test_progress_ends_though_everything_was_forgotten_meanwhile(store: MemoryStore) -> None:
    """It says so, rather than stop in the middle."""
    at_work, go_on = asyncio.Event(), asyncio.Event()

    class Slow(FakeEmbedder):
        async def embed(self, texts: Sequence[str], purpose: Purpose) -> list[list[float]]:
            at_work.set()
            await go_on.wait()
            return await super().embed(texts, purpose)

    calls: list[tuple[int, int]] = []
    task = asyncio.create_task(store.reindex(Slow("new", 40), progress=lambda done, total: calls.append((done, total))))
    await soon(at_work.wait())
    for user in ("alice", "bob", "carol"):
        assert len(await store.items.forget_memories(user, agent_id="", session_id="")) == 20
    go_on.set()
    await soon(task)
    check_progress(calls)


async def test_a_process_with_the_old_model_goes_on_working(
    store: MemoryStore, server: Server, database_url: str
) -> None:
    """It stores and searches with the old model; what it stored has the new one after the next reindex."""
    async with MemoryStore(database_url, FakeEmbedder("old")) as other:
        new = FakeEmbedder("new", 40)
        await store.reindex(new)
        await other.items.insert_memories("alice", [memory("late", "harbour from elsewhere")])
        assert await other.flush_index() == JobReport(0, 0)
        candidates, _ = await other.search.candidates("alice", "harbour", [], ANY)
        assert len(candidates) == 21
        assert all(one.semantic is not None for one in candidates)
    assert await store.reindex(new) in (0, 1)  # the other store's background may have left it to this one
    assert embedded(server, database_url)["new/40"] == 61


async def test_indexes_are_made_once_however_many_ask(server: Server, database_url: str) -> None:
    """From many connections of several stores at once, while others write."""
    stores = [MemoryStore(database_url, FakeEmbedder(f"model{n % 2}")) for n in range(6)]
    await asyncio.gather(
        *(store._indexer.ensure_model(f"user{n}", store.embedder) for n, store in enumerate(stores)),
        *(store.items.insert_memories("alice", [memory(f"k{n}", f"text {n}")]) for n, store in enumerate(stores)),
    )
    await asyncio.gather(*(store.flush_index() for store in stores))
    rows = server.execute("SELECT indexdef FROM pg_indexes WHERE indexdef LIKE '%hnsw%'", database_of(database_url))
    assert len(rows) == 2
    for store in stores:
        await store.close()


@pytest.mark.parametrize("name", ["it's", "100%", "{dimensions}", "{model}", "back\\slash", "模型 ü", '"; --', "$1"])
@pytest.mark.thorough
async def test_a_model_may_be_called_anything_printable(
    database_url: str, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Its name stands in the statement that its index serves."""
    monkeypatch.setattr("memory_context.store.search.passages._Size.is_for_index", True)
    async with MemoryStore(database_url, FakeEmbedder(name)) as store:
        await store.items.insert_memories("alice", [memory(f"k{n}", f"harbour {n}") for n in range(9)])
        await store.flush_index()
        for _ in range(2):
            candidates, _ = await store.search.candidates("alice", "harbour 4", [], ANY)
            assert sum(one.semantic is not None for one in candidates) == 9


async def test_a_model_of_very_many_dimensions_works_without_index(
    server: Server, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pgvector indexes up to 4,000; above, all of the user's passages are compared."""
    monkeypatch.setattr("memory_context.store.search.passages._Size.is_for_index", True)
    async with MemoryStore(database_url, FakeEmbedder("wide", 5000)) as store:
        await store.items.insert_memories("alice", [memory(f"k{n}", f"harbour {n}") for n in range(9)])
        assert await store.flush_index() == JobReport(0, 0)
        for _ in range(2):
            candidates, _ = await store.search.candidates("alice", "harbour 4", [], ANY)
            assert max(candidates, key=lambda one: one.semantic or 0).semantic == pytest.approx(1, abs=0.01)
    rows = server.execute("SELECT count(*) FROM pg_indexes WHERE indexdef LIKE '%hnsw%'", database_of(database_url))
    assert rows == [(0,)]


async def test_a_model_that_nobody_filled_is_searched_by_terms(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that was started with it before anybody reindexed."""
    search = PassageSearch(store._database, store._indexer)

    async def unknown(query: str) -> QueryVector:
        return QueryVector("unknown/16", [1.0] * 16)

    monkeypatch.setattr(search, "embed_query", unknown)
    candidates, _ = await search.candidates("alice", "harbour", ["harbour"], ANY, scope=ReadScope())
    assert len(candidates) == 20
    assert all(one.semantic is None for one in candidates)


async def test_killed_in_the_middle_it_goes_on_where_it_was(
    store: MemoryStore, server: Server, database_url: str, start_python: StartPython
) -> None:
    """By SIGKILL, in another process."""
    script = (
        "import asyncio, os, signal\n"
        "from memory_context.store.memory_store import MemoryStore\n"
        "from memory_context.store.search import indexer\n"
        "from tests.embeddings.fakes import FakeEmbedder\n"
        "indexer.EMBED_TEXTS = 7\n"
        "def progress(done, total):\n"
        "    if done >= 30: os.kill(os.getpid(), signal.SIGKILL)\n"
        f"asyncio.run(MemoryStore({database_url!r}).reindex(FakeEmbedder('new', 40), progress=progress))\n"
    )
    process = await start_python(script)
    await soon(process.communicate())
    assert process.returncode == -9
    done = embedded(server, database_url)["new/40"]
    assert 30 <= done < 60
    assert await store.reindex(FakeEmbedder("new", 40)) == 60 - done
    assert embedded(server, database_url)["new/40"] == 60
