"""Resources that a client reads without a model.

memory://{key}                    an item
memory://sessions/{session_id}    archived messages
"""

import json
from urllib.parse import quote, unquote

from mcp import types
from mcp.server.lowlevel.helper_types import ReadResourceContents
from pydantic import AnyUrl

from memory_context.foundation.errors import ItemNotFoundError, SecretError
from memory_context.foundation.identifiers import SessionKey
from memory_context.foundation.references import shorten
from memory_context.foundation.utf8 import sayable, to_utf8
from memory_context.memory.agent_memory import MemoryCriteria
from memory_context.memory.items import MemoryItem
from memory_context.sessions.archive.resume import load_session
from memory_context.store.items import SECRET_TYPE
from memory_context.view.history import history_text

from .memory import ServedMemory

__all__ = ["ITEM_TEMPLATE", "SESSION_TEMPLATE", "complete", "list_resources", "read_resource"]

ITEM_TEMPLATE = "memory://{key}"
SESSION_TEMPLATE = "memory://sessions/{session_id}"

_SCHEME, _SESSIONS = "memory://", "memory://sessions/"
_PAGE_ITEMS = 100
_LISTED_ITEMS = 1000
_LISTED_SESSIONS = 50
_MAX_CHARACTERS = 1_000_000
_COMPARED = 1000
_MAX_COMPLETIONS = 100  # of the protocol


async def list_resources(served: ServedMemory, cursor: str | None) -> types.ListResourcesResult:
    """Return a page: the latest sessions, then the newest items; raise ValueError for a wrong cursor."""
    offset = 0
    if cursor is not None:
        offset = int(cursor) if cursor.isdecimal() and len(cursor) <= 5 else -1
        if offset % _PAGE_ITEMS or not 0 < offset < _LISTED_ITEMS:
            raise ValueError(f"unknown cursor {shorten(cursor, 40)!r}: begin without one")
    memory = await served.memory()
    items = await memory.query(MemoryCriteria(limit=_PAGE_ITEMS + 1, offset=offset), reader=None)
    following = offset + _PAGE_ITEMS
    has_more = len(items) > _PAGE_ITEMS and following < _LISTED_ITEMS
    items = items[:_PAGE_ITEMS]
    memory.trail.note_read("listed", [item.key for item in items], "resources", f"offset={offset}")
    listed = [
        types.Resource(
            name=session.session_id,
            title=sayable(session.title) or f"Conversation of {session.created_at:%Y-%m-%d %H:%M} UTC",
            uri=AnyUrl(f"{_SESSIONS}{quote(session.session_id, safe='')}"),
            description=f"Conversation with {session.agent_id}, {session.message_count} messages, last used "
            f"{session.last_activity_at:%Y-%m-%d %H:%M} UTC",
            mimeType="text/plain",
        )
        for session in ([] if offset else await served.sessions(_LISTED_SESSIONS))
    ]
    for item in items:
        caveat = f"; {item.caveat}" if item.caveat else ""
        about = (
            f"{item.type} from {item.source}, {item.ref.token_count} tokens, "
            f"{item.valid_from or item.created_at:%Y-%m-%d %H:%M} UTC{caveat}"
        )
        uri = AnyUrl(f"{_SCHEME}{item.key}")
        listed.append(
            types.Resource(name=item.key, title=sayable(item.ref.description), uri=uri, description=sayable(about))
        )
    return types.ListResourcesResult(resources=listed, nextCursor=str(following) if has_more else None)


async def read_resource(served: ServedMemory, uri: str) -> ReadResourceContents:
    """Return a resource up to a million characters, then how to read on; lone surrogates make it bytes.

    An id is everything behind the prefix, percent-encoded or not: ids of sessions may hold any printable character.

    Raises:
        ItemNotFoundError: There is none.
        SecretError: It is a secret.
    """
    if uri.startswith(_SESSIONS) and uri != _SESSIONS:
        return _contents(await _session_text(served, unquote(uri.removeprefix(_SESSIONS))), "text/plain")
    key, _, path = uri.removeprefix(_SCHEME).partition("/")
    if not uri.startswith(_SCHEME) or not key or path:
        raise ItemNotFoundError(f"{shorten(uri, 120)!r} is neither {ITEM_TEMPLATE} nor {SESSION_TEMPLATE}")
    key, memory = unquote(key), await served.memory()
    item = await memory.retrieve(key, for_model=True, reader=None)
    if item is None:
        raise await memory.not_found(key)
    if item.type == SECRET_TYPE:
        raise SecretError(f"{key!r} is a secret, which is not given to clients: the application reads it by its key")
    memory.trail.note_read("retrieved", [item.key], "resource", "full")
    meta = {"memory_context/origin": item.origin, "memory_context/caveat": item.caveat}
    if item.data is not None:
        return ReadResourceContents(item.data, item.content_type, meta)
    if len(item.content) <= _MAX_CHARACTERS:
        return _contents(item.content, _mime_type(item), meta)
    hint = (
        f"\n[characters 1-{_MAX_CHARACTERS} of {len(item.content)}. Next: retrieve_memory("
        f'memory_key="{item.key}", start_char={_MAX_CHARACTERS + 1}, end_char=…)]'
    )
    return _contents(item.content[:_MAX_CHARACTERS] + hint, "text/plain", meta)


async def _session_text(served: ServedMemory, session_id: str) -> str:
    info = await served.session(session_id)
    key = SessionKey(await served.user_id(), info.agent_id, session_id)
    resumed, memory = await load_session(served.store.conversations, key), await served.memory()
    texts: list[str] = []
    room = _MAX_CHARACTERS
    for entry in resumed.transcript.entries():
        text = memory.visible(history_text(entry))
        room -= len(text) + 1
        if room < 0:
            call = f"read_history(session_id={session_id!r}, first_message={entry.position + 1})"
            texts.append(f"[cut at {_MAX_CHARACTERS} characters. Next: {call}]")
            break
        texts.append(text)
    return "\n".join(texts)


def _contents(text: str, mime_type: str, meta: dict[str, str] | None = None) -> ReadResourceContents:
    if sayable(text) is text:
        return ReadResourceContents(text, mime_type, meta)
    return ReadResourceContents(to_utf8(text), "application/octet-stream", meta)


def _mime_type(item: MemoryItem) -> str:
    start = item.content[:1000].lstrip().lower()
    if item.type in ("web_content", "article") and start.startswith(("<!doctype html", "<html")):
        return "text/html"
    if start.startswith(("{", "[")):
        try:
            json.loads(item.content)
        except (ValueError, RecursionError):
            return "text/plain"
        return "application/json"
    return "text/plain"


async def complete(served: ServedMemory, template: str, argument: types.CompletionArgument) -> types.Completion:
    """Return keys or session ids with a prefix, then those whose id or title contains it."""
    named: list[tuple[str, str]] = []
    if (template, argument.name) == (ITEM_TEMPLATE, "key"):
        items = await (await served.memory()).query(MemoryCriteria(limit=_COMPARED), reader=None)
        named = [(item.key, item.ref.description) for item in items]
    elif (template, argument.name) == (SESSION_TEMPLATE, "session_id"):
        named = [(one.session_id, one.title) for one in await served.sessions(_COMPARED)]
    typed = argument.value.casefold()
    folded = [(name, name.casefold(), title.casefold()) for name, title in named]
    values = [name for name, low, _ in folded if low.startswith(typed)]
    values += [name for name, low, title in folded if not low.startswith(typed) and (typed in low or typed in title)]
    shown = values[:_MAX_COMPLETIONS]
    return types.Completion(values=shown, total=len(values), hasMore=len(values) > len(shown))
