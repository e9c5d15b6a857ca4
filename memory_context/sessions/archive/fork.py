"""A new session that begins with the history of an archived one, as its model was about to read it at a call.

The archived one stays as it is. The messages that the new one begins with are its own: deleting the other leaves them,
but takes the items that it stored. A search finds them where they were said.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from uuid import uuid4

from memory_context.foundation.errors import ConflictError
from memory_context.foundation.identifiers import SessionKey
from memory_context.foundation.runtime.background import in_thread_if_large
from memory_context.foundation.utf8 import escape_json
from memory_context.store.memory_store import MemoryStore

from ..transcript.codec import load_transcript
from ..transcript.part_decisions import PartOffloaded
from ..transcript.view_decisions import Forked, LightModelBilled
from .cursor import BatchCursor, known_items, next_batch

__all__ = ["fork_session"]

_EVENT_CHARACTERS = 200
_ID_CHARACTERS = 90
_CHAT_MESSAGES = 1000


async def fork_session(
    store: MemoryStore, key: SessionKey, saved: Mapping[str, Any], *, call: int, messages: int, decision: int
) -> SessionKey:
    """Archive a new session of the same user and agent; return its key, by which a context resumes it.

    Args:
        saved: Events of the session, as `whole_history` has them.
        call: Number of the call, for the record.
        messages: Number of messages that it read.
        decision: Number of its record in the log: what was decided before it stays.

    Raises:
        ConflictError: The items of the session are private to it.
        StoreError: It cannot be written.
    """
    forked = Forked(key.session_id, call)
    events = _events_before(saved, messages, decision, forked)
    size = _EVENT_CHARACTERS * (len(events["entries"]) + len(events["decisions"]))
    transcript = await in_thread_if_large(size, load_transcript, events)
    keys = known_items(transcript, key)
    for one in [name for name, position in keys.items() if position < 0]:
        found = await store.items.fetch_whereabouts(key.user_id, one)
        if found is not None and found.is_private and found.session_id == key.session_id:
            raise ConflictError(
                f"what agent {key.agent_id!r} stored in session {key.session_id!r} is private to it: fork the session "
                "of the agent that called it"
            )
        if found is not None:
            break
    new = key._replace(session_id=f"{key.session_id[:_ID_CHARACTERS]}-call-{call}-{uuid4().hex[:6]}")
    said_by_then = transcript[transcript.end - 1].added_at
    chat = await store.conversations.chat_page(key.user_id, key.session_id, limit=_CHAT_MESSAGES)
    chat = [one for one in chat if one.timestamp <= said_by_then]  # what people saw, by their clocks
    entries = transcript.entries(transcript.first)
    batch = next_batch(
        BatchCursor(begins_anew=True), transcript, new_messages=len(entries), chat_ids=[one.id for one in chat]
    )
    info = await store.conversations.session(key.user_id, key.session_id)
    await store.conversations.append(
        new,
        batch=replace(batch, body=events),  # with texts that only earlier views showed
        chat=chat,
        title=f"Fork from call {call}: {(info and info.title) or key.session_id}",
        title_is_final=True,
        summary=info.summary if info else None,
        known_keys=keys,
    )
    return new


def _events_before(saved: Mapping[str, Any], messages: int, decision: int, forked: Forked) -> dict[str, Any]:
    """Return the events before a call, with what was stored of its messages later: the archive has no text of that."""
    bill = LightModelBilled.kind  # paid by the other session
    before = [one for one in saved["decisions"][:decision] if one[1]["kind"] != bill]
    stored = [
        [messages, data]
        for _, data in saved["decisions"][decision:]
        if data["kind"] == PartOffloaded.kind and data["position"] < messages
    ]
    record = escape_json({"kind": Forked.kind, "session_id": forked.session_id, "call": forked.call})
    entries = saved["entries"][: messages - saved["first_position"]]
    return {**saved, "entries": entries, "decisions": [*before, *stored, [messages, record]]}
