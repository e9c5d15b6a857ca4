"""MemoryDataLayer: what Chainlit calls to keep users, threads, steps, elements and feedback.

Chainlit writes in the background, in tasks that nobody waits for, and reads for a page that waits. So in a chat a
write that fails is logged in one line, and over HTTP it is an error that the page shows. Without a login nothing is
kept: rows belong to a user.
"""

import asyncio
import logging
from asyncio import Lock
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from datetime import datetime
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, cast
from weakref import WeakValueDictionary

from chainlit.data.base import BaseDataLayer
from chainlit.data.utils import queue_until_user_message
from chainlit.element import Element, ElementDict
from chainlit.step import StepDict
from chainlit.types import Feedback, PageInfo, PaginatedResponse, Pagination, ThreadDict, ThreadFilter
from chainlit.user import PersistedUser, User

from memory_context.context import load_parts
from memory_context.credentials import masked
from memory_context.errors import ConflictError, ItemNotFoundError, StoreError
from memory_context.store import ElementContent, MemoryStore, UIUser, within
from memory_context.utf8 import to_utf8

from .current_user import acting_user, chat_session, remember_acting
from .dicts import (
    element_from_dict,
    element_to_dict,
    plain,
    step_from_dict,
    step_to_dict,
    thread_to_dict,
    time_to_text,
)
from .elements import is_element_url, mount_elements

__all__ = ["MemoryDataLayer"]

_log = logging.getLogger(__name__)

_READ_CHARACTERS = 10_000  # of a message that names a thread
_NAME_CHARACTERS = 255  # a thread is named by its first message, however long
_CLOSE_SECONDS = 5
_SHARING = frozenset({"is_shared", "shared_at"})

_Method = TypeVar("_Method", bound=Callable[..., Coroutine[Any, Any, None]])


def _after_user_message(method: _Method) -> _Method:
    """In a chat keep nothing before the user has said something, as Chainlit does; outside of one do it at once."""
    queued = cast(_Method, queue_until_user_message()(method))

    @wraps(method)
    async def wrapper(self: "MemoryDataLayer", *args: Any, **kwargs: Any) -> None:
        await (method if chat_session() is None else queued)(self, *args, **kwargs)

    return cast(_Method, wrapper)


class MemoryDataLayer(BaseDataLayer):
    """Chainlit's data in the database of its agents' memory.

    Args:
        memory_store: Where; None for the default store. One that is given stays open when the layer is closed.
        element_limit_bytes: The largest content of an element that is kept; of a larger one only its name is.

    Attributes:
        memory_store: Where.
        element_limit_bytes: The largest content that is kept.
    """

    def __init__(self, memory_store: MemoryStore | None = None, *, element_limit_bytes: int = 50_000_000) -> None:
        from chainlit.server import app  # late: importing the server makes folders and reads the application's settings

        load_parts()
        self.memory_store = memory_store or MemoryStore.default()
        self.element_limit_bytes = element_limit_bytes
        self._uses_default_store = memory_store is None
        if self._uses_default_store:
            self.memory_store.join(self)
        self._threads = self.memory_store.threads
        self._locks: WeakValueDictionary[object, Lock] = WeakValueDictionary()
        self._writing: set[asyncio.Task[Any]] = set()
        self._has_told_of_nobody = False
        mount_elements(app, self)

    # --- users

    async def get_user(self, identifier: str) -> PersistedUser | None:
        """Return a user who logged in before; None for another."""
        remember_acting(identifier)  # first: Chainlit lets the user in also when the database does not answer
        user = await self._threads.user(identifier)
        return None if user is None else _persisted(user)

    async def create_user(self, user: User) -> PersistedUser:
        """Keep a user who logs in; the metadata replaces what was known.

        Raises:
            ValueError: The identifier is none that a user of the memory can have.
        """
        remember_acting(user.identifier)
        kept = await self._threads.upsert_user(user.identifier, plain(cast(Any, user).metadata))
        return _persisted(kept)

    # --- feedback

    async def upsert_feedback(self, feedback: Feedback) -> str:
        """Keep how a step was rated, instead of an earlier rating, and return the rating's id.

        Raises:
            ItemNotFoundError: The user has no such step.
        """
        user_id = await self._writer(feedback.threadId)
        kept = user_id and await self._threads.rate_step(
            user_id, feedback.forId, feedback.value, feedback.comment, feedback_id=feedback.id
        )
        if not kept:
            raise ItemNotFoundError(f"no message {feedback.forId!r} to rate")
        return kept

    async def delete_feedback(self, feedback_id: str) -> bool:
        """Take a rating back; whether the user had given it."""
        user_id = await self._writer()
        return bool(user_id and await self._threads.delete_rating(user_id, feedback_id))

    # --- elements

    @_after_user_message
    async def create_element(self, element: Element) -> None:
        """Keep an element with what it shows, or its new state."""
        given = cast(Mapping[str, Any], element.to_dict())
        content, path = element.content, element.path  # as it is now: it may go on changing

        async def keep(user_id: str, thread_id: str) -> bool:
            data = None if element.type == "custom" else await self._content(element, content, path)
            keeps = not element.url or is_element_url(element.url)
            return await self._threads.upsert_element(
                user_id, element_from_dict(given, thread_id), data, keeps_content=keeps
            )

        await self._keep("element", element.id, element.thread_id, keep)

    async def get_element(self, thread_id: str, element_id: str) -> ElementDict | None:
        """Return an element of a thread; None if it has none of this id."""
        owner = await self._threads.owner(thread_id)
        element = owner and await self._threads.element(owner, thread_id, element_id)
        return element_to_dict(element) if element else None

    async def element_content(
        self, thread_id: str, element_id: str, *, start: int = 0, length: int | None = None
    ) -> ElementContent | None:
        """Return what an element of a thread shows, or `length` bytes from `start` on; None if that is not kept."""
        owner = await self._threads.owner(thread_id)
        if not owner:
            return None
        return await self._threads.element_content(owner, thread_id, element_id, start=start, length=length)

    @_after_user_message
    async def delete_element(self, element_id: str, thread_id: str | None = None) -> None:
        """Delete an element."""

        async def delete(user_id: str, _: str) -> bool:
            await self._threads.delete_element(user_id, element_id)
            return True

        await self._keep("element", element_id, thread_id, delete)

    # --- steps

    @_after_user_message
    async def create_step(self, step_dict: StepDict) -> None:
        """Keep a step; what an update brought before only gets what it lacks."""
        await self._keep_step(step_dict, is_update=False)

    @_after_user_message
    async def update_step(self, step_dict: StepDict) -> None:
        """Keep the new state of a step, also of one that is not known yet."""
        await self._keep_step(step_dict, is_update=True)

    @_after_user_message
    async def delete_step(self, step_id: str) -> None:
        """Delete a step, with its elements and its rating."""

        async def delete(user_id: str, _: str) -> bool:
            await self._threads.delete_step(user_id, step_id)
            return True

        await self._keep("step", step_id, None, delete)

    async def get_favorite_steps(self, user_id: str) -> list[StepDict]:
        """Return the steps that a user marked, the newest first."""
        try:
            return [step_to_dict(step) for step in await self._threads.favorite_steps(user_id)]
        except StoreError as error:
            if chat_session() is None:
                raise
            _log.warning("favorites cannot be shown: %s", error)
            return []

    # --- threads

    async def get_thread_author(self, thread_id: str) -> str:
        """Return whose a thread is; "" if nobody's."""
        return await self._threads.owner(thread_id) or ""

    async def delete_thread(self, thread_id: str) -> None:
        """Delete a thread and its session: all that was shown and said, and the items stored in it. Again is harmless.

        Raises:
            StoreError: The database failed; delete it again.
        """
        if user_id := await self._writer(thread_id):
            await self._threads.delete_thread(user_id, thread_id)

    async def list_threads(self, pagination: Pagination, filters: ThreadFilter) -> PaginatedResponse[ThreadDict]:
        """Return a page of a user's threads without what was shown in them, those used last first.

        A page begins where the one before ended, whatever was begun or used meanwhile.

        Raises:
            ValueError: The filter names no user, or the cursor is none of this layer.
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
        """Return a thread with all that was shown in it, whoever asks: Chainlit compares its author; None if unknown.

        For a user who is logged in it is None also while the database is away: Chainlit then begins a chat instead of
        refusing the connection.
        """
        asking = acting_user()
        try:
            return await within(self.memory_store.limits.call_seconds, self._thread(asking, thread_id))
        except StoreError as error:
            if acting_user() is None:
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
        """Make a thread, or change what is given of it; of the metadata key by key, None takes one away.

        A chat that ends writes what it knew of its thread when it began. Whether that is shared is not taken from it:
        its author may have thought better of it meanwhile.
        """
        if metadata is not None and "client_type" in metadata and chat_session() is not None:
            metadata = {key: value for key, value in metadata.items() if key not in _SHARING}
        name = None if name is None else _thread_name(name)
        if metadata is not None and isinstance(metadata.get("name"), str):
            metadata = {**metadata, "name": _thread_name(metadata["name"])}
            name = metadata["name"] if name is None else name

        async def update(writer: str, thread_id: str) -> bool:
            return await self._threads.update_thread(
                writer,
                thread_id,
                name=name,
                metadata=None if metadata is None else plain(metadata),
                tags=tags,
            )

        await self._keep("thread", thread_id, thread_id, update, user_id)

    # --- the rest

    async def build_debug_url(self) -> str:
        """Return "": there is no other page to look at."""
        return ""

    async def close(self) -> None:
        """Wait up to 5 s for what is being written, then let go of the store."""
        if writing := self._writing - {asyncio.current_task()}:
            await asyncio.wait(writing, timeout=_CLOSE_SECONDS)
        if self._uses_default_store:
            await self.memory_store.leave(self)

    async def _keep_step(self, step_dict: StepDict, *, is_update: bool) -> None:
        given = dict(step_dict)

        async def keep(user_id: str, thread_id: str) -> bool:
            return await self._threads.upsert_step(user_id, step_from_dict(given, thread_id), is_update=is_update)

        await self._keep("step", str(given["id"]), cast("str | None", given.get("threadId")), keep)

    async def _keep(
        self,
        what: str,
        its_id: str,
        thread_id: str | None,
        write: Callable[[str, str], Awaitable[bool]],
        user_id: str | None = None,
    ) -> None:
        """Write as whoever is at work, one after the other what concerns the same thing, in the order of the calls."""
        session = chat_session()
        thread_id = thread_id or (session.thread_id if session else None)
        lock = self._locks.setdefault((asyncio.get_running_loop(), what, its_id), Lock())
        task = cast("asyncio.Task[Any]", asyncio.current_task())
        self._writing.add(task)
        try:
            await within(self.memory_store.limits.call_seconds, self._write(lock, thread_id, user_id, write))
        except (StoreError, ValueError, OSError) as error:
            if session is None:
                raise
            _log.warning("the history lacks a change of %s %s: %s", what, its_id, error)
        finally:
            self._writing.discard(task)

    async def _write(
        self, lock: Lock, thread_id: str | None, user_id: str | None, write: Callable[[str, str], Awaitable[bool]]
    ) -> None:
        async with lock:
            writer = await self._writer(thread_id, user_id)
            if writer and not await write(writer, thread_id or ""):
                raise ConflictError(f"its thread {thread_id!r} is another user's, or was deleted")

    async def _writer(self, thread_id: str | None = None, user_id: str | None = None) -> str | None:
        """Return as whom to write: who is at work; if nobody is known, whom the caller names or whose thread it is."""
        known = acting_user()
        if known is None and chat_session() is None:
            known = user_id or (thread_id and await self._threads.owner(thread_id)) or None
        if known is None and not self._has_told_of_nobody:
            self._has_told_of_nobody = True
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
    """Return a message cut to a thread's name; credentials are masked before the cut, which could leave half of one."""
    return masked(words[:_READ_CHARACTERS])[:_NAME_CHARACTERS]
