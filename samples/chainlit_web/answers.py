"""A question and its answer on the page: the turn, what it cost, or why there is none and a button to try again."""

import asyncio
from collections.abc import Mapping
from typing import Any

import chainlit as cl
from chainlit.data import get_data_layer
from chainlit.element import ElementDict
from chainlit.types import ThreadDict

from memory_context import MemoryContextError

from .chats import Chats, LiveChat
from .failures import remove_unanswered, show_failure
from .plans import Plan
from .tabs import in_every_tab
from .turns import run_turn

__all__ = ["answer_again", "answer_question", "refresh_meter"]

_METER_TURNS = 40


async def answer_question(
    chats: Chats, user_id: str, plan: Plan, question: cl.Message, *, is_retry: bool = False
) -> None:
    """Answer a question in the thread of Chainlit's session, in all its tabs; a failure is shown there."""
    async with in_every_tab(question):
        if is_retry:
            await remove_unanswered()
        try:
            async with chats.hold(user_id, cl.context.session.thread_id, plan) as chat:
                if chat.turns is None:
                    chat.go_on_from(await _props_of_meter(chat.key.session_id))
                before = chat.totals
                try:
                    display = await run_turn(chat, question.content, is_retry=is_retry)
                finally:
                    spent = chat.totals.since(before)
                    chat.turns = [*(chat.turns or []), *([spent] if spent["calls"] else [])][-_METER_TURNS:]
                if display.answer is not None and chat.turns:
                    meter = cl.CustomElement(name="TokenMeter", props=chat.meter(), display="inline")
                    await meter.send(for_id=display.answer.id)
        except Exception as error:
            await show_failure(question, error)


async def answer_again(chats: Chats, user_id: str, plan: Plan, question: cl.Message) -> None:
    """Try a question again: what an answer replaces goes away first."""
    await cl.context.emitter.task_start()
    try:
        async with cl.Step(name="on_message", type="run", parent_id=question.id):
            await answer_question(chats, user_id, plan, question, is_retry=True)
    except asyncio.CancelledError:
        pass  # the stop button
    finally:
        await cl.context.emitter.task_end()


def refresh_meter(thread: ThreadDict, chat: LiveChat) -> None:
    """Have the newest meter of a thread that is loaded tell what the light model did since it was shown."""
    meter = _newest_meter(thread)
    if meter is not None:
        if chat.turns is None:
            chat.go_on_from(meter.get("props") or {})
        meter["props"] = chat.meter()


async def _props_of_meter(thread_id: str) -> Mapping[str, Any]:
    """Return what the newest meter of the archived thread shows."""
    layer = get_data_layer()
    try:
        thread = await layer.get_thread(thread_id) if layer else None
    except MemoryContextError:
        return {}
    meter = _newest_meter(thread) if thread else None
    return (meter and meter.get("props")) or {}


def _newest_meter(thread: ThreadDict) -> ElementDict | None:
    meters = {one.get("forId"): one for one in thread.get("elements") or [] if one.get("name") == "TokenMeter"}
    shown = [meters[step["id"]] for step in thread.get("steps") or [] if step["id"] in meters]
    return shown[-1] if shown else None
