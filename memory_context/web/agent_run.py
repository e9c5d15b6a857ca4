"""One run of an agent, as events: words as they come, steps on the way, the answer at the end.

Promise: a step is short; what became an item shows as its placeholder, so that a person sees what the model sees.
"""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from autogen_agentchat.base import TaskResult, TaskRunner
from autogen_agentchat.messages import (
    BaseAgentEvent,
    BaseChatMessage,
    MemoryQueryEvent,
    ModelClientStreamingChunkEvent,
    TextMessage,
    ToolCallExecutionEvent,
    ToolCallRequestEvent,
)
from autogen_core import CancellationToken
from autogen_core.models import FunctionExecutionResult, FunctionExecutionResultMessage

from ..context import MemoryContext
from ..messages import Address
from ..references import shorten
from ..store import ChatMessage
from ..transcript import Expanded
from .schemas import ChatStep, whole_text

__all__ = ["Answered", "Delta", "RunEvent", "run_agent"]

_SUMMARY_CHARACTERS = 300
_ENTRIES_SEARCHED = 8  # a result is the newest entry, unless several agents work in one context


@dataclass(frozen=True)
class Delta:
    """Words of the answer, as they come."""

    text: str


@dataclass(frozen=True)
class Answered:
    """The end of a run; the text is None if nobody said anything."""

    text: str | None


RunEvent = Delta | ChatStep | Answered


async def run_agent(
    agent: TaskRunner, context: MemoryContext, task: Sequence[ChatMessage], cancellation: CancellationToken
) -> AsyncIterator[RunEvent]:
    """Run an agent and yield what happens; the last event is `Answered`.

    Args:
        agent: An agent or a team.
        context: The context it works in.
        task: What it is told; empty to have it go on with what it has heard.
        cancellation: Ends the run.
    """
    told = [TextMessage(content=one.text, source="user", created_at=one.timestamp) for one in task]
    opened = len(context.transcript.log)
    answer: str | None = None
    async with aclosing(agent.run_stream(task=told or None, cancellation_token=cancellation)) as events:
        async for event in events:
            for step in _opened_since(context, opened):
                yield step
            opened = len(context.transcript.log)
            if isinstance(event, TaskResult):
                answer = _answer_of(event.messages)
            elif isinstance(event, ModelClientStreamingChunkEvent):
                yield Delta(whole_text(event.content))
            elif isinstance(event, BaseAgentEvent):
                for step in _steps_of(event, context):
                    yield step
    yield Answered(answer)


def _answer_of(messages: Sequence[BaseAgentEvent | BaseChatMessage]) -> str | None:
    said = [one for one in messages if isinstance(one, BaseChatMessage) and one.source != "user"]
    return said[-1].to_text() if said else None


def _steps_of(event: BaseAgentEvent, context: MemoryContext) -> Iterator[ChatStep]:
    if isinstance(event, ToolCallRequestEvent):
        for call in event.content:
            yield _step("call", call.name, call.arguments)
    elif isinstance(event, ToolCallExecutionEvent):
        for result in event.content:
            yield _step("result", result.name, _summary_of(result, context))
    elif isinstance(event, MemoryQueryEvent):
        yield _step("memory", event.source, f"{len(event.content)} memories")


def _opened_since(context: MemoryContext, since: int) -> Iterator[ChatStep]:
    for _, decision in context.transcript.log[since:]:
        if isinstance(decision, Expanded) and decision.opened:
            for item in decision.opened:
                yield _step("memory", item.key, item.why)


def _summary_of(result: FunctionExecutionResult, context: MemoryContext) -> str:
    for entry in reversed(context.transcript.entries()[-_ENTRIES_SEARCHED:]):
        message = entry.message
        if not isinstance(message, FunctionExecutionResultMessage):
            continue
        for index, one in enumerate(message.content):
            if (one.call_id, one.name) == (result.call_id, result.name):
                address = Address("result", index)
                stored = next((part.stored for part in entry.measured if part.address == address), None)
                if stored is not None and stored.refs:
                    placeholder = stored.refs[0].render()
                    status = stored.compacted.partition("[MemoryRef:")[0]
                    return f"{shorten(status, _SUMMARY_CHARACTERS - len(placeholder))} {placeholder}".strip()
    return result.content


def _step(kind: str, name: str, summary: str) -> ChatStep:
    said = summary if "[MemoryRef:" in summary else shorten(summary, _SUMMARY_CHARACTERS)
    return ChatStep.model_construct(kind=kind, name=shorten(whole_text(name), 128), summary=whole_text(said))
