"""The tools: those of a context, answered to any client, whatever they are asked and whatever state the store is in."""

import asyncio
import json
import logging
import re
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from autogen_core import CancellationToken
from autogen_core.models import AssistantMessage, UserMessage
from hypothesis import given
from hypothesis import strategies as st
from mcp import McpError, types

from memory_context import MemoryContext, MemoryStore
from memory_context.store.memory_store import ItemStore
from memory_context.surfaces.mcp import ServedMemory, create_server
from tests.conftest import Server
from tests.support.waiting import soon, until

from .conftest import connected, key_of, listening, over_http, said, stored

LOG = "\n".join(f"line {n}: {'disk full' if n == 777 else 'ok'}" for n in range(1, 3001))


def following(text: str) -> tuple[str, dict[str, Any]]:
    """Return the call that an answer names to go on."""
    found = re.search(r"Next: (\w+)\((.*?)\)[\].]", text)
    assert found is not None, text[-300:]
    return found[1], eval(f"dict({found[2]})")


async def test_server_tools_match_those_of_a_context(store: MemoryStore):
    """The same names, the same arguments (read_history has more), and the same answers."""
    context = MemoryContext("alice", "mcp", "s", memory_store=store)
    own = {tool.name: tool for tool in context.tools()}
    async with connected(store) as client:
        offered = {tool.name: tool for tool in (await client.list_tools()).tools}
        names = ["store_memory", "retrieve_memory", "search_memory", "query_memory", "read_history"]
        assert list(offered) == [*names, "manage_long_term_memory"]
        assert offered.keys() == own.keys()
        for name, tool in offered.items():
            properties = own[name].args_type().model_json_schema()["properties"]
            more = {"agent_id"} if name == "read_history" else set()
            assert {key: tool.inputSchema["properties"][key] for key in properties} == properties
            assert set(tool.inputSchema["properties"]) - set(properties) == more
            assert tool.inputSchema["additionalProperties"] is False
            assert "anyOf" not in json.dumps(tool.inputSchema)
            assert tool.title
            assert tool.description
            assert tool.annotations is not None
            is_of_notes = name == "manage_long_term_memory"
            assert tool.annotations.readOnlyHint == (name != "store_memory" and not is_of_notes)
            assert (tool.annotations.destructiveHint, tool.annotations.idempotentHint) == (is_of_notes, not is_of_notes)
        key = await stored(client, LOG, "the log of the night")
        assert key == await stored(client, LOG, "again")
        await store.flush_index()
        for name, arguments in [
            ("retrieve_memory", {"memory_key": key}),
            ("retrieve_memory", {"memory_key": key, "transform": "filtered", "pattern": "disk"}),
            ("search_memory", {"query": "what about the disk?"}),
            ("query_memory", {"type": "custom"}),
            ("retrieve_memory", {"memory_key": "the_log"}),
            ("manage_long_term_memory", {}),
        ]:
            answer = await own[name].run_json(arguments, CancellationToken())
            assert said(await client.call_tool(name, arguments)) == answer
    await context.close()


async def test_store_memory_returns_structured_content(store: MemoryStore):
    """Key, description, tokens and placeholder; a client validates them against the schema that was announced."""
    async with connected(store) as client:
        await client.list_tools()
        result = await client.call_tool("store_memory", {"content": "a b c", "description": "three ] letters"})
        placeholder = said(result).removeprefix("Stored. ")
        assert result.structuredContent == {
            "memory_key": key_of(result),
            "description": "three ) letters",
            "token_count": 3,
            "placeholder": placeholder,
        }
        item = await ServedMemory(store, "alice").memory()
        assert (await item.query())[0].agent_id == "mcp"


async def test_structured_content_follows_output_schema_and_repeats_no_text(store: MemoryStore):
    """The SDK's client refuses an answer that does not; a text for the model is answered once, and nowhere again."""
    async with connected(store) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        structured = {name for name, tool in tools.items() if tool.outputSchema}
        assert structured == {"store_memory", "search_memory", "query_memory"}
        nothing = await client.call_tool("search_memory", {"query": "owls"})
        assert nothing.structuredContent == {"hits": []}
        key = await stored(client, LOG, "a log")
        await store.flush_index()
        found = await client.call_tool("search_memory", {"query": "disk"})
        assert [hit["memory_key"] for hit in (found.structuredContent or {})["hits"]] == [key]
        assert json.dumps(found.structuredContent).count("disk full") == 1
        listed = await client.call_tool("query_memory", {"limit": 1})
        assert [item["memory_key"] for item in (listed.structuredContent or {})["items"]] == [key]
        assert json.dumps(listed.structuredContent).count("a log") == 1
        opened = await client.call_tool("retrieve_memory", {"memory_key": key})
        assert opened.model_dump_json().count("line 1: ok") == 1
        noted = {"operation": "append", "content": "# Work\nOrders is at db1."}
        await client.call_tool("manage_long_term_memory", noted)
        read = await client.call_tool("manage_long_term_memory", {})
        assert read.model_dump_json().count("Orders is at db1.") == 1
        refused = await client.call_tool("query_memory", {"limit": 0})
        assert (refused.isError, refused.structuredContent) == (True, None)


async def test_arguments_are_read_as_clients_send_them(store: MemoryStore):
    """Null for what is optional, a list as JSON or as its only text, numbers as text; refused ones are shown."""
    async with connected(store, forgets=True) as client:
        given = {
            "content": "[1, 2]",
            "description": "a list",
            "type": None,
            "tags": '["sea", "ship"]',
            "related_to": None,
        }
        key = key_of(await client.call_tool("store_memory", given))
        assert said(await client.call_tool("retrieve_memory", {"memory_key": key, "transform": None})) == "[1, 2]"
        more = {"tags": '["sea"]', "limit": "1", "offset": None, "this_session_only": "false"}
        listed = (await client.call_tool("query_memory", more)).structuredContent
        assert listed is not None
        assert [(one["memory_key"], one["tags"]) for one in listed["items"]] == [(key, ["sea", "ship"])]
        assert key in said(await client.call_tool("query_memory", {"tags": "sea", "limit": ""}))
        assert not (await client.call_tool("forget_memory", {"memory_keys": f'["{key}"]'})).isError
        assert "limit = 'few': " in said(await client.call_tool("query_memory", {"limit": "few"}))


async def test_read_only_server_offers_and_runs_no_store_tool(store: MemoryStore):
    """It does not offer it, and does not do it either."""
    async with connected(store, read_only=True) as client:
        start = await client.initialize()
        assert "store_memory" not in (start.instructions or "")
        assert "store_memory" not in [tool.name for tool in (await client.list_tools()).tools]
        result = await client.call_tool("store_memory", {"content": "x", "description": "x"})
        assert result.isError
        assert "Unknown tool: store_memory" in said(result)


async def test_notes_are_edited_and_read_over_mcp(store: MemoryStore):
    """With the agent's own names and arguments; what was read in one call may be replaced in a later one."""
    name = "manage_long_term_memory"
    async with connected(store) as client:
        written = await client.call_tool(name, {"operation": "append", "content": "# Work\nOrders is at db1."})
        assert said(written) == "Done: append. The notes have 24 of 32,000 characters now (version 1)."
        replaced = {"operation": "replace_section_by_header", "section_header": "Work", "content": "None."}
        assert not (await client.call_tool(name, replaced)).isError
        assert "# Work\n\nNone." in said(await client.call_tool(name, {}))
        missing = await client.call_tool(name, {"operation": "append"})
        assert (missing.isError, said(missing)) == (True, "Not done: append needs content, which is missing or empty.")
    async with connected(store, read_only=True) as client:
        assert "# Work\n\nNone." in said(await client.call_tool(name, {"operation": "read"}))
        refused = await client.call_tool(name, {"operation": "delete_all_notes"})
        assert (refused.isError, "only reads" in said(refused)) == (True, True)
    assert (await store.notes.fetch("alice", "mcp")).version == 2


class Person:
    """Answers the client's questions; what else they ask for is done first."""

    def __init__(self, *actions: Any) -> None:
        self.actions, self.questions = list(actions), list[str]()

    async def __call__(self, _: Any, params: types.ElicitRequestParams) -> types.ElicitResult | types.ErrorData:
        self.questions.append(params.message)
        action = self.actions.pop(0)
        return action if isinstance(action, types.ErrorData) else types.ElicitResult(action=action)


async def test_server_asks_the_person_at_the_client_before_it_forgets(store: MemoryStore):
    """On request only; by a question of the client, whose answer decides, whatever code the model sends."""
    person = Person("decline", "cancel", types.ErrorData(code=-1, message="no window"), "accept")
    async with connected(store, forgets=True, asked=person) as client:
        assert "forget_memory" in ((await client.initialize()).instructions or "")
        tool = (await client.list_tools()).tools[-1]
        assert (tool.name, tool.annotations and tool.annotations.destructiveHint) == ("forget_memory", True)
        assert tool.annotations is not None
        assert not tool.annotations.readOnlyHint
        key = await stored(client, LOG, "the log of the night")
        for told in ("said no", "said no", "could not be asked", f"Forgotten for good: {key}."):
            assert await store.user_stats.keys_of_contents("alice", [key]) == [key]
            result = await client.call_tool("forget_memory", {"memory_keys": [key], "confirmation": "AAAAAAAA"})
            assert told in said(result)
        assert result.structuredContent is not None
        assert result.structuredContent["forgotten"] == [key]
        assert await store.user_stats.keys_of_contents("alice", [key]) == []
        assert len(person.questions) == 4
        assert f"- the log of the night ({key}, custom, " in person.questions[0]
        assert "was forgotten on" in said(await client.call_tool("forget_memory", {"memory_keys": [key]}))


@pytest.mark.parametrize("is_over_http", [False, True])
async def test_client_that_cannot_be_asked_forgets_in_two_calls(store: MemoryStore, is_over_http: bool):
    """Over HTTP nobody can be asked while a call waits; a wrong code and another user's key forget nothing."""
    bob = (await ServedMemory(store, "bob").memory()).store("bob's")
    others = (await bob).key
    async with AsyncExitStack() as stack:
        if is_over_http:
            url = await stack.enter_async_context(listening(store, forgets=True))
            client = await stack.enter_async_context(over_http(url, asked=Person()))
        else:
            client = await stack.enter_async_context(connected(store, forgets=True))
        key = await stored(client, LOG)
        assert (await client.call_tool("forget_memory", {"memory_keys": [others]})).isError
        for code in ({}, {"confirmation": "AAAAAAAA"}):
            listed = await client.call_tool("forget_memory", {"memory_keys": [key], **code})
            assert listed.structuredContent is not None
            assert listed.structuredContent["forgotten"] == []
            assert [one["memory_key"] for one in listed.structuredContent["proposed"]] == [key]
        code = {"confirmation": listed.structuredContent["confirmation"]}
        assert "Forgotten" in said(await client.call_tool("forget_memory", {"memory_keys": [key], **code}))
    assert await store.user_stats.keys_of_contents("alice", [key]) == []
    assert await store.user_stats.keys_of_contents("bob", [others]) == [others]


FAILURES: list[tuple[str, dict[str, Any], str]] = [
    ("retrieve_memory", {}, "memory_key is missing"),
    ("retrieve_memory", {"memory_key": "note_a2"}, "no item 'note_a2'"),
    ("retrieve_memory", {"memory_key": "KEY", "transform": "middle"}, "transform = 'middle'"),
    ("retrieve_memory", {"memory_key": "KEY", "transform": "filtered", "pattern": "("}, "missing )"),
    ("store_memory", {"content": 5, "description": "x"}, "content = 5"),
    ("search_memory", {"query": "x", "limit": 0}, "limit = 0"),
    ("search_memory", {"query": "x", "tag": "sea"}, "no argument 'tag' (did you mean tags?)"),
    ("query_memory", {"related_to": "no key!"}, "is no memory key"),
    ("query_memory", {"offset": 10**30}, "refused"),
    ("read_history", {"session_id": "s9"}, "no session 's9'"),
    ("forget_memory", {}, "Unknown tool: forget_memory"),
]


async def test_failed_tool_call_is_one_sentence_with_remedy(store: MemoryStore):
    """Marked as an error, with what to send instead."""
    async with connected(store) as client:
        key = await stored(client, "text")
        for name, arguments, answer in FAILURES:
            given = {argument: key if value == "KEY" else value for argument, value in arguments.items()}
            result = await client.call_tool(name, given)
            assert result.isError, name
            assert answer in said(result)
            assert "\n" not in said(result)


async def test_large_text_is_paged_within_answer_limit(store: MemoryStore):
    """Each within the limit of an answer, and each with the call that reads on."""
    line = "2026-11-21 12:00:00 INFO worker-7 request served in 12 ms\n"
    async with connected(store) as client:
        key = key_of(await client.call_tool("store_memory", {"content": line * 40_000, "description": "log"}))
        name, arguments = "retrieve_memory", {"memory_key": key}
        for _ in range(2):
            text = said(await client.call_tool(name, arguments))
            assert 4000 < len(text) < 40_000
            name, arguments = following(text)
        assert arguments["start_line"] > 100
        resource = (await client.read_resource(types.AnyUrl(f"memory://{key}"))).contents[0]
        assert isinstance(resource, types.TextResourceContents)
        head, _, hint = resource.text.rpartition("\n")
        assert head == (line * 40_000)[:1_000_000]
        assert f'retrieve_memory(memory_key="{key}", start_char=1000001' in hint


async def test_stored_half_surrogates_are_answered_escaped(store: MemoryStore):
    """Half a surrogate pair, as JavaScript has it; NUL passes as it is."""
    text = "half \ud83d, nul \x00, pair \U0001f600"
    ref = await (await ServedMemory(store, "alice").memory()).store(text, description=text)
    await store.flush_index()
    async with connected(store) as client:
        opened = said(await client.call_tool("retrieve_memory", {"memory_key": ref.key}))
        assert opened == "half \\ud83d, nul \x00, pair \U0001f600"
        assert "half" in said(await client.call_tool("search_memory", {"query": "half"}))
        assert "half" in str((await client.list_resources()).resources[0].title)


@pytest.mark.thorough
async def test_earlier_conversations_are_listed_and_paged(store: MemoryStore):
    """All of one is read by following what each page says, also a message that is longer than a page."""
    long = "; ".join(f"entry {n} of the ledger" for n in range(40))
    async with MemoryContext("alice", "coder", "night's shift", memory_store=store) as context:
        for n in range(60):
            await context.add_message(UserMessage(content=f"question {n}: {long}", source="user"))
            await context.add_message(AssistantMessage(content=f"answer {n}", source="coder"))
    async with connected(store) as client:
        listed = said(await client.call_tool("read_history", {}))
        assert 'session_id="night\'s shift": ' in listed
        assert "120 messages, agent 'coder'" in listed
        name, arguments, texts = "read_history", {"session_id": "night's shift"}, list[str]()
        while True:
            texts.append(said(await client.call_tool(name, arguments)))
            if "That is all" in texts[-1]:
                break
            name, arguments = following(texts[-1])
        everything = "\n".join(texts)
        assert len(texts) > 1
        assert [int(n) for n in re.findall(r"answer (\d+)", everything)] == [*range(60)]
        missing = await client.call_tool("read_history", {"session_id": "night's shift", "first_message": 500})
        assert missing.isError
        assert "there is no message 500; this session has messages 1-120." in said(missing)
        other = await client.call_tool("read_history", {"session_id": "night's shift", "agent_id": "nobody"})
        assert "no messages yet" in said(other)
    async with connected(store, session_id="night's shift") as client:
        assert said(await client.call_tool("read_history", {})) == texts[0]
        assert said(await client.call_tool("read_history", {"session_id": ""})) == listed
        unknown = await client.call_tool("read_history", {"session_id": "day's shift"})
        assert unknown.isError
        assert following(said(unknown)) == ("read_history", {"session_id": ""})


async def test_concurrent_calls_are_each_answered(store: MemoryStore):
    """Also with more than there are connections to the database."""
    async with connected(store) as client:
        keys = await asyncio.gather(*(stored(client, f"text {n}") for n in range(20)))
        texts = await asyncio.gather(*(client.call_tool("retrieve_memory", {"memory_key": key}) for key in keys))
    assert [said(text) for text in texts] == [f"text {n}" for n in range(20)]


@pytest.mark.usefixtures("index_when_flushed")
async def test_cancelled_call_releases_the_database(store: MemoryStore, database_url: str):
    """The client says that it no longer wants the answer; the server lets go of the database."""
    async with connected(store) as client:
        await stored(client, "text")
        with psycopg.connect(database_url) as connection:
            connection.execute("LOCK TABLE memory_context.agent_memories")
            waiting = asyncio.ensure_future(client.call_tool("query_memory", {}))
            await until(lambda: connection.execute("SELECT FROM pg_locks WHERE NOT granted").fetchall(), "at work")
            cancelled = types.CancelledNotificationParams(requestId=client._request_id - 1)
            await client.send_notification(types.ClientNotification(types.CancelledNotification(params=cancelled)))
            with pytest.raises(McpError, match="cancelled"):
                await waiting
        assert "a note" in said(await client.call_tool("query_memory", {}))


async def test_server_answers_errors_while_store_is_down_and_recovers(
    server: Server, template: str, caplog: pytest.LogCaptureFixture
):
    """The server starts, lists its tools, and answers; no answer holds a password."""
    caplog.set_level(logging.ERROR)
    store = MemoryStore(server.url("comes_later", password="secret"))
    async with connected(store, None) as client:
        assert len((await client.list_tools()).tools) == 6
        for name, arguments in [
            ("store_memory", {"content": "x", "description": "x"}),
            ("retrieve_memory", {"memory_key": "x"}),
            ("search_memory", {"query": "x"}),
            ("query_memory", {}),
            ("read_history", {}),
        ]:
            result = await client.call_tool(name, arguments)
            assert result.isError
            assert "does not answer" in said(result)
            assert "secret" not in said(result)
        with pytest.raises(McpError, match="does not answer"):
            await client.list_resources()
        server.execute("CREATE DATABASE {name} TEMPLATE {template}", name="comes_later", template=template)
        key = await stored(client, "text")
        assert said(await client.call_tool("retrieve_memory", {"memory_key": key})) == "text"
    await store.close()
    server.execute("DROP DATABASE {name} WITH (FORCE)", name="comes_later")


async def test_calls_are_answered_while_the_store_is_still_starting(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
):
    """Each within a call's time, with what to do; the start goes on behind them, and the next call works."""
    may_open, opened = asyncio.Event(), store.open

    async def open_late() -> None:
        await may_open.wait()
        await opened()

    monkeypatch.setattr(store, "open", open_late)
    limits, store.limits = store.limits, replace(store.limits, call_seconds=0.5)
    async with connected(store) as client:
        for name, arguments in (("query_memory", {}), ("store_memory", {"content": "x"})):
            result = await soon(client.call_tool(name, arguments))
            assert result.isError
            assert "is still starting, or does not answer: this goes on; try again" in said(result)
        with pytest.raises(McpError, match="is still starting"):
            await soon(client.list_resources())
        may_open.set()
        store.limits = limits
        assert await stored(client, "text")


async def test_unnamed_user_is_the_only_one_of_the_store(store: MemoryStore, monkeypatch: pytest.MonkeyPatch):
    """Nobody yet: the login name; several: the answer says that the server has to be told."""
    monkeypatch.setenv("LOGNAME", "carol")
    assert await ServedMemory(store).user_id() == "carol"
    await (await ServedMemory(store, "alice").memory()).store("x")
    assert await ServedMemory(store).user_id() == "alice"
    await (await ServedMemory(store, "bob").memory()).store("x")
    async with connected(store, None) as client:
        result = await client.call_tool("query_memory", {})
        assert result.isError
        assert "start it with --user NAME" in said(result)


async def test_defect_is_logged_and_answered_without_details(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    """The model reads one sentence; whoever runs the server finds the traceback in the log."""

    async def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("inside")

    monkeypatch.setattr(ItemStore, "select_memories", broken)
    async with connected(store) as client:
        result = await client.call_tool("query_memory", {})
        assert result.isError
        assert said(result) == "query_memory failed by a defect of the memory (RuntimeError). Go on without it."
        with pytest.raises(McpError, match="a defect of the memory"):
            await client.list_resources()
    assert "inside" in caplog.text


NAMES = {
    "store_memory": ["content", "description", "type", "tags"],
    "retrieve_memory": ["memory_key", "transform", "start_line", "end_char", "n", "unit", "pattern", "json_path"],
    "search_memory": ["query", "limit", "offset", "type", "source", "tags", "this_session_only"],
    "query_memory": ["related_to", "limit", "offset", "type", "source", "tags"],
    "read_history": ["session_id", "agent_id", "first_message", "first_character"],
    "manage_long_term_memory": ["operation", "content", "section_header"],
}
ODD = st.sampled_from(
    [
        "full",
        "filtered",
        "first_n",
        "custom",
        "KEY",
        "s",
        "",
        "\x00",
        "\ud800",
        "a" * 5000,
        "(?i)x*",
        "$..*",
        "[MemoryRef:",
    ]
)
VALUES = st.recursive(
    ODD | st.none() | st.booleans() | st.integers(-3, 300) | st.integers(-(10**40), 10**40) | st.floats()
    | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ODD, inner, max_size=2),
    max_leaves=4,
)  # fmt: skip
CALLS = st.sampled_from(sorted(NAMES)).flatmap(
    lambda name: st.tuples(st.just(name), st.dictionaries(st.sampled_from(NAMES[name]) | st.text(), VALUES, max_size=6))
)


@given(call=CALLS)
async def test_any_arguments_get_a_valid_json_answer(store: MemoryStore, call: tuple[str, dict[str, Any]]):
    """Every answer is text that JSON can say, and no defect is behind it."""
    name, arguments = call
    answer = await create_server(ServedMemory(store, "alice", session_id="s")).call_tool(name, arguments)
    assert isinstance(answer, types.CallToolResult)
    assert "defect" not in said(answer), arguments
    assert said(answer)
    json.loads(answer.model_dump_json())
