"""Events of a run over HTTP, as one answer or server-sent events.

A run stops when its client disconnects. An error before the first event is an HTTP error, later an event `error`.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

from fastapi import Request, Response
from sse_starlette import EventSourceResponse, ServerSentEvent

from ..runtime import begin
from .problems import ProblemError
from .run import Answer, Delta, RequestRun, RunEnd, RunEvent, RunStart
from .schemas import ChatAnswer, ChatMessage, ChatStep, to_json

__all__ = ["EVENTS", "collect", "stream"]

EVENTS = "text/event-stream"
_CLIENT_IS_GONE = ProblemError("internal", "nobody listens any more")


async def collect(request: Request, run: RequestRun) -> ChatAnswer:
    """Return the whole answer; raise ProblemError if the run fails."""
    await _while_connected(request, run, run.task)
    return await _answer_of(run)


async def stream(request: Request, run: RequestRun, ping_seconds: int) -> Response:
    """Return the run as events; raise ProblemError if it fails before the first."""
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
    gone = begin(_disconnected(request))
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


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _answer_of(run: RequestRun) -> ChatAnswer:
    start, message, end = RunStart("", ""), None, RunEnd((), False)
    steps: list[ChatStep] = []
    async for event in run.events():
        if isinstance(event, RunStart):
            start = event
        elif isinstance(event, ChatStep):
            steps.append(event)
        elif isinstance(event, Answer):
            message = ChatMessage.of(event.message)
        elif isinstance(event, RunEnd):
            end = event
    return ChatAnswer.model_construct(
        session_id=start.session_id,
        agent_id=start.agent_id,
        message=message,
        steps=steps,
        stored_ids=[*end.stored_ids],
        replayed=end.replayed,
    )


async def _sent(
    run: RequestRun, first: RunEvent, others: AsyncIterator[RunEvent]
) -> AsyncGenerator[ServerSentEvent, None]:
    try:
        yield _event(first)
        async for event in others:
            yield _event(event)
    except ProblemError as error:
        yield ServerSentEvent(error.text(), event="error")
    finally:
        run.stop(_CLIENT_IS_GONE)  # no effect after its end


def _event(event: RunEvent) -> ServerSentEvent:
    if isinstance(event, Answer):
        return ServerSentEvent(to_json(ChatMessage.of(event.message)), event="message")
    if isinstance(event, ChatStep):
        return ServerSentEvent(to_json(event), event="step")
    if isinstance(event, Delta):
        name, data = "delta", {"text": event.text}
    elif isinstance(event, RunStart):
        name, data = "session", {"session_id": event.session_id, "agent_id": event.agent_id}
    else:
        name, data = "done", {"stored_ids": [*event.stored_ids], "replayed": event.replayed}
    return ServerSentEvent(json.dumps(data), event=name)
