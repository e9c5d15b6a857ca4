"""A question that got no answer: why, and a button that has it tried again.

The page forgets buttons when it is loaded again, so they are made anew from the messages of the thread.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import chainlit as cl
from chainlit.chat_context import chat_contexts
from chainlit.context import get_context
from chainlit.types import ThreadDict

from memory_context import MemoryContextError, SessionBusyError, SessionGoneError
from memory_context.context.builder import provider_sentence

from .tabs import other_tabs
from .ui_hook import ComponentError

__all__ = ["RETRY", "UNANSWERED", "offer_retry", "reason_of", "remove_unanswered", "show_failure", "without_unanswered"]

RETRY = "Try again"
UNANSWERED = {"unanswered": True}
"""Metadata of messages that a later answer replaces: half an answer, and why there is no whole one."""

_logger = logging.getLogger(__name__)


def reason_of(error: Exception) -> str:
    """Return what people are told of a failure; what is nobody's business goes to the log."""
    if isinstance(error, SessionGoneError):
        return "This chat was deleted; begin a new one."
    if isinstance(error, SessionBusyError):
        return "This chat is still at work on another message."
    if isinstance(error, ComponentError):
        return f"The agent of this chat cannot be made: {error}"
    if isinstance(error, MemoryContextError):
        return f"The memory cannot be reached: {error}"
    told = provider_sentence(error)
    _logger.error("the agent failed: %s", told or error, exc_info=None if told else error)
    return told or f"The agent failed with {type(error).__name__}; the log of the server says why."


async def show_failure(question: cl.Message, error: Exception) -> None:
    """Say why a question got no answer, with a button to try again."""
    notice = cl.Message(content=reason_of(error), metadata=dict(UNANSWERED))
    notice.is_error = True
    await notice.send()
    if not isinstance(error, SessionGoneError):
        await _retry_action(question.id, question.content).send(for_id=notice.id)


async def offer_retry(thread: ThreadDict) -> None:
    """Show the button again in a thread that is loaded and ends without an answer."""
    said = [step for step in thread.get("steps") or [] if "message" in step["type"]]
    if not said or not said[-1].get("isError") or not _is_unanswered(said[-1].get("metadata")):
        return
    asked = next((step for step in reversed(said) if step["type"] == "user_message"), None)
    if asked is not None:
        await _retry_action(asked["id"], asked.get("output") or "").send(for_id=said[-1]["id"])


async def remove_unanswered() -> None:
    """Take away what an answer replaces, and its button, whichever tab of the thread asked."""
    session = get_context().session
    known = [message for tab in [session, *other_tabs(session)] for message in chat_contexts.get(tab.id, [])]
    for message in {one.id: one for one in known if _is_unanswered(one.metadata)}.values():
        await message.remove()


def without_unanswered(messages: Sequence[cl.Message]) -> list[cl.Message]:
    """Return messages that somebody said, without failures and halves of answers."""
    return [message for message in messages if not _is_unanswered(message.metadata)]


def _retry_action(question_id: str, text: str) -> cl.Action:
    return cl.Action(name=RETRY, label=RETRY, payload={"id": question_id, "text": text}, icon="rotate-cw")


def _is_unanswered(metadata: Any) -> bool:
    return isinstance(metadata, Mapping) and bool(metadata.get("unanswered"))
