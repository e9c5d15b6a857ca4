"""The run of one request in a task of its own; its events, as one answer or server-sent events.

A run stops when its client disconnects, and releases its session. An agent that ignores its cancellation token is
cancelled a second later. An error before the first event is an HTTP error, later an event `error`.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any, Literal

from autogen_agentchat.base import TaskResult, TaskRunner
from autogen_agentchat.messages import (
    BaseChatMessage,
    MemoryQueryEvent,
    ModelClientStreamingChunkEvent,
    TextMessage,
    ToolCallExecutionEvent,
    ToolCallRequestEvent,
)
from autogen_core import CancellationToken
from autogen_core.models import FunctionExecutionResult, FunctionExecutionResultMessage
from fastapi import Request, Response
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.exceptions import HTTPException

from memory_context.context.context import MemoryContext
from memory_context.foundation.messages import Address
from memory_context.foundation.references import shorten
from memory_context.foundation.runtime.background import Timer, begin
from memory_context.store.conversations import ChatMessage as StoredMessage

from ..access.errors import http_error
from ..access.wire import Text, Wire
from .schemas import ChatAnswer, ChatMessage, ChatStep

__all__ = ["EVENTS", "Delta", "RequestRun", "RunEnd", "RunEvent", "RunStart", "collect", "run_agent", "stream"]

EVENTS = "text/event-stream"
_CLIENT_IS_GONE = HTTPException(500, "nobody listens any more")
_GRACE_SECONDS = 1.0  # from stop to cancellation
_SUMMARY_CHARACTERS = 300
_ENTRIES_SEARCHED = 8  # more than one, as agents may share a context


class RunStart(Wire):
    """The session is ready; a client that stops the answer keeps its words under `answer_id`."""

    session_id: str
    agent_id: str
    answer_id: str | None


class Delta(Wire):
    """A piece of the answer."""

    text: Text


class RunEnd(Wire):
    """The ids now durable; `replayed` if no agent ran."""

    stored_ids: list[str]
    replayed: bool


RunEvent = RunStart | Delta | ChatStep | ChatMessage | RunEnd
"""Events of a run, in order; the message is the answer."""

_NAMES = {RunStart: "session", Delta: "delta", ChatStep: "step", ChatMessage: "message", RunEnd: "done"}


class RequestRun:
    """Work that emits events and can be stopped.

    Attributes:
        is_agent_running: True if a stop cancels the token first and the task a second later.
    """

    def __init__(self, work: "Callable[[RequestRun], Awaitable[None]]") -> None:
        self.cancellation = CancellationToken()
        self.is_agent_running = False
        self._reason: HTTPException | None = None
        self._events: asyncio.Queue[RunEvent | HTTPException | None] = asyncio.Queue()
        self._timer = Timer(lambda: self.task.cancel())
        self.task = begin(self._run(work))

    def emit(self, event: RunEvent) -> None:
        self._events.put_nowait(event)

    async def events(self) -> AsyncIterator[RunEvent]:
        """Yield the events.

        Raises:
            HTTPException: The run failed or was stopped.
        """
        while (event := await self._events.get()) is not None:
            if isinstance(event, HTTPException):
                raise event
            yield event

    def stop(self, reason: HTTPException) -> None:
        """End the run without waiting."""
        if self.task.done() or self._reason is not None:
            return
        self._reason = reason
        self.cancellation.cancel()
        if self.is_agent_running:
            self._timer.plan(_GRACE_SECONDS)
        else:
            self.task.cancel()

    async def _run(self, work: "Callable[[RequestRun], Awaitable[None]]") -> None:
        try:
            await work(self)
            self._events.put_nowait(None)
        except asyncio.CancelledError:
            self._events.put_nowait(self._reason or HTTPException(502, "the agent's run was cancelled"))
            if self._reason is None:
                raise
        except Exception as error:
            self._events.put_nowait(self._reason or http_error(error))


# --- the agent


async def run_agent(
    agent: TaskRunner,
    context: MemoryContext,
    task: Sequence[StoredMessage],
    cancellation: CancellationToken,
    emit: Callable[[Delta | ChatStep], None],
) -> str | None:
    """Run an agent or a team and return its final words; without a task it continues from its context.

    Stored results show as the placeholders that the model sees.
    """
    told = [TextMessage(content=one.text, source="user", created_at=one.timestamp) for one in task]
    seen = len(context.transcript.log)
    answer: str | None = None
    async with aclosing(agent.run_stream(task=told or None, cancellation_token=cancellation)) as events:
        async for event in events:
            for item in [item for _, one in context.transcript.log[seen:] for item in one.items_opened()]:
                emit(_step("memory", item.key, item.why))
            seen = len(context.transcript.log)
            if isinstance(event, TaskResult):
                said = [one for one in event.messages if isinstance(one, BaseChatMessage) and one.source != "user"]
                answer = said[-1].to_text() if said else None
            elif isinstance(event, ModelClientStreamingChunkEvent):
                emit(Delta(text=event.content))
            elif isinstance(event, ToolCallRequestEvent):
                for call in event.content:
                    emit(_step("call", call.name, call.arguments))
            elif isinstance(event, ToolCallExecutionEvent):
                for result in event.content:
                    emit(_step("result", result.name, _result_summary(result, context)))
            elif isinstance(event, MemoryQueryEvent):
                emit(_step("memory", event.source, f"{len(event.content)} memories"))
    return answer


def _result_summary(result: FunctionExecutionResult, context: MemoryContext) -> str:
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


def _step(kind: Literal["call", "result", "memory"], name: str, summary: str) -> ChatStep:
    text = summary if "[MemoryRef:" in summary else shorten(summary, _SUMMARY_CHARACTERS)
    return ChatStep(kind=kind, name=shorten(name, 128), summary=text)


# --- over HTTP


async def collect(request: Request, run: RequestRun) -> ChatAnswer:
    """Return the whole answer; raise HTTPException if the run fails."""
    await _while_connected(request, run, run.task)
    parts: dict[str, Any] = {"steps": [], "message": None}
    async for event in run.events():
        if isinstance(event, ChatStep):
            parts["steps"].append(event)
        elif isinstance(event, ChatMessage):
            parts["message"] = event
        elif not isinstance(event, Delta):
            parts |= event.model_dump(exclude={"answer_id"})
    return ChatAnswer(**parts)


async def stream(request: Request, run: RequestRun, ping_seconds: int) -> Response:
    """Return the run as events; raise HTTPException if it fails before the first."""
    events = run.events()

    async def next_event() -> RunEvent:
        return await anext(events)

    first = begin(next_event())
    try:
        await _while_connected(request, run, first)
    finally:
        first.cancel()  # no effect after its end
    return EventSourceResponse(_sent(run, first.result(), events), ping=ping_seconds)


async def _while_connected(request: Request, run: RequestRun, result: "asyncio.Future[Any]") -> None:
    """Wait for a result; stop the run on a disconnect or a cancellation of the caller."""

    async def disconnected() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    gone = begin(disconnected())
    try:
        await asyncio.wait([result, gone], return_when=asyncio.FIRST_COMPLETED)
        if not result.done():
            run.stop(_CLIENT_IS_GONE)
            raise _CLIENT_IS_GONE
    except asyncio.CancelledError:
        run.stop(_CLIENT_IS_GONE)
        raise
    finally:
        gone.cancel()


async def _sent(
    run: RequestRun, first: RunEvent, others: AsyncIterator[RunEvent]
) -> AsyncGenerator[ServerSentEvent, None]:
    try:
        yield ServerSentEvent(first.model_dump_json(), event=_NAMES[type(first)])
        async for event in others:
            yield ServerSentEvent(event.model_dump_json(), event=_NAMES[type(event)])
    except HTTPException as error:
        told: dict[str, Any] = {"status": error.status_code, "detail": error.detail}
        if error.headers and "Retry-After" in error.headers:
            told["retry_after"] = int(error.headers["Retry-After"])
        yield ServerSentEvent(json.dumps(told), event="error")
    finally:
        run.stop(_CLIENT_IS_GONE)  # no effect after its end
