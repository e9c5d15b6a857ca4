"""An answer that repeats stored or recalled text is not stored again, and every byte of it can still be read."""

import pytest
from autogen_core.models import AssistantMessage, LLMMessage, UserMessage

from memory_context import AgentMemory, ContextPolicy, MemoryContext, MemoryStore
from memory_context.sessions.transcript.part_decisions import RepeatFound

from ..agents.scripted import report, text_of
from .steps import ALWAYS_PAYS, add_step

OWLS = report("owls", 150)
BATS = report("bats", 150)


def context_of(store: MemoryStore, session: str | None = None, **policy: object) -> MemoryContext:
    return MemoryContext(
        "alice", "coder", session, store, policy=ContextPolicy.model_validate({"cache": ALWAYS_PAYS} | policy)
    )


async def says(context: MemoryContext, text: str, source: str = "") -> list[LLMMessage]:
    await context.get_messages()
    message = UserMessage(content=text, source=source) if source else AssistantMessage(content=text, source="coder")
    await context.add_message(message)
    return await context.get_messages()


async def shown(store: MemoryStore, *contents: str, session: str | None = None) -> MemoryContext:
    """Return a context whose agent has just been shown results."""
    context = context_of(store, session)
    await context.add_message(UserMessage(content="Show me all of it, please.", source="user"))
    await add_step(context, *contents, name="read")
    await context.get_messages()
    return context


async def stored(context: MemoryContext) -> list[str]:
    return [item.source for item in await context.agent_memory.query()]


async def test_answer_that_equals_a_stored_result_is_no_item(store: MemoryStore):
    context = await shown(store, OWLS)
    (item,) = await context.agent_memory.query()
    await says(context, OWLS)
    assert await stored(context) == ["read"]
    (decision,) = [one for _, one in context.transcript.log if isinstance(one, RepeatFound)]
    assert decision.keys == (item.key,)
    assert await context.retrieve(item.key) == OWLS
    again = context_of(store)
    await again.load_state(await context.save_state())
    assert text_of(await again.get_messages()) == text_of(await context.get_messages())


@pytest.mark.parametrize("source", ["", "researcher"], ids=["own answer", "answer of another agent"])
async def test_answer_that_repeats_nearly_all_of_a_result_is_no_item(store: MemoryStore, source: str):
    context = await shown(store, OWLS)
    answer = f"Here is all that I found:\n\n{OWLS}\nTell me if you need more."
    await says(context, answer, source)
    assert await stored(context) == ["read"]
    await store.flush_index()
    hits = await context.search("owls finding 17")
    assert [hit.item.source for hit in hits] == ["read"]
    entry = context.transcript[context.transcript.end - 1]
    assert text_of([entry.message]) == answer


async def test_answer_made_of_several_results_is_no_item(store: MemoryStore):
    context = await shown(store, OWLS, BATS)
    await says(context, f"First:\n{OWLS}\nand then:\n{BATS}")
    assert await stored(context) == ["read", "read"]


async def test_answer_that_repeats_recalled_text_is_no_item(store: MemoryStore):
    """Opened from another session, by its key."""
    ref = await AgentMemory(store, "alice", "clerk", "another").store(report("owls", 40), source="survey")
    context = context_of(store)
    view = await says(context, f"What does {ref.key} say? All of it, please.", "user")
    assert report("owls", 40) in text_of(view)
    await says(context, f"It says:\n{report('owls', 40)}")
    assert sorted(await stored(context)) == ["survey"]


async def test_answer_with_something_of_its_own_is_stored(store: MemoryStore):
    """New text, half a quotation, and the user's own words, whatever they repeat."""
    context = await shown(store, OWLS)
    await says(context, report("lions", 150))
    await says(context, f"{OWLS[: len(OWLS) // 2]}\n{report('tigers', 90)}")
    await says(context, f"I found this:\n{OWLS}", "user")
    assert sorted(await stored(context)) == ["coder", "coder", "read", "user"]


async def test_repeat_stays_one_after_a_load_and_within_the_budget(store: MemoryStore):
    """Its source may be gone from the process then; a full view shortens it, and the history has it whole."""
    context = await shown(store, OWLS, session="s1")
    answer = f"Here it is:\n{OWLS}"
    await says(context, answer)
    await context.add_message(UserMessage(content="Thanks. What now?", source="user"))
    again = context_of(store, "s1", token_budget=1500)
    await again.load_state(await context.save_state())
    await add_step(again, report("lions", 30))
    view = await again.get_messages()
    assert answer not in text_of(view)
    assert await stored(again) == ["read"]
    assert answer in text_of([entry.message for entry in again.transcript.entries()])
    await again.close()
    resumed = context_of(store, "s1")
    await resumed.get_messages()
    assert answer in text_of([entry.message for entry in resumed.transcript.entries()])
