"""Every str comes back identical: Postgres `text`, `jsonb` and UTF-8 each refuse some."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_context.foundation import utf8
from memory_context.foundation.references import MemoryRef
from memory_context.store.items import NewItem, ReadScope
from memory_context.store.limits import StoreLimits
from memory_context.store.memory_store import MemoryStore
from tests.support.waiting import PATIENT_SECONDS

ANY_TEXT = st.text(st.characters())  # lone surrogates included
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3),
    max_leaves=6,
)
PATIENT = StoreLimits(
    transaction_seconds=PATIENT_SECONDS, statement_seconds=PATIENT_SECONDS, call_seconds=PATIENT_SECONDS
)


def key_of(content: str) -> str:
    return "k" + hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:40]


@pytest.mark.parametrize(
    "content",
    [
        "",
        "plain",
        "\x00",
        "before\x00after",
        "\ud800",
        "\udc00\ud800",
        "\ud83d" + "\ude00",  # two halves that are not one character
        "😀 עברית 漢字 é é",
        "a\r\nb\rc\nd\u2028e\x85",
        "\x1a0000",
        "\x1a\x00\x1a",
        "\\x00 \\000 %s %(name)s {name} ' \" ; --",
        "\ufeff\uffff\U0010ffff",
    ],
    ids=ascii,
)
async def test_a_text_comes_back_as_it_was(store: MemoryStore, content: str) -> None:
    """The whole item and the plain content are what came in, and the size is that of the UTF-8 form."""
    (key,) = await store.items.insert_memories("alice", [NewItem(content, "a text", 1, key="k")])
    stored = await store.items.fetch_memory("alice", key)
    assert stored is not None
    assert stored.content == content
    assert stored.content_bytes == len(content.encode("utf-8", "surrogatepass"))
    assert await store.items.fetch_contents("alice", [key]) == {key: content}


@pytest.mark.parametrize("piece", ["0123456789abcdé\n", "0123456789abc\x00\ud800\n"], ids=["text", "bytes"])
@pytest.mark.thorough
async def test_32_megabytes_come_back_as_they_were(store: MemoryStore, piece: str) -> None:
    """As text and as bytes, which is the most that is stored."""
    store._database.limits = PATIENT
    content = piece * (32 * 1024 * 1024 // len(piece.encode("utf-8", "surrogatepass")) + 1)
    await store.items.insert_memories("alice", [NewItem(content, "large", 8_000_000, key="large")])
    assert (await store.items.fetch_contents("alice", ["large"]))["large"] == content


async def test_two_texts_that_escape_alike_stay_two(store: MemoryStore) -> None:
    """Sameness is decided by the content, not by its form in the database."""
    memories = [NewItem("\x00", "", 1, key="k1"), NewItem("\x1a0000", "", 1, key="k2")]
    assert await store.items.insert_memories("alice", memories) == ["k1", "k2"]


@given(
    content=ANY_TEXT, summary=ANY_TEXT, tags=st.lists(ANY_TEXT, max_size=3), metadata=st.dictionaries(ANY_TEXT, JSON)
)
async def test_any_item_comes_back_as_it_was(
    store: MemoryStore, content: str, summary: str, tags: list[str], metadata: dict[str, object]
) -> None:
    """Content, summary, tags and metadata may hold any string."""
    place = hashlib.sha256(repr((summary, tags, metadata)).encode("utf-8", "surrogatepass")).hexdigest()
    memory = NewItem(content, summary, 3, key=key_of(content + place), source=place, tags=tags, metadata=metadata)
    (key,) = await store.items.insert_memories("alice", [memory])
    stored = await store.items.fetch_memory("alice", key)
    assert stored is not None
    assert (stored.content, stored.ref.description, stored.tags, stored.metadata) == (
        content,
        MemoryRef(key, summary, 3).description,
        tuple(tags),
        metadata,
    )


@given(user=ANY_TEXT.filter(bool), agent=ANY_TEXT, session=ANY_TEXT, source=ANY_TEXT)
async def test_any_place_is_found_again(store: MemoryStore, user: str, agent: str, session: str, source: str) -> None:
    """Users, agents, sessions and sources may be called anything."""
    place = hashlib.sha256(repr((user, agent, session, source)).encode("utf-8", "surrogatepass")).hexdigest()[:32]
    memory = NewItem("content", "", 1, key=place, source=source, agent_id=agent, session_id=session)
    await store.items.insert_memories(user, [memory])
    stored = await store.items.fetch_memory(user, place, scope=ReadScope(agent, session, "session"))
    assert stored is not None
    assert (stored.agent_id, stored.session_id, stored.source) == (agent, session, source)


@given(st.text(st.sampled_from("aé中\ud83d\udc00😀\0\x1a"), max_size=40))
def test_texts_are_converted_and_back(text: str):
    """Bytes that are cut within a character lose that character only."""
    data = text.encode("utf-8", "surrogatepass")
    assert utf8.to_utf8(text) == data
    assert utf8.from_utf8(data) == text
    assert utf8.unescape(utf8.escape(text)) == text
    assert utf8.is_plain(utf8.escape(text))
    assert utf8.is_plain(text) == (not set(text) & set("\0\ud83d\udc00"))
    assert utf8.sayable(text) == text.encode("utf-8", "backslashreplace").decode()
    for cut in range(len(data)):
        assert data[:cut].startswith(utf8.to_utf8(utf8.from_utf8(data[:cut])))
