"""ThreadStore: conversations as a user interface showed them, beside the agent's transcript of them.

A thread belongs to the first user who comes with its id, and nobody else writes to it. Writes of one step may come in
any order: its last update stays. A deleted thread takes nothing any more. Every str comes back identical.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import uuid4

from memory_context.identifiers import checked_identifier

from .codec import canonical_json
from .conversation_rows import checked_place
from .conversations import ConversationArchive
from .database import Database
from .pool import Statement
from .sql import load_queries

__all__ = [
    "ElementContent",
    "Feedback",
    "Thread",
    "ThreadElement",
    "ThreadStep",
    "ThreadStore",
    "UIUser",
    "WholeThread",
]

_QUERIES = load_queries("threads")
_WILDCARD = re.compile(r"[\\%_]")
_FAVORITES = 200


@dataclass(frozen=True)
class UIUser:
    """A user who logged in to an interface.

    Attributes:
        user_id: The same as everywhere.
        metadata: JSON-native data of the interface.
        created_at: First login, in UTC.
    """

    user_id: str
    metadata: Mapping[str, Any]
    created_at: datetime


@dataclass(frozen=True)
class Thread:
    """One conversation as an interface lists it.

    Attributes:
        thread_id: Its id, also that of the session.
        name: None until it is named.
        tags: None if none were given.
        metadata: JSON-native data of the interface.
        created_at: When it began, in UTC.
        last_activity_at: When a step was last stored, in UTC.
    """

    thread_id: str
    name: str | None
    tags: tuple[str, ...] | None
    metadata: Mapping[str, Any]
    created_at: datetime
    last_activity_at: datetime


@dataclass(frozen=True)
class Feedback:
    """A person's rating of a step; `value` is the interface's number."""

    feedback_id: str
    value: int
    comment: str | None


@dataclass(frozen=True)
class ThreadStep:
    """A message, a run or a tool call that was shown in a thread.

    Attributes:
        step_id: Its id.
        thread_id: The thread it was shown in.
        fields: Everything else the interface keeps, JSON-native; every str is kept.
        input: None if it has none.
        output: None if it has none.
        created_at: Its place in the thread, with a timezone; None for the time of storing.
        feedback: Its rating; not written with it.
    """

    step_id: str
    thread_id: str
    fields: Mapping[str, Any]
    input: str | None = None
    output: str | None = None
    created_at: datetime | None = None
    feedback: Feedback | None = None


@dataclass(frozen=True)
class ThreadElement:
    """An image, a text or a file that was shown beside a step.

    Attributes:
        element_id: Its id.
        thread_id: The thread it was shown in.
        step_id: The step it belongs to; empty for the whole thread.
        fields: Everything else the interface keeps, JSON-native; every str is kept.
        has_content: Whether its content is stored.
    """

    element_id: str
    thread_id: str
    step_id: str
    fields: Mapping[str, Any]
    has_content: bool = False


@dataclass(frozen=True)
class ElementContent:
    """The content of an element, or a range of it, with the element's fields and its whole size in bytes."""

    content: bytes
    fields: Mapping[str, Any]
    size_bytes: int


@dataclass(frozen=True)
class WholeThread:
    """A thread with its steps, in order of creation, and its elements, in order of arrival."""

    thread: Thread
    steps: tuple[ThreadStep, ...]
    elements: tuple[ThreadElement, ...]


class ThreadStore:
    """The threads of one database; every method but `owner` acts as one user, and raises `StoreError` if that fails."""

    def __init__(self, database: Database, conversations: ConversationArchive) -> None:
        self._database = database
        self._conversations = conversations

    # --- users

    async def user(self, user_id: str) -> UIUser | None:
        """Return a user who logged in; None if the user never did."""
        params = {"user_id": checked_identifier("user_id", user_id)}
        (rows,) = await self._database.read(user_id, Statement(_QUERIES["fetch_ui_user"], params))
        return UIUser(user_id, **rows[0]) if rows else None

    async def upsert_user(self, user_id: str, metadata: Mapping[str, Any]) -> UIUser:
        """Store who logged in; the metadata replaces what was known.

        Raises:
            ValueError: The id is unusable, or the metadata is not JSON-native.
        """
        params = {
            "user_id": checked_identifier("user_id", user_id),
            "metadata": canonical_json(metadata),
        }
        (row,), _ = await self._database.write(
            user_id, *(Statement(_QUERIES[name], params) for name in ("upsert_ui_user", "insert_known_user"))
        )
        return UIUser(user_id, **row)

    # --- threads

    async def owner(self, thread_id: str) -> str | None:
        """Return the user of a thread; None if it is unknown or was deleted."""
        statement = Statement(_QUERIES["fetch_thread_owner"], {"thread_id": thread_id})
        ((row,),) = await self._database.read(None, statement)
        return row["user_id"]

    async def update_thread(
        self,
        user_id: str,
        thread_id: str,
        *,
        name: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        tags: Sequence[str] | None = None,
    ) -> bool:
        """Make a thread or change what is given of it; False if it is another user's or was deleted.

        Args:
            user_id: The user.
            thread_id: The thread.
            name: None leaves it.
            metadata: Replaces key by key; a value of None deletes its key.
            tags: None leaves them.

        Raises:
            ValueError: An id is unusable, or the metadata is not JSON-native.
        """
        given = metadata or {}
        params = {
            **_place(user_id, thread_id),
            "name": name,
            "tags": None if tags is None else list(tags),
            "metadata": canonical_json({key: value for key, value in given.items() if value is not None}),
            "removed_keys": [key for key, value in given.items() if value is None],
        }
        _, updated = await self._write(user_id, params, "insert_thread", "update_thread")
        return bool(updated)

    async def thread(self, user_id: str, thread_id: str) -> WholeThread | None:
        """Return a thread with its steps and elements, in one round trip; None if this user has none of this id."""
        params = {"user_id": user_id, "thread_id": thread_id}
        names = ("fetch_thread", "select_steps", "select_elements")
        threads, steps, elements = await self._read(user_id, params, *names)
        if not threads:
            return None
        return WholeThread(
            _thread(threads[0]),
            tuple(_step(row) for row in steps),
            tuple(ThreadElement(**row) for row in elements),
        )

    async def page(
        self,
        user_id: str,
        *,
        limit: int = 20,
        before: tuple[datetime, str] | None = None,
        search: str | None = None,
        feedback_value: int | None = None,
    ) -> list[Thread]:
        """Return a page of a user's threads, those used last first.

        Args:
            user_id: The user.
            limit: How many at most.
            before: `last_activity_at` and id of the last thread of the previous page; None for the first page.
            search: Only threads with this in their name or in a step's input or output, in any case.
            feedback_value: Only threads with a step that was rated so.

        Raises:
            ValueError: The limit is under 1, or the time has no timezone.
        """
        params = {
            "user_id": user_id,
            "pattern": "%" + _WILDCARD.sub(r"\\\g<0>", search) + "%" if search else None,
            "feedback_value": feedback_value,
            **checked_place(limit, before),
        }
        (rows,) = await self._read(user_id, params, "select_threads")
        return [_thread(row) for row in rows]

    async def delete_thread(self, user_id: str, thread_id: str) -> bool:
        """Delete a thread and its session, with all agents' transcripts in it; False if neither was known.

        The items stored in it are forgotten.

        Raises:
            ValueError: The id is unusable.
        """
        return await self._conversations.delete_session(user_id, thread_id)

    # --- steps

    async def upsert_step(self, user_id: str, step: ThreadStep, *, is_update: bool) -> bool:
        """Store a step, and make its thread if it is new; False if that is another user's or was deleted.

        Args:
            user_id: The user.
            step: What is not given of a known step stays as it is.
            is_update: Whether it changes a step. A new step that comes after an update only fills in what is missing.

        Raises:
            ValueError: An id is unusable, the fields are not JSON-native, or the time has no timezone.
        """
        checked_identifier("step_id", step.step_id)
        if step.created_at is not None and step.created_at.utcoffset() is None:
            raise ValueError(f"created_at={step.created_at!r} has no timezone: use datetime.now(timezone.utc)")
        params = {
            **_place(user_id, step.thread_id),
            "step_id": step.step_id,
            "input": step.input,
            "output": step.output,
            "fields": canonical_json(step.fields),
            "is_update": is_update,
            "created_at": step.created_at,
        }
        _, kept = await self._write(user_id, params, "insert_thread", "upsert_step")
        return bool(kept)

    async def delete_step(self, user_id: str, step_id: str) -> None:
        """Delete a step, with its elements and its rating."""
        await self._write(user_id, {"user_id": user_id, "step_id": step_id}, "delete_step")

    async def favorite_steps(self, user_id: str) -> list[ThreadStep]:
        """Return the newest 200 steps that their metadata mark as favorites, the newest first."""
        params = {"user_id": user_id, "limit": _FAVORITES}
        (rows,) = await self._read(user_id, params, "select_favorite_steps")
        return [_step(row) for row in rows]

    async def rate_step(
        self, user_id: str, step_id: str, value: int, comment: str | None, *, feedback_id: str | None = None
    ) -> str | None:
        """Store the rating of a step, replacing an earlier one; return its id, None if the user has no such step.

        Without a `feedback_id` it keeps the id it has, or gets a new one.
        """
        params = {
            "user_id": user_id,
            "step_id": step_id,
            "feedback_id": feedback_id if feedback_id else None,
            "new_feedback_id": str(uuid4()),
            "feedback_value": value,
            "feedback_comment": comment,
        }
        (rows,) = await self._write(user_id, params, "update_feedback")
        return rows[0]["feedback_id"] if rows else None

    async def delete_rating(self, user_id: str, feedback_id: str) -> bool:
        """Delete a rating; return whether this user had one of this id."""
        params = {"user_id": user_id, "feedback_id": feedback_id}
        (rows,) = await self._write(user_id, params, "delete_feedback")
        return bool(rows)

    # --- elements

    async def upsert_element(
        self, user_id: str, element: ThreadElement, content: bytes | None = None, *, keeps_content: bool = True
    ) -> bool:
        """Store an element, and make its thread if it is new; False if that is another user's or was deleted.

        Args:
            user_id: The user.
            element: The element.
            content: Its bytes; None if they lie elsewhere.
            keeps_content: Whether stored content stays when none is given.

        Raises:
            ValueError: An id is unusable, or the fields are not JSON-native.
        """
        checked_identifier("element_id", element.element_id)
        params = {
            **_place(user_id, element.thread_id),
            "element_id": element.element_id,
            "step_id": element.step_id,
            "fields": canonical_json(element.fields),
            "content": content,
            "keeps_content": keeps_content,
        }
        _, kept = await self._write(user_id, params, "insert_thread", "upsert_element")
        return bool(kept)

    async def element(self, user_id: str, thread_id: str, element_id: str) -> ThreadElement | None:
        """Return an element without its content; None if this user has none of this id in the thread."""
        params = {"user_id": user_id, "thread_id": thread_id, "element_id": element_id}
        (rows,) = await self._read(user_id, params, "fetch_element")
        return ThreadElement(**rows[0]) if rows else None

    async def element_content(
        self, user_id: str, thread_id: str, element_id: str, *, start: int = 0, length: int | None = None
    ) -> ElementContent | None:
        """Return the content of an element from byte `start`, at most `length` bytes; None if there is none."""
        place = {"user_id": user_id, "thread_id": thread_id, "element_id": element_id}
        params = {**place, "start": start, "length": length}
        (rows,) = await self._read(user_id, params, "fetch_element_content")
        found = (ElementContent(bytes(row["content"]), row["fields"], row["size_bytes"]) for row in rows)
        return next(found, None)

    async def delete_element(self, user_id: str, element_id: str) -> None:
        """Delete an element."""
        await self._write(user_id, {"user_id": user_id, "element_id": element_id}, "delete_element")

    async def _read(self, user_id: str, params: Mapping[str, Any], *names: str) -> list[list[dict[str, Any]]]:
        return await self._database.read(user_id, *(Statement(_QUERIES[name], params) for name in names))

    async def _write(self, user_id: str, params: Mapping[str, Any], *names: str) -> list[list[dict[str, Any]]]:
        return await self._database.write(user_id, *(Statement(_QUERIES[name], params) for name in names))


def _thread(row: Mapping[str, Any]) -> Thread:
    fields: dict[str, Any] = {**row, "tags": None if row["tags"] is None else tuple(row["tags"])}
    return Thread(**fields)


def _step(row: Mapping[str, Any]) -> ThreadStep:
    id_, value, comment = row["feedback_id"], row["feedback_value"], row["feedback_comment"]
    kept = {name: row[name] for name in ("step_id", "thread_id", "fields", "input", "output", "created_at")}
    return ThreadStep(**kept, feedback=None if id_ is None else Feedback(id_, value, comment))


def _place(user_id: str, thread_id: str) -> dict[str, Any]:
    return {
        "user_id": checked_identifier("user_id", user_id),
        "thread_id": checked_identifier("thread_id", thread_id),
    }
