"""One answer on the page: words as they come, tools as steps, links to what was stored of their results.

A step shows the beginning of a tool's result: the whole is stored once, and its link opens it.
"""

import asyncio
import json
import logging
from collections.abc import Iterator
from contextlib import aclosing
from typing import Any

import chainlit as cl
from autogen_agentchat.messages import (
    BaseChatMessage,
    ModelClientStreamingChunkEvent,
    TextMessage,
    ToolCallExecutionEvent,
    ToolCallRequestEvent,
    ToolCallSummaryMessage,
)
from autogen_core import CancellationToken, FunctionCall
from autogen_core.models import FunctionExecutionResult, FunctionExecutionResultMessage
from chainlit.chat_context import chat_contexts
from chainlit.session import WebsocketSession
from chainlit.types import ThreadDict
from chainlit.utils import utc_now

from memory_context import MemoryContextError, MemoryRef
from memory_context.context.builder import provider_sentence
from memory_context.foundation.references import shorten

from .chats import LiveChat
from .references import excerpt, fenced, find_references, link, linked

__all__ = ["TurnDisplay", "run_turn"]

_HEED_SECONDS = 1.0  # between asking a run to end and ending it
_LABEL_CHARACTERS = 48
_INPUT_CHARACTERS = 2400
_logger = logging.getLogger(__name__)


async def run_turn(chat: LiveChat, text: str) -> None:
    """Have the chat's agent answer, and show it.

    When it is cancelled, as Chainlit's stop button does, the agent is asked to end, and then ended. Its contexts can go
    on, with a new agent around them; the same holds for an agent that fails.
    """
    token = CancellationToken()
    display = chat.turn = TurnDisplay(chat)

    async def run() -> None:
        task = TextMessage(content=text, source="user")
        async with aclosing(chat.built.runner.run_stream(task=task, cancellation_token=token)) as events:
            async for event in events:
                await display.show(event)

    work = asyncio.create_task(run())
    try:
        await asyncio.shield(work)
    except BaseException as error:
        token.cancel()
        await asyncio.wait([work], timeout=_HEED_SECONDS)
        work.cancel()
        await asyncio.wait([work])
        await chat.remake_agent()
        if not isinstance(error, Exception):
            raise
        told = str(error) if isinstance(error, MemoryContextError) else provider_sentence(error)
        _logger.error("no answer: %s", told or error, exc_info=None if told else error)
        await cl.ErrorMessage(told or "The agent failed; the log of the server says why.").send()
    finally:
        await display.end()
        chat.turn = None


class TurnDisplay:
    """Shows one turn, to the page that asked and to those that follow."""

    def __init__(self, chat: LiveChat) -> None:
        self._answer: cl.Message | None = None  # the last message
        self._chat = chat
        self._writing: cl.Message | None = None
        self._steps: dict[str, cl.Step] = {}
        self._task = asyncio.current_task()
        self._followers: list[WebsocketSession] = []
        session = cl.context.session
        self._session, self._emit = session, session.emit
        session.emit = self._emit_to_all

    def follow(self, session: WebsocketSession, thread: ThreadDict) -> None:
        """Show the turn also to a page that was loaded meanwhile, and is about to show the thread."""
        known = {step["id"] for step in thread["steps"]}
        shown = [*self._steps.values(), *([self._writing] if self._writing else [])]
        thread["steps"] += [one.to_dict() for one in shown if one.id not in known]
        self._followers.append(session)
        session.current_task = self._task

    async def _emit_to_all(self, event: str, data: Any) -> None:
        for emit in (self._emit, *(follower.emit for follower in self._followers)):
            await emit(event, data)

    async def show(self, event: object) -> None:
        """Show an event of the agent or the team."""
        if isinstance(event, ModelClientStreamingChunkEvent):
            if self._writing is None:
                self._writing = cl.Message(content="", author=event.source)
            await self._writing.stream_token(event.content)
        elif isinstance(event, ToolCallRequestEvent):
            await self._finish()
            for call in event.content:
                await self._show_call(call)
        elif isinstance(event, ToolCallExecutionEvent):
            for result in event.content:
                await self._show_result(result)
        elif isinstance(event, BaseChatMessage) and event.source != "user":
            await self._say(event)

    async def end(self) -> None:
        """Finish what is being shown, and link the results that were stored meanwhile."""
        await self._finish()
        stored = dict(self._stored_results())
        for call_id, step in self._steps.items():
            refs = stored.get(call_id, [])
            if step.end is None:
                step.output, step.is_error, step.end = "It did not end.", True, utc_now()
            elif not refs:
                continue
            step.output += "".join(f"\n\n{link(ref)}" for ref in refs)
            await step.update()
        self._session.emit = self._emit
        for follower in self._followers:
            await follower.emit("task_end", {})
            if self._answer is not None:  # Chainlit's pencil removes the messages that it finds here
                chat_contexts.setdefault(follower.id, []).append(self._answer)

    async def _say(self, message: BaseChatMessage) -> None:
        """Show a whole message, instead of the words of it that came so far."""
        if self._writing is None:
            self._writing = cl.Message(content="", author=message.source)
        text = message.to_text()
        if isinstance(message, ToolCallSummaryMessage):
            text = fenced(excerpt(text))
        name = f"**{message.source}**\n\n" if len(self._chat.contexts) > 1 else ""  # the page shows no names
        known = {ref.key: ref for _, refs in self._stored_results() for ref in refs}
        self._writing.content = name + linked(text, known)
        await self._finish()

    async def _finish(self) -> None:
        message, self._writing = self._writing, None
        if message is not None and message.content:
            await (message.update() if message.streaming else message.send())
            self._answer = message

    async def _show_call(self, call: FunctionCall) -> None:
        try:
            first = str(next(iter(json.loads(call.arguments).values()), ""))
        except (ValueError, AttributeError):
            first = call.arguments
        name = call.name.replace("_", " ")
        run = cl.context.current_run  # without a parent, the page shows the step after the answer
        step = cl.Step(
            name=f"{name}: {shorten(first, _LABEL_CHARACTERS)}" if first else name,
            type="tool",
            show_input="json",
            parent_id=run.id if run else None,
        )
        step.input, step.start = call.arguments[:_INPUT_CHARACTERS], utc_now()
        self._steps[call.id] = step
        await step.send()

    async def _show_result(self, result: FunctionExecutionResult) -> None:
        step = self._steps.get(result.call_id)
        if step is not None:
            told = find_references(result.content)  # tools of the memory name what they found
            step.output = fenced(excerpt(result.content)) + "".join(f"\n\n{link(ref)}" for ref in told)
            step.is_error, step.end = bool(result.is_error), utc_now()
            await step.update()

    def _stored_results(self) -> Iterator[tuple[str, list[MemoryRef]]]:
        """Yield what the results of this chat became in the store, by the ids of their calls."""
        for context in self._chat.contexts.values():
            for entry in context.transcript.entries():
                if isinstance(entry.message, FunctionExecutionResultMessage):
                    for part in entry.measured:
                        if part.stored is not None and part.address.kind == "result":
                            yield entry.message.content[part.address.index].call_id, list(part.stored.refs)
