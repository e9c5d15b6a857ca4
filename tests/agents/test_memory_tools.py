"""search_memory and query_memory: a model finds and lists what is stored, in text it can act on."""

from typing import Any

import pytest
from autogen_core import CancellationToken, FunctionCall
from autogen_core.models import (
    AssistantMessage,
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    UserMessage,
)
from autogen_core.tools import BaseTool

from memory_context import ContextPolicy, MemoryContext, MemoryStore

LOG = "".join(f"2026-05-01 line {number}: all is well\n" for number in range(400))
FAILURE = "2026-05-01 ERROR E4711: the payment gateway refused the card\n"


@pytest.fixture
def context(store: MemoryStore) -> MemoryContext:
    return MemoryContext("alice", "coder", "today", memory_store=store)


def tool(context: MemoryContext, name: str) -> BaseTool[Any, Any]:
    return next(tool for tool in context.tools() if tool.name == name)


async def ask(context: MemoryContext, name: str, **arguments: Any) -> str:
    return await tool(context, name).run_json(arguments, CancellationToken())


async def test_a_search_names_passage_lines_and_reference(context: MemoryContext, store: MemoryStore) -> None:
    """And says how to read on."""
    key = await context.store(LOG[:8000] + FAILURE + LOG[8000:], "log of the shop", source="tail")
    await context.store("milk, eggs", "shopping list")
    await store.flush_index()
    answer = await ask(context, "search_memory", query="why was the card refused, E4711?")
    assert "found for" in answer.splitlines()[0]
    assert f"1. [MemoryRef: {key} - log of the shop - " in answer
    assert FAILURE.strip() in answer
    assert "start_line=" in answer
    line = (LOG[:8000] + FAILURE).count("\n")
    first, last = map(int, answer.split(", lines ")[1].split(":")[0].split("-"))
    assert first <= line <= last


async def test_what_was_found_collapses_to_its_references(context: MemoryContext, store: MemoryStore) -> None:
    """The answer is no new item; later it is a line with the keys."""
    key = await context.store(LOG + FAILURE, "log of the shop")
    await store.flush_index()
    answer = await ask(context, "search_memory", query="payment gateway", limit=20)
    await context.add_message(UserMessage(content="What did the gateway say?", source="user"))
    call = FunctionCall(id="1", name="search_memory", arguments="{}")
    await context.add_message(AssistantMessage(content=[call], source="coder"))
    result = FunctionExecutionResult(content=answer, name="search_memory", call_id="1", is_error=False)
    policy_limit = context.policy.offload_threshold_tokens
    assert context.token_counter.count(answer) > policy_limit
    await context.add_message(FunctionExecutionResultMessage(content=[result]))
    assert FAILURE.strip() in str(await context.get_messages())
    await context.add_message(AssistantMessage(content="It refused the card.", source="coder"))
    view = await context.get_messages()
    assert FAILURE.strip() not in str(view)
    assert key in str(view)
    assert len(await context.agent_memory.query()) == 1


async def test_filters_of_the_tools_are_those_of_the_memory(context: MemoryContext, store: MemoryStore) -> None:
    """Type, source, tags, this session only, links."""
    yesterday = MemoryContext("alice", "coder", "yesterday", memory_store=store)
    old = await yesterday.store("the blue whale is large", "about whales", "article", source="web", tags=["sea"])
    new = await context.store("the blue bird is small", "about birds", "user_fact", tags=["air", "sky"])
    linked = await context.agent_memory.store("a note on whales", description="note", related_to=[old])
    await store.flush_index()
    for arguments, keys in [
        ({}, {old, new, linked.key}),
        ({"type": "article"}, {old}),
        ({"source": "web"}, {old}),
        ({"tags": ["sky", "air"]}, {new}),
        ({"this_session_only": True}, {new, linked.key}),
    ]:
        listed = await ask(context, "query_memory", **arguments)
        assert {key for key in (old, new, linked.key) if key in listed} == keys
        found = await ask(context, "search_memory", query="the blue whale note", **arguments)
        assert {key for key in (old, new, linked.key) if key in found} == keys
    assert linked.key in await ask(context, "query_memory", related_to=old)
    assert old in await ask(context, "query_memory", related_to=linked.key)


async def test_a_long_list_is_paged(context: MemoryContext) -> None:
    """Each page says how to get the next."""
    for number in range(7):
        await context.store(f"note {number}", f"note number {number}")
    page = await ask(context, "query_memory", limit=3)
    assert [line[:2] for line in page.splitlines()[:3]] == ["1.", "2.", "3."]
    assert "query_memory(offset=3" in page
    last = await ask(context, "query_memory", limit=3, offset=6)
    assert last.startswith("7. [MemoryRef: ")
    assert "more" not in last
    assert await ask(context, "query_memory", offset=7) == "Nothing more is stored."


async def test_nothing_found_says_what_to_do(context: MemoryContext) -> None:
    """In a sentence."""
    assert "query_memory" in await ask(context, "search_memory", query="anything")
    assert await ask(context, "query_memory") == "Nothing is stored that meets this."
    assert "is no memory key" in await ask(context, "query_memory", related_to="no key!")


async def test_answers_stay_within_the_first_view(store: MemoryStore) -> None:
    """However many hits of whatever length."""
    context = MemoryContext(
        "alice", memory_store=store, policy=ContextPolicy(token_budget=4000, first_view_limit_tokens=1000)
    )
    for number in range(20):
        await context.store(f"{number} " + "a sentence about the harbour " * 100, f"harbour {number}")
    await store.flush_index()
    answer = await ask(context, "search_memory", query="harbour", limit=20)
    assert context.token_counter.count(answer) <= 1000
    assert context.token_counter.count(await ask(context, "query_memory", limit=100)) <= 1000


LONG_WORDS = {"ascii": "q9$x-" * 40, "cjk": "港湾記録帳簿" * 30}


@pytest.mark.parametrize("words", LONG_WORDS.values(), ids=LONG_WORDS)
async def test_long_descriptions_leave_no_answer_over_its_limit(store: MemoryStore, words: str) -> None:
    """Hits are left out from the end, which is said; what the answer collapses to is short; pages miss nothing."""
    context = MemoryContext(
        "alice", memory_store=store, policy=ContextPolicy(token_budget=4000, first_view_limit_tokens=1000)
    )
    keys = [
        await context.store(f"{number} harbour " + words * 5, f"{number} harbour {words}", source=f"{number}_{words}")
        for number in range(20)
    ]
    await store.flush_index()
    answer = await ask(context, "search_memory", query="harbour", limit=20)
    assert context.token_counter.count(answer) <= 1000
    shown = [key for key in keys if f"[MemoryRef: {key} - " in answer]
    found = int(answer.split()[0])
    assert 1 <= len(shown) < found
    assert f"{found - len(shown)} more are left out" in answer
    assert answer.endswith("end_line=…).")
    label = store.lookups.find("alice", answer)
    assert label is not None
    assert context.token_counter.count(label.label) < 400
    assert all(key in label.label for key in shown[:10])

    listed: list[str] = []
    page = await ask(context, "query_memory", limit=100)
    while True:
        assert context.token_counter.count(page) <= 1000
        on_page = [line.split("[MemoryRef: ")[1].split(" - ")[0] for line in page.splitlines() if "[MemoryRef" in line]
        label = store.lookups.find("alice", page)
        assert label is not None
        assert label.label == f"query_memory listed items {len(listed) + 1}-{len(listed) + len(on_page)}"
        listed += on_page
        if "There are more" not in page:
            break
        assert f"There are more: query_memory(offset={len(listed)}, …) goes on." in page
        page = await ask(context, "query_memory", limit=100, offset=len(listed))
    assert sorted(listed) == sorted(keys)


async def test_a_search_of_many_hits_collapses_to_a_few_keys(context: MemoryContext, store: MemoryStore) -> None:
    """And says how many there were besides."""
    for number in range(20):
        await context.store(f"{number} the harbour and what {number * 7919} there is", f"harbour {number}")
    await store.flush_index()
    answer = await ask(context, "search_memory", query="harbour", limit=20)
    label = store.lookups.find("alice", answer)
    assert label is not None
    count = answer.count("[MemoryRef: ")
    assert count > 10
    assert label.label.endswith(f" and {count - 10} more")


async def test_a_store_that_is_down_is_told(context: MemoryContext) -> None:
    """And the agent can go on."""
    down = MemoryContext("alice", memory_store=MemoryStore("postgresql://nobody@127.0.0.1:1/nowhere"))
    assert "cannot be searched at the moment" in await ask(down, "search_memory", query="x")
    assert "cannot be reached at the moment" in await ask(down, "query_memory")


async def test_the_second_best_passage_is_shown_where_there_is_room(context: MemoryContext, store: MemoryStore) -> None:
    """What is asked for may stand in two places of one item."""
    again = FAILURE.replace("refused", "refused again")
    await context.store(LOG[:6000] + FAILURE + LOG[6000:] + again, "log of the shop")
    await store.flush_index()
    answer = await ask(context, "search_memory", query="payment gateway refused the card E4711")
    assert FAILURE.strip() in answer
    assert again.strip() in answer
    assert "also lines " in answer
