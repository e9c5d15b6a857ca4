"""Credentials in a result are shown while it is fresh and stored as they are; nothing that outlives that has them."""

import asyncio
import json
from typing import Any

import psycopg
import pytest
from autogen_core import FunctionCall
from autogen_core.models import AssistantMessage, UserMessage

from memory_context import AgentMemory, ContextPolicy, MemoryContext, MemoryStore
from memory_context.foundation.policy import ExpansionPolicy
from tests.conftest import Server, database_of
from tests.credentials.made import URL_SAFE, Chance
from tests.embeddings.fakes import FakeEmbedder
from tests.support.waiting import soon

from ..agents.scripted import report, text_of
from .lights import Light
from .steps import ALWAYS_PAYS, add_step

CHANCE = Chance(12)
KEY = "sk-" + "proj-" + CHANCE.text(48, URL_SAFE)
PASSWORD = "hunter2-" + CHANCE.text(6)
ENVIRONMENT = "\n".join(
    [f"SETTING_{n}=/opt/service/part_{n}/config.yaml" for n in range(120)]
    + [f"OPENAI_API_KEY={KEY}", f"DATABASE_URL=postgres://app:{PASSWORD}@db.internal:5432/app"]
    + [f"FEATURE_{n}=enabled_for_group_{n}" for n in range(120)]
)


def parts(secret: str) -> list[str]:
    return [secret[start : start + 6] for start in range(len(secret) - 5)]


def leaks(text: str) -> list[str]:
    return [part for secret in (KEY, PASSWORD) for part in parts(secret) if part in text]


def context_of(store: MemoryStore, **policy: object) -> MemoryContext:
    return MemoryContext(
        "alice", "coder", "s1", store, policy=ContextPolicy.model_validate({"cache": ALWAYS_PAYS} | policy)
    )


async def seen_and_answered(
    context: MemoryContext, result: str = ENVIRONMENT, arguments: str = "{}"
) -> tuple[str, str]:
    """Let an agent see a result and answer; return the first view and the one after it."""
    await context.add_message(UserMessage(content="Which OPENAI_API_KEY and DATABASE_URL are set?", source="user"))
    await add_step(context, result, name="run_shell", arguments=arguments)
    first = text_of(await context.get_messages())
    await context.add_message(AssistantMessage(content="Both OPENAI_API_KEY and DATABASE_URL.", source="coder"))
    return first, text_of(await context.get_messages())


async def test_first_view_shows_credentials_and_no_later_one_does(store: MemoryStore):
    first, later = await seen_and_answered(context_of(store))
    assert KEY in first
    assert PASSWORD in first
    assert "MemoryRef" in later
    assert not leaks(later)


async def test_stored_content_is_exact_and_retrieve_shows_it(store: MemoryStore):
    context = context_of(store)
    await seen_and_answered(context)
    (item,) = await context.agent_memory.query()
    assert await context.retrieve(item.key) == ENVIRONMENT


async def test_excerpt_of_a_long_result_names_no_credential_of_the_rest(store: MemoryStore):
    """Passages are shown as they are; names of what is left out are not credentials, nor are they split ones."""
    filler = "\n".join(f"line {n} of a long log about weather" for n in range(6000))
    result = f"{filler}\nOPENAI_API_KEY={KEY}\npostgres://app:{PASSWORD}@db/app\n{filler}"
    context = context_of(store)
    first, later = await seen_and_answered(context, result)
    (line,) = [line for line in first.split("\n") if line.startswith("Names in the rest")] or [""]
    assert not leaks(line)
    assert not leaks(later)


@pytest.mark.parametrize("cut_at", range(47_900, 48_100, 23))
async def test_cuts_of_an_analysed_window_leave_no_half(store: MemoryStore, cut_at: int):
    """Of a large content only windows are analysed; a credential across their edges is masked before the cut."""
    head = int(48_000 * 0.6)
    before = "word " * ((head - 20 - cut_at % 29) // 5)
    result = f"{before}OPENAI_API_KEY={KEY} {'more words ' * 20_000}"
    _, later = await seen_and_answered(context_of(store), result)
    assert not leaks(later)


async def test_descriptions_of_calls_texts_and_titles_are_masked(store: MemoryStore):
    context = context_of(store)
    arguments = json.dumps({"command": f"curl -H 'Authorization: Bearer {KEY}' https://api.example.org/v1"})
    await context.add_message(UserMessage(content=f"My key is OPENAI_API_KEY={KEY}, use it.", source="user"))
    await add_step(context, ENVIRONMENT, name="run_shell", arguments=arguments)
    await context.add_message(
        AssistantMessage(
            content=[FunctionCall(id="w", name="write", arguments=json.dumps({"text": f"KEY={KEY}\n" * 60}))],
            source="coder",
        )
    )
    await context.store("some text", f"a note with OPENAI_API_KEY={KEY}")
    await context.add_message(UserMessage(content=f"token: {KEY}\n" + "more of it\n" * 900, source="user"))
    await context.close()
    items = await AgentMemory(store, "alice").query()
    assert len(items) >= 4
    assert not [found for item in items for found in leaks(item.ref.description)]
    (session,) = await store.conversations.sessions("alice")
    assert not leaks(f"{session.title} {session.summary}")


async def test_credentials_are_no_search_terms(store: MemoryStore, server: Server, database_url: str):
    context = context_of(store)
    await seen_and_answered(context)
    assert not [hit for hit in await context.search(KEY) if hit.score.lexical], "before it is indexed"
    await store.flush_index()
    with psycopg.connect(server.url(database_of(database_url)), autocommit=True) as connection:
        terms = " ".join(row[0] for row in connection.execute("SELECT term FROM memory_context.agent_memory_terms"))
    assert "openai" in terms
    assert not leaks(terms)
    assert not [part for part in parts(KEY.lower()) if part in terms]
    (hit, *_) = await context.search("OPENAI_API_KEY")
    assert hit.item.key


async def test_store_turns_masks_of_its_index_off(database_url: str):
    async with MemoryStore(database_url, mask_credentials=False) as store:
        context = context_of(store)
        await seen_and_answered(context)
        await store.flush_index()
        assert [hit for hit in await context.search(KEY) if hit.score.lexical]


async def test_fold_and_audit_trail_are_masked(store: MemoryStore):
    context = context_of(store, token_budget=3000)
    await context.add_message(UserMessage(content=f"Use OPENAI_API_KEY={KEY} for all calls.", source="user"))
    for number in range(12):
        await add_step(context, f"result {number} " * 150)
        await context.add_message(UserMessage(content=f"And now part {number}.", source="user"))
    await context.get_messages()
    fold = context.transcript.state.fold
    assert fold is not None
    assert not leaks(fold.text)
    await context.search(f"OPENAI_API_KEY={KEY}")
    events = await context.agent_memory.audit()
    assert not [found for event in events for found in leaks(event.detail)]


def private_key(lines: int) -> str:
    """Return a private key longer than several passages."""
    body = "\n".join(CHANCE.text(64) for _ in range(lines))
    return f"-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----"


async def test_no_part_of_a_credential_is_embedded(database_url: str):
    """Credentials are masked in the whole content, also where the end of a passage cuts a key, and in queries."""
    embedder, key = FakeEmbedder(), private_key(90)
    content = "\n".join([*(f"harbour {n}" for n in range(200)), key, *(f"lighthouse {n}" for n in range(200))])
    async with MemoryStore(database_url, embedder) as store:
        memory = AgentMemory(store, "alice")
        ref = await memory.store(f"{content}\n{ENVIRONMENT}")
        await store.flush_index()
        (hit, *_) = await memory.search(f"harbour OPENAI_API_KEY={KEY}")
        assert hit.item.key == ref.key
        other = FakeEmbedder("other")
        await store.reindex(other)
    embedded = [text for model in (embedder, other) for texts, _ in model.calls for text in texts]
    assert sum("[credential]" in text for text in embedded) > 4
    assert {purpose for _, purpose in embedder.calls} == {"document", "query"}
    assert not [text for text in embedded if leaks(text)]
    assert not [line for line in key.split("\n")[1:-1] for text in embedded if line in text or line[:20] in text]


async def test_decision_prompt_has_no_credential(store: MemoryStore):
    """Neither of the request, also where it is cut, nor of the last answer or a description."""
    light, key = Light(), private_key(90)
    context = MemoryContext("alice", "coder", "s1", store, model_client=light)
    await context.store("a note", f"a note with OPENAI_API_KEY={KEY}")
    await add_step(context, ENVIRONMENT, name="run_shell")
    await context.get_messages()
    await context.add_message(AssistantMessage(content=f"I set OPENAI_API_KEY={KEY}.", source="coder"))
    filler = "the survey of the harbour goes on\n" * 900
    request = f"Use postgres://app:{PASSWORD}@db/app.\n{filler[:1_500]}{key}\n{filler}{key}\nWhat is SETTING_7?"
    await context.add_message(UserMessage(content=request, source="user"))
    await context.get_messages()
    (prompt,) = light.prompts
    assert "What is SETTING_7?" in prompt
    assert not leaks(prompt)
    assert not any(line[:20] in prompt for line in key.split("\n")[1:-1])


async def test_light_model_reads_and_writes_no_credential(store: MemoryStore, monkeypatch: pytest.MonkeyPatch):
    """Neither in the result that it sums up nor in the talk that it names; what it writes is masked too."""
    light = Light()
    light.summary = json.dumps(
        {"summary": f"The service uses OPENAI_API_KEY={KEY} and postgres://app:{PASSWORD}@db/app."}
    )
    light.title = json.dumps({"title": f"Use OPENAI_API_KEY={KEY}"})
    written = asyncio.Event()
    write = store.items.update_model_summary

    async def noted(*arguments: Any) -> bool:
        try:
            return await write(*arguments)
        finally:
            written.set()

    monkeypatch.setattr(store.items, "update_model_summary", noted)
    policy = ContextPolicy(expansion=ExpansionPolicy(enabled=False))
    context = MemoryContext("alice", "coder", "s1", store, model_client=light, policy=policy)
    await context.add_message(UserMessage(content=f"Set OPENAI_API_KEY={KEY} for the survey.", source="user"))
    await add_step(context, f"{ENVIRONMENT}\n{report('owls', 350)}", name="run_shell")
    await context.get_messages()
    await soon(written.wait())
    await context.add_message(AssistantMessage(content=f"Done, with {KEY}.", source="coder"))
    view = text_of(await context.get_messages())
    await context.archive()
    await context.close()
    assert "The service uses" in view
    assert (len(light.summary_prompts), len(light.title_prompts)) == (1, 1)
    assert not [found for text in (*light.summary_prompts, *light.title_prompts) for found in leaks(text)]
    (item, *_) = await context.agent_memory.query()
    assert not leaks(str(await context.retrieve(item.key, "summary")))
    (session,) = await store.conversations.sessions("alice")
    assert session.title.startswith("Use OPENAI_API_KEY")
    assert not leaks(f"{session.title} {session.summary}")
