"""AgentMemory: items of one scope on a real Postgres."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_context import AgentMemory, MemoryStore, MemoryTransform, TransformError
from memory_context.foundation.references import memory_key_for

any_text = st.text(st.characters(exclude_categories=())) | st.text("\x00\x1a\r\n\ud800\udfffa0", max_size=40)


async def test_a_stored_text_is_behind_its_reference(store: MemoryStore):
    """With all that was said about it."""
    memory = AgentMemory(store, "alice", "coder", "session-1")
    ref = await memory.store(
        "a\nb\nc", description="three letters", type="article", source="web page", tags=["x"], metadata={"url": "u"}
    )
    item = await memory.retrieve(ref.key)
    assert item is not None
    assert (item.content, item.is_whole, item.type, item.source) == ("a\nb\nc", True, "article", "web page")
    assert (item.tags, item.metadata, item.agent_id, item.session_id) == (("x",), {"url": "u"}, "coder", "session-1")
    assert item.ref == ref
    assert ref.key.startswith("web_page_")


@given(content=any_text, description=any_text, source=any_text, tag=any_text, value=any_text)
async def test_any_str_anywhere_comes_back(store: MemoryStore, content, description, source, tag, value):
    """Content, tags and metadata byte for byte; description and source as one line."""
    memory = AgentMemory(store, "alice")
    ref = await memory.store(content, description=description, source=source, tags=[tag], metadata={value: [value]})
    item = await memory.retrieve(ref.key)
    assert item is not None
    assert item.content == content
    assert item.ref == ref or (item.ref.key, item.ref.token_count) == (ref.key, ref.token_count)
    assert "\n" not in item.ref.description
    assert "]" not in item.ref.description


async def test_the_same_in_the_same_place_is_one_item_and_elsewhere_another(store: MemoryStore):
    """Per user, agent, session, type and source."""
    first = AgentMemory(store, "alice", "coder", "one")
    key = (await first.store("text", source="tool")).key
    assert (await first.store("text", source="tool")).key == key
    others = [
        await first.store("text", source="other tool"),
        await first.store("text", source="tool", type="article"),
        await AgentMemory(store, "alice", "coder", "two").store("text", source="tool"),
        await AgentMemory(store, "alice", "critic", "one").store("text", source="tool"),
    ]
    assert len({key, *(ref.key for ref in others)}) == 5


async def test_a_taken_key_gets_a_longer_one(store: MemoryStore, monkeypatch: pytest.MonkeyPatch):
    """Two contents whose short keys are the same are two items."""

    def colliding(source: str, identity: tuple[str, ...], content: str, suffix_length: int = 6) -> str:
        return "same" if suffix_length == 6 else memory_key_for(source, identity, content, suffix_length)

    monkeypatch.setattr("memory_context.memory.items.memory_key_for", colliding)
    memory = AgentMemory(store, "alice")
    one, other = await memory.store("one"), await memory.store("other")
    assert one.key == "same"
    assert other.key.startswith("custom_")
    assert [(await memory.retrieve(ref.key)).content for ref in (one, other)] == ["one", "other"]  # type: ignore[union-attr]


@pytest.mark.parametrize(("reach", "seen"), [("user", 3), ("agent", 2), ("session", 1)])
async def test_reading_goes_as_far_as_it_was_told(store: MemoryStore, reach, seen: int):
    """All of the user, of this agent, or of this session; nearest keys are offered within that only."""
    keys = [
        (await AgentMemory(store, "alice", agent, session).store(f"{agent} {session}", source="note")).key
        for agent, session in (("coder", "one"), ("coder", "two"), ("critic", "one"))
    ]
    memory = AgentMemory(store, "alice", "coder", "one", reach=reach)
    assert sum([await memory.retrieve(key) is not None for key in keys]) == seen
    offered = str(await memory.not_found(keys[2][:-1]))
    assert (keys[2] in offered) == (reach == "user")


async def test_an_unknown_key_is_none_and_the_error_offers_the_nearest(store: MemoryStore):
    """Also for what is no key at all."""
    memory = AgentMemory(store, "alice")
    ref = await memory.store("text", source="npm install")
    assert await memory.retrieve("npm_instal_000000") is None
    assert await memory.retrieve("'; DROP TABLE agent_memories; --\x00") is None
    assert f"did you mean '{ref.key}'?" in str(await memory.not_found(ref.key[:-1]))


@pytest.mark.parametrize("limit", [0, -1, 2.5, "5", None])
async def test_limit_that_is_no_number_from_one_is_refused(store: MemoryStore, limit: Any):
    memory = AgentMemory(store, "alice", "coder", "one")
    calls = (memory.user_memory, memory.unconfirmed, memory.audit, memory.read_conversation)
    for call in (*calls, lambda limit: memory.search("x", limit)):
        with pytest.raises(ValueError, match=r"limit=.* must be at least 1"):
            await call(limit=limit)


@pytest.mark.parametrize("user_id", ["", None, 5, "a\nb"])
def test_memory_without_a_user_is_refused_where_it_is_made(user_id: Any):
    with pytest.raises(ValueError, match="user_id="):
        AgentMemory(MemoryStore("postgresql://nowhere"), user_id)


async def test_json_able_things_are_stored_as_json_and_others_refused(store: MemoryStore):
    """With a word on what to send."""
    memory = AgentMemory(store, "alice")
    ref = await memory.store({"rows": [1, 2, {"ü": None}]})
    assert (await memory.retrieve(ref.key)).content == '{"rows": [1, 2, {"ü": null}]}'  # type: ignore[union-attr]
    with pytest.raises(ValueError, match="cannot store content of type object: JSON cannot say it"):
        await memory.store(object())


async def test_a_cut_says_how_to_go_on_and_an_unusable_one_what_to_send(store: MemoryStore):
    """The transforms work on what is stored."""
    memory = AgentMemory(store, "alice")
    ref = await memory.store("\n".join(f"line {i}" for i in range(1, 101)))
    item = await memory.retrieve(ref.key, MemoryTransform.first_n(2))
    assert item is not None
    assert item.content.startswith("line 1\nline 2\n\n[lines 1-2 of 100")
    assert f'memory_key="{ref.key}"' in item.content
    assert item.label == "lines 1-2 of"
    with pytest.raises(TransformError, match="between 1 and 100"):
        await memory.retrieve(ref.key, MemoryTransform.excerpt(start_line=200))


async def test_many_contents_at_once_keep_to_the_reach(store: MemoryStore) -> None:
    """What one retrieve does not open, many at once do not either."""
    other = await AgentMemory(store, "alice", "coder", "other").store("of another session")
    own = AgentMemory(store, "alice", "coder", "mine", reach="session")
    mine = await own.store("of this session")
    assert await own.retrieve_contents([other.key, mine.key]) == {mine.key: "of this session"}
