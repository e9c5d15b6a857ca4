"""A session taken back to before a message: views, archive, saved states and the bill agree on what happened."""

import asyncio

import psycopg
import pytest
from autogen_core.models import AssistantMessage, FunctionExecutionResultMessage, LLMMessage, UserMessage

from memory_context import ContextPolicy, MemoryContext, MemoryStore
from memory_context.view.bill import Bill, raw_tokens

from .steps import add_step

LARGE = "\n".join(f"line {number}: the boiler reported {number * 7} bar" for number in range(1500))


def said(messages: list[LLMMessage]) -> list[object]:
    return [message.content for message in messages]


async def turn(context: MemoryContext, text: str) -> list[object]:
    """Let the user say a text and the agent answer it; return what the agent saw."""
    await context.add_message(UserMessage(content=text, source="user"))
    view = said(await context.get_messages())
    await context.add_message(AssistantMessage(content=f"heard {text}", source="coder"))
    return view


async def with_result(store: MemoryStore, session_id: str) -> MemoryContext:
    """Return a context in which a large result was read, answered, and talked about."""
    context = MemoryContext("alice", "coder", session_id, store)
    await context.add_message(UserMessage(content="read the log", source="user"))
    await context.get_messages()
    await add_step(context, LARGE)
    await context.get_messages()
    await context.add_message(AssistantMessage(content="It is a log.", source="coder"))
    await context.get_messages()
    return context


async def test_messages_behind_the_place_are_in_no_view_any_more(store: MemoryStore):
    context = MemoryContext("alice", "coder", "s", store)
    for text in ("one", "two", "three"):
        await turn(context, text)
    assert await context.rewind(2) == 4
    assert await turn(context, "four") == ["one", "heard one", "four"]


async def test_who_resumes_or_loads_the_session_knows_what_was_taken_back(store: MemoryStore):
    context = MemoryContext("alice", "coder", "s", store)
    for text in ("one", "two"):
        await turn(context, text)
    await context.archive()
    await context.rewind(2)
    await context.archive()
    state = await context.save_state()
    await context.close()
    resumed, loaded = (MemoryContext("alice", "coder", "s", store) for _ in range(2))
    await loaded.load_state(state)
    assert said(await resumed.get_messages()) == said(await loaded.get_messages()) == ["one", "heard one"]
    assert resumed.resume_report.is_complete


async def test_the_view_is_the_one_from_before_the_message(store: MemoryStore):
    """Also of results that were stored, compacted and folded later, with the recorded texts."""
    context = await with_result(store, "s")
    before = await context.get_messages()
    for number in range(5):
        await turn(context, f"and {number}? " + "word " * 800)
    await context.rewind(4)
    assert await context.get_messages() == before
    assert await context.retrieve(context.transcript[2].measured[0].stored.refs[0].key) == LARGE


async def test_what_was_taken_back_was_paid(store: MemoryStore):
    """A fold that is weighed afterwards counts those calls, and not a view that another replaces before it is sent."""
    context = MemoryContext("alice", "coder", "s", store)
    for number in range(5):
        await turn(context, "word " * 100 * (5 - number))
    await context.rewind(2)
    await context.add_message(UserMessage(content="And now?", source="user"))
    paid = Bill(context.transcript).calls
    assert len(paid) == 5
    spent = sum(call.cost for call in paid) + 1.25 * (paid[-1].head_tokens + 100)
    kept = sum(call.raw_cost for call in paid) + 1.25 * (paid[-1].raw_head_tokens + raw_tokens(context.transcript))
    assert Bill(context.transcript).share_with(100, is_cold=True) == pytest.approx(spent / kept)
    await context.get_messages()
    assert len(Bill(context.transcript).calls) == 6
    assert Bill(context.transcript).share_with(100, is_cold=True) == pytest.approx(spent / kept)


async def test_a_result_that_was_fresh_is_whole_again(store: MemoryStore):
    context = await with_result(store, "s")
    await context.rewind(3)
    *_, result = await context.get_messages()
    assert isinstance(result, FunctionExecutionResultMessage)
    assert "the boiler reported 0 bar" in result.content[0].content


async def test_without_an_archive_the_session_goes_back_too(store: MemoryStore):
    policy = ContextPolicy.model_validate({"archive": {"enabled": False}})
    context = MemoryContext("alice", "coder", "s", store, policy=policy)
    await turn(context, "one")
    await turn(context, "two")
    await context.rewind(2)
    assert await turn(context, "three") == ["one", "heard one", "three"]


async def test_an_archive_with_a_gap_takes_nothing_from_the_view(store: MemoryStore, database_url: str):
    context = MemoryContext("alice", "coder", "s", store)
    for text in ("one", "two", "three"):
        await turn(context, text)
        await context.archive()
    with psycopg.connect(database_url, autocommit=True) as database:
        gone = database.execute("DELETE FROM memory_context.recent_conversation_history WHERE sequence = 1")
        assert gone.rowcount == 1
    await context.rewind(4)
    assert await turn(context, "four") == ["one", "heard one", "two", "heard two", "four"]


async def test_steps_that_begin_meanwhile_wait(store: MemoryStore):
    """As when a page edits a message and asks the agent at once."""
    context = MemoryContext("alice", "coder", "s", store)
    for text in ("one", "two"):
        await turn(context, text)
    going_back = context.rewind(lambda transcript: transcript.end - 2)
    assert await turn(context, "three") == ["one", "heard one", "three"]
    assert await going_back == 2


async def test_calls_that_were_made_stay_on_the_bill(store: MemoryStore):
    context = MemoryContext("alice", "coder", "s", store)
    for text in ("one", "two", "three"):
        await turn(context, text)
    stats = context.stats
    await context.rewind(2)
    assert (context.stats.views, context.stats.cost) == (stats.views, stats.cost)
    await turn(context, "four")
    await context.rewind(0)
    await turn(context, "five")
    assert context.stats.views == stats.views + 2
    assert "rewound" in str(await context.explain())


@pytest.mark.parametrize("place", [-1, 5, 100])
async def test_a_place_outside_of_the_view_is_refused_and_changes_nothing(store: MemoryStore, place: int):
    context = MemoryContext("alice", "coder", "s", store)
    await turn(context, "one")
    await turn(context, "two")
    with pytest.raises(ValueError, match="no message"):
        await context.rewind(place)
    assert await turn(context, "three") == ["one", "heard one", "two", "heard two", "three"]


async def test_nothing_leaves_where_the_end_or_no_message_is_named(store: MemoryStore):
    context = MemoryContext("alice", "coder", "s", store)
    await turn(context, "one")
    assert await asyncio.gather(context.rewind(2), context.rewind(lambda _: None)) == [0, 0]
