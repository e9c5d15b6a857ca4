"""A question and its answer on the page: the turn, what it cost, or why there is none and a button to try again."""

import asyncio
from typing import Any

import chainlit as cl

from .chats import Chats, Totals
from .failures import remove_unanswered, show_failure
from .plans import Plan
from .turns import run_turn

__all__ = ["answer_again", "answer_question"]

_METER_TURNS = 40


async def answer_question(
    chats: Chats, user_id: str, plan: Plan, question: cl.Message, *, is_retry: bool = False
) -> None:
    """Answer a question in the thread of Chainlit's session; a failure is shown there."""
    try:
        async with chats.hold(user_id, cl.context.session.thread_id, plan) as chat:
            before = chat.totals
            try:
                display = await run_turn(chat, question.content, is_retry=is_retry)
            finally:
                turns = _note_turn(before, chat.totals)
        if display.answer is not None and turns:
            meter = cl.CustomElement(name="TokenMeter", props={"turns": turns}, display="inline")
            await meter.send(for_id=display.answer.id)
    except Exception as error:
        await show_failure(question, error)


async def answer_again(chats: Chats, user_id: str, plan: Plan, question: cl.Message) -> None:
    """Try a question again: what an answer replaces goes away first."""
    await cl.context.emitter.task_start()
    try:
        await remove_unanswered()
        async with cl.Step(name="on_message", type="run", parent_id=question.id):
            await answer_question(chats, user_id, plan, question, is_retry=True)
    except asyncio.CancelledError:
        pass  # the stop button
    finally:
        await cl.context.emitter.task_end()


def _note_turn(before: Totals, after: Totals) -> list[dict[str, Any]]:
    """Add what a turn came to, and return the newest turns."""
    turns: list[dict[str, Any]] = [*(cl.user_session.get("turns") or [])]
    if after.calls > before.calls:
        spent = {name: getattr(after, name) - getattr(before, name) for name in Totals._fields}
        turns = [*turns, {name: round(value, 1) for name, value in spent.items()}][-_METER_TURNS:]
        cl.user_session.set("turns", turns)
    return turns
