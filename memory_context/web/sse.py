"""A turn on the wire: whole, or as server-sent events.

Promises: a client that goes away stops its turn, at whatever point; what fails before there is anything to say is an
HTTP error also where a stream was asked for, and an event `error` after that; a stream is never silent for long.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from typing import Any, TypeVar

from fastapi import Request, Response
from sse_starlette import EventSourceResponse, ServerSentEvent

from ..runtime import Background
from .agent_run import Delta
from .chat import Begun, ChatEvent, Done, Said
from .problems import ProblemError
from .run import RequestRun
from .schemas import ChatAnswer, ChatMessage, ChatStep, written

__all__ = ["EVENTS", "streamed", "whole"]

EVENTS = "text/event-stream"
_CLIENT_IS_GONE = ProblemError("internal", "nobody listens any more")

_Wanted = TypeVar("_Wanted")


async def whole(request: Request, turn: RequestRun[ChatEvent]) -> ChatAnswer:
    """Return the answer once it is there.

    Raises:
        ProblemError: There is none.
    """
    return await _while_there(request, turn, lambda: _collected(turn))


async def streamed(request: Request, turn: RequestRun[ChatEvent], ping_seconds: int) -> Response:
    """Return the turn as a stream of events.

    Raises:
        ProblemError: It failed before there was any.
    """
    events = turn.events()

    async def next_event() -> ChatEvent:
        return await anext(events)

    first = await _while_there(request, turn, next_event)
    return EventSourceResponse(_sent(turn, first, events), ping=ping_seconds)


async def _while_there(
    request: Request, turn: RequestRun[ChatEvent], wanted: Callable[[], Coroutine[Any, Any, _Wanted]]
) -> _Wanted:
    """Return what is wanted; stop the turn if the client goes away before, or whoever waits here is cancelled."""
    waiting = Background[Any]("memory_context answer")
    getting = waiting.start(wanted, "answer")
    leaving = waiting.start(lambda: _disconnected(request), "client")
    try:
        await asyncio.wait([getting, leaving], return_when=asyncio.FIRST_COMPLETED)
        if not getting.done():
            turn.stop(_CLIENT_IS_GONE)
            raise _CLIENT_IS_GONE
        return getting.result()
    except asyncio.CancelledError:
        turn.stop(_CLIENT_IS_GONE)
        raise
    finally:
        waiting.cancel()


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _collected(turn: RequestRun[ChatEvent]) -> ChatAnswer:
    begun, message, done = Begun("", ""), None, Done((), False)
    steps: list[ChatStep] = []
    async for event in turn.events():
        if isinstance(event, Begun):
            begun = event
        elif isinstance(event, ChatStep):
            steps.append(event)
        elif isinstance(event, Said):
            message = ChatMessage.of(event.message)
        elif isinstance(event, Done):
            done = event
    return ChatAnswer.model_construct(
        session_id=begun.session_id,
        agent_id=begun.agent_id,
        message=message,
        steps=steps,
        stored_ids=[*done.stored_ids],
        replayed=done.replayed,
    )


async def _sent(
    turn: RequestRun[ChatEvent], first: ChatEvent, others: AsyncIterator[ChatEvent]
) -> AsyncGenerator[ServerSentEvent, None]:
    try:
        yield _event(first)
        async for event in others:
            yield _event(event)
    except ProblemError as error:
        yield ServerSentEvent(error.text(), event="error")
    finally:
        turn.stop(_CLIENT_IS_GONE)  # nothing happens if it is over


def _event(event: ChatEvent) -> ServerSentEvent:
    if isinstance(event, Said):
        return ServerSentEvent(written(ChatMessage.of(event.message)), event="message")
    if isinstance(event, ChatStep):
        return ServerSentEvent(written(event), event="step")
    if isinstance(event, Delta):
        name, data = "delta", {"text": event.text}
    elif isinstance(event, Begun):
        name, data = "session", {"session_id": event.session_id, "agent_id": event.agent_id}
    else:
        name, data = "done", {"stored_ids": [*event.stored_ids], "replayed": event.replayed}
    return ServerSentEvent(json.dumps(data), event=name)
