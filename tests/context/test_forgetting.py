"""Forgetting: nothing that derives from an item by a recorded source is left, or written later."""

import json

import pytest
from autogen_core import CancellationToken, FunctionCall
from autogen_core.models import (
    AssistantMessage,
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    UserMessage,
)
from hypothesis import assume, given
from hypothesis import strategies as st

from memory_context import AgentMemory, ContextPolicy, MemoryContext, MemoryCriteria, MemoryStore
from memory_context.foundation.utf8 import escape
from memory_context.sessions.transcript.view_decisions import UserMemoryLoaded
from memory_context.store.conversations import ChatMessage
from memory_context.store.redact import FORGOTTEN, Traces
from memory_context.store.threads import ThreadStep
from tests.conftest import Server, database_of
from tests.embeddings.fakes import FakeEmbedder
from tests.support.rows import alter

from .steps import ALWAYS_PAYS, add_step

pytestmark = pytest.mark.fake_embedder

POLICY = ContextPolicy(cache=ALWAYS_PAYS, offload_threshold_tokens=50, store_timeout_seconds=30)


def context_of(store: MemoryStore, session: str, **policy: object) -> MemoryContext:
    return MemoryContext("alice", "coder", session, store, policy=POLICY.model_copy(update=policy))


def rows_with(server: Server, url: str, text: str) -> dict[str, int]:
    """Return the tables whose rows hold a text, with their number."""
    name = database_of(url)
    tables = server.execute(
        "SELECT relname::text FROM pg_class WHERE relnamespace = 'memory_context'::regnamespace AND relkind = 'r'", name
    )
    query = "SELECT count(*) FROM memory_context.{} AS t WHERE strpos(lower(t::text), lower('{}')) > 0"
    found = {str(table): server.execute(query.format(table, text), name)[0][0] for (table,) in tables}
    return {table: count for table, count in found.items() if count}


def report(mark: str) -> str:
    """Return an output whose error line, description and names hold a mark."""
    lines = [f"checking harbour {number}: all well" for number in range(200)]
    lines[120] = f"Error: {mark} failed at pier_{mark}.py:12"
    return "\n".join([f"# Survey of {mark}", *lines, f"{mark} is the last word"])


async def key_of(store: MemoryStore, mark: str) -> list[str]:
    hits = await AgentMemory(store, "alice").search(mark, 20)
    return [hit.item.key for hit in hits if mark in hit.passage]


async def live_through(context: MemoryContext, mark: str) -> str:
    """Let a session hold a report fresh, compacted and opened again; return its key."""
    await context.add_message(UserMessage(content="Look at the harbours.", source="user"))
    await add_step(context, report(mark), name="survey")
    key = context.transcript[context.transcript.end - 1].measured[0].stored.refs[0].key  # type: ignore[union-attr]
    await context.get_messages()
    await context.add_message(AssistantMessage(content="It failed at a pier.", source="coder"))
    await context.add_message(UserMessage(content=f"Open {key} again.", source="user"))
    assert mark in str(await context.get_messages())
    await context.add_message(AssistantMessage(content="Done.", source="coder"))
    return key


async def test_forgotten_result_leaves_no_trace_in_the_database(
    store: MemoryStore, server: Server, database_url: str
) -> None:
    context, mark = context_of(store, "s"), "kestrelq7"
    key = await live_through(context, mark)
    await context.archive()
    await store.flush_index()
    await store.events.flush("alice")
    before = rows_with(server, database_url, mark)
    assert {"agent_memory_contents", "recent_conversation_history", "agent_memory_terms"} <= set(before)
    assert await store.user_stats.forget("alice", [key]) == [key]
    assert mark not in str(await context.get_messages())
    await context.add_message(UserMessage(content="Go on.", source="user"))
    await context.close()
    await store.events.flush("alice")
    assert rows_with(server, database_url, mark) == {}


async def test_running_context_drops_a_forgotten_item_before_its_next_view(store: MemoryStore) -> None:
    context, mark = context_of(store, "s"), "kestrelq7"
    await context.add_message(UserMessage(content="Look at the harbours.", source="user"))
    await add_step(context, report(mark))
    assert mark in str(await context.get_messages())
    (key,) = {
        ref.key for entry in context.transcript.entries() for p in entry.measured if p.stored for ref in p.stored.refs
    }
    await store.user_stats.forget("alice", [key])
    view = str(await context.get_messages())
    assert mark not in view
    assert f"[MemoryRef: {key} - forgotten - 0 tokens]" in view
    assert mark not in json.dumps(dict(await context.save_state()))


async def test_texts_of_other_items_stay(store: MemoryStore) -> None:
    context = context_of(store, "s")
    await live_through(context, "kestrelq7")
    other = await live_through(context, "heronq8")
    (key,) = await key_of(store, "kestrelq7")
    before = str(await context.get_messages())
    await store.user_stats.forget("alice", [key])
    view = str(await context.get_messages())
    assert "heronq8" in before
    assert view.count("heronq8") == before.count("heronq8")
    assert (await AgentMemory(store, "alice").retrieve(other)).content == report("heronq8")  # type: ignore[union-attr]


async def test_resumed_session_shows_that_the_item_was_forgotten(store: MemoryStore) -> None:
    context, mark = context_of(store, "s"), "kestrelq7"
    key = await live_through(context, mark)
    await context.close()
    await store.user_stats.forget("alice", [key])
    again = context_of(store, "s")
    report_ = await again.resume()
    assert report_.outcome == "resumed"
    assert report_.is_complete
    view = str(await again.get_messages())
    assert mark not in view
    assert key in view


async def test_forgotten_message_leaves_its_session_title_chat_and_steps(
    store: MemoryStore, server: Server, database_url: str
) -> None:
    """The words of an answer that repeats it stay."""
    text = "my locker at the kestrelq7 pier is number 4471"
    context = context_of(store, "s")
    await context.add_message(UserMessage(content=text, source="user"))
    await context.get_messages()
    await context.add_message(AssistantMessage(content="So it is 4471.", source="coder"))
    context.archiver.add_chat([ChatMessage("m", text, "user", context.transcript[0].added_at)], 1)
    await context.archive()
    await store.threads.upsert_step("alice", ThreadStep("step", "s", {}, output=text), is_update=False)
    await store.threads.update_thread("alice", "s", name=text)
    await store.flush_index()
    (hit,) = [hit for hit in await AgentMemory(store, "alice").search("kestrelq7") if "kestrelq7" in hit.passage]
    assert {"recent_conversation_history", "agent_sessions", "ui_steps", "ui_threads"} <= set(
        rows_with(server, database_url, "kestrelq7")
    )
    assert await store.user_stats.forget("alice", [hit.item.key]) == [hit.item.key]
    view = str(await context.get_messages())
    assert ("kestrelq7" in view, "[forgotten]" in view, "So it is 4471." in view) == (False, True, True)
    await context.close()
    assert rows_with(server, database_url, "kestrelq7") == {}
    assert [one.text for one in await store.conversations.chat_page("alice", "s")] == ["[forgotten]"]


async def test_answers_of_look_ups_go_with_the_item(store: MemoryStore, server: Server, database_url: str) -> None:
    """Whole, in part and by a search, in another session; the look-ups of other items stay."""
    memory, mark = AgentMemory(store, "alice", "coder", "items"), "kestrelq7"
    ref = await memory.store(f"the gate\nof the {mark} pier\nopens at nine", description="a gate")
    other = await memory.store("the tides\nof the heronq8 pier", description="tides")
    await store.flush_index()
    context = context_of(store, "looking")
    tools = {tool.name: tool for tool in context.tools()}
    await context.add_message(UserMessage(content="What of the gate?", source="user"))
    asked = [
        ("retrieve_memory", {"memory_key": ref.key}),
        ("retrieve_memory", {"memory_key": ref.key, "transform": "filtered", "pattern": "pier"}),
        ("search_memory", {"query": mark}),
        ("retrieve_memory", {"memory_key": other.key}),
    ]
    for number, (name, arguments) in enumerate(asked):
        await context.get_messages()
        call = FunctionCall(id=f"c{number}", name=name, arguments=json.dumps(arguments))
        await context.add_message(AssistantMessage(content=[call], source="coder"))
        text = await tools[name].run_json(arguments, CancellationToken(), call.id)
        assert ("heronq8" if number == 3 else mark) in text
        result = FunctionExecutionResult(content=text, name=name, call_id=call.id, is_error=False)
        await context.add_message(FunctionExecutionResultMessage(content=[result]))
    await context.archive()
    await store.user_stats.forget("alice", [ref.key])
    view = str(await context.get_messages())
    assert (f"{mark} pier" in view, "heronq8 pier" in view) == (False, True)
    await context.close()
    assert rows_with(server, database_url, f"{mark} pier") == {}


async def test_argument_that_became_an_item_goes_with_it(store: MemoryStore, server: Server, database_url: str) -> None:
    context, mark = context_of(store, "s"), "kestrelq7"
    await context.add_message(UserMessage(content="Write it.", source="user"))
    await context.get_messages()
    call = FunctionCall(id="w", name="write", arguments=json.dumps({"path": "a.md", "text": report(mark)}))
    await context.add_message(AssistantMessage(content=[call], source="coder"))
    done = FunctionExecutionResult(content="written", name="write", call_id="w", is_error=False)
    await context.add_message(FunctionExecutionResultMessage(content=[done]))
    await context.get_messages()
    await context.archive()
    await store.flush_index()
    (key,) = await key_of(store, mark)
    await store.user_stats.forget("alice", [key])
    view = str(await context.get_messages())
    assert (mark in view, "a.md" in view) == (False, True)
    await context.close()
    assert rows_with(server, database_url, mark) == {}


async def test_sentence_that_repeats_a_forgotten_statement_stays(store: MemoryStore) -> None:
    context = context_of(store, "s")
    ref = await AgentMemory(store, "alice").remember("My locker is number 4471.")
    await context.add_message(UserMessage(content="My locker is number 4471.", source="user"))
    assert await AgentMemory(store, "alice").forget(ref.key)
    assert "My locker is number 4471." in str(await context.get_messages())


async def test_forget_memory_tool_leaves_the_agents_own_step_whole(store: MemoryStore) -> None:
    context, mark = context_of(store, "s"), "kestrelq7"
    key = await live_through(context, mark)

    async def agreed(proposal: object) -> bool:
        return True

    (tool,) = [one for one in context.tools(also=["forget_memory"], confirm=agreed) if one.name == "forget_memory"]
    await context.add_message(UserMessage(content="Forget that survey.", source="user"))
    await context.get_messages()
    call = FunctionCall(id="f", name="forget_memory", arguments=json.dumps({"memory_keys": [key]}))
    await context.add_message(AssistantMessage(content=[call], source="coder"))
    text = await tool.run_json({"memory_keys": [key]}, CancellationToken())
    result = FunctionExecutionResult(content=str(text), name="forget_memory", call_id="f", is_error=False)
    await context.add_message(FunctionExecutionResultMessage(content=[result]))
    view = await context.get_messages()
    assert mark not in str(view)
    assert isinstance(view[-1], FunctionExecutionResultMessage)
    assert "Forgotten for good" in view[-1].content[0].content
    await context.close()


async def test_process_that_held_a_forgotten_item_archives_nothing_of_it(
    store: MemoryStore, server: Server, database_url: str
) -> None:
    """Its next batch tells it; until then it cannot know."""
    context, mark = context_of(store, "s"), "kestrelq7"
    await context.add_message(UserMessage(content="Look at the harbours.", source="user"))
    await add_step(context, report(mark))
    await context.get_messages()
    await store.flush_index()
    async with MemoryStore(database_url, FakeEmbedder()) as elsewhere:
        (key,) = await AgentMemory(elsewhere, "alice").query(MemoryCriteria())
        assert await elsewhere.user_stats.forget("alice", [key.key]) == [key.key]
    await context.add_message(AssistantMessage(content="It failed at a pier.", source="coder"))
    await context.archive()
    assert rows_with(server, database_url, mark) == {}
    assert mark not in str(await context.get_messages())
    await context.close()
    assert rows_with(server, database_url, mark) == {}
    again = context_of(store, "s")
    assert (await again.resume()).is_complete


@pytest.mark.parametrize("kind", ["folded", "offloaded", "retained", "expanded"])
def test_decisions_about_other_items_lose_only_what_they_say_of_a_forgotten_one(kind: str) -> None:
    traces = Traces.of(["gone_k3"])
    text = "[MemoryRef: kept_k4 - a tide table - 9 tokens]\n- [MemoryRef: gone_k3 - a secret - 7 tokens]\nthe tides"
    saved = {"entries": [], "decisions": [[0, {"kind": kind, "text": text, "refs": [{"key": "kept_k4"}]}]]}
    (decision,) = traces.redacted(saved, "s")["decisions"]
    assert decision[1]["text"].split("\n") == [
        "[MemoryRef: kept_k4 - a tide table - 9 tokens]",
        "[MemoryRef: gone_k3 - forgotten - 0 tokens]",
        "the tides",
    ]


def test_first_view_of_a_forgotten_item_loses_its_excerpt() -> None:
    traces = Traces.of(["gone_k3"])
    excerpt = "read succeeded. [MemoryRef: gone_k3 - a secret - 7 tokens]\nExcerpt, 2 of its 7 tokens:\nthe secret"
    first_view = {"kind": "first_view", "position": 2, "tokens": 9, "excerpt": excerpt, "headline": ""}
    ((_, decision),) = traces.redacted({"entries": [], "decisions": [[3, first_view]]}, "s")["decisions"]
    assert decision == {**first_view, "excerpt": "[MemoryRef: gone_k3 - forgotten - 0 tokens]"}


@given(st.text(min_size=1), st.text())
def test_forgotten_message_goes_from_its_session_only(text: str, other: str) -> None:
    assume(text != other and FORGOTTEN not in (text, other))
    entries = [{"message": {"content": escape(one)}} for one in (text, other)]
    saved = {"entries": entries, "decisions": [], "chat": [{"sender": "user", "text": escape(text)}]}
    traces = Traces.of([], [("s", text)])
    redacted = traces.redacted(saved, "s")
    assert [one["message"]["content"] for one in redacted["entries"]] == [FORGOTTEN, escape(other)]
    assert traces.redacted(saved["chat"], "s") == [{"sender": "user", "text": FORGOTTEN}]
    assert traces.redacted(saved, "another") == saved


def test_batches_are_looked_for_by_keys_and_beginnings_as_their_json_has_them() -> None:
    said = 'The "owl" sleeps\tin the old mill by the river.'
    traces = Traces.of(["gone_k3"], [("s", said)])
    key, beginning = traces.probes
    assert key == "gone_k3"
    assert beginning.startswith('The \\"owl\\" sleeps')
    assert beginning in json.dumps({"title": traces.beginnings("s")[0]})


async def test_item_forgotten_in_another_process_leaves_view_state_and_archive(
    store: MemoryStore, database_url: str, server: Server
) -> None:
    """Facts chosen afterwards name no key in their batch; the next batch, or the next state, drops all of it."""
    async with MemoryStore(database_url, embedder=FakeEmbedder()) as there:
        for is_archiving in (True, False):
            mark, session = f"kestrel{is_archiving}".lower(), f"archives {is_archiving}"
            context = context_of(there, session)
            await context.add_message(UserMessage(content="Look at the harbours.", source="user"))
            await add_step(context, report(mark))
            await context.get_messages()
            await context.archive()
            state_before = json.loads(json.dumps(await context.save_state()))
            assert await store.user_stats.forget("alice", await key_of(store, mark))
            if is_archiving:
                await context.add_message(AssistantMessage(content="It failed.", source="coder"))
                await context.archive()
            assert mark not in json.dumps(await context.save_state())
            assert mark not in str(await context.get_messages())
            await context.close()
            assert rows_with(server, database_url, f"{mark} failed") == {}
            resumed = context_of(store, session)
            assert f"{mark} failed" not in str(await resumed.get_messages())
            loaded = context_of(there, session)
            await loaded.load_state(state_before)
            assert f"{mark} failed" not in str(await loaded.get_messages())
            await loaded.add_message(AssistantMessage(content="So it did.", source="coder"))
            await loaded.close()
            assert rows_with(server, database_url, f"{mark} failed") == {}


async def test_statement_forgotten_in_another_process_leaves_the_head_without_memory_tools(
    store: MemoryStore, database_url: str, server: Server
) -> None:
    """Such an agent hears of no change; its next batch tells it."""
    kept = await AgentMemory(store, "alice").remember("The user lives in Porto.")
    ref = await AgentMemory(store, "alice").remember("The door code is kestrel.")
    async with MemoryStore(database_url, embedder=FakeEmbedder()) as there:
        context = context_of(there, "s")
        await context.add_message(UserMessage(content="Hello.", source="user"))
        assert "kestrel" in str(await context.get_messages())
        await context.archive()
        await AgentMemory(store, "alice").forget(ref.key)
        await context.add_message(AssistantMessage(content="Hello.", source="coder"))
        await context.archive()
        view = str(await context.get_messages())
        assert ("kestrel" in view, "Porto" in view) == (False, True)
        assert kept.key in context.transcript.state.newest(UserMemoryLoaded).keys
        await context.close()
    assert rows_with(server, database_url, "kestrel") == {}


async def test_message_forgotten_in_another_process_leaves_view_state_and_archive(
    store: MemoryStore, database_url: str, server: Server
) -> None:
    """Its key is known by its time, so that a process which has its words finds its tombstone."""
    async with MemoryStore(database_url, embedder=FakeEmbedder()) as there:
        context = context_of(there, "s")
        await context.add_message(UserMessage(content="The gate of the kestrel opens at nine.", source="user"))
        await context.add_message(AssistantMessage(content="Noted.", source="coder"))
        await context.archive()
        await there.flush_index()
        before = json.loads(json.dumps(await context.save_state()))
        assert await store.user_stats.forget("alice", await key_of(store, "kestrel"))
        assert "kestrel" not in json.dumps(await context.save_state())
        assert "kestrel" not in str(await context.get_messages())
        loaded = context_of(there, "s")
        await loaded.load_state(before)
        assert "kestrel" not in str(await loaded.get_messages())
        await loaded.add_message(UserMessage(content="Go on.", source="user"))
        await loaded.close()
        await context.close()
        await there.flush_index()
    assert rows_with(server, database_url, "kestrel") == {}


async def test_forgotten_item_leaves_the_reports_of_consolidations(
    store: MemoryStore, database_url: str, server: Server
) -> None:
    """Lines that earlier versions kept, of runs that name it."""
    ref = await AgentMemory(store, "alice").store("The kestrel nests at pier 4471.", description="nest", type="custom")
    other = await AgentMemory(store, "alice").store("The owl nests at pier 9.", description="nest", type="custom")
    for key, line in ((ref.key, "an article about kestrels"), (other.key, "an article about owls")):
        alter(
            server,
            database_url,
            "INSERT INTO memory_context.consolidations (user_id, changes, report) "
            "VALUES ('alice', jsonb_build_object(), "
            f"jsonb_build_object('lines', jsonb_build_array('{key}: {line}')))",
        )
    await store.user_stats.forget("alice", [ref.key])
    assert rows_with(server, database_url, "kestrel") == {}
    assert "consolidations" in rows_with(server, database_url, "owls")
