"""What a client can read without a model: stored texts, and what was said in sessions.

    memory://{key}                    the text of an item
    memory://sessions/{session_id}    what was said, as far as it was archived

Promises: a text comes as it was stored, up to a million characters, beyond which it says how to read on; what UTF-8
cannot say (lone surrogates) comes as bytes, exactly. A page of the list holds the latest, the newest first.
"""

import json
from base64 import b64encode
from collections.abc import Iterable
from urllib.parse import quote, unquote, urlsplit

from mcp import types
from pydantic import AnyUrl

from ..errors import ItemNotFoundError, SecretError
from ..escaping import to_utf8
from ..memory import MemoryCriteria, MemoryItem
from ..references import shorten
from ..store import SECRET_TYPE, SessionInfo
from ..view import history_text
from .memory import ServedMemory

__all__ = ["completed", "list_resources", "read_resource", "resource_templates"]

_SCHEME, _SESSIONS = "memory", "sessions"
_ITEM_TEMPLATE = f"{_SCHEME}://{{key}}"
_SESSION_TEMPLATE = f"{_SCHEME}://{_SESSIONS}/{{session_id}}"
_ITEMS_PER_PAGE = 100
_MOST_ITEMS_LISTED = 1000  # what is older is found by a search
_SESSIONS_LISTED = 50
_MOST_CHARACTERS = 1_000_000
_KEYS_COMPARED = 1000
_MOST_COMPLETIONS = 100  # what the protocol allows


def resource_templates() -> list[types.ResourceTemplate]:
    """Return what can be read."""
    return [
        types.ResourceTemplate(
            name="item",
            title="Stored text",
            uriTemplate=_ITEM_TEMPLATE,
            description="The text that a [MemoryRef: key - …] stands for.",
        ),
        types.ResourceTemplate(
            name="session",
            title="Conversation",
            uriTemplate=_SESSION_TEMPLATE,
            description="What was said in a conversation, as far as it was archived.",
            mimeType="text/plain",
        ),
    ]


# --- listing


async def list_resources(served: ServedMemory, cursor: str | None) -> types.ListResourcesResult:
    """Return a page: the latest sessions, then the newest items; without a cursor the first.

    Raises:
        ValueError: No page had that cursor.
    """
    offset = _offset_of(cursor)
    memory = await served.memory()
    items = await memory.query(MemoryCriteria(limit=_ITEMS_PER_PAGE + 1, offset=offset), reader=None)
    memory.trail.note_read("listed", [item.key for item in items[:_ITEMS_PER_PAGE]], "resources", f"offset={offset}")
    sessions = [] if offset else await served.sessions(_SESSIONS_LISTED)
    following = offset + _ITEMS_PER_PAGE
    has_more = len(items) > _ITEMS_PER_PAGE and following < _MOST_ITEMS_LISTED
    return types.ListResourcesResult(
        resources=[*map(_session_resource, sessions), *map(_item_resource, items[:_ITEMS_PER_PAGE])],
        nextCursor=str(following) if has_more else None,
    )


def _offset_of(cursor: str | None) -> int:
    if cursor is None:
        return 0
    offset = int(cursor) if cursor.isdecimal() and len(cursor) <= 5 else -1
    if offset % _ITEMS_PER_PAGE or not 0 < offset < _MOST_ITEMS_LISTED:
        raise ValueError(f"cursor {shorten(cursor, 40)!r} is none of this list: begin without one")
    return offset


def _item_resource(item: MemoryItem) -> types.Resource:
    caveat = f"; {item.caveat}" if item.caveat else ""
    return types.Resource(
        name=item.key,
        title=item.ref.description,
        uri=AnyUrl(f"{_SCHEME}://{item.key}"),
        description=f"{item.type} from {item.source}, {item.ref.token_count} tokens, "
        f"{item.created_at:%Y-%m-%d %H:%M} UTC{caveat}",
    )


def _session_resource(session: SessionInfo) -> types.Resource:
    return types.Resource(
        name=session.session_id,
        title=session.title or f"Conversation of {session.created_at:%Y-%m-%d %H:%M} UTC",
        uri=AnyUrl(f"{_SCHEME}://{_SESSIONS}/{quote(session.session_id, safe='')}"),
        description=f"Conversation with {session.agent_id}, {session.message_count} messages, last used "
        f"{session.last_activity_at:%Y-%m-%d %H:%M} UTC",
        mimeType="text/plain",
    )


# --- reading


async def read_resource(served: ServedMemory, uri: AnyUrl) -> types.ReadResourceResult:
    """Return what an address stands for.

    Raises:
        ItemNotFoundError: It stands for nothing.
        SecretError: It is a secret of an earlier version.
    """
    parts = urlsplit(str(uri))
    key, path = unquote(parts.netloc), unquote(parts.path.removeprefix("/"))
    if parts.scheme == _SCHEME and key == _SESSIONS and path:
        return _contents(uri, await _session_text(served, path), "text/plain")
    if parts.scheme != _SCHEME or not key or path:
        raise ItemNotFoundError(f"{shorten(str(uri), 120)!r} is neither {_ITEM_TEMPLATE} nor {_SESSION_TEMPLATE}")
    memory = await served.memory()
    item = await memory.retrieve(key, reader=None)
    if item is None:
        raise await memory.not_found(key)
    if item.type == SECRET_TYPE:
        raise SecretError(f"{key!r} is a secret, which is not given to clients: the application reads it by its key")
    memory.trail.note_read("retrieved", [item.key], "resource", "full")
    if len(item.content) <= _MOST_CHARACTERS:
        return _contents(uri, item.content, _mime_type(item), item)
    hint = (
        f"\n[characters 1-{_MOST_CHARACTERS} of {len(item.content)}. Next: retrieve_memory("
        f'memory_key="{item.key}", transform="excerpt", start_char={_MOST_CHARACTERS + 1}, end_char=…)]'
    )
    return _contents(uri, item.content[:_MOST_CHARACTERS] + hint, "text/plain", item)


async def _session_text(served: ServedMemory, session_id: str) -> str:
    host = await served.session_host(session_id)
    texts: list[str] = []
    room = _MOST_CHARACTERS
    for entry in host.transcript.entries(host.transcript.state.start):
        text = history_text(entry)
        room -= len(text) + 1
        if room < 0:
            call = f"read_history(session_id={session_id!r}, first_message={entry.position + 1})"
            texts.append(f"[cut at {_MOST_CHARACTERS} characters. Next: {call}]")
            break
        texts.append(text)
    return "\n".join(texts)


def _contents(uri: AnyUrl, text: str, mime_type: str, item: MemoryItem | None = None) -> types.ReadResourceResult:
    contents: types.TextResourceContents | types.BlobResourceContents
    meta = {"memory_context/origin": item.origin, "memory_context/caveat": item.caveat} if item else None
    try:
        text.encode()
    except UnicodeEncodeError:
        blob = b64encode(to_utf8(text)).decode()
        contents = types.BlobResourceContents(uri=uri, blob=blob, mimeType="application/octet-stream", _meta=meta)
    else:
        contents = types.TextResourceContents(uri=uri, text=text, mimeType=mime_type, _meta=meta)
    return types.ReadResourceResult(contents=[contents])


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


# --- completing


async def completed(served: ServedMemory, template: str, argument: types.CompletionArgument) -> types.Completion:
    """Return keys or session ids that begin with what was typed, then those that hold it."""
    if (template, argument.name) == (_ITEM_TEMPLATE, "key"):
        memory = await served.memory()
        found = [
            (item.key, item.ref.description)
            for item in await memory.query(MemoryCriteria(limit=_KEYS_COMPARED), reader=None)
        ]
    elif (template, argument.name) == (_SESSION_TEMPLATE, "session_id"):
        found = [(one.session_id, one.title) for one in await served.sessions(_KEYS_COMPARED)]
    else:
        found = []
    values = _matching(found, argument.value)
    shown = values[:_MOST_COMPLETIONS]
    return types.Completion(values=shown, total=len(values), hasMore=len(values) > len(shown))


def _matching(named: Iterable[tuple[str, str]], typed: str) -> list[str]:
    typed = typed.casefold()
    folded = [(name, name.casefold(), title.casefold()) for name, title in named]
    first = [name for name, low, _ in folded if low.startswith(typed)]
    others = [name for name, low, title in folded if not low.startswith(typed) and (typed in low or typed in title)]
    return first + others
