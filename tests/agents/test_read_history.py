"""`read_history`: ranges and words, in this session and the user's others."""

import re
from typing import Any

import pytest

from memory_context import MemoryContext, MemoryStore
from memory_context.recall.tools.history import ReadHistoryArgs
from memory_context.recall.tools.repeats import Answer
from tests.context.steps import add_step
from tests.support.contexts import answer, ask, context_of
from tests.support.outages import away


def log(word: str, count: int = 80) -> str:
    return "\n".join(f"{word} {number} lies at berth {number * 37}" for number in range(count))


async def read(context: MemoryContext, **arguments: Any) -> Answer:
    (tool,) = [tool for tool in context.tools() if tool.name == "read_history"]
    return await tool.answer(arguments)


def following(text: str, label: str = "Next") -> dict[str, Any]:
    """Return the arguments of the call that a page names."""
    (call,) = re.findall(rf"{label}: read_history\((.*?)\)[ \]]", text.rsplit("\n", 1)[-1])
    return eval(f"dict({call})")


@pytest.fixture
async def context(store: MemoryStore) -> MemoryContext:
    context = context_of(store)
    await ask(context, "Survey the harbour.")
    for word in ("ship", "crane", "buoy"):
        await add_step(context, log(word), "all well", arguments=f'{{"what": "{word}"}}')
    await context.get_messages()
    await answer(context, "The harbour is surveyed: 3 kinds.")
    return context


async def saved(context: MemoryContext) -> str:
    await context.archive()
    await context.memory_store.flush_index()
    return context.session_id


async def test_range_behind_an_observation_is_read_exactly(context: MemoryContext) -> None:
    page = await read(context, first_message=2, limit=2)
    assert page.data == {"first_message": 2, "last_message": 3}
    assert re.findall(r"^\((\d)\)", page.text, re.MULTILINE) == ["2", "2", "3", "3"]
    assert page.text.endswith("[messages 2-3 of 8. Next: read_history(limit=2, first_message=4)]")


async def test_calls_that_earlier_answers_name_are_taken(context: MemoryContext) -> None:
    """A range by its last message; what cannot be mapped is refused with the arguments that there are."""
    page = await read(context, first_message=2, last_message=3, detail="high")
    assert page.data == {"first_message": 2, "last_message": 3}
    refused = await read(context, memory_key="said_x")
    assert refused.failed
    assert "there is no argument 'memory_key' (there are session_id, first_message, " in refused.text
    assert len(ReadHistoryArgs.model_fields) == 5


async def test_words_find_messages_also_by_what_the_store_has_of_them(
    context: MemoryContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    await context.memory_store.flush_index()
    found = await read(context, query="buoy 79 lies at berth 2923")
    assert "(7.1) " in found.text
    assert "(8) " in (await read(context, query="harbour surveyed")).text
    pages = await read(context, query="all well", limit=1)
    assert following(pages.text) == {"query": "all well", "limit": 1, "first_message": 5}
    monkeypatch.setattr("memory_context.store.database.Database.read", away)
    assert (await read(context, query="harbour surveyed")).text.startswith("(8) ")
    assert "there is none among messages 1-8" in (await read(context, query="zeppelin")).text


async def test_another_session_is_read_with_its_calls_and_stored_results(
    context: MemoryContext, store: MemoryStore
) -> None:
    session_id = await saved(context)
    other = context_of(store)
    page = await read(other, session_id=session_id)
    assert page.text.startswith(f"Of session {session_id} (Survey the harbour.), ")
    assert 'coder called survey with:\n{"what": "ship"}' in page.text
    page = await read(other, session_id=session_id, limit=2)
    assert following(page.text) == {"session_id": session_id, "limit": 2, "first_message": 3}
    assert (await read(MemoryContext("bob", memory_store=store), session_id=session_id)).failed
    assert (await read(other.for_subagent("helper", "isolated"), session_id=session_id)).failed


async def test_private_session_of_a_sub_agent_is_not_read(context: MemoryContext, store: MemoryStore) -> None:
    helper = context.for_subagent("helper", "isolated")
    await ask(helper, "The secret word is xylophone.")
    await answer(helper)
    session_id = await saved(helper)
    for arguments in ({"session_id": session_id}, {"session_id": "*", "query": "xylophone"}):
        assert "xylophone" not in (await read(context_of(store), **arguments)).text


async def test_all_sessions_are_searched_by_words(context: MemoryContext, store: MemoryStore) -> None:
    session_id = await saved(context)
    other = context_of(store)
    for arguments in ({"query": "Survey the harbour"}, {}):
        text = (await read(other, session_id="*", **arguments)).text
        assert f"- session_id={session_id!r}" in text
        assert ", message 1, user, " in text
        assert ": Survey the harbour." in text
    none = await read(other, session_id="*", query="zeppelin")
    assert none.text == "Nothing that was said is found. Try other words."
