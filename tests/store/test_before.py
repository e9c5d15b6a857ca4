"""A database, states and component data of an earlier version load, and read as they did then.

`tests/data/before` was written once, by the version whose migrations are listed below, and is never written again:
`rows.tsv.xz` has the rows of every table (name, tab, JSON), `expected.json.xz` the saved states and what that version
read of them, `components.json` component data and policies. Every kind of decision is in it.
"""

import asyncio
import hashlib
import json
import lzma
import shutil
import warnings
from collections.abc import AsyncIterator, Iterator
from datetime import datetime, timedelta, timezone
from functools import cache
from itertools import count, groupby
from pathlib import Path
from typing import Any, cast

import psycopg
import pytest
from autogen_agentchat.agents import AssistantAgent
from autogen_core import ComponentLoader
from autogen_core.models import UserMessage
from psycopg import sql

from memory_context import (
    AgentMemory,
    ContextPolicy,
    MemoryContext,
    MemoryItem,
    MemoryStore,
    PostgresMemory,
    SessionGoneError,
    SessionKey,
)
from memory_context.foundation.messages import message_to_json
from memory_context.foundation.utf8 import escape_json
from memory_context.memory.clear_secrets import adopt_clear_secrets
from memory_context.memory.vault.secrets import SECRET_KEY_ENV
from memory_context.store import sql as sql_files
from tests.agents.scripted import text_of
from tests.conftest import Server
from tests.context.histories import check_pairing

Json = dict[str, Any]

FOLDER = Path(__file__).parents[1] / "data" / "before"
MIGRATIONS = (
    "0001_initial",
    "0002_pre_statements",
    "0003_pre_user_secrets",
    "0004_pre_said_twice",
    "0005_pre_conversation_jobs",
    "0006_pre_long_term_notes",
    "0007_pre_consolidations",
    "0008_pre_store_memories",
    "0009_pre_images",
    "0010_pre_waiting_users",
    "0011_pre_hosted_databases",
    "0012_pre_statements_again",
)
START = datetime(2026, 1, 1, tzinfo=timezone.utc)
WITHDRAWN = ("cut", "digested")
"""Sessions whose policy asks for what later versions may no longer do; their views need not have the same bytes."""

_numbers = count(1)

# --- the files


@cache
def expected() -> Json:
    return json.loads(lzma.decompress((FOLDER / "expected.json.xz").read_bytes()))


@cache
def components() -> Json:
    return json.loads((FOLDER / "components.json").read_text())


def sessions() -> dict[str, Json]:
    return expected()["sessions"]


def load_rows(connection: psycopg.Connection[Any]) -> None:
    """Put the rows into the tables of that version, in place of what its migrations put there."""
    lines = lzma.decompress((FOLDER / "rows.tsv.xz").read_bytes()).decode().split("\n")
    tables = [(name, [*rows]) for name, rows in groupby((line.split("\t", 1) for line in lines), lambda line: line[0])]
    everything = sql.SQL(", ").join(sql.Identifier("memory_context", name) for name, _ in tables)
    connection.execute(sql.SQL("TRUNCATE {}").format(everything))
    for name, rows in tables:
        table = sql.Identifier("memory_context", name)
        columns = sql.SQL(", ").join(map(sql.Identifier, json.loads(rows[0][1])))
        insert = sql.SQL(
            "INSERT INTO {table} ({columns}) OVERRIDING SYSTEM VALUE SELECT {columns} "
            "FROM string_to_table(%s, chr(10)) AS line, jsonb_populate_record(NULL::{table}, line::jsonb)"
        ).format(table=table, columns=columns)
        connection.execute(insert, ["\n".join(row for _, row in rows)])
    identities = connection.execute(
        "SELECT attrelid::regclass::text, attname FROM pg_attribute "
        "WHERE attidentity <> '' AND attrelid::regclass::text LIKE 'memory_context.%'"
    ).fetchall()
    for table, column in identities:
        last = sql.SQL("SELECT setval(pg_get_serial_sequence(%s, %s), max({})) FROM {}").format(
            sql.Identifier(column), sql.Identifier(*table.split("."))
        )
        connection.execute(last, [table, column])
    models = connection.execute(
        "SELECT DISTINCT embedding_model FROM memory_context.agent_memory_embeddings"
    ).fetchall()
    for (model,) in models:
        connection.execute("SELECT memory_context.ensure_embedding_index(%s, %s)", [model, int(model.split("/")[-1])])


# --- the database


@pytest.fixture(scope="module")
def migrated(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The name of a database that the version before filled and this version has migrated."""
    name = "before"
    server.execute("CREATE DATABASE {name}", name=name)
    url = server.url(name)
    folder = tmp_path_factory.mktemp("before") / "sql"
    shutil.copytree(sql_files.sql_folder(), folder)
    for path in (folder / "migrations").glob("*.sql"):
        if path.stem not in MIGRATIONS:
            path.unlink()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sql_files, "sql_folder", lambda: folder)
        sql_files.load_migrations.cache_clear()
        assert asyncio.run(MemoryStore(url).admin.migrate()) == [*MIGRATIONS]
    sql_files.load_migrations.cache_clear()
    with psycopg.connect(url) as connection:
        load_rows(connection)
    asyncio.run(MemoryStore(url).admin.migrate())
    yield name
    server.execute("DROP DATABASE {name} WITH (FORCE)", name=name)


@pytest.fixture
async def store(
    server: Server, migrated: str, index_when_flushed: None, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[MemoryStore]:
    """The default store, on a copy of that database, with the key of its secrets; jobs wait until they are flushed."""
    name = f"before_{next(_numbers)}"
    server.copy(migrated, name)
    monkeypatch.setenv("MEMORY_CONTEXT_URL", server.url(name))
    monkeypatch.setenv(SECRET_KEY_ENV, expected()["secret_key"])
    store = MemoryStore.default()
    holder = AgentMemory(store, "alice")
    store.join(holder)  # else it closes with each context
    yield store
    await store.leave(holder)
    server.execute("DROP DATABASE {name} WITH (FORCE)", name=name)


def context_of(saved: Json, **others: Any) -> MemoryContext:
    """Return the context of a session, by its component data."""
    config = {**saved["component"]["config"], "resume": True, **others}
    return MemoryContext.load_component({**saved["component"], "config": config})


def memory_of(store: MemoryStore, item: Json) -> AgentMemory:
    """Return the memory of the agent that stored an item."""
    sharing = "isolated" if item["is_private"] else "shared"
    return AgentMemory(store, item["user_id"], item["agent_id"] or None, item["session_id"], sharing=sharing)


async def seen_in(context: MemoryContext) -> tuple[list[Json], list[Json]]:
    """Return the next view, and all messages of the session."""
    view = [message_to_json(one) for one in await context.get_messages()]
    return view, [message_to_json(entry.message) for entry in context.transcript.entries()]


async def check_next_view(context: MemoryContext) -> None:
    """The session goes on: the next view answers a new message, within the budget and with calls beside results."""
    await context.add_message(UserMessage(content="And what is next?", source="user"))
    view = await context.get_messages()
    assert "And what is next?" in text_of(view)
    assert (await context.explain()).tokens <= (context.policy.token_budget or 0)
    check_pairing(view)


def content_of(item: MemoryItem | None) -> tuple[int, str, str | None]:
    """Return the length and the hash of a content, and the hash of an image."""
    assert item is not None
    content = hashlib.sha256(item.content.encode("utf-8", "surrogatepass")).hexdigest()
    return len(item.content), content, None if item.data is None else hashlib.sha256(item.data).hexdigest()


async def test_every_item_comes_back_by_its_key_byte_for_byte(store: MemoryStore) -> None:
    """Whatever its type: results, images, odd characters, articles, the words of a user; forgotten ones stay away."""
    items = [item for item in expected()["items"] if item["key"] != expected()["large"]]
    assert len(items) > 200
    for given in items:
        item = await memory_of(store, given).retrieve(given["key"])
        assert content_of(item) == (given["characters"], given["sha256"], given["data_sha256"]), given["key"]
        assert item is not None
        assert escape_json(
            {
                "type": item.type,
                "origin": item.origin,
                "source": item.source,
                "description": item.ref.description,
                "tags": [*item.tags],
                "metadata": dict(item.metadata),
            }
        ) == {name: given[name] for name in ("type", "origin", "source", "description", "tags", "metadata")}
        assert await AgentMemory(store, "nobody").retrieve(given["key"]) is None
    for key in expected()["forgotten"]:
        assert await AgentMemory(store, "alice", "coder", "forgotten").retrieve(key) is None


async def test_content_over_32_mb_comes_back_byte_for_byte(store: MemoryStore) -> None:
    (given,) = [item for item in expected()["items"] if item["key"] == expected()["large"]]
    assert given["characters"] > 33_000_000
    item = await memory_of(store, given).retrieve(given["key"])
    assert content_of(item) == (given["characters"], given["sha256"], None)


@pytest.mark.parametrize("source", ["archive", "state"])
async def test_every_session_resumes_with_its_messages_and_its_view(store: MemoryStore, source: str) -> None:
    """And goes on: folds, differences, images, observations, expansions, orders, masks, what connectors showed."""
    for session_id, saved in sessions().items():
        context = context_of(saved)
        await (context.resume() if source == "archive" else context.load_state(saved["state"]))
        view, messages = await seen_in(context)
        assert messages == saved["messages"], session_id
        if session_id not in WITHDRAWN:
            assert view == saved["view"], session_id
            assert context.observation.observations == saved["observations"], session_id
        await check_next_view(context)
        await context.close()


@pytest.mark.parametrize("source", ["archive", "state"])
async def test_digest_lines_stand_in_the_view_of_a_resumed_session(store: MemoryStore, source: str) -> None:
    saved = sessions()["digested"]
    lines = [line for line in saved["observations"].splitlines() if line.startswith("- ")]
    assert len(lines) > 20
    context = context_of(saved)
    await (context.resume() if source == "archive" else context.load_state(saved["state"]))
    view = text_of(await context.get_messages())
    assert [line for line in lines if line not in view] == []
    await context.close()


@pytest.mark.parametrize("source", ["archive", "state"])
async def test_cut_arguments_and_refused_calls_stand_in_the_view_of_a_resumed_session(
    store: MemoryStore, source: str
) -> None:
    """What was cut comes back by its key."""
    saved = sessions()["cut"]
    key = saved["arguments"][0]["body"].partition("MemoryRef: ")[2].split()[0]
    context = context_of(saved)
    await (context.resume() if source == "archive" else context.load_state(saved["state"]))
    view, _ = await seen_in(context)
    before = [one for message in saved["view"] if message["type"] == "AssistantMessage" for one in message["content"]]
    assert [one for m in view if m["type"] == "AssistantMessage" for one in m["content"]] == before
    refusals = [one["content"] for m in view if m["type"] == "FunctionExecutionResultMessage" for one in m["content"]]
    assert any(f'retrieve_memory(memory_key="{key}")' in one for one in refusals)
    assert (await context.retrieve(key)).startswith("owl finding 0: value 0")
    await context.close()


async def test_search_finds_what_it_found(store: MemoryStore) -> None:
    """The best hit of then is still one of those that are shown."""
    for session_id, saved in sessions().items():
        sharing = saved["component"]["config"]["sharing"]
        memory = AgentMemory(store, saved["user_id"], saved["agent_id"], session_id, sharing=sharing)
        for query, keys in saved.get("hits", {}).items():
            assert keys[0] in [hit.item.key for hit in await memory.search(query, 10)], query


async def test_statements_hold_and_are_superseded_as_they_were(store: MemoryStore) -> None:
    for user, given in expected()["statements"].items():
        held = await AgentMemory(store, user).user_memory()
        assert [[one.key, one.content, one.type, one.origin] for one in held] == given
    memory = AgentMemory(store, "alice")
    assert [one.key for one in await memory.user_memory(with_superseded=True)] == expected()["superseded"]
    assert [one.key for one in await memory.unconfirmed()] == expected()["unconfirmed"]
    for day, texts in expected()["as_of"].items():
        held = await memory.user_memory(as_of=START + timedelta(days=int(day), hours=1))
        assert [one.content for one in held] == texts
    await memory.remember("My editor is Vim.", type="user_preference")
    assert "My editor is Helix." not in [one.content for one in await memory.user_memory()]


async def test_notes_and_their_former_versions_are_read(store: MemoryStore) -> None:
    """Each agent's own; the last change can be undone."""
    for place, given in expected()["notes"].items():
        notes = AgentMemory(store, *place.split("/")).notes
        assert escape_json(await notes.read()) == given["text"]
        assert (
            escape_json([[one.version, one.operation, one.text] for one in await notes.versions()]) == given["versions"]
        )
    notes = AgentMemory(store, "alice", "coder").notes
    assert (await notes.undo()).text == expected()["notes"]["alice/coder"]["versions"][1][2]


async def test_secrets_are_revealed_with_their_key(store: MemoryStore) -> None:
    """Also a credential that the view masked, and a secret that a still earlier version stored in clear."""
    secrets = AgentMemory(store, "alice").secrets
    assert {one.name for one in await secrets.names()} >= {*expected()["secret_names"]}
    for name, value in {**expected()["secrets"], **expected()["detected"]}.items():
        assert await secrets.value_of(name) == value
    assert await secrets.hidden(f"say {expected()['secrets']['API_TOKEN']}") == "say {{secret:API_TOKEN}}"
    adopted = await adopt_clear_secrets(AgentMemory(store, "alice"))
    assert await secrets.value_of(adopted.encrypted[0]) == "12 34 56 of the safe"


async def test_sessions_chats_and_audit_are_listed(store: MemoryStore) -> None:
    """With titles, summaries and counts; a deleted session stays deleted."""
    for user, given in expected()["listed"].items():
        found = await store.conversations.sessions(user)
        assert sorted([one.session_id, one.title, one.summary, one.message_count] for one in found) == sorted(given)
    with pytest.raises(SessionGoneError):
        await store.conversations.append(SessionKey("alice", "coder", "deleted"), title="Again")
    events = await AgentMemory(store, "alice", "coder", "folded").audit(limit=1000)
    assert {event.kind for event in events} >= {*expected()["audited"]}


async def test_chat_threads_are_read_with_steps_ratings_and_files(store: MemoryStore) -> None:
    user = await store.threads.user("alice")
    thread = await store.threads.thread("alice", "thread")
    assert user is not None
    assert thread is not None
    assert user.metadata == {"role": "reader"}
    assert (thread.thread.name, thread.thread.tags, thread.thread.metadata) == ("A chat", ("work",), {"page": 1})
    hello, odd = thread.steps
    assert (hello.output, hello.fields["type"]) == ("Hello.", "user_message")
    assert "\x00\x1a\ud800\udfff\U0001f600\r\n" in str(odd.output)
    assert odd.feedback is not None
    assert (odd.feedback.value, odd.feedback.comment) == (1, "good")
    (element,) = thread.elements
    content = await store.threads.element_content("alice", "thread", element.element_id)
    assert content is not None
    assert content.content == b"\x00\xffbytes"
    assert await store.threads.thread("alice", "gone") is None
    assert await store.threads.thread("bob", "thread") is None
    said = await store.conversations.chat_page("alice", "thread")
    assert [one.text for one in said] == ["Hello.", odd.output]
    assert [one.is_verified for one in said] == [True, False]


async def test_waiting_jobs_run_and_dead_letters_stay(store: MemoryStore) -> None:
    """A result is indexed, a session is searched and learned from; kinds without a handler are left alone."""
    context = context_of(sessions()["waiting"])
    await context.resume()
    assert (await store.jobs.flush()).failed == 1
    assert sorted(one.kind for one in await store.jobs.failures("alice")) == ["index", "letter"]
    memory = AgentMemory(store, "alice", "coder", "another")
    assert expected()["waiting"] in [hit.item.key for hit in await memory.search("herons finding 12")]
    assert any("bicycle is called Kestrel" in hit.passage for hit in await memory.search("bicycle Kestrel"))
    assert any("bicycle is called Kestrel" in one.content for one in await memory.user_memory())
    await context.close()


# --- component data


def dumped(component: Any) -> Json:
    return json.loads(component.dump_component().model_dump_json())


def loaded(data: Json) -> Any:
    return ComponentLoader.load_component(data, object)


def test_tools_load_by_their_former_module() -> None:
    tools = {**components()["tools"], "read_history": components()["recall_tool"]}
    tools["secret"] = components()["secret_tool"]
    assert {data["provider"].rpartition(".")[0] for data in tools.values()} == {"memory_context.tools"}
    for name, data in tools.items():
        tool = loaded(data)
        assert tool.name == name or name == "secret"
        assert tool.schema["name"] == tool.name
    bench = components()["secret_workbench"]
    assert bench["provider"] == "memory_context.tools.SecretWorkbench"
    assert loaded(bench).component_type == "workbench"


@pytest.mark.parametrize("name", ["code", "editor", "web"])
def test_connectors_load_with_their_settings(name: str) -> None:
    data = components()["connectors"][name]
    connector = loaded(data)
    assert connector.id == name
    assert dumped(connector)["config"] == data["config"]


def test_context_with_a_shell_loads_without_it(caplog: pytest.LogCaptureFixture) -> None:
    """The shell connector is withdrawn; one warning names it."""
    data = components()["context"]
    connectors = [components()["connectors"][name] for name in ("shell", "code")]
    context = loaded({**data, "config": {**data["config"], "connectors": connectors}})
    assert [one.id for one in context.connectors] == ["code"]
    assert sum("'shell' is left out" in one.message for one in caplog.records) == 1


async def test_contexts_load_with_what_they_were_given(store: MemoryStore) -> None:
    """Also data without a template id, as the very first version wrote it: its generated session is another's."""
    context = cast(MemoryContext, loaded(components()["context"]))
    assert (context.user_id, context.agent_id, context.policy.token_budget) == ("alice", "coder", 3000)
    assert [one.id for one in context.connectors] == ["code", "editor"]
    assert [one.content for one in await context.get_messages()] == ["Hello."]
    assert cast(MemoryContext, loaded(components()["named_context"])).session_id == "folded"
    assert cast(MemoryContext, loaded(components()["subagent"])).sharing == "isolated"
    earlier = components()["earlier_context"]
    assert cast(MemoryContext, loaded(earlier)).session_id != earlier["config"]["session_id"]
    memory = cast(PostgresMemory, loaded(components()["memory"]))
    assert (memory.name, memory.agent_memory.user_id, memory.agent_memory.agent_id) == ("facts", "alice", "coder")


@pytest.mark.parametrize("name", ["agent", "agent_with_workbench"])
async def test_agents_load_and_their_tools_belong_to_their_context(store: MemoryStore, name: str) -> None:
    agent = cast(AssistantAgent, loaded(components()[name]))
    context = agent.model_context
    assert isinstance(context, MemoryContext)
    (bench,) = agent._workbench  # pyright: ignore[reportPrivateUsage]
    key = await context.store("Owls sleep by day.", "about owls")
    answer = await bench.call_tool("retrieve_memory", {"memory_key": key})
    assert "Owls sleep by day." in answer.to_text()
    await context.close()


@pytest.mark.parametrize("name", ["defaults", "changed"])
def test_policy_loads_with_every_field(name: str) -> None:
    """Each setting that this version still has keeps its value; settings that were withdrawn may warn."""
    data = components()["policies"][name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        policy = ContextPolicy.model_validate(data)
    if data["observation"]["mode"] == "digest":  # withdrawn: taken as "off"
        data["observation"]["mode"] = "off"
    assert changed(policy.model_dump(mode="json"), data) == []


def changed(now: Json, before: Json, path: str = "") -> list[str]:
    """Return the paths of settings that are in both, with another value."""
    found: list[str] = []
    for name in now.keys() & before.keys():
        if isinstance(now[name], dict) and isinstance(before[name], dict) and before[name]:
            found += changed(now[name], before[name], f"{path}{name}.")
        elif now[name] != before[name]:
            found.append(f"{path}{name}")
    return sorted(found)
