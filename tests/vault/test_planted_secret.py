"""A secret planted everywhere in a session stands in no view, search, row, export, log, error or repr."""

import json
import logging

import pytest
from autogen_core import CancellationToken
from autogen_core.memory import MemoryContent, MemoryMimeType
from autogen_core.models import (
    UserMessage,
)

from memory_context import AgentMemory, ContextPolicy, MemoryContext, MemoryStore, PostgresMemory
from memory_context.memory.vault.secrets import Secrets
from tests.embeddings.fakes import FakeEmbedder
from tests.mcp_server.conftest import connected

from .planted import FORMS, NAME, VALUE, dump, messages, stands_in

pytestmark = pytest.mark.fake_embedder


class Records(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.NOTSET)
        self.text = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.text += f"{record.getMessage()} {record.args!r} {record.exc_info!r}\n"


async def plant(store: MemoryStore, context: MemoryContext) -> list[str]:
    """Say and store the value everywhere; return what was shown meanwhile."""
    shown: list[str] = []
    for message in messages():
        await context.add_message(message)
        shown += [str(await context.get_messages()), str(await context.explain())]
    memory = context.agent_memory
    await context.store(f"kept {VALUE}", f"about {VALUE}", tags=[VALUE], metadata={VALUE: [VALUE, {"a": VALUE}]})
    content = MemoryContent(content=f"added {VALUE}", mime_type=MemoryMimeType.TEXT, metadata={"note": VALUE})
    await PostgresMemory("alice", memory_store=store).add(content)
    await memory.notes.append(f"# Tokens\nuse {VALUE}")
    await memory.notes.edit("replace_section_by_header", f"{FORMS['json']} and {FORMS['url']}", "Tokens")
    await memory.remember(f"my code word is {VALUE}")
    shown += [await memory.notes.read(), str(await memory.user_memory())]
    async with connected(store) as client:
        arguments = {"content": f"by MCP {VALUE}", "description": VALUE}
        shown.append(str(await client.call_tool("store_memory", arguments)))
        shown.append(str(await client.call_tool("search_memory", {"query": VALUE})))
    for tool in context.tools():
        for arguments in ({"content": VALUE, "description": VALUE}, {"query": VALUE}, {"memory_key": VALUE}, {}):
            shown.append(str(await tool.run_json(arguments, CancellationToken())))
    await context.show_memories(f"a memory of {NAME}", [])
    await store.flush_index()
    shown += [str(await memory.search(query)) for query in (VALUE, "planted secret", "harbours", "PLANTED")]
    shown += [str(await memory.query()), str(await memory.snapshot()), str(await memory.audit())]
    for item in await memory.query():
        shown.append(str(await context.retrieve(item.key)))
    for attempt in (
        context.retrieve(VALUE),
        memory.secrets.value_of("MISSING"),
        memory.secrets.set("PLANTED", VALUE[:7]),
    ):
        with pytest.raises(Exception) as raised:  # noqa: PT011 - any, for its words
            await attempt
        shown.append(f"{raised.value!r}")
    await context.archive()
    return shown


@pytest.mark.thorough
async def test_planted_secret_is_found_nowhere(
    store: MemoryStore, database_url: str, key: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It is said before this process has read the vault; a later process resumes the session and clears nothing up."""
    await Secrets(store, "alice").set("PLANTED", VALUE)
    records, root = Records(), logging.getLogger()
    root.addHandler(records)
    level = logging.getLogger("memory_context").level
    logging.getLogger("memory_context").setLevel(logging.DEBUG)
    try:
        policy = ContextPolicy(token_budget=20_000)
        async with MemoryContext("alice", "coder", "s1", store, policy=policy) as context:
            shown = await plant(store, context)
            state = json.dumps(await context.save_state())
            config = context.dump_component().model_dump_json()
            shown += [repr(context), str(context.stats), repr(context.transcript.entries()), config, state]
            shown += [repr(context.agent_memory.secrets), repr(vars(context)), repr(store)]
        async with MemoryContext("alice", "coder", "s1", store, policy=policy) as again:
            shown.append(str(await again.get_messages()))
        first = messages()
        fresh = MemoryContext("alice", "coder", "s2", store, policy=policy, initial_messages=first[:2])
        shown.append(str(await fresh.get_messages()))
        await fresh.close()
    finally:
        root.removeHandler(records)
        logging.getLogger("memory_context").setLevel(level)
    export = b"".join([piece async for piece in store.admin.export_lines("alice")]).decode()
    embedder = store.embedder
    assert isinstance(embedder, FakeEmbedder)
    surfaces = {"shown": "\n".join(shown), "rows": dump(database_url), "export": export, "logs": records.text}
    surfaces["embedded"] = str(embedder.calls)
    surfaces |= {f"logged by {one.name}": one.getMessage() for one in caplog.records}
    assert {name: stands_in(text) for name, text in surfaces.items() if stands_in(text)} == {}
    for name in ("shown", "rows", "export", "embedded"):
        assert NAME in surfaces[name], name


def test_the_check_finds_every_planted_form() -> None:
    """A check that finds nothing anywhere would pass too."""
    for form in FORMS.values():
        assert stands_in(f"x {form} y")


async def test_secret_of_another_user_is_text(store: MemoryStore, key: str) -> None:
    await AgentMemory(store, "bob").secrets.set("PLANTED", VALUE)
    context = MemoryContext("alice", "coder", "s", store)
    await context.add_message(UserMessage(content=VALUE, source="user"))
    assert VALUE in str((await context.get_messages())[-1].content)


async def test_secret_set_later_is_hidden_from_then_on(store: MemoryStore, key: str) -> None:
    """By a running context, without a new session."""
    context = MemoryContext("alice", "coder", "s", store)
    await context.add_message(UserMessage(content="hello", source="user"))
    await AgentMemory(store, "alice").secrets.set("PLANTED", VALUE)
    await context.add_message(UserMessage(content=f"it is {VALUE}", source="user"))
    assert [message.content for message in await context.get_messages()][-2:] == ["hello", f"it is {NAME}"]


async def test_nothing_is_stored_while_the_vault_cannot_be_read(
    store: MemoryStore, database_url: str, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent goes on; once the vault answers, what was said meanwhile is hidden before it is stored."""
    await Secrets(store, "alice").set("PLANTED", VALUE)
    select = store.secret_rows.select

    async def fail(user_id: str) -> None:
        raise OSError("away")

    monkeypatch.setattr(store.secret_rows, "select", fail)
    context = MemoryContext("alice", "coder", "s", store)
    for message in messages():
        await context.add_message(message)
    assert VALUE in str(await context.get_messages())
    assert stands_in(dump(database_url)) == []
    monkeypatch.setattr(store.secret_rows, "select", select)
    monkeypatch.setattr(context.agent_memory.secrets._breaker, "retry_at", 0.0)
    await context.add_message(UserMessage(content="go on", source="user"))
    assert stands_in(str(await context.get_messages())) == []
    await context.archive()
    await context.close()
    assert stands_in(dump(database_url)) == []
    assert NAME in dump(database_url)
