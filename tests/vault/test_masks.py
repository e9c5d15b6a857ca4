"""Credentials in a result are shown while it is fresh, then masked; the masks resolve in tools that may use them."""

import json
import re
from pathlib import Path

import pytest
from autogen_core import CancellationToken, FunctionCall
from autogen_core.models import AssistantMessage, FunctionExecutionResult, FunctionExecutionResultMessage, UserMessage

from memory_context import AgentMemory, ContextPolicy, MemoryContext, MemoryStore, PostgresMemory, SecretError
from memory_context.foundation.policy import CompactionPolicy, SecretsPolicy
from memory_context.memory.vault.secrets import SECRET_KEY_ENV
from tests.conftest import Server, database_of
from tests.context.steps import ALWAYS_PAYS, NEVER_PAYS

PASSWORD, OTHER = "hunter2-Qx81Zk", "s3cr3t-Yw92Lm"
ENV = f"HOST=db.internal\nDB_PASSWORD={PASSWORD}\nDB_USER=app\nREDIS_PASSWORD={OTHER}\nOLD_PASSWORD={PASSWORD}\n"
LARGE = "\n".join(f"SETTING_{n}=/opt/service/part_{n}/config.yaml" for n in range(200)) + f"\n{ENV}"
MASK = re.compile(r"\{\{secret:detected-[0-9a-f]{12}\}\}")


def context_of(store: MemoryStore, mode: str = "after_use", **policy: object) -> MemoryContext:
    settings = {"cache": ALWAYS_PAYS, "secrets": SecretsPolicy.model_validate({"mask_in_view": mode}), **policy}
    return MemoryContext("alice", "coder", "s", store, policy=ContextPolicy.model_validate(settings))


async def read_file(context: MemoryContext, content: str = ENV) -> list[str]:
    """Let the agent read a file; return the views before it answers and after."""
    call = FunctionCall("c", json.dumps({"path": ".env"}), "read_file")
    await context.add_message(UserMessage(content="Change the host in .env", source="user"))
    await context.add_message(AssistantMessage(content=[call], source="coder"))
    result = FunctionExecutionResult(content=content, name="read_file", call_id="c", is_error=False)
    await context.add_message(FunctionExecutionResultMessage(content=[result]))
    views = [await shown(context)]
    await context.add_message(AssistantMessage(content="I change it.", source="coder"))
    return [*views, await shown(context)]


async def shown(context: MemoryContext) -> str:
    """Return the result in the view."""
    view = await context.get_messages()
    return next(m.content[0].content for m in view if isinstance(m, FunctionExecutionResultMessage))


async def test_small_result_is_masked_once_answered(store: MemoryStore, key: str) -> None:
    """Equal values get equal masks; the rest stays as it is."""
    context = context_of(store)
    fresh, later = await read_file(context)
    assert fresh == ENV
    first, other, again = MASK.findall(later)
    assert first == again != other
    assert later.replace(first, PASSWORD).replace(other, OTHER) == ENV
    assert "masked 3 (credentials)" in [str(one) for one in (await context.explain()).decisions]
    assert context.transcript[2].text(context.transcript[2].measured[0].address) == ENV


async def test_modes_mask_always_or_never(store: MemoryStore, key: str) -> None:
    views = await read_file(context_of(store, "always"))
    assert [PASSWORD in view for view in views] == [False, False]
    assert views[0] == views[1]
    assert await read_file(context_of(store, "never")) == [ENV, ENV]


@pytest.mark.parametrize("mode", ["after_use", "always"])
async def test_large_result_is_masked_while_it_stays_whole(store: MemoryStore, key: str, mode: str) -> None:
    context = context_of(store, mode, compaction=CompactionPolicy(enabled=False))
    fresh, later = await read_file(context, LARGE)
    assert (PASSWORD in fresh) == (mode == "after_use")
    assert len(MASK.findall(later)) == 3
    assert PASSWORD not in later
    (item,) = await context.agent_memory.query()
    assert await context.retrieve(item.key) == LARGE


async def test_excerpt_is_masked_once_answered(store: MemoryStore, key: str) -> None:
    """Where the excerpt has them, which is elsewhere than in the whole text."""
    fresh, later = await read_file(context_of(store, cache=NEVER_PAYS, first_view_limit_tokens=500), LARGE)
    assert fresh.count("SETTING_") < 200
    assert fresh.count(PASSWORD) == 2
    masks = MASK.findall(later)
    assert later.replace(masks[0], PASSWORD).replace(masks[1], OTHER) == fresh


async def test_masks_are_the_same_after_a_load_and_a_resume(store: MemoryStore, key: str) -> None:
    context = context_of(store)
    _, later = await read_file(context)
    loaded = MemoryContext("alice", "coder", "s", store, policy=context.policy)
    await loaded.load_state(await context.save_state())
    assert await shown(loaded) == later
    await context.close()
    resumed = MemoryContext("alice", "coder", "s", store, policy=context.policy)
    assert await shown(resumed) == later
    await resumed.close()
    await loaded.close()


async def test_masking_changes_no_message_before_the_answered_result(store: MemoryStore, key: str) -> None:
    """Later views have the bytes of the one after the answer."""
    context = context_of(store)
    await read_file(context)
    before = [str(message) for message in await context.get_messages()]
    for number in range(3):
        await context.add_message(UserMessage(content=f"go on {number}", source="user"))
        after = [str(message) for message in await context.get_messages()]
        assert after[: len(before)] == before
        await context.add_message(AssistantMessage(content="yes", source="coder"))


def write_file(path: str, content: str) -> str:
    """Write a file."""
    Path(path).write_text(content)
    return f"wrote {content}"


async def test_file_edited_through_the_agent_keeps_its_credentials(
    store: MemoryStore, key: str, tmp_path: Path
) -> None:
    """What the model saw masked is written as it was, and its answer names the masks."""
    context = context_of(store)
    _, later = await read_file(context)
    tool = context.with_secrets(write_file, allow={"detected-*": ["content"]})
    edited = later.replace("db.internal", "db.example")
    answer = await tool.run_json({"path": str(tmp_path / ".env"), "content": edited}, CancellationToken())
    assert (tmp_path / ".env").read_text() == ENV.replace("db.internal", "db.example")
    assert answer == f"wrote {edited}"


async def test_mask_that_nobody_resolves_is_refused(
    store: MemoryStore, key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a key nothing is kept, and nothing is written with masks in it."""
    monkeypatch.delenv(SECRET_KEY_ENV)
    context = context_of(store)
    _, later = await read_file(context)
    assert len(MASK.findall(later)) == 3
    tool = context.with_secrets(write_file, allow={"detected-*": ["content"]})
    for content in (later, "DB_PASSWORD=[credential****]"):
        with pytest.raises(SecretError, match=r"its value was not kept|was masked and is not kept"):
            await tool.run_json({"path": str(tmp_path / ".env"), "content": content}, CancellationToken())
    assert not (tmp_path / ".env").exists()


async def test_only_masked_values_are_kept_encrypted_and_go_with_the_session(
    store: MemoryStore, server: Server, database_url: str, key: str
) -> None:
    context = context_of(store)
    await read_file(context)
    await context.close()
    rows = server.execute(
        "SELECT name, session_id, t::text FROM memory_context.user_secrets AS t", database_of(database_url)
    )
    assert [(str(name).startswith("detected-"), session) for name, session, _ in rows] == [(True, "s")] * 2
    assert PASSWORD not in str(rows)
    assert await context.agent_memory.secrets.names() == []
    await store.conversations.delete_session("alice", "s")
    assert server.execute("SELECT count(*) FROM memory_context.user_secrets", database_of(database_url)) == [(0,)]


async def test_masks_wait_for_the_store(store: MemoryStore, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The view is masked at once; the values are kept when the store takes them."""
    upsert = store.secret_rows.upsert

    async def fail(*args: object) -> None:
        raise OSError("away")

    monkeypatch.setattr(store.secret_rows, "upsert", fail)
    context = context_of(store)
    _, later = await read_file(context)
    name = MASK.findall(later)[0].removeprefix("{{secret:").removesuffix("}}")
    with pytest.raises(SecretError):
        await context.agent_memory.secrets.value_of(name)
    monkeypatch.setattr(store.secret_rows, "upsert", upsert)
    monkeypatch.setattr(context.agent_memory.secrets._breaker, "retry_at", 0.0)
    await context.add_message(UserMessage(content="go on", source="user"))
    assert await context.agent_memory.secrets.value_of(name) == PASSWORD


@pytest.mark.parametrize("mode", ["after_use", "always", "never"])
async def test_only_messages_that_were_fresh_change(store: MemoryStore, key: str, mode: str) -> None:
    """Over results in parallel, answers and users in between: what was answered before a view has the same bytes in the
    next one, and no answered result shows a credential.
    """
    context = context_of(store, mode, compaction=CompactionPolicy(enabled=False), token_budget=None)
    before: list[str] = []
    answered = 0
    for number in range(6):
        calls = [FunctionCall(f"{number}-{one}", "{}", "read_file") for one in range(3)]
        await context.add_message(AssistantMessage(content=calls, source="coder"))
        results = [
            FunctionExecutionResult(content=text, name="read_file", call_id=call.id, is_error=False)
            for call, text in zip(calls, (f"{number}\n{ENV}", "nothing", f"{number}\n{LARGE}"), strict=True)
        ]
        await context.add_message(FunctionExecutionResultMessage(content=results))
        if number % 2:
            await context.add_message(UserMessage(content=f"and {number}", source="user"))
        view = [str(message) for message in await context.get_messages()]
        assert view[:answered] == before[:answered]
        before, answered = view, context.transcript.state.consumed
        assert (PASSWORD in str(view[:answered])) == (mode == "never" and answered > 0)
    assert answered > 8


async def call(context: MemoryContext, name: str, **arguments: object) -> str:
    tool = next(tool for tool in context.tools() if tool.name == name)
    return str(await tool.run_json(arguments, CancellationToken()))


async def test_masked_credentials_stay_masked_when_they_open_again(store: MemoryStore) -> None:
    """Expansions, hits, look-ups and pages mask; only the application reads what is stored."""
    context = context_of(store)
    ref = await context.agent_memory.store(LARGE, description="the settings of the shop", source="read_file")
    await store.flush_index()
    await context.add_message(UserMessage(content=f"Open {ref.key} and tell me the REDIS_PASSWORD", source="user"))
    view = str(await context.get_messages())
    hits = await context.search("REDIS_PASSWORD of the settings", 3)
    answers = [
        await call(context, "retrieve_memory", memory_key=ref.key),
        await call(context, "retrieve_memory", memory_key=ref.key, transform="filtered", pattern=".{0,3}Yw92.{0,3}"),
        await call(context, "retrieve_memory", memory_key=ref.key, transform="excerpt", start_line=201),
        await call(context, "search_memory", query="REDIS_PASSWORD of the settings"),
        await call(context, "read_history", first_message=1),
    ]
    for text in (view, *(hit.passage for hit in hits), *answers):
        assert PASSWORD[8:] not in text
        assert OTHER[8:] not in text.replace(".{0,3}Yw92.{0,3}", "")
    assert "REDIS_PASSWORD=" in view
    assert "REDIS_PASSWORD=" in answers[2]
    assert await context.retrieve(ref.key) == LARGE


async def test_model_looks_up_credentials_in_clear_only_if_nothing_is_masked(store: MemoryStore) -> None:
    context = context_of(store, "never")
    ref = await context.agent_memory.store(ENV, description="the settings", source="read_file")
    assert OTHER in await call(context, "retrieve_memory", memory_key=ref.key)


async def test_item_older_than_its_secret_opens_without_the_value(store: MemoryStore, key: str) -> None:
    """Expansions, hits, shown memories and the archive have the name."""
    memory = AgentMemory(store, "alice", "coder")
    ref = await memory.store("the lantern key is in a file: " + OTHER + "\n" * 5, description=f"old {OTHER}")
    await store.flush_index()
    await memory.secrets.set("SHOP", OTHER)
    context = MemoryContext("alice", "coder", "s", store)
    await PostgresMemory("alice", agent_id="coder", memory_store=store).update_context(context)
    await context.add_message(UserMessage(content=f"open {ref.key} please", source="user"))
    memories = PostgresMemory("alice", agent_id="coder", memory_store=store)
    found = await memories.query("the lantern key")
    await memories.update_context(context)
    view = str(await context.get_messages())
    assert "lantern key" in view
    for text in (view, str(found), str(await context.save_state())):
        assert OTHER not in text
    await context.show_memories(f"said by another memory: {OTHER}", [ref.key])
    assert OTHER not in str(await context.get_messages())
    await context.close()
