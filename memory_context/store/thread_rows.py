"""Values and rows of threads. Fields beyond what is searched, ordered and served stay as the interface gave them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from .codec import canonical_json

__all__ = [
    "ElementContent",
    "Feedback",
    "Thread",
    "ThreadElement",
    "ThreadStep",
    "UIUser",
    "WholeThread",
    "content_from_row",
    "element_from_row",
    "element_params",
    "step_from_row",
    "step_params",
    "thread_from_row",
    "ui_user_from_row",
]


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


def ui_user_from_row(user_id: str, row: Mapping[str, Any]) -> UIUser:
    """Return the user of a row."""
    return UIUser(user_id, row["metadata"], row["created_at"].astimezone(timezone.utc))


def thread_from_row(row: Mapping[str, Any]) -> Thread:
    """Return the thread of a row."""
    return Thread(
        thread_id=row["thread_id"],
        name=row["name"],
        tags=None if row["tags"] is None else tuple(row["tags"]),
        metadata=row["metadata"],
        created_at=row["created_at"].astimezone(timezone.utc),
        last_activity_at=row["last_activity_at"].astimezone(timezone.utc),
    )


def step_params(user_id: str, step: ThreadStep, is_update: bool) -> dict[str, Any]:
    """Return the parameters of `upsert_step`; `ValueError` for fields that are not JSON, or a time without zone."""
    if step.created_at is not None and step.created_at.utcoffset() is None:
        raise ValueError(f"created_at={step.created_at!r} has no timezone: use datetime.now(timezone.utc)")
    return {
        "user_id": user_id,
        "thread_id": step.thread_id,
        "step_id": step.step_id,
        "input": step.input,
        "output": step.output,
        "fields": canonical_json(step.fields),
        "is_update": is_update,
        "created_at": step.created_at,
    }


def step_from_row(row: Mapping[str, Any]) -> ThreadStep:
    """Return the step of a row."""
    feedback = None
    if row["feedback_id"] is not None:
        feedback = Feedback(row["feedback_id"], row["feedback_value"], row["feedback_comment"])
    return ThreadStep(
        step_id=row["step_id"],
        thread_id=row["thread_id"],
        fields=row["fields"],
        input=row["input"],
        output=row["output"],
        created_at=row["created_at"].astimezone(timezone.utc),
        feedback=feedback,
    )


def element_params(user_id: str, element: ThreadElement, content: bytes | None, keeps_content: bool) -> dict[str, Any]:
    """Return the parameters of `upsert_element`; `ValueError` for fields that are not JSON-native."""
    return {
        "user_id": user_id,
        "thread_id": element.thread_id,
        "element_id": element.element_id,
        "step_id": element.step_id,
        "fields": canonical_json(element.fields),
        "content": content,
        "keeps_content": keeps_content,
    }


def element_from_row(row: Mapping[str, Any]) -> ThreadElement:
    """Return the element of a row."""
    return ThreadElement(
        element_id=row["element_id"],
        thread_id=row["thread_id"],
        step_id=row["step_id"],
        fields=row["fields"],
        has_content=row["has_content"],
    )


def content_from_row(rows: Sequence[Mapping[str, Any]]) -> ElementContent | None:
    """Return the content in rows; None if there is none."""
    if not rows:
        return None
    (row,) = rows
    return ElementContent(bytes(row["content"]), row["fields"], row["size_bytes"])
