"""One turn of a chat on the page: words as they come, tools as steps, what it cost at the end.

A step shows the beginning of what a tool was given and of what it returned, as data, and the reference it became: the
whole is stored, so it is not sent to the page and not stored a second time with the thread.
"""

import asyncio
import json
from collections.abc import Iterator, Mapping
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
from autogen_core.models import AssistantMessage, FunctionExecutionResult, FunctionExecutionResultMessage
from chainlit.utils import utc_now

from memory_context import MemoryContext, MemoryRef
from memory_context.foundation.messages import Address

from .chats import LiveChat
from .failures import UNANSWERED
from .observations import Observations
from .references import chips, excerpt, fenced, find_references, labelled, linked, titled

__all__ = ["TurnDisplay", "run_turn"]

_HEED_SECONDS = 1.0  # between asking a run to end and ending it
_ENTRIES_SEARCHED = 8  # a result is the newest entry, unless several agents work in one context
_INPUT_CHARACTERS = 2400
_ICONS = {  # of Lucide
    "read_file": "file-text",
    "search_code": "search",
    "grep": "search",
    "list_files": "folder-tree",
    "shell": "terminal",
    "store_memory": "database",
    "retrieve_memory": "database",
    "search_memory": "database",
    "query_memory": "database",
    "read_history": "history",
}


async def run_turn(chat: LiveChat, text: str, *, is_retry: bool = False) -> "TurnDisplay":
    """Have the chat's agent answer and show it; return what was shown.

    When it is cancelled, as Chainlit's stop button does, the agent is asked to end and then ended; its contexts can go
    on, and a new agent is made around them. The same holds for an agent that fails.

    Args:
        chat: Who answers.
        text: The question.
        is_retry: The question was asked before, so an agent that has heard it only goes on.
    """
    display = TurnDisplay(chat)
    token = CancellationToken()
    is_heard = is_retry and any(_has_heard(context, text) for context in chat.contexts.values())
    work = asyncio.create_task(_run(chat, None if is_heard else text, display, token))
    try:
        await asyncio.shield(work)
    except BaseException as error:
        display.has_failed = isinstance(error, Exception)
        token.cancel()
        if not work.done():
            await asyncio.wait([work], timeout=_HEED_SECONDS)
            work.cancel()
            await asyncio.wait([work])
        await chat.remake_agent()
        raise
    finally:
        await display.end()
    return display


def _has_heard(context: MemoryContext, text: str) -> bool:
    """Whether a question is the last that an agent heard, and not answered."""
    transcript = context.transcript
    position = transcript.task(context.policy.user_sources)
    if position is None or transcript[position].message.content not in (text, ""):  # "": only the store has it
        return False
    last = transcript.entries()[-1].message
    return not (isinstance(last, AssistantMessage) and isinstance(last.content, str))


async def _run(chat: LiveChat, text: str | None, display: "TurnDisplay", token: CancellationToken) -> None:
    task = None if text is None else TextMessage(content=text, source="user")
    async with aclosing(chat.built.runner.run_stream(task=task, cancellation_token=token)) as events:
        async for event in events:
            await display.show_opened()
            await display.show_late()
            await display.observations.show()
            if isinstance(event, ModelClientStreamingChunkEvent):
                await display.stream(event.source, event.content)
            elif isinstance(event, ToolCallRequestEvent):
                await display.show_calls(event.content)
            elif isinstance(event, ToolCallExecutionEvent):
                await display.show_results(event.content)
            elif isinstance(event, BaseChatMessage) and event.source != "user":
                await display.say(event.source, _words(event))


def _words(message: BaseChatMessage) -> str:
    text = message.to_text()
    return fenced(excerpt(text)) if isinstance(message, ToolCallSummaryMessage) else text


class TurnDisplay:
    """Shows one turn.

    Attributes:
        answer: The message that was shown last; None if nobody said anything.
        observations: What connectors observe during the turn.
        has_failed: Whether the agent failed, so that what it was writing is half an answer.
    """

    def __init__(self, chat: LiveChat) -> None:
        self.answer: cl.Message | None = None
        self.has_failed = False
        self._chat = chat
        self._writing: cl.Message | None = None
        self._steps: dict[str, cl.Step] = {}
        self._late: dict[str, tuple[cl.Step, FunctionExecutionResult]] = {}  # shown, and not stored then
        self._found: dict[str, MemoryRef] = {}  # what tools of the memory told of
        self.observations = Observations(chat.key.session_id, chat.contexts)
        self._seen = {name: len(context.transcript.log) for name, context in chat.contexts.items()}

    async def stream(self, source: str, words: str) -> None:
        """Show words as they come."""
        if self._writing is not None and self._writing.author != source:
            await self._finish()
        if self._writing is None:
            self._writing = cl.Message(content="", author=source)
        await self._writing.stream_token(words)

    async def say(self, source: str, text: str) -> None:
        """Show a whole message, instead of the words of it that came so far."""
        if self._writing is None:
            self._writing = cl.Message(content="", author=source)
        name = f"**{source}**\n\n" if len(self._chat.contexts) > 1 else ""  # the page shows no names
        self._writing.content = name + linked(text, self._known())
        await self._finish()

    async def show_calls(self, calls: list[FunctionCall]) -> None:
        """Show calls of tools as steps that have begun."""
        await self._finish()
        for call in calls:
            arguments = _arguments(call)
            step = _step(self._label(call.name, arguments), _ICONS.get(call.name, "wrench"), show_input="json")
            given = json.dumps(arguments, indent=1, ensure_ascii=False)
            step.input = given if len(given) <= _INPUT_CHARACTERS else f"{given[:_INPUT_CHARACTERS]} …"
            step.start = utc_now()
            self._steps[call.id] = step
            await step.send()

    async def show_results(self, results: list[FunctionExecutionResult]) -> None:
        """Show what tools returned, or why they failed, and what was stored of it."""
        for result in results:
            step = self._steps.pop(result.call_id, None)
            if step is None:
                continue
            told = find_references(result.content)
            self._found |= {ref.key: ref for ref in told}
            refs = self._stored(result) or told
            step.output = fenced(excerpt(result.content))
            step.is_error = bool(result.is_error)
            step.end = utc_now()
            if refs:
                step.elements = [cl.CustomElement(name="References", props=chips(refs), display="inline")]
            else:
                self._late[result.call_id] = step, result
            await step.update()

    async def show_late(self) -> None:
        """Show the references of results that were stored after they were shown."""
        for call_id, (step, result) in [*self._late.items()]:
            refs = self._stored(result)
            if refs:
                del self._late[call_id]
                await cl.CustomElement(name="References", props=chips(refs), display="inline").send(for_id=step.id)

    async def show_opened(self) -> None:
        """Show what the context brought back by itself."""
        for name, context in self._chat.contexts.items():
            log = context.transcript.log
            for _, decision in log[self._seen.get(name, 0) :]:
                if opened := decision.items_opened():
                    await self._show_opened([(item.key, item.why) for item in opened], context)
            self._seen[name] = len(log)

    async def end(self) -> None:
        """Bring what is still being shown to its end."""
        if self.has_failed and self._writing is not None:
            self._writing.metadata = dict(UNANSWERED)
        await self._finish()
        for step in self._steps.values():
            step.output, step.is_error, step.end = "It did not end.", True, utc_now()
            await step.update()
        self._steps.clear()
        await self.show_late()
        await self.observations.show()

    async def _finish(self) -> None:
        message, self._writing = self._writing, None
        if message is not None and message.content:
            await message.send() if not message.streaming else await message.update()
            self.answer = message

    async def _show_opened(self, items: list[tuple[str, str]], context: MemoryContext) -> None:
        known = self._known()
        refs = [known[key] for key, _ in items if key in known]
        thing = titled(refs[0].description)[0] if len(items) == len(refs) == 1 else f"{len(items)} items"
        step = _step(labelled(thing, "opened again"), "database", show_input=False)
        step.start = step.end = utc_now()
        step.output = "\n".join(f"- `{key}` {why}" for key, why in items)
        if refs:
            step.elements = [cl.CustomElement(name="References", props=chips(refs), display="inline")]
        await step.send()

    def _label(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Return what a tool is called with first, as a person calls it, and what is done with it."""
        first = next((value for value in arguments.values() if isinstance(value, str)), "")
        ref = self._known().get(first)
        return labelled(titled(ref.description)[0] if ref else first, name)

    def _known(self) -> dict[str, MemoryRef]:
        """Return what this chat refers to, by key."""
        refs = (ref for context in self._chat.contexts.values() for ref in _refs_of(context))
        return {**self._found, **{ref.key: ref for ref in refs}}

    def _stored(self, result: FunctionExecutionResult) -> list[MemoryRef]:
        """Return what a tool's result became in the store; nothing if it is small, or the store is away."""
        for context in self._chat.contexts.values():
            for entry in reversed(context.transcript.entries()[-_ENTRIES_SEARCHED:]):
                message = entry.message
                if not isinstance(message, FunctionExecutionResultMessage):
                    continue
                for index, one in enumerate(message.content):
                    if (one.call_id, one.name) != (result.call_id, result.name):
                        continue
                    address = Address("result", index)
                    stored = next((part.stored for part in entry.measured if part.address == address), None)
                    if stored is not None:
                        return list(stored.refs)
        return []


def _step(name: str, icon: str, show_input: str | bool) -> cl.Step:
    run = cl.context.current_run  # what a step belongs to, or the page shows it after the answer
    return cl.Step(name=name, type="tool", icon=icon, show_input=show_input, parent_id=run.id if run else None)


def _refs_of(context: MemoryContext) -> Iterator[MemoryRef]:
    for entry in context.transcript.entries():
        for part in entry.measured:
            if part.stored is not None:
                yield from part.stored.refs


def _arguments(call: FunctionCall) -> Mapping[str, Any]:
    try:
        found = json.loads(call.arguments)
    except ValueError:
        found = call.arguments
    return found if isinstance(found, dict) else {"arguments": found}
