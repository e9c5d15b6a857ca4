"""How often a turn asks the database: the exchanges of each step, and what each sends."""

from collections.abc import Sequence
from typing import Any

import pytest
from autogen_core import FunctionCall
from autogen_core.models import (
    AssistantMessage,
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    LLMMessage,
    UserMessage,
)

from memory_context import AgentMemory, ArchivePolicy, ContextPolicy, MemoryContext, MemoryStore
from memory_context.sessions.archive import archiver
from memory_context.store import pool
from memory_context.store.jobs import Jobs
from memory_context.store.pool import run_pipeline

STORING = ["begin", "act", "content", "items", "commit"]
WORDS = {b"BEGIN": "begin", b"COMMIT": "commit", b"statement_timeout": "act", b"store_content": "content"}
WORDS |= {b"store_memories": "items", b"pg_advisory_xact_lock": "order"}


@pytest.fixture
def exchanges(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What is sent from here on, each exchange as the kinds of its statements; no jobs, nor the audit trail's timer."""
    sent: list[list[str]] = []

    async def watched(connection: Any, statements: Sequence[Any]) -> Any:
        if not any(b"agent_memory_events" in one.query for one in statements):
            sent.append(
                [next((kind for word, kind in WORDS.items() if word in one.query), "read") for one in statements]
            )
        return await run_pipeline(connection, statements)

    monkeypatch.setattr(pool, "run_pipeline", watched)
    monkeypatch.setattr(Jobs, "wake", lambda self, user_id: None)
    monkeypatch.setattr(archiver, "_ANSWERED_SECONDS", 3600)
    monkeypatch.setattr(archiver, "_RESULTS_SECONDS", 3600)
    return sent


def context_of(store: MemoryStore) -> MemoryContext:
    """Return a context whose batches go when it is closed, however slow the machine is."""
    policy = ContextPolicy(store_timeout_seconds=60, archive=ArchivePolicy(batch_seconds=3600))
    return MemoryContext("alice", memory_store=store, policy=policy)


def calls(count: int) -> LLMMessage:
    asked = [FunctionCall(id=f"c{number}", name="read", arguments=f'{{"n": {number}}}') for number in range(count)]
    return AssistantMessage(content=asked, source="agent")


def results(*texts: str) -> LLMMessage:
    given = [
        FunctionExecutionResult(content=text, name="read", call_id=f"c{number}", is_error=False)
        for number, text in enumerate(texts)
    ]
    return FunctionExecutionResultMessage(content=given)


async def test_large_result_is_stored_in_one_exchange_of_five_statements(
    store: MemoryStore, exchanges: list[list[str]]
) -> None:
    context = context_of(store)
    await context.add_message(UserMessage(content="Read the log.", source="user"))
    await context.get_messages()
    await context.add_message(calls(1))
    exchanges.clear()
    await context.add_message(results("\n".join(f"line {number}: all is well" for number in range(3000))))
    assert exchanges == [STORING]
    await context.close()


async def test_many_large_results_add_only_the_statement_of_their_content(
    store: MemoryStore, exchanges: list[list[str]]
) -> None:
    context = context_of(store)
    await context.add_message(calls(20))
    exchanges.clear()
    await context.add_message(results(*(f"result {number}\n" * 3000 for number in range(20))))
    assert exchanges == [["begin", "act", "order", *["content"] * 20, "items", "commit"]]
    await context.close()


async def test_turn_without_large_parts_reads_the_user_once_and_writes_nothing(
    store: MemoryStore, exchanges: list[list[str]]
) -> None:
    """The first message of a session reads the user's memory; what follows asks for nothing."""
    context = context_of(store)
    counts: list[int] = []
    for message in (
        UserMessage(content="Add one and one.", source="user"),
        calls(1),
        results("2"),
        AssistantMessage(content="It is two.", source="agent"),
        UserMessage(content="And again.", source="user"),
    ):
        exchanges.clear()
        await context.add_message(message)
        await context.get_messages()
        counts.append(len(exchanges))
    assert counts == [1, 0, 0, 0, 0]
    await context.close()


async def test_item_is_stored_in_one_exchange_of_five_statements(
    store: MemoryStore, exchanges: list[list[str]]
) -> None:
    await AgentMemory(store, "alice").store("The meeting moved to Thursday.")
    assert exchanges == [STORING]
