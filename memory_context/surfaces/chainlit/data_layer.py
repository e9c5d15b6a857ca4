"""Chainlit's interface for users, threads, steps, elements and feedback; without a login nothing is kept.

In a chat, writes wait while the database is away, and a refused one is logged; over HTTP both are errors that the page
shows.
"""

import asyncio
import logging
import re
import time
from asyncio import Lock
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast
from urllib.parse import quote
from weakref import WeakValueDictionary

from chainlit.auth import get_current_user
from chainlit.config import config
from chainlit.context import ChainlitContextException, get_context
from chainlit.data.base import BaseDataLayer
from chainlit.data.utils import queue_until_user_message
from chainlit.element import Element, ElementDict
from chainlit.session import HTTPSession, WebsocketSession
from chainlit.step import StepDict
from chainlit.types import Feedback, PageInfo, PaginatedResponse, Pagination, ThreadDict, ThreadFilter
from chainlit.user import PersistedUser, User
from fastapi import Depends, FastAPI, HTTPException, Request, Response
from fastapi.responses import StreamingResponse

from memory_context.foundation.credentials.masks import masked
from memory_context.foundation.errors import ConflictError, ItemNotFoundError, StoreError, StoreUnavailableError
from memory_context.foundation.patterns import regex
from memory_context.foundation.references import KEY_PATTERN
from memory_context.foundation.runtime.background import attempt, outages_of
from memory_context.foundation.runtime.buffers import Flusher
from memory_context.foundation.utf8 import to_utf8
from memory_context.memory.vault.secrets import secrets_of
from memory_context.store.items import MemoryItem
from memory_context.store.limits import within
from memory_context.store.memory_store import MemoryStore
from memory_context.store.threads import ElementContent, UIUser

from .dicts import (
    ELEMENTS,
    IMAGES,
    element_from_dict,
    element_to_dict,
    is_element_url,
    plain,
    step_from_dict,
    step_to_dict,
    thread_to_dict,
    time_to_text,
)
from .edits import take_back

__all__ = ["MemoryDataLayer", "byte_range", "image_of_thread", "mount_elements"]

_log = logging.getLogger(__name__)

_READ_CHARACTERS = 10_000  # of the message that becomes the name
_NAME_CHARACTERS = 255
_CLOSE_SECONDS = 5
_RETRY_SECONDS = 5.0
_MOST_WAITING = 1_000  # a chat writes about ten changes a turn; their contents stay in the process meanwhile
_LONGEST_SECONDS = 600.0
_WRITING = "writing the history of chats"
_LACKS = "the history lacks a change of %s %s: %s"
_SHARING = frozenset({"is_shared", "shared_at"})

_current: ContextVar[str | None] = ContextVar("memory_context_chainlit_user", default=None)
"""The user of an HTTP request: Chainlit, or a script, calls `get_user` before, in the same task."""

_Method = TypeVar("_Method", bound=Callable[..., Coroutine[Any, Any, None]])


def _chat() -> HTTPSession | WebsocketSession | None:
    try:
        return get_context().session
    except ChainlitContextException:
        return None


def _current_user() -> str | None:
    session = _chat()
    if session is not None:
        return session.user.identifier if session.user else None
    return _current.get()


def _after_user_message(method: _Method) -> _Method:
    """In a chat, queue writes until the user's first message, as Chainlit does."""
    queued = cast(_Method, queue_until_user_message()(method))

    @wraps(method)
    async def wrapper(self: "MemoryDataLayer", *args: Any, **kwargs: Any) -> None:
        await (method if _chat() is None else queued)(self, *args, **kwargs)

    return cast(_Method, wrapper)


@dataclass(frozen=True)
class _Change:
    """A write of one object, as the user whose chat made it."""

    what: str
    its_id: str
    write: Callable[[], Coroutine[Any, Any, None]]
    ends_at: float


_NAMES = _NAME, _IMAGE_NAME = "memory_context_element", "memory_context_image"
_PIECE_BYTES = 1 << 20
_RANGE = regex("bytes=([0-9]{0,18})-([0-9]{0,18})")
_MIME = regex(r"[a-z0-9!#$&^_.+-]+/[a-z0-9!#$&^_.+-]+", re.ASCII | re.IGNORECASE)
_SHOWN = ("image/", "audio/", "video/", "text/plain", "application/json", "application/pdf")

CurrentUser = Annotated[User | PersistedUser | None, Depends(get_current_user)]


class MemoryDataLayer(BaseDataLayer):
    """Chainlit's data in the database of its agents' memory.

    Chainlit's user identifier is the user id, a thread's id the session id. While the database is away the chat goes
    on, and up to 1,000 changes of its history wait for ten minutes.

    Args:
        memory_store: The store, which stays open; None for the default store.
        element_limit_bytes: Largest content of an element to keep; of a larger one only the name is kept.
    """

    def __init__(self, memory_store: MemoryStore | None = None, *, element_limit_bytes: int = 50_000_000) -> None:
        from chainlit.server import app  # late: the import makes folders and reads settings

        self.memory_store = memory_store or MemoryStore.default()
        self.element_limit_bytes = element_limit_bytes
        self._uses_default_store = memory_store is None
        if self._uses_default_store:
            self.memory_store.join(self)
        self._threads = self.memory_store.threads
        self._locks: WeakValueDictionary[object, Lock] = WeakValueDictionary()
        self._writing: set[asyncio.Task[Any]] = set()
        self._has_warned = False
        self._waiting: deque[_Change] = deque()
        self._flusher = Flusher(
            "memory_context Chainlit history",
            self._write_waiting,
            lambda: len(self._waiting),
            batch=1,
            batch_seconds=0,
            retry_seconds=_RETRY_SECONDS,
            on_failure=lambda error: _log.debug("%s has to wait: %s", _WRITING, error),
        )
        mount_elements(app, self)

    # --- users

    async def get_user(self, identifier: str) -> PersistedUser | None:
        _current.set(identifier)  # first: Chainlit admits the user without the database too
        user = await self._threads.user(identifier)
        return None if user is None else _persisted(user)

    async def create_user(self, user: User) -> PersistedUser:
        """Store a user at login; raise ValueError for an unusable identifier."""
        _current.set(user.identifier)
        kept = await self._threads.upsert_user(user.identifier, plain(cast(Any, user).metadata))
        return _persisted(kept)

    # --- feedback

    async def upsert_feedback(self, feedback: Feedback) -> str:
        """Store the rating of a step and return its id; raise ItemNotFoundError for an unknown step."""
        user_id = await self._writer(feedback.threadId)
        kept = user_id and await self._threads.rate_step(
            user_id, feedback.forId, feedback.value, feedback.comment, feedback_id=feedback.id
        )
        if not kept:
            raise ItemNotFoundError(f"no message {feedback.forId!r} to rate")
        return kept

    async def delete_feedback(self, feedback_id: str) -> bool:
        """Return whether the user had given it."""
        user_id = await self._writer()
        return bool(user_id and await self._threads.delete_rating(user_id, feedback_id))

    # --- elements

    @_after_user_message
    async def create_element(self, element: Element) -> None:
        given = cast(Mapping[str, Any], element.to_dict())
        content, path = element.content, element.path  # now, as they may change

        async def keep(user_id: str, thread_id: str) -> bool:
            data = None if element.type == "custom" else await self._content(element, content, path)
            keeps = not element.url or is_element_url(element.url)
            return await self._threads.upsert_element(
                user_id, element_from_dict(given, thread_id), data, keeps_content=keeps
            )

        await self._keep("element", element.id, element.thread_id, keep)

    async def get_element(self, thread_id: str, element_id: str) -> ElementDict | None:
        owner = await self._threads.owner(thread_id)
        element = owner and await self._threads.element(owner, thread_id, element_id)
        return element_to_dict(element) if element else None

    async def element_content(
        self, thread_id: str, element_id: str, *, start: int = 0, length: int | None = None
    ) -> ElementContent | None:
        """Return `length` bytes from `start` on; None if the content is not kept."""
        owner = await self._threads.owner(thread_id)
        if not owner:
            return None
        return await self._threads.element_content(owner, thread_id, element_id, start=start, length=length)

    async def image_item(self, thread_id: str, memory_key: str) -> MemoryItem | None:
        owner = await self._threads.owner(thread_id)
        return await image_of_thread(self.memory_store, owner, thread_id, memory_key) if owner else None

    @_after_user_message
    async def delete_element(self, element_id: str, thread_id: str | None = None) -> None:

        async def delete(user_id: str, _: str) -> bool:
            await self._threads.delete_element(user_id, element_id)
            return True

        await self._keep("element", element_id, thread_id, delete)

    # --- steps

    @_after_user_message
    async def create_step(self, step_dict: StepDict) -> None:
        """Store a step; an earlier update wins."""
        await self._keep_step(step_dict, is_update=False)

    @_after_user_message
    async def update_step(self, step_dict: StepDict) -> None:
        """Store a changed step; agents forget an edited message of the user, with all that came after it."""
        chat, changes, given = _chat(), list[Awaitable[None]](), cast(Mapping[str, Any], step_dict)
        if chat and chat.user and given.get("type") == "user_message":  # at once: Chainlit asks the agent meanwhile
            changes.append(take_back(chat.user.identifier, chat.thread_id, str(given["id"])))
        await asyncio.gather(self._keep_step(step_dict, is_update=True), *changes)

    @_after_user_message
    async def delete_step(self, step_id: str) -> None:
        """Delete a step, its elements and rating."""

        async def delete(user_id: str, _: str) -> bool:
            await self._threads.delete_step(user_id, step_id)
            return True

        await self._keep("step", step_id, None, delete)

    async def get_favorite_steps(self, user_id: str) -> list[StepDict]:
        try:
            return [step_to_dict(step) for step in await self._threads.favorite_steps(user_id)]
        except StoreError as error:
            if _chat() is None:
                raise
            _log.warning("favorites cannot be shown: %s", error)
            return []

    # --- threads

    async def get_thread_author(self, thread_id: str) -> str:
        """Return the owner, or ""."""
        return await self._threads.owner(thread_id) or ""

    async def delete_thread(self, thread_id: str) -> None:
        """Delete a thread and its session with all items; idempotent."""
        if user_id := await self._writer(thread_id):
            await self.memory_store.conversations.delete_session(user_id, thread_id)

    async def list_threads(self, pagination: Pagination, filters: ThreadFilter) -> PaginatedResponse[ThreadDict]:
        """Return a page of threads without steps and elements, most recently used first.

        Raises:
            ValueError: The filter names no user, or the cursor is malformed.
        """
        if not filters.userId:
            raise ValueError("list_threads needs filters.userId, the id that get_user returned")
        threads = await self._threads.page(
            filters.userId,
            limit=pagination.first + 1,
            before=_read_cursor(pagination.cursor) if pagination.cursor else None,
            search=filters.search,
            feedback_value=filters.feedback,
        )
        shown = threads[: pagination.first]
        cursors = [f"{time_to_text(thread.last_activity_at)}/{thread.thread_id}" for thread in shown]
        return PaginatedResponse(
            pageInfo=PageInfo(
                hasNextPage=len(threads) > len(shown),
                startCursor=cursors[0] if cursors else None,
                endCursor=cursors[-1] if cursors else None,
            ),
            data=[thread_to_dict(filters.userId, thread) for thread in shown],
        )

    async def get_thread(self, thread_id: str) -> ThreadDict | None:
        """Return a thread with its steps and elements, to any user: Chainlit compares its author.

        While the database is away, a logged-in user gets None: Chainlit then begins a chat and keeps the connection.
        """
        asking = _current_user()
        try:
            return await within(self.memory_store.limits.call_seconds, self._thread(asking, thread_id))
        except StoreError as error:
            if _current_user() is None:
                raise
            _log.warning("thread %s cannot be shown: %s", thread_id, error)
            return None

    async def _thread(self, asking: str | None, thread_id: str) -> ThreadDict | None:
        whole = await self._threads.thread(asking, thread_id) if asking else None
        if whole is None:
            asking = await self._threads.owner(thread_id)
            whole = await self._threads.thread(asking, thread_id) if asking else None
        return thread_to_dict(asking, whole.thread, whole) if asking and whole else None

    async def update_thread(
        self,
        thread_id: str,
        name: str | None = None,
        user_id: str | None = None,
        metadata: dict[str, Any] | None = None,
        tags: list[str] | None = None,
    ) -> None:
        """Upsert a thread; metadata is merged by key, and None deletes a key.

        A chat that ends writes its initial metadata: `_SHARING` keys may be outdated there and are ignored.
        """
        if metadata is not None and "client_type" in metadata and _chat() is not None:
            metadata = {key: value for key, value in metadata.items() if key not in _SHARING}
        name = None if name is None else _thread_name(name)
        if metadata is not None and isinstance(metadata.get("name"), str):
            metadata = {**metadata, "name": _thread_name(metadata["name"])}
            name = metadata["name"] if name is None else name

        async def update(writer: str, thread_id: str) -> bool:
            given = {"name": name, "metadata": metadata and plain(metadata), "tags": tags}
            return await self._threads.update_thread(writer, thread_id, **await self._without_secrets(writer, given))

        await self._keep("thread", thread_id, thread_id, update, user_id)

    # --- the rest

    async def build_debug_url(self) -> str:
        return ""

    async def close(self) -> None:
        """Wait up to 5 s for pending writes."""
        ends_at = time.monotonic() + _CLOSE_SECONDS
        if writing := self._writing - {asyncio.current_task()}:
            await asyncio.wait(writing, timeout=_CLOSE_SECONDS)
        if self._waiting:
            await attempt(self._flusher.flush(), ends_at - time.monotonic())
            await self._flusher.stop()
        if self._waiting:
            _log.warning("changes that the history lacks, since the database is away: %s", len(self._waiting))
        if self._uses_default_store:
            await self.memory_store.leave(self)

    async def _keep_step(self, step_dict: StepDict, *, is_update: bool) -> None:
        given = dict(step_dict)

        async def keep(user_id: str, thread_id: str) -> bool:
            step = step_from_dict(await self._without_secrets(user_id, given), thread_id)
            return await self._threads.upsert_step(user_id, step, is_update=is_update)

        await self._keep("step", str(given["id"]), cast("str | None", given.get("threadId")), keep)

    async def _without_secrets(self, user_id: str, data: dict[str, Any]) -> dict[str, Any]:
        secrets = secrets_of(self.memory_store, user_id)
        await secrets.ready(self.memory_store.limits.call_seconds)
        return secrets.filter.hide_in(data) if secrets.hides else data

    async def _keep(
        self,
        what: str,
        its_id: str,
        thread_id: str | None,
        write: Callable[[str, str], Awaitable[bool]],
        user_id: str | None = None,
    ) -> None:
        """Write as the current user; writes of one object keep their order."""
        session = _chat()
        thread_id = thread_id or (session.thread_id if session else None)
        writer = None if session is None else await self._writer()  # a later try knows no chat

        async def change() -> None:
            user = writer if session else await self._writer(thread_id, user_id)
            if user and not await write(user, thread_id or ""):
                raise ConflictError(f"its thread {thread_id!r} is another user's, or was deleted")

        lock = self._locks.setdefault((asyncio.get_running_loop(), what, its_id), Lock())
        task = cast("asyncio.Task[Any]", asyncio.current_task())
        self._writing.add(task)
        try:
            async with lock:
                if session is None:
                    await within(self.memory_store.limits.call_seconds, change())
                else:
                    await self._write_or_wait(_Change(what, its_id, change, time.monotonic() + _LONGEST_SECONDS))
        finally:
            self._writing.discard(task)

    async def _write_or_wait(self, change: _Change) -> None:
        """Write a change of a chat, or let it wait behind others."""
        if not self._waiting:
            try:
                await self._write_change(change)
                return
            except StoreUnavailableError as error:
                outages_of(self.memory_store).failed(_WRITING, "%s waits: %s", _WRITING, error)
                self._flusher.breaker.failed()
        if len(self._waiting) < _MOST_WAITING:
            self._waiting.append(change)
            self._flusher.note()
        else:
            _log.warning(_LACKS, change.what, change.its_id, "too much waits for the database")

    async def _write_waiting(self) -> None:
        while self._waiting:
            change = self._waiting[0]
            try:
                await self._write_change(change)
            except StoreUnavailableError as error:
                if time.monotonic() < change.ends_at:
                    raise
                _log.warning(_LACKS, change.what, change.its_id, error)
            self._waiting.popleft()
        outages_of(self.memory_store).worked(_WRITING)

    async def _write_change(self, change: _Change) -> None:
        """Write a change, or log why it is refused; StoreUnavailableError if it may work later."""
        try:
            await within(self.memory_store.limits.call_seconds, change.write())
        except StoreUnavailableError:
            raise
        except (StoreError, ValueError, OSError) as error:
            _log.warning(_LACKS, change.what, change.its_id, error)

    async def _writer(self, thread_id: str | None = None, user_id: str | None = None) -> str | None:
        """Return the current user, else the named one, else the thread's owner."""
        known = _current_user()
        if known is None and _chat() is None:
            known = user_id or (thread_id and await self._threads.owner(thread_id)) or None
        if known is None and not self._has_warned:
            self._has_warned = True
            _log.warning("nobody is logged in: what is shown to them is not kept")
        return known

    async def _content(self, element: Element, content: bytes | str | None, path: str | None) -> bytes | None:
        if path:
            size = (await asyncio.to_thread(Path(path).stat)).st_size
        else:
            content = to_utf8(content) if isinstance(content, str) else content
            size = len(content or b"")
        if size > self.element_limit_bytes:
            _log.warning("element %s of %s bytes is not kept: %s are", element.id, size, self.element_limit_bytes)
            return None
        return await asyncio.to_thread(Path(path).read_bytes) if path else cast("bytes | None", content)


def _persisted(user: UIUser) -> PersistedUser:
    return PersistedUser(
        id=user.user_id,
        identifier=user.user_id,
        metadata=dict(user.metadata),
        createdAt=time_to_text(user.created_at),
    )


def _read_cursor(cursor: str) -> tuple[datetime, str]:
    time, _, thread_id = cursor.partition("/")
    try:
        return datetime.fromisoformat(time.removesuffix("Z") + "+00:00"), thread_id
    except ValueError:
        raise ValueError(f"cursor={cursor!r}: use the endCursor of a page") from None


def _thread_name(words: str) -> str:
    # masked before the cut, which could halve a credential
    return masked(words[:_READ_CHARACTERS])[:_NAME_CHARACTERS]


# --- routes for contents of elements and for images, to authors and viewers of shared threads; no script in them runs


def mount_elements(app: FastAPI, layer: MemoryDataLayer) -> None:
    """Serve contents at `/memory-context/elements/{thread_id}/{element_id}` of Chainlit's application, and images
    at `/memory-context/images/{thread_id}/{memory_key}`.

    A `MemoryDataLayer` calls this. Mounting again replaces the layer.
    """

    async def check(thread_id: str, user: CurrentUser) -> None:
        if not await _may_see(layer, thread_id, user):
            # the same answer either way: nobody learns of another's threads
            raise HTTPException(404 if user else 401, "Element not found" if user else "Unauthorized")

    async def serve_image(thread_id: str, memory_key: str, user: CurrentUser) -> Response:
        await check(thread_id, user)
        item = await layer.image_item(thread_id, memory_key)
        if item is None or item.data is None:
            raise HTTPException(404, "Image not found, or it was forgotten")
        return Response(item.data, headers=_headers({"mime": item.content_type, "name": item.key}))

    async def serve(thread_id: str, element_id: str, request: Request, user: CurrentUser) -> Response:
        await check(thread_id, user)
        element = await layer.element_content(thread_id, element_id, length=0)
        if element is None:
            raise HTTPException(404, "Element not found, or it was too large to be kept")
        part = byte_range(request.headers.get("range"), element.size_bytes)
        start, end = part or (0, element.size_bytes)
        headers = _headers(element.fields) | {"Content-Length": str(end - start)}
        if part:
            headers["Content-Range"] = f"bytes {start}-{end - 1}/{element.size_bytes}"
        pieces = _pieces(layer, thread_id, element_id, start, end)
        return StreamingResponse(pieces, 206 if part else 200, headers)

    routes = app.router.routes
    routes[:] = [route for route in routes if getattr(route, "name", None) not in _NAMES]
    root = config.run.root_path  # prefix of Chainlit's routes
    app.add_api_route(f"{root}{ELEMENTS}/{{thread_id}}/{{element_id}}", serve, name=_NAME, include_in_schema=False)
    app.add_api_route(
        f"{root}{IMAGES}/{{thread_id}}/{{memory_key}}", serve_image, name=_IMAGE_NAME, include_in_schema=False
    )
    routes[:0] = [routes.pop(), routes.pop()]  # before Chainlit's last route, a catch-all


async def image_of_thread(store: MemoryStore, owner: str, thread_id: str, memory_key: str) -> MemoryItem | None:
    """Return an image that the thread's agents or their sub-agents stored for all; None for any other item."""
    item = await store.items.fetch_memory(owner, memory_key) if KEY_PATTERN.fullmatch(memory_key) else None
    if item is None or not item.content_type.startswith("image/"):
        return None
    return item if item.session_id == thread_id or item.session_id.startswith(f"{thread_id}/") else None


async def _may_see(layer: MemoryDataLayer, thread_id: str, user: User | PersistedUser | None) -> bool:
    if user is not None and await layer.get_thread_author(thread_id) == user.identifier:
        return True
    thread = await layer.get_thread(thread_id)
    if thread is None:
        return False
    metadata = cast("dict[str, Any] | None", thread["metadata"])
    if metadata and metadata.get("is_shared"):
        return True
    may_view: Any = getattr(config.code, "on_shared_thread_view", None)
    return bool(may_view and await may_view(thread, user))


async def _pieces(
    layer: MemoryDataLayer, thread_id: str, element_id: str, start: int, end: int
) -> AsyncGenerator[bytes, None]:
    while start < end:
        length = min(_PIECE_BYTES, end - start)
        piece = await layer.element_content(thread_id, element_id, start=start, length=length)
        if piece is None or len(piece.content) != length:
            raise RuntimeError(f"element {element_id!r} was deleted or replaced while it was served")
        yield piece.content
        start += length


def _headers(fields: Mapping[str, Any]) -> dict[str, str]:
    mime = str(fields.get("mime") or "").partition(";")[0].strip()
    if not _MIME.fullmatch(mime):
        mime = "application/octet-stream"
    name = str(fields.get("name") or "")
    way = "inline" if mime.startswith(_SHOWN) else "attachment"
    headers = {
        "Accept-Ranges": "bytes",
        "Cache-Control": "private, no-cache",
        "Content-Disposition": f"{way}; filename*=UTF-8''{quote(name.encode('utf-8', 'replace'), safe='')}",
        "Content-Type": f"{mime}; charset=utf-8" if mime.startswith("text/") else mime,
        "X-Content-Type-Options": "nosniff",
    }
    if mime != "application/pdf":  # browsers refuse sandboxed PDFs, and isolate their scripts anyway
        headers["Content-Security-Policy"] = "sandbox"
    return headers


def byte_range(header: str | None, size: int) -> tuple[int, int] | None:
    """Return start and end of one satisfiable Range header (RFC 9110, 14.2); None for the whole content."""
    match = _RANGE.fullmatch(header.strip()) if header else None
    if match is None or match.groups() == ("", ""):
        return None
    first, last = match.groups()
    if not first:
        start, end = max(size - int(last), 0), size
    else:
        start, end = int(first), min(int(last) + 1, size) if last else size
    return (start, end) if start < end else None
