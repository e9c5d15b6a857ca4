"""A message that the user edits in a chat: the agents' sessions go back to before it, as Chainlit's page does.

Chainlit updates the message, removes what came after it, and asks the application again, without waiting for the data
layer; so the sessions begin to go back at once, and the steps of their agents wait for that.
"""

import logging
from asyncio import gather
from collections.abc import Awaitable, Sequence
from functools import partial

from chainlit.chat_context import chat_context

from memory_context.context.context import MemoryContext
from memory_context.recall.tools.base import hosts_of_session
from memory_context.sessions.transcript.transcript import Transcript

__all__ = ["edited_position", "take_back"]

_log = logging.getLogger("memory_context")


def take_back(user_id: str, thread_id: str, message_id: str) -> Awaitable[None]:
    """Begin to take the open sessions of a thread back to before a message whose text the page has just changed.

    A message that the page adds or that no agent heard changes nothing. What is returned never raises.
    """
    shown = [one for one in chat_context.get() if one.type == "user_message"]
    ids, texts = [one.id for one in shown], [one.content for one in shown]
    if message_id not in ids:
        return _arrive((), ())
    find = partial(edited_position, texts=texts, index=ids.index(message_id))
    contexts = [one for one in hosts_of_session(user_id, thread_id) if isinstance(one, MemoryContext)]
    return _arrive(contexts, [one.rewind(partial(find, sources=one.policy.user_sources)) for one in contexts])


async def _arrive(contexts: Sequence[MemoryContext], going_back: Sequence[Awaitable[int]]) -> None:
    for context, outcome in zip(contexts, await gather(*going_back, return_exceptions=True), strict=True):
        if isinstance(outcome, BaseException):
            _log.warning("agent %r still knows the message as it was before: %s", context.agent_id, outcome)


def edited_position(
    transcript: Transcript, *, texts: Sequence[str], index: int, sources: Sequence[str] = ("user",)
) -> int | None:
    """Return the position of an edited message; None if its text is what the agent heard.

    The messages around it tell the place: agents need not have heard all of a chat, nor in the words of the page. Where
    it was never heard, that is what came after it.

    Args:
        texts: The user's messages on the page, of which `index` is edited.
    """
    told = [one for one in transcript.entries() if one.is_told and getattr(one.message, "source", "") in sources]
    heard = [one.words for one in told]
    start, end, unheard = 0, len(told), 0
    for text in reversed(texts[index + 1 :]):
        if text in heard[:end]:
            end, unheard = end - 1 - heard[:end][::-1].index(text), 0
        else:
            unheard += 1
    for text in texts[:index]:
        if text in heard[start:end]:
            start = heard.index(text, start) + 1
    between = range(start, end)
    place = end if not between else between[0] if start else between[max(len(between) - 1 - unheard, 0)]
    return None if place == len(told) or heard[place] == texts[index] else told[place].position
