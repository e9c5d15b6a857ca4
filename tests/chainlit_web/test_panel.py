"""What the side panel shows: one's own, page by page, and nothing of others."""

from autogen_core.models import AssistantMessage, UserMessage

from memory_context import AgentMemory, ContextPolicy, MemoryContext, MemoryStore
from samples.chainlit_web.panel import about_panel, change_memory, item_panel, stored_panel, view_panel

LOG = "\n".join(f"{number:04} step done" for number in range(1, 701)) + "\nERROR: disk is full"


async def stored(store: MemoryStore, user_id: str, session_id: str, content: str, description: str) -> str:
    ref = await AgentMemory(store, user_id, "reader", session_id).store(content, description=description, source="job")
    return ref.key


async def forget(store: MemoryStore, user_id: str, key: str) -> str:
    return await change_memory(store, user_id, {"does": "forget", "key": key})


async def test_stored_items_are_listed_by_chat_or_of_all_and_searched(store: MemoryStore) -> None:
    here = await stored(store, "ada", "one", LOG, "the log")
    there = await stored(store, "ada", "two", "a plan", "the plan")
    await stored(store, "grace", "one", "hers", "something of grace")
    assert [item["key"] for item in (await stored_panel(store, "ada", "one"))["items"]] == [here]
    assert {item["key"] for item in (await stored_panel(store, "ada"))["items"]} == {here, there}
    await store.flush_index()
    (found,) = (await stored_panel(store, "ada", None, "disk is full"))["items"]
    assert (found["key"], "disk is full" in found["passage"]) == (here, True)


async def test_an_item_is_shown_page_by_page(store: MemoryStore) -> None:
    key = await stored(store, "ada", "one", LOG, "the log")
    first = await item_panel(store, "ada", key)
    assert (first["start"], first["end"], first["lines"]) == (1, 300, 701)
    assert first["text"].startswith("0001 step done")
    last = await item_panel(store, "ada", key, start_line=601)
    assert (last["end"], last["text"].splitlines()[-1]) == (701, "ERROR: disk is full")
    line = await stored(store, "ada", "one", "x" * 1_000_000, "a line of a megabyte")
    assert len((await item_panel(store, "ada", line))["text"]) < 40_000


async def test_another_users_key_does_not_exist(store: MemoryStore) -> None:
    key = await stored(store, "grace", "one", "hers", "something of grace")
    assert await item_panel(store, "ada", key) == {
        "tab": "item",
        "key": key,
        "error": f"No item {key!r} in this memory.",
    }
    assert (await forget(store, "ada", key)).startswith(f"Not done: no item {key!r} in this memory")
    assert await store.items.fetch_memory("grace", key) is not None


async def test_forgetting_takes_every_item_of_the_content(store: MemoryStore) -> None:
    """Also items that other agents stored, in other chats and for themselves alone; other contents stay."""
    keys = [await stored(store, "ada", session, LOG, "the log") for session in ("elsewhere", "one")]
    keys.append((await AgentMemory(store, "ada", "hermit", "one", sharing="isolated").store(LOG)).key)
    kept = await stored(store, "ada", "one", "a plan", "the plan")
    assert await forget(store, "ada", keys[0]) == ""
    for key in keys:
        assert f"'{key}' was forgotten on" in (await item_panel(store, "ada", key))["error"]
    assert [item["key"] for item in (await stored_panel(store, "ada"))["items"]] == [kept]


async def test_statements_of_other_users_are_not_shown_or_changed(store: MemoryStore) -> None:
    hers = await AgentMemory(store, "grace").add("I live in Kiel.")
    claim = await AgentMemory(store, "ada", "coder", "one").store(
        "The user owns a boat.", type="user_fact", origin="agent"
    )
    (unconfirmed,) = (await about_panel(store, "ada"))["unconfirmed"]
    assert unconfirmed["basis"] == "kept by a model, not confirmed by the user · coder"
    for does in ("edit", "confirm", "forget"):
        told = await change_memory(store, "ada", {"does": does, "key": hers.key, "text": "x"})
        assert told.startswith(f"Not done: no item {hers.key!r} in this memory")
    long = {"does": "edit", "key": claim.key, "text": "x" * 400}
    assert "300 are allowed" in await change_memory(store, "ada", long)
    assert await change_memory(store, "ada", {"does": "confirm", "key": claim.key}) == ""
    shown = await about_panel(store, "ada")
    assert ([one["text"] for one in shown["statements"]], shown["unconfirmed"]) == (["The user owns a boat."], [])
    assert len((await about_panel(store, "grace"))["statements"]) == 1


async def test_folded_steps_open_from_their_live_context(store: MemoryStore) -> None:
    """Their key names no item: only the context knows what it folded."""
    context = MemoryContext("ada", "reader", "one", store, policy=ContextPolicy(token_budget=1000))
    for number in range(30):
        await context.add_message(UserMessage(content=f"question {number} " + "word " * 40, source="user"))
        await context.get_messages()
        await context.add_message(AssistantMessage(content=f"answer {number}", source="reader"))
    await context.get_messages()
    (agent,) = (await view_panel({"reader": context}))["agents"]
    (fold,) = [segment for segment in agent["segments"] if segment["kind"] == "fold"]
    key = fold["keys"][0]
    assert "question 0 word" in (await item_panel(store, "ada", key, context=context))["text"]
    assert "No item" in (await item_panel(store, "ada", key))["error"]
    assert agent["tokens"] >= sum(one["tokens"] for one in agent["segments"])
    await context.close()
