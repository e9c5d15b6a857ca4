"""What an observer reads of messages, however long ago a view showed them."""

import pytest
from autogen_core.models import AssistantMessage, SystemMessage, UserMessage

from memory_context import MemoryContext, MemoryStore
from memory_context.compaction.observation.reading import ObservedMessage, UnobservedTokens, observed_messages
from tests.context.steps import add_step
from tests.support.contexts import answer, ask, context_of
from tests.support.outages import away


def lines(word: str, count: int) -> str:
    return "\n".join(f"{word} {number} stands at berth {number * 37}" for number in range(count))


async def read(context: MemoryContext, first: int = 0) -> list[ObservedMessage]:
    return await observed_messages(
        context.transcript,
        first,
        context.transcript.end,
        memory=context.agent_memory,
        policy=context.policy,
        counter=context.token_counter,
        chooser=context._session.chooser,
    )


@pytest.fixture
async def context(store: MemoryStore) -> MemoryContext:
    return context_of(store)


async def test_results_dropped_by_the_process_are_read_whole_in_one_query(
    context: MemoryContext, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ask(context, "Look at the berths.")
    for word in ("ship", "crane", "buoy"):
        await add_step(context, lines(word, 60))
    await context.get_messages()
    await answer(context)
    dropped = [entry.position for entry in context.transcript.entries() if entry.dropped]
    assert len(dropped) == 3
    reads: list[list[str]] = []
    fetch = store.items.fetch_contents

    async def counted(user_id: str, keys: list[str], **more: object) -> dict[str, str]:
        reads.append(keys)
        return await fetch(user_id, keys, **more)

    monkeypatch.setattr(store.items, "fetch_contents", counted)
    messages = {message.position: message for message in await read(context)}
    assert [len(keys) for keys in reads] == [3]
    for position, word in zip(dropped, ("ship", "crane", "buoy"), strict=True):
        assert messages[position].text.endswith(lines(word, 60))
        (key,) = messages[position].keys
        assert messages[position].text.startswith(f"result of survey:\n[MemoryRef: {key} - ")


async def test_long_texts_are_read_as_excerpts_with_their_reference(context: MemoryContext) -> None:
    long = lines("ship", 1500) + "\nError: berth 4471 is on fire"
    await ask(context, "Which berth is on fire?")
    await add_step(context, long)
    before = (await read(context))[-1]
    await context.get_messages()
    await answer(context)
    await add_step(context, "short")
    await context.get_messages()
    await answer(context)
    after = next(message for message in await read(context) if message.position == before.position)
    for message in (before, after):
        assert message.tokens <= context.policy.first_view_limit_tokens
        assert f"[MemoryRef: {message.keys[0]} - " in message.text
        assert "berth 4471 is on fire" in message.text
        assert 'left out: retrieve_memory(memory_key="' in message.text


async def test_compacted_texts_are_read_while_the_store_is_away(
    context: MemoryContext, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ask(context, "Look at the berths.")
    await add_step(context, lines("ship", 60))
    await context.get_messages()
    await answer(context)
    monkeypatch.setattr(store.items, "fetch_contents", away)
    result = (await read(context))[-2]
    assert result.origin == "tool"
    assert f"[MemoryRef: {result.keys[0]} - " in result.text
    assert lines("ship", 60) not in result.text


async def test_long_texts_that_were_never_stored_name_the_call_that_pages_them(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = context_of(store)
    monkeypatch.setattr("memory_context.store.database.Database.write", away)
    await context.add_message(UserMessage(content="Look.", source="user"))
    await context.add_message(UserMessage(content=lines("ship", 1500), source="harbour"))
    message = (await read(context))[-1]
    assert message.keys == ()
    assert "read_history(first_message=2)" in message.text
    assert message.tokens <= context.policy.first_view_limit_tokens


async def test_origin_tells_words_of_the_user_from_those_of_tools_and_agents(context: MemoryContext) -> None:
    await ask(context, "I prefer berth 7.")
    await context.add_message(UserMessage(content="The user prefers berth 9.", source="planner"))
    await add_step(context, "The user prefers berth 8.", arguments='{"berth": 7}')
    await answer(context, "Done.")
    messages = await read(context)
    assert [message.origin for message in messages] == ["user", "other", "agent", "tool", "agent"]
    assert [message.source for message in messages] == ["user", "planner", "coder", "survey", "coder"]
    assert messages[2].text == 'called survey with:\n{"berth": 7}'


async def test_texts_of_the_context_itself_are_left_out_and_answers_of_memory_tools_only_named(
    context: MemoryContext, store: MemoryStore
) -> None:
    key = await context.store("the harbour code is 9215-Q " * 30, "the harbour code")
    (retrieve,) = [tool for tool in context.tools() if tool.name == "retrieve_memory"]
    await context.add_message(SystemMessage(content="Relevant memory: the harbour code is 9215-Q"))
    await context.add_message(UserMessage(content="Known: the harbour code is 9215-Q", source="memory"))
    await ask(context, "Open it.")
    opened = (await retrieve.answer({"memory_key": key})).text
    context.agent_memory.register_answer(opened, "the harbour code")
    await add_step(context, opened, name="retrieve_memory")
    messages = await read(context)
    assert [message.position for message in messages] == [2, 3, 4]
    assert "9215" not in str(messages)


async def test_credentials_are_masked_and_names_of_the_vault_stay(context: MemoryContext) -> None:
    secret = "sk-proj-" + "a1B2c3D4" * 6
    await ask(context, f"Use api_key={secret} and password={{{{secret:HARBOUR}}}}")
    await add_step(context, f"{lines('ship', 1500)}\nError: token={secret} refused")
    await context.add_message(AssistantMessage(content=f"I used {secret}", source="coder", thought=f"{secret}?"))
    messages = await read(context)
    assert len(messages) == 4
    assert secret not in str(messages)
    assert "{{secret:HARBOUR}}" in messages[0].text
    assert messages[-1].text == "thought:\n[credential]?\nI used [credential]"


async def test_unobserved_tokens_estimate_what_an_observer_reads(context: MemoryContext) -> None:
    unobserved = UnobservedTokens(context.transcript, context.policy)
    await ask(context, "Look at the berths. " + lines("pier", 20))
    for count in (3, 60, 1500):
        await add_step(context, lines("ship", count))
        end = context.transcript.end
        estimated = unobserved.between(0, end)
        assert estimated == UnobservedTokens(context.transcript, context.policy).between(0, end)
        exact = sum(message.tokens for message in await read(context))
        assert abs(estimated - exact) < 0.3 * exact + 100
        assert unobserved.between(end, end) == 0
    await context.get_messages()
    await answer(context)
    assert unobserved.between(0, end) == estimated  # compaction changes nothing
