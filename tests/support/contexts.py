"""Contexts and what is said in them."""

import sys
import uuid
from collections.abc import Awaitable
from types import FrameType
from typing import Any

from autogen_core import CancellationToken
from autogen_core.models import AssistantMessage, LLMMessage, UserMessage

from memory_context import ContextPolicy, MemoryContext, MemoryStore
from memory_context.recall.tools.base import MemoryTool
from tests.context.lights import Light
from tests.context.steps import ALWAYS_PAYS, a_turn_of_the_loop
from tests.support.waiting import soon


def context_of(store: MemoryStore, light: Light | None = None, **policy) -> MemoryContext:
    policy = {"cache": ALWAYS_PAYS, "store_timeout_seconds": 30} | policy  # a busy machine is no outage
    return MemoryContext("alice", "coder", None, store, model_client=light, policy=ContextPolicy(**policy))


async def ask(context: MemoryContext, text: str, source: str = "user") -> list[LLMMessage]:
    """Let the user say something; return the view."""
    await context.add_message(UserMessage(content=text, source=source))
    return await context.get_messages()


async def answer(context: MemoryContext, text: str = "All right.") -> None:
    await context.add_message(AssistantMessage(content=text, source="coder"))


def opened(view: list[LLMMessage]) -> list[str]:
    """Return what was opened in a view, a text each."""
    return [str(m.content) for m in view if isinstance(m, UserMessage) and m.source == "memory"]


async def instructions(work: Awaitable[None]) -> int:
    """Do something and return how many instructions of this package's Python code that took."""
    count = 0

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        nonlocal count
        if event == "call":
            if "memory_context" not in frame.f_code.co_filename:
                return None
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        await work
    finally:
        sys.settrace(before)
    return count


async def check_apart(*pairs: tuple[MemoryContext, list[MemoryTool]]) -> None:
    """Each context hears a secret; its own tools alone read it."""
    assert len({context.session_id for context, _ in pairs}) == len(pairs)
    secrets = [f"secret-{uuid.uuid4().hex}" for _ in pairs]
    for (context, _), secret in zip(pairs, secrets, strict=True):
        assert await context.get_messages() == [], "a template has a conversation in it"
        await context.add_message(UserMessage(content=secret, source="user"))
    for (context, tools), own in zip(pairs, secrets, strict=True):
        assert own in str(await context.get_messages())
        (history,) = [tool for tool in tools if tool.name == "read_history"]
        answer = await history.run_json({}, CancellationToken())
        assert [secret for secret in secrets if secret in answer] == [own]
    for context, _ in pairs:
        await context.close()


async def archived(store: MemoryStore, session_id: str, messages: int) -> None:
    """Wait until the background has archived so many messages."""

    async def look() -> None:
        while (session := await store.conversations.session("alice", session_id)) is None or (
            session.message_count < messages
        ):
            await a_turn_of_the_loop()

    await soon(look())
