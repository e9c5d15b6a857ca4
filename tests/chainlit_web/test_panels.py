"""What the side panel shows: one's own, page by page, and nothing of others."""

from autogen_core.models import AssistantMessage, UserMessage

from memory_context import AgentMemory, ContextPolicy, MemoryContext, MemoryStore
from samples.chainlit_web.panels import (
    about_panel,
    change_statement,
    forget,
    item_panel,
    stored_panel,
    view_panel,
)

LOG = "\n".join(f"{number:04} step done" for number in range(1, 701)) + "\nERROR: disk is full"


async def stored(store: MemoryStore, user_id: str, session_id: str, content: str, description: str) -> str:
    ref = await AgentMemory(store, user_id, "reader", session_id).store(content, description=description, source="job")
    return ref.key


async def test_lists_what_is_stored_of_a_chat_or_of_the_user(store: MemoryStore) -> None:
    here = await stored(store, "ada", "one", LOG, "the log")
    there = await stored(store, "ada", "two", "a plan", "the plan")
    await stored(store, "grace", "one", "hers", "something of grace")
    chat = await stored_panel(store, "ada", "one")
    assert [(item["key"], item["is_here"]) for item in chat["items"]] == [(here, True)]
    everything = await stored_panel(store, "ada", "one", "all")
    assert {item["key"]: item["is_here"] for item in everything["items"]} == {here: True, there: False}


async def test_searches_in_it_and_shows_the_passage(store: MemoryStore) -> None:
    key = await stored(store, "ada", "one", LOG, "the log")
    await stored(store, "ada", "one", "a recipe for bread", "a recipe")
    await store.flush_index()
    (found,) = (await stored_panel(store, "ada", "one", "all", "disk is full"))["items"]
    assert found["key"] == key
    assert "disk is full" in found["passage"]


async def test_an_item_is_shown_page_by_page_and_by_what_matches(store: MemoryStore) -> None:
    key = await stored(store, "ada", "one", LOG, "the log")
    first = await item_panel(store, "ada", "one", key)
    assert (first["start"], first["end"], first["lines"]) == (1, 300, 701)
    assert first["text"].startswith("0001 step done")
    last = await item_panel(store, "ada", "one", key, start_line=601)
    assert (last["end"], last["text"].splitlines()[-1]) == (701, "ERROR: disk is full")
    found = await item_panel(store, "ada", "one", key, pattern="error")
    assert "ERROR: disk is full" in found["text"]
    assert "0300 step" not in found["text"]
    assert "(" in (await item_panel(store, "ada", "one", key, pattern="("))["error"]  # a sentence, no traceback


async def test_a_line_of_megabytes_does_not_reach_the_page_whole(store: MemoryStore) -> None:
    key = await stored(store, "ada", "one", "x" * 1_000_000, "a line")
    assert len((await item_panel(store, "ada", "one", key))["text"]) < 40_000


async def test_anothers_key_is_a_key_that_does_not_exist(store: MemoryStore) -> None:
    key = await stored(store, "grace", "one", "hers", "something of grace")
    shown = await item_panel(store, "ada", "one", key)
    assert shown["error"] == f"No item {key!r} in this memory."
    assert "text" not in shown
    assert await forget(store, "ada", key) == 0
    assert await store.items.fetch_memory("grace", key) is not None


async def test_forgetting_takes_every_item_of_the_content_and_says_how_many(store: MemoryStore) -> None:
    """Also items that other agents stored, in other chats and for themselves alone; the other contents stay."""
    keys = [await stored(store, "ada", session, LOG, "the log") for session in ("elsewhere", "one")]
    keys.append((await AgentMemory(store, "ada", "hermit", "one", sharing="isolated").store(LOG)).key)
    kept = await stored(store, "ada", "one", "a plan", "the plan")
    assert await forget(store, "ada", keys[0]) == 3
    assert await forget(store, "ada", keys[0]) == 0
    for key in keys:
        assert f"'{key}' was forgotten on" in (await item_panel(store, "ada", "one", key))["error"]
    assert [item["key"] for item in (await stored_panel(store, "ada", "one", "all"))["items"]] == [kept]


async def test_statements_of_other_users_are_not_shown_or_changed(store: MemoryStore) -> None:
    hers = await AgentMemory(store, "grace").add("I live in Kiel.")
    claim = await AgentMemory(store, "ada", "coder", "one").store(
        "The user owns a boat.", type="user_fact", origin="agent"
    )
    (unconfirmed,) = (await about_panel(store, "ada"))["unconfirmed"]
    assert unconfirmed["basis"] == "kept by a model, not confirmed by the user · coder"
    for does in ("edit", "confirm", "forget"):
        told = await change_statement(store, "ada", does, key=hers.key, statement="x")
        assert told.startswith(f"Not done: no item {hers.key!r} in this memory")
    assert "300 are allowed" in await change_statement(store, "ada", "edit", key=claim.key, statement="x" * 400)
    assert await change_statement(store, "ada", "confirm", key=claim.key) == ""
    shown = await about_panel(store, "ada")
    assert [one["text"] for one in shown["statements"]] == ["The user owns a boat."]
    assert shown["unconfirmed"] == []
    assert len((await about_panel(store, "grace"))["statements"]) == 1


async def test_folded_steps_open_from_their_live_context(store: MemoryStore) -> None:
    """Their key names no item: only the context knows what it folded."""
    context = MemoryContext("ada", "reader", "one", store, policy=ContextPolicy(token_budget=1000))
    for number in range(30):
        await context.add_message(UserMessage(content=f"question {number} " + "word " * 40, source="user"))
        await context.get_messages()
        await context.add_message(AssistantMessage(content=f"answer {number}", source="reader"))
    await context.get_messages()
    (fold,) = [segment for segment in (await context.explain()).segments if segment.kind == "fold"]
    key = fold.keys[0]
    assert "question 0 word" in (await item_panel(store, "ada", "one", key, context=context))["text"]
    assert "No item" in (await item_panel(store, "ada", "one", key))["error"]
    assert "No item 'nothing_2a'" in (await item_panel(store, "ada", "one", "nothing_2a", context=context))["error"]
    await context.close()


async def test_the_view_is_shown_segment_by_segment(store: MemoryStore) -> None:
    context = MemoryContext("ada", "reader", "one", store)
    await context.add_message(UserMessage(content="hello", source="user"))
    await context.get_messages()
    (agent,) = (await view_panel({"reader": context}))["agents"]
    assert agent["name"] == "reader"
    assert [(one["source"], one["state"]) for one in agent["segments"]] == [("user", "full")]
    assert agent["tokens"] == sum(one["tokens"] for one in agent["segments"]) + 4
    await context.close()
