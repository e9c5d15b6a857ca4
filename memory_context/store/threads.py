"""Conversations as a user interface showed them. A thread belongs to its first user; deleted threads refuse writes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import uuid4

from memory_context.foundation.identifiers import checked_identifier
from memory_context.foundation.patterns import regex

from .codec import canonical_json
from .conversations import checked_place
from .database import Database
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
_WILDCARD = regex(r"[\\%_]")
_FAVORITES = 200


@dataclass(frozen=True)
class UIUser:
    """A user of an interface."""

    user_id: str
    metadata: Mapping[str, Any]
    created_at: datetime


@dataclass(frozen=True)
class Thread:
    """A conversation as listed; its id is that of the session."""

    thread_id: str
    name: str | None
    tags: tuple[str, ...] | None
    metadata: Mapping[str, Any]
    created_at: datetime
    last_activity_at: datetime


@dataclass(frozen=True)
class Feedback:
    """A rating of a step."""

    feedback_id: str
    value: int
    comment: str | None


@dataclass(frozen=True)
class ThreadStep:
    """A message, run or tool call.

    Attributes:
        fields: JSON-native.
        created_at: Position in the thread, with a timezone; None for now.
        feedback: Read only.
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
    """An image, text or file; `step_id` is empty for the whole thread."""

    element_id: str
    thread_id: str
    step_id: str
    fields: Mapping[str, Any]
    has_content: bool = False


@dataclass(frozen=True)
class ElementContent:
    """Content of an element, or a range; `size_bytes` is the whole size."""

    content: bytes
    fields: Mapping[str, Any]
    size_bytes: int


@dataclass(frozen=True)
class WholeThread:
    """A thread, steps by creation, elements by arrival."""

    thread: Thread
    steps: tuple[ThreadStep, ...]
    elements: tuple[ThreadElement, ...]


class ThreadStore:
    """The threads of one database; methods act as one user. `ConversationArchive.delete_session` deletes one."""

    def __init__(self, database: Database) -> None:
        self._database = database

    # --- users

    async def user(self, user_id: str) -> UIUser | None:
        (rows,) = await self._read(checked_identifier("user_id", user_id), "fetch_ui_user")
        return UIUser(user_id, **rows[0]) if rows else None

    async def upsert_user(self, user_id: str, metadata: Mapping[str, Any]) -> UIUser:
        """Store a login; the metadata is replaced."""
        (row,), _ = await self._write(user_id, "upsert_ui_user", "insert_known_user", metadata=canonical_json(metadata))
        return UIUser(user_id, **row)

    # --- threads

    async def owner(self, thread_id: str) -> str | None:
        ((row,),) = await self._database.read(None, _QUERIES("fetch_thread_owner", thread_id=thread_id))
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
        """Create or change a thread; False if it is another user's or was deleted.

        None leaves a field. Metadata is merged by key; a value of None deletes its key.
        """
        given = metadata or {}
        _, updated = await self._write(
            user_id,
            "insert_thread",
            "update_thread",
            thread_id=checked_identifier("thread_id", thread_id),
            name=name,
            tags=None if tags is None else list(tags),
            metadata=canonical_json({key: value for key, value in given.items() if value is not None}),
            removed_keys=[key for key, value in given.items() if value is None],
        )
        return bool(updated)

    async def thread(self, user_id: str, thread_id: str) -> WholeThread | None:
        names = ("fetch_thread", "select_steps", "select_elements")
        threads, steps, elements = await self._read(user_id, *names, thread_id=thread_id)
        if not threads:
            return None
        return WholeThread(
            _thread(threads[0]), tuple(map(_step, steps)), tuple(ThreadElement(**row) for row in elements)
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
        """Return a page of threads, last used first.

        Args:
            before: `last_activity_at` and id of the previous page's last thread.
            search: Text in the name or in a step, in any case.
        """
        pattern = "%" + _WILDCARD.sub(r"\\\g<0>", search) + "%" if search else None
        asked = {"pattern": pattern, "feedback_value": feedback_value, **checked_place(limit, before)}
        (rows,) = await self._read(user_id, "select_threads", **asked)
        return [_thread(row) for row in rows]

    # --- steps

    async def upsert_step(self, user_id: str, step: ThreadStep, *, is_update: bool) -> bool:
        """Store a step, creating its thread; False if that is another user's or was deleted.

        None leaves a known field. A new step after its update only fills in missing fields.
        """
        if step.created_at is not None and step.created_at.utcoffset() is None:
            raise ValueError(f"created_at={step.created_at!r} has no timezone: use datetime.now(timezone.utc)")
        _, kept = await self._write(
            user_id,
            "insert_thread",
            "upsert_step",
            thread_id=checked_identifier("thread_id", step.thread_id),
            step_id=checked_identifier("step_id", step.step_id),
            input=step.input,
            output=step.output,
            fields=canonical_json(step.fields),
            is_update=is_update,
            created_at=step.created_at,
        )
        return bool(kept)

    async def delete_step(self, user_id: str, step_id: str) -> None:
        """Delete a step, elements and rating."""
        await self._write(user_id, "delete_step", step_id=step_id)

    async def favorite_steps(self, user_id: str) -> list[ThreadStep]:
        """Return the newest 200 favorites."""
        (rows,) = await self._read(user_id, "select_favorite_steps", limit=_FAVORITES)
        return [_step(row) for row in rows]

    async def rate_step(
        self, user_id: str, step_id: str, value: int, comment: str | None, *, feedback_id: str | None = None
    ) -> str | None:
        """Replace the rating of a step; return its id."""
        (rows,) = await self._write(
            user_id,
            "update_feedback",
            step_id=step_id,
            feedback_id=feedback_id or None,
            new_feedback_id=str(uuid4()),
            feedback_value=value,
            feedback_comment=comment,
        )
        return rows[0]["feedback_id"] if rows else None

    async def delete_rating(self, user_id: str, feedback_id: str) -> bool:
        (rows,) = await self._write(user_id, "delete_feedback", feedback_id=feedback_id)
        return bool(rows)

    # --- elements

    async def upsert_element(
        self, user_id: str, element: ThreadElement, content: bytes | None = None, *, keeps_content: bool = True
    ) -> bool:
        """Store an element like a step; without content, `keeps_content` keeps the stored one."""
        _, kept = await self._write(
            user_id,
            "insert_thread",
            "upsert_element",
            thread_id=checked_identifier("thread_id", element.thread_id),
            element_id=checked_identifier("element_id", element.element_id),
            step_id=element.step_id,
            fields=canonical_json(element.fields),
            content=content,
            keeps_content=keeps_content,
        )
        return bool(kept)

    async def element(self, user_id: str, thread_id: str, element_id: str) -> ThreadElement | None:
        (rows,) = await self._read(user_id, "fetch_element", thread_id=thread_id, element_id=element_id)
        return ThreadElement(**rows[0]) if rows else None

    async def element_content(
        self, user_id: str, thread_id: str, element_id: str, *, start: int = 0, length: int | None = None
    ) -> ElementContent | None:
        place = {"thread_id": thread_id, "element_id": element_id}
        (rows,) = await self._read(user_id, "fetch_element_content", **place, start=start, length=length)
        found = (ElementContent(bytes(row["content"]), row["fields"], row["size_bytes"]) for row in rows)
        return next(found, None)

    async def delete_element(self, user_id: str, element_id: str) -> None:
        await self._write(user_id, "delete_element", element_id=element_id)

    async def _read(self, user_id: str, *names: str, **params: Any) -> list[list[dict[str, Any]]]:
        return await self._database.read(user_id, *_QUERIES.each(names, params))

    async def _write(self, user_id: str, *names: str, **params: Any) -> list[list[dict[str, Any]]]:
        return await self._database.write(checked_identifier("user_id", user_id), *_QUERIES.each(names, params))


def _thread(row: Mapping[str, Any]) -> Thread:
    fields: dict[str, Any] = {**row, "tags": None if row["tags"] is None else tuple(row["tags"])}
    return Thread(**fields)


def _step(row: Mapping[str, Any]) -> ThreadStep:
    id_, value, comment = row["feedback_id"], row["feedback_value"], row["feedback_comment"]
    kept = {name: row[name] for name in ("step_id", "thread_id", "fields", "input", "output", "created_at")}
    return ThreadStep(**kept, feedback=None if id_ is None else Feedback(id_, value, comment))
