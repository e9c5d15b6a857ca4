"""The memory of one user for a server: tool hosts, sessions and resources.

memory://{key}                    an item
memory://sessions/{session_id}    archived messages
"""

import asyncio
import getpass
import json
from base64 import b64encode
from collections.abc import Iterable
from urllib.parse import quote, unquote, urlsplit

from mcp import types
from pydantic import AnyUrl

from memory_context.foundation.errors import ItemNotFoundError, SecretError
from memory_context.foundation.identifiers import SessionKey, checked_identifier
from memory_context.foundation.policy import ContextPolicy
from memory_context.foundation.references import one_line, shorten
from memory_context.foundation.tokens import TokenCounter, default_token_counter
from memory_context.foundation.utf8 import to_utf8
from memory_context.memory.agent_memory import AgentMemory, MemoryCriteria
from memory_context.memory.items import MemoryItem
from memory_context.sessions.archive.resume import load_session
from memory_context.sessions.transcript.transcript import Transcript
from memory_context.store.conversation_rows import SessionInfo
from memory_context.store.items import SECRET_TYPE
from memory_context.store.memory_store import MemoryStore
from memory_context.view.history import history_text

from ..access.gate import UsageError

__all__ = ["MemoryHost", "ServedMemory", "complete", "list_resources", "read_resource", "resource_templates"]

_SCHEME, _SESSIONS = "memory", "sessions"
_ITEM_TEMPLATE = f"{_SCHEME}://{{key}}"
_SESSION_TEMPLATE = f"{_SCHEME}://{_SESSIONS}/{{session_id}}"
_PAGE_ITEMS = 100
_LISTED_ITEMS = 1000
_LISTED_SESSIONS = 50
_MAX_CHARACTERS = 1_000_000
_COMPARED = 1000
_MAX_COMPLETIONS = 100  # of the protocol


class MemoryHost:
    """A host for memory tools outside of a conversation, so without a transcript."""

    def __init__(self, agent_memory: AgentMemory) -> None:
        self.user_id = agent_memory.user_id
        self.agent_id = agent_memory.agent_id
        self.session_id = self.template_id = agent_memory.session_id
        self.policy = ContextPolicy()
        self.token_counter: TokenCounter = default_token_counter()
        self.agent_memory = agent_memory
        self.transcript = Transcript()

    async def open_image(self, item: MemoryItem) -> bool:
        """The server returns it as a content of its own."""
        return True

    def note_tools(self, names: Iterable[str], *, are_late: bool = False) -> None:
        """The client offers the tools; no view depends on them."""


class ServedMemory:
    """The memory of one user. Methods open the store if necessary, and raise StoreError if it is unavailable.

    Args:
        user_id: None for the only user, or the login name in an empty store.
        session_id: Default session to store in and to read; "" for none.

    Raises:
        ValueError: An id is malformed.
    """

    def __init__(
        self, store: MemoryStore, user_id: str | None = None, *, agent_id: str = "mcp", session_id: str = ""
    ) -> None:
        self.store = store
        self.agent_id = checked_identifier("agent_id", agent_id)
        self.session_id = session_id and checked_identifier("session_id", session_id)
        self._user_id = None if user_id is None else checked_identifier("user_id", user_id)
        self._lock = asyncio.Lock()
        self._own: AgentMemory | None = None

    async def user_id(self) -> str:
        """Return the user, always the same; raise UsageError if several could be meant."""
        async with self._lock:
            if self._user_id is None:
                self._user_id = await _only_user(self.store)
        return self._user_id

    async def memory(self, session_id: str | None = None) -> AgentMemory:
        """Return a session's items; None for the server's session, always the same: it knows which notes were read."""
        if session_id is not None:
            return AgentMemory(self.store, await self.user_id(), self.agent_id, session_id)
        if self._own is None:
            self._own = AgentMemory(self.store, await self.user_id(), self.agent_id, self.session_id)
        return self._own

    async def host(self) -> MemoryHost:
        return MemoryHost(await self.memory())

    async def sessions(self, limit: int) -> list[SessionInfo]:
        """Return sessions, most recently used first."""
        return await self.store.conversations.sessions(await self.user_id(), limit=limit)

    async def session(self, session_id: str) -> SessionInfo:
        """Return a session, or raise ItemNotFoundError."""
        info = await self.store.conversations.session(await self.user_id(), session_id)
        if info is None:
            raise ItemNotFoundError(f"no session {one_line(session_id, 80)!r} in this memory")
        return info


async def _only_user(store: MemoryStore) -> str:
    count, name = await store.user_stats.only_user()
    if count > 1:
        raise UsageError(
            f"{store.describe()} has several users and the server was not told whom to serve: "
            "start it with --user NAME, or with MEMORY_CONTEXT_USER set"
        )
    if name:
        return name
    try:
        return checked_identifier("user_id", getpass.getuser())
    except (OSError, KeyError, ImportError, ValueError):  # a container's user may be nameless
        return "default"


# --- resources


def resource_templates() -> list[types.ResourceTemplate]:
    """Return the URI templates of resources."""
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


async def list_resources(served: ServedMemory, cursor: str | None) -> types.ListResourcesResult:
    """Return a page: the latest sessions, then the newest items; raise ValueError for a wrong cursor."""
    offset = _offset_of(cursor)
    memory = await served.memory()
    items = await memory.query(MemoryCriteria(limit=_PAGE_ITEMS + 1, offset=offset), reader=None)
    following = offset + _PAGE_ITEMS
    has_more = len(items) > _PAGE_ITEMS and following < _LISTED_ITEMS
    items = items[:_PAGE_ITEMS]
    memory.trail.note_read("listed", [item.key for item in items], "resources", f"offset={offset}")
    sessions = [] if offset else await served.sessions(_LISTED_SESSIONS)
    return types.ListResourcesResult(
        resources=[*map(_session_resource, sessions), *map(_item_resource, items)],
        nextCursor=str(following) if has_more else None,
    )


def _offset_of(cursor: str | None) -> int:
    if cursor is None:
        return 0
    offset = int(cursor) if cursor.isdecimal() and len(cursor) <= 5 else -1
    if offset % _PAGE_ITEMS or not 0 < offset < _LISTED_ITEMS:
        raise ValueError(f"cursor {shorten(cursor, 40)!r} is none of this list: begin without one")
    return offset


def _item_resource(item: MemoryItem) -> types.Resource:
    caveat = f"; {item.caveat}" if item.caveat else ""
    return types.Resource(
        name=item.key,
        title=item.ref.description,
        uri=AnyUrl(f"{_SCHEME}://{item.key}"),
        description=f"{item.type} from {item.source}, {item.ref.token_count} tokens, "
        f"{item.valid_from or item.created_at:%Y-%m-%d %H:%M} UTC{caveat}",
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


async def read_resource(served: ServedMemory, uri: AnyUrl) -> types.ReadResourceResult:
    """Return a resource up to a million characters, then how to read on; lone surrogates make it bytes.

    Raises:
        ItemNotFoundError: There is none.
        SecretError: It is a secret.
    """
    parts = urlsplit(str(uri))
    key, path = unquote(parts.netloc), unquote(parts.path.removeprefix("/"))
    if parts.scheme == _SCHEME and key == _SESSIONS and path:
        return _contents(uri, await _session_text(served, path), "text/plain")
    if parts.scheme != _SCHEME or not key or path:
        raise ItemNotFoundError(f"{shorten(str(uri), 120)!r} is neither {_ITEM_TEMPLATE} nor {_SESSION_TEMPLATE}")
    memory = await served.memory()
    item = await memory.retrieve(key, for_model=True, reader=None)
    if item is None:
        raise await memory.not_found(key)
    if item.type == SECRET_TYPE:
        raise SecretError(f"{key!r} is a secret, which is not given to clients: the application reads it by its key")
    memory.trail.note_read("retrieved", [item.key], "resource", "full")
    if item.data is not None:
        blob = b64encode(item.data).decode()
        contents = types.BlobResourceContents(uri=uri, blob=blob, mimeType=item.content_type, _meta=_meta_of(item))
        return types.ReadResourceResult(contents=[contents])
    if len(item.content) <= _MAX_CHARACTERS:
        return _contents(uri, item.content, _mime_type(item), item)
    hint = (
        f"\n[characters 1-{_MAX_CHARACTERS} of {len(item.content)}. Next: retrieve_memory("
        f'memory_key="{item.key}", transform="excerpt", start_char={_MAX_CHARACTERS + 1}, end_char=…)]'
    )
    return _contents(uri, item.content[:_MAX_CHARACTERS] + hint, "text/plain", item)


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


def _contents(uri: AnyUrl, text: str, mime_type: str, item: MemoryItem | None = None) -> types.ReadResourceResult:
    contents: types.TextResourceContents | types.BlobResourceContents
    meta = _meta_of(item) if item else None
    try:
        text.encode()
    except UnicodeEncodeError:
        blob = b64encode(to_utf8(text)).decode()
        contents = types.BlobResourceContents(uri=uri, blob=blob, mimeType="application/octet-stream", _meta=meta)
    else:
        contents = types.TextResourceContents(uri=uri, text=text, mimeType=mime_type, _meta=meta)
    return types.ReadResourceResult(contents=[contents])


def _meta_of(item: MemoryItem) -> dict[str, str]:
    return {"memory_context/origin": item.origin, "memory_context/caveat": item.caveat}


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
    if (template, argument.name) == (_ITEM_TEMPLATE, "key"):
        items = await (await served.memory()).query(MemoryCriteria(limit=_COMPARED), reader=None)
        named = [(item.key, item.ref.description) for item in items]
    elif (template, argument.name) == (_SESSION_TEMPLATE, "session_id"):
        named = [(one.session_id, one.title) for one in await served.sessions(_COMPARED)]
    values = _matching(named, argument.value.casefold())
    shown = values[:_MAX_COMPLETIONS]
    return types.Completion(values=shown, total=len(values), hasMore=len(values) > len(shown))


def _matching(named: Iterable[tuple[str, str]], typed: str) -> list[str]:
    folded = [(name, name.casefold(), title.casefold()) for name, title in named]
    first = [name for name, low, _ in folded if low.startswith(typed)]
    others = [name for name, low, title in folded if not low.startswith(typed) and (typed in low or typed in title)]
    return first + others
