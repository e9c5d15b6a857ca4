"""AgentMemory.search: what is found by which words, what filters leave out, and how hits say why."""

import math
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_context import AgentMemory, MemoryStore, SearchHit
from memory_context.store.items import MemoryCriteria
from memory_context.store.search import hits
from tests.conftest import Server, database_of

pytestmark = pytest.mark.fake_embedder

NOISE = "".join(f"paragraph {n} about weather, trains and bread number {n}\n" for n in range(12))


@pytest.fixture
async def shipped(database_url: str) -> AsyncIterator[MemoryStore]:
    """An open store with the embedder it has by default."""
    async with MemoryStore(database_url) as store:
        yield store


async def store_texts(memory: AgentMemory, *texts: str, **others) -> list[str]:
    return [(await memory.store(text, **others)).key for text in texts]


async def keys(memory: AgentMemory, query: str, **criteria) -> list[str]:
    return [hit.item.key for hit in await memory.search(query, limit=20, criteria=MemoryCriteria(**criteria))]


@pytest.mark.parametrize(
    ("content", "queries"),
    [
        ("class LoginHandler(Base):", ["login handler", "LoginHandler", "login_handler", "loginhandler", "handlers"]),
        ("open login_handler.py now", ["login handler", "LoginHandler", "login_handler.py", "handler.py"]),
        ("await loginHandler() or fail", ["login handler", "loginHandler()", "LoginHandler", "LOGIN_HANDLER"]),
        (
            "see src/auth/session_store.py:42",
            ["src/auth/session_store.py", "session_store.py", "session store", "auth"],
        ),
        (r"C:\Users\kim\Report.docx was saved", ["Report.docx", "report", r"C:\Users\kim\Report.docx"]),
        ("failed with ERR_CONN_4711 again", ["ERR_CONN_4711", "err conn", "4711"]),
        ("it says E0308: mismatched types", ["E0308", "mismatch type"]),
        ("write to kim.lee+dev@mail.example.org", ["kim.lee+dev@mail.example.org", "kim lee", "mail.example.org"]),
        ("upgraded numpy to v2.11.3-rc1", ["2.11.3", "2.11", "v2.11.3-rc1", "numpy 2.11"]),
        ("commit 3f2a9bc81d4e7 broke it", ["3f2a9bc81d4e7", "3f2a9bc"]),
        ("東京都の天気は晴れです", ["東京", "天気", "晴れ"]),
        ("데이터베이스를 다시 시작했다", ["데이터베이스", "시작"]),
        ("the policies were running late", ["policy", "run", "runs late"]),
        ("Überraschung im Café", ["uberraschung", "cafe", "CAFÉ"]),
        ("http://example.org/a/b?x=1 answered", ["example.org", "http://example.org/a/b"]),
    ],
)
@pytest.mark.thorough
async def test_a_name_is_found_whole_and_in_parts(store: MemoryStore, content: str, queries: list[str]):
    """However it was written and whatever else there is, before and after it is indexed."""
    memory = AgentMemory(store, "alice")
    noise = await store_texts(memory, *(f"{NOISE} {n}" for n in range(3)))
    (key,) = await store_texts(memory, content, source="x")
    for _ in range(2):
        for query in queries:
            found = await memory.search(query)
            assert found[0].item.key == key, query
            assert found[0].score.lexical > 0, query
        await store.flush_index()
    assert key not in noise


async def test_every_filter_counts_in_both_rankings(store: MemoryStore, server: Server, database_url: str):
    """A hundred better matches outside of it do not push out the only one inside."""
    outside = AgentMemory(store, "alice", "writer", "s2")
    inside = AgentMemory(store, "alice", "coder", "s1")
    hub = await inside.store("the hub of it all")
    right = await inside.store(
        f"harbour mentioned once, beside much else\n{NOISE}", type="article", source="web", tags=["x", "y"],
        related_to=[hub.key],
    )  # fmt: skip
    leaf = await inside.store(f"a harbour again\n{NOISE[:200]}")
    centre = await inside.store("links to the leaf", related_to=[leaf.key])
    await store_texts(outside, *(f"harbour harbour harbour {n}" for n in range(230)), tags=["x"])
    await store.flush_index()
    name = database_of(database_url)
    server.execute(
        f"""UPDATE memory_context.agent_memories SET created_at = now() - interval '1 day'
        WHERE memory_key = '{right.key}'""",
        name,
    )
    assert right.key not in await keys(inside, "harbour")
    stored = await inside.retrieve(right.key)
    assert stored is not None
    cases = [
        {"types": ("article", "user_fact")},
        {"sources": ("web",)},
        {"tags": ("y",)},
        {"tags": ("x", "y")},
        {"created_after": stored.created_at, "created_before": stored.created_at + timedelta(seconds=1)},
        {"created_before": stored.created_at + timedelta(hours=1)},
        {"agent_id": "coder"},
        {"session_id": "s1"},
        {"agent_id": "coder", "session_id": "s1", "types": ("article",)},
        {"related_to": hub.key},
    ]
    for criteria in cases:
        found = await keys(inside, "harbour", **criteria)
        assert right.key in found, criteria
        assert not {hit.key for hit in await outside.query(MemoryCriteria(agent_id="writer"))} & set(found), criteria
        if criteria.keys() & {"types", "sources", "created_before", "related_to"} or "y" in criteria.get("tags", ()):
            assert found == [right.key], criteria
        # by meaning alone: a term nobody has
        candidates, _ = await store.search.candidates("alice", "harbour", ["nowhere"], MemoryCriteria(**criteria))
        assert candidates, criteria
    assert await keys(inside, "links", related_to=leaf.key) == [centre.key]  # the other direction
    assert leaf.key in await keys(inside, "harbour", related_to=centre.key)
    for criteria in ({"tags": ("z",)}, {"created_after": stored.created_at + timedelta(days=9)}, {"related_to": "no"}):
        assert await keys(inside, "harbour", **criteria) == []


@pytest.mark.parametrize(("reach", "seen"), [("user", 4), ("agent", 3), ("session", 2)])
async def test_a_search_goes_as_far_as_it_was_told(store: MemoryStore, reach, seen: int):
    """Indexed or not; criteria cannot widen it."""
    for agent, session, text in (
        ("coder", "one", "a"),
        ("coder", "one", "b"),
        ("coder", "two", "c"),
        ("it", "one", "d"),
    ):
        await AgentMemory(store, "alice", agent, session).store(f"the harbour of {text}")
    await AgentMemory(store, "bob", "coder", "one").store("the harbour of bob")
    memory = AgentMemory(store, "alice", "coder", "one", reach=reach)
    for _ in range(2):
        assert len(await memory.search("harbour", limit=9)) == seen
        elsewhere = await keys(memory, "harbour", agent_id="it")
        assert len(elsewhere) == (reach == "user")
        await store.flush_index()


async def test_near_duplicates_come_once(store: MemoryStore):
    """The same text stored in several places, or with a word changed, takes one place of the answer."""
    for number in range(6):
        await AgentMemory(store, "alice", f"agent{number}").store(f"harbour news\n{NOISE}run {number}")
    memory = AgentMemory(store, "alice")
    other = await memory.store("quite another harbour text, short")
    for _ in range(2):
        found = await memory.search("harbour", limit=5)
        assert len(found) == 2
        assert other.key in {hit.item.key for hit in found}
        await store.flush_index()


async def test_a_long_item_answers_with_its_best_passage(store: MemoryStore):
    """Once, with the lines and characters it stands at."""
    lines = [f"line {n} of a long report on weather and trains" for n in range(1, 801)]
    lines[399] = "the secret harbour is in the north"
    content = "\n".join(lines)
    memory = AgentMemory(store, "alice")
    ref = await memory.store(content)
    await store.flush_index()
    (hit,) = await memory.search("secret harbour")
    assert hit.ref == ref
    assert hit.start_line <= 400 <= hit.end_line
    assert content[hit.start_char - 1 : hit.end_char] == hit.passage
    assert hit.passage.splitlines() == lines[hit.start_line - 1 : hit.end_line]
    assert hit.item.label == f"lines {hit.start_line}-{hit.end_line} of"
    assert not hit.item.is_whole


@pytest.mark.parametrize("content", ["short harbour", "kürzer: harbour", "harbour \x00 and \ud800", "harbour 漢字"])
async def test_a_short_item_is_shown_whole(store: MemoryStore, content: str):
    """In any script."""
    memory = AgentMemory(store, "alice")
    await memory.store(content)
    for _ in range(2):
        (hit,) = await memory.search("harbour")
        assert (hit.item.is_whole, hit.item.label, hit.passage) == (True, "all of", content)
        assert (hit.start_char, hit.end_char, hit.start_line, hit.end_line) == (1, len(content), 1, 1)
        await store.flush_index()


def check_scores(hits: list[SearchHit]) -> None:
    for hit in hits:
        score = hit.score
        assert math.isclose(score.total, score.lexical + score.semantic + score.neighbours, abs_tol=1e-9)
        assert 0 <= score.lexical <= 1
    assert [hit.score.total for hit in hits] == sorted((hit.score.total for hit in hits), reverse=True)


@pytest.mark.thorough
async def test_the_parts_of_a_score_add_up(store: MemoryStore):
    """And hits come in the order of their totals."""
    memory = AgentMemory(store, "alice", "coder", "s")
    await store_texts(memory, *(f"harbour {'news ' * n} and boats {n}\n{NOISE[: n * 50]}" for n in range(30)))
    for _ in range(2):
        for query in ("harbour", "boats 7", "harbour news and boats", "nothing of that"):
            check_scores(await memory.search(query, limit=30))
        await store.flush_index()


async def test_two_users_with_the_same_texts_see_their_own(store: MemoryStore):
    """Frequencies are the own ones too."""
    for user in ("alice", "bob"):
        await store_texts(AgentMemory(store, user), *(f"harbour {user} {n}" for n in range(20)))
    await store.flush_index()
    for user, other in (("alice", "bob"), ("bob", "alice")):
        found = await AgentMemory(store, user).search(f"harbour {other}", limit=50)
        assert len(found) == 20
        assert all(user in hit.passage for hit in found)
        _, profile = await store.search.candidates(user, other, ["harbour", other], MemoryCriteria())
        assert (profile.passages, dict(profile.frequencies)) == (20, {"harbour": 20, other: 0})


ODD = [
    "a & | ! <-> :* ( ) \" ' \\ %s {x}", "%", "%(user_id)s", "{embedding_model}", "';DROP TABLE agent_memories;--",
    "\x00", "\ud800", "\ud800harbour\x00", "\x1a0000", "' OR 1=1", "\\", "?", "[MemoryRef: x - y - 1 tokens]",
    "()" * 99, "harbour " * 100_000, "x" * 1_000_000, "漢" * 100_000, "\n\t\r", "NaN", "NULL", "-1", "😀",
]  # fmt: skip


@pytest.mark.parametrize("query", ODD, ids=lambda query: ascii(query[:20]))
@pytest.mark.thorough
async def test_anything_may_be_asked(store: MemoryStore, query: str):
    """Nothing of it is read as anything but words."""
    memory = AgentMemory(store, "alice")
    key = (await memory.store("the harbour at dawn")).key
    for _ in range(2):
        check_scores(await memory.search(query))
        assert await memory.query(MemoryCriteria(types=(query[:50],), related_to=query[:50])) == []
        assert await memory.search("harbour", criteria=MemoryCriteria(sources=(query[:50],), tags=(query[:50],))) == []
        await store.flush_index()
    assert (await memory.search("harbour"))[0].item.key == key


@given(
    content=st.text(st.characters(exclude_categories=()), max_size=60),
    query=st.text(st.characters(exclude_categories=()), max_size=60),
)
async def test_any_text_is_found_by_itself(store: MemoryStore, content: str, query: str):
    """Among all that the other examples stored; and any question has an answer."""
    memory = AgentMemory(store, "alice")
    await memory.store(content)
    await store.flush_index()
    check_scores(await memory.search(query))
    check_scores(await memory.search(content))


async def test_nothing_asked_nothing_found(store: MemoryStore):
    """Neither in an empty memory nor for an empty query."""
    memory = AgentMemory(store, "alice")
    assert await memory.search("harbour") == []
    await store.flush_index()
    assert await memory.search("harbour") == []
    await memory.store("the harbour")
    for query in ("", " ", "\n\t "):
        assert await memory.search(query) == []


async def test_the_limit_is_kept_and_has_to_be_one(store: MemoryStore):
    """From one to more than there are."""
    memory = AgentMemory(store, "alice")
    await store_texts(memory, *(f"harbour number {n} {'é' * n}" for n in range(30)))
    await store.flush_index()
    for limit in (1, 3, 30, 10**9):
        assert len(await memory.search("harbour", limit=limit)) == min(limit, 30)
    for limit in (0, -1):
        with pytest.raises(ValueError, match="must be at least 1"):
            await memory.search("harbour", limit=limit)


async def test_what_has_nothing_to_do_with_the_question_is_said_not_to(shipped: MemoryStore):
    """A small memory's best is not always an answer; with the embedder that is shipped."""
    memory = AgentMemory(shipped, "alice")
    await store_texts(
        memory,
        "def parse_header(data): return data.split(b':', 1)",
        "Quarterly revenue rose by four percent, said the finance team in its report.",
        "npm install finished with 3 warnings",
    )
    await shipped.flush_index()
    for query in ("submarine volcano", "zzyzx"):
        assert not any(hit.is_relevant for hit in await memory.search(query)), query
    assert (await memory.search("parse header"))[0].is_relevant
    assert (await memory.search("revenue of the quarter"))[0].is_relevant


async def test_hit_nearly_as_good_as_a_relevant_first_is_relevant(store: MemoryStore, monkeypatch: pytest.MonkeyPatch):
    """A page answers a long question with few of its words; beside one that has many it is no chance hit."""
    memory = AgentMemory(store, "alice")
    pages = await store_texts(
        memory,
        "Acme 2022 flow: 812",
        "Acme 2022: 77",
        "Acme picnic",
        *(f"page {n} on weather, trains and bread" for n in range(60)),
    )
    await store.flush_index()
    store._indexer.embedder = None
    query = (
        "Using the cash flow statement of Acme for 2022, how did unusual charges, dividends, treasury shares, leases, "
        "pensions, impairments, currency hedges and litigation reserves develop?"
    )
    for share, relevant in ((hits._AS_GOOD, pages[:2]), (2.0, pages[:1])):
        monkeypatch.setattr(hits, "_AS_GOOD", share)
        found = await memory.search(query)
        assert [hit.item.key for hit in found if hit.is_relevant] == relevant, share


async def test_a_function_word_makes_no_hit_relevant(shipped: MemoryStore):
    """Of English or of five other languages alone, and an English one beside a word that nothing has."""
    memory = AgentMemory(shipped, "alice")
    await store_texts(memory, "the harbour and its boats", "der Hafen und die Boote", "le port et les bateaux")
    await shipped.flush_index()
    for query in ("the", "how was it", "und der", "qqqzzz the"):
        assert not any(hit.is_relevant for hit in await memory.search(query)), query
    assert (await memory.search("the boats"))[0].is_relevant


async def test_an_item_stored_a_moment_ago_is_found_by_any_word_of_it(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
):
    """Wherever the word stands, with its lines: the search indexes what waits for it."""
    monkeypatch.setattr("memory_context.store.jobs.Jobs.wake", lambda self, user_id: None)
    memory = AgentMemory(store, "alice")
    words = ["Wanderer", "Prüfliste", "db_connection_7", "/srv/data/owls.csv", "handlers", "数据库"]
    lines = [f"{'plain filler text ' * 200}line {number}, {word} stands here" for number, word in enumerate(words)]
    ref = await memory.store("\n".join(lines))
    await memory.store("something else that says nothing of it")
    for number, word in enumerate(words, 1):
        (hit,) = [one for one in await memory.search(word) if one.ref == ref]
        assert hit.is_relevant
        assert word in hit.passage
        assert hit.start_line <= number <= hit.end_line
        assert "\n".join(lines)[hit.start_char - 1 : hit.end_char] == hit.passage


async def test_what_means_the_same_is_found_without_a_common_word(shipped: MemoryStore):
    """By meaning, with the embedder that is shipped."""
    memory = AgentMemory(shipped, "alice")
    wanted = await memory.store("The doctor prescribed antibiotics for the patient's infected throat. " * 4)
    await store_texts(
        memory,
        "The train to the coast leaves at noon from platform nine. " * 4,
        "Mix flour, butter and sugar, then bake the cake for an hour. " * 4,
    )
    await shipped.flush_index()
    found = await memory.search("medicine against illness")
    assert found[0].ref == wanted
    assert found[0].score.lexical == 0
    assert found[0].score.semantic > 0


async def test_neighbours_in_a_session_support_each_other(store: MemoryStore):
    """What stands in the midst of what the question is about gains by it; what stands elsewhere does not."""
    talks = [AgentMemory(store, "alice", "coder", f"talk{number}") for number in range(2)]
    keys: list[str] = []
    for talk, subject in zip(talks, ("harbour boats and nets", "weather and trains"), strict=True):
        for number in range(6):
            await talk.store(f"{subject} {number}")
            if number == 2:
                keys.append((await talk.store(f"harbour, {talk.session_id} said")).key)
    for number in range(20):
        await AgentMemory(store, "alice", "coder", f"n{number}").store(f"bread and butter, loaf {number}")
    await store.flush_index()
    scores = {hit.item.key: hit.score for hit in await talks[0].search("harbour boats", limit=50)}
    assert scores[keys[0]].neighbours > scores[keys[1]].neighbours
    assert scores[keys[0]].total > scores[keys[1]].total
    check_scores(await talks[0].search("harbour boats", limit=50))


async def test_gaps_in_a_session_do_not_break_the_search(store: MemoryStore, monkeypatch: pytest.MonkeyPatch):
    """Forgotten items and such as are not indexed yet, between those that are found."""
    talk = AgentMemory(store, "alice", "coder", "talk")
    refs = [await talk.store(f"harbour item {number}") for number in range(9)]
    await store.flush_index()
    for number in (1, 4, 5):
        assert await talk.forget(refs[number].key)
    found = await keys(talk, "harbour")
    assert set(found) == {ref.key for number, ref in enumerate(refs) if number not in (1, 4, 5)}
    candidates, _ = await store.search.candidates("alice", "harbour", ["harbour"], MemoryCriteria())
    by_id = {one.content_id: one for one in candidates}
    order = sorted(by_id)
    assert [by_id[one].after for one in order[:-1]] == [(other, 0) for other in order[1:]]
    assert [by_id[one].before for one in order[1:]] == [(other, 0) for other in order[:-1]]


async def test_an_unindexed_item_in_the_midst_of_a_session_does_not_break_the_search(
    store: MemoryStore, server: Server, database_url: str
):
    """It has no passages that could support anything."""
    talk = AgentMemory(store, "alice", "coder", "talk")
    refs = [await talk.store(f"harbour item {number}") for number in range(3)]
    await store.flush_index()
    name = database_of(database_url)
    middle = f"(SELECT id FROM memory_context.agent_memories WHERE memory_key = '{refs[1].key}')"
    content = middle.replace("id", "content_id", 1)
    for table in ("agent_memory_chunks", "agent_memory_terms"):
        server.execute(f"DELETE FROM memory_context.{table} WHERE content_id = {content}", name)
    server.execute(f"INSERT INTO memory_context.jobs (user_id, kind, id) SELECT 'alice', 'index', {middle}", name)
    assert set(await keys(talk, "harbour")) == {ref.key for ref in refs}


async def test_an_item_stored_again_is_found_once(store: MemoryStore):
    """It is not indexed a second time either."""
    memory = AgentMemory(store, "alice")
    ref = await memory.store("the harbour at dawn")
    await store.flush_index()
    assert await memory.store("the harbour at dawn") == ref
    await store.flush_index()
    assert await keys(memory, "harbour") == [ref.key]
    _, profile = await store.search.candidates("alice", "", ["harbour"], MemoryCriteria())
    assert (profile.passages, profile.frequencies["harbour"]) == (1, 1)
