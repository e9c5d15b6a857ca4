"""Conversion between Chainlit's dictionaries and values of the store. Unknown fields are kept."""

import math
import os
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any, cast
from urllib.parse import quote

from chainlit.element import ElementDict
from chainlit.step import StepDict
from chainlit.types import FeedbackDict, ThreadDict

from memory_context.store.threads import Thread, ThreadElement, ThreadStep, WholeThread

__all__ = [
    "ELEMENTS",
    "IMAGES",
    "element_from_dict",
    "element_to_dict",
    "element_url",
    "image_url",
    "is_element_url",
    "plain",
    "step_from_dict",
    "step_to_dict",
    "thread_to_dict",
    "time_to_text",
]

_STEP_COLUMNS = frozenset({"id", "threadId", "input", "output", "feedback"})
_ELEMENT_COLUMNS = frozenset({"id", "threadId", "forId", "chainlitKey", "path", "content"})

ELEMENTS, IMAGES = "/memory-context/elements", "/memory-context/images"
"""Paths of the routes for contents of elements and for stored images."""


def step_from_dict(step: Mapping[str, Any], thread_id: str) -> ThreadStep:
    """Return a step for the store."""
    return ThreadStep(
        step_id=str(step["id"]),
        thread_id=thread_id,
        fields={key: plain(value) for key, value in step.items() if key not in _STEP_COLUMNS},
        input=_text(step.get("input")),
        output=_text(step.get("output")),
        created_at=_time_from_text(step.get("createdAt")),
    )


def step_to_dict(step: ThreadStep) -> StepDict:
    """Return a step as Chainlit gave it, with defaults for fields that the page needs."""
    created_at = step.created_at or datetime.now(timezone.utc)
    known: dict[str, Any] = {
        "name": "",
        "type": "undefined",
        "parentId": None,
        "metadata": {},
        **step.fields,
        "id": step.step_id,
        "threadId": step.thread_id,
        "input": step.input or "",
        "output": step.output or "",
        "createdAt": step.fields.get("createdAt") or time_to_text(created_at),
        "feedback": None,
    }
    if step.feedback is not None:
        known["feedback"] = FeedbackDict(
            forId=step.step_id,
            id=step.feedback.feedback_id,
            value=cast(Any, step.feedback.value),
            comment=step.feedback.comment,
        )
    return cast(StepDict, known)


def element_from_dict(element: Mapping[str, Any], thread_id: str) -> ThreadElement:
    """Return an element for the store, without `chainlitKey`, which ends with the session."""
    return ThreadElement(
        element_id=str(element["id"]),
        thread_id=thread_id,
        step_id=str(element.get("forId") or ""),
        fields={key: plain(value) for key, value in element.items() if key not in _ELEMENT_COLUMNS},
    )


def element_to_dict(element: ThreadElement) -> ElementDict:
    """Return an element as Chainlit gave it, with the URL of its stored content."""
    known: dict[str, Any] = {
        **element.fields,
        "id": element.element_id,
        "threadId": element.thread_id,
        "forId": element.step_id or None,
        "chainlitKey": None,
    }
    if element.has_content:
        known["url"] = element_url(element.thread_id, element.element_id)
    return cast(ElementDict, known)


def thread_to_dict(user_id: str, thread: Thread, whole: WholeThread | None = None) -> ThreadDict:
    """Return a thread, without `whole` for a list, with the time of its last step."""
    return ThreadDict(
        id=thread.thread_id,
        createdAt=time_to_text(thread.created_at if whole else thread.last_activity_at),
        name=thread.name,
        userId=user_id,
        userIdentifier=user_id,
        tags=None if thread.tags is None else list(thread.tags),
        metadata=dict(thread.metadata),
        steps=[step_to_dict(step) for step in whole.steps] if whole else [],
        elements=[element_to_dict(element) for element in whole.elements] if whole else [],
    )


def time_to_text(time: datetime) -> str:
    """Return a time in UTC with a Z."""
    return f"{time.astimezone(timezone.utc).replace(tzinfo=None).isoformat()}Z"


def plain(value: Any) -> Any:
    """Return a JSON-native value; anything else becomes text."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(one) for one in cast("list[Any]", value)]
    return str(value)


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else str(value)


def _time_from_text(text: Any) -> datetime | None:
    try:
        time = datetime.fromisoformat(text.removesuffix("Z"))
        return time if time.tzinfo else time.replace(tzinfo=timezone.utc)
    except (AttributeError, ValueError):
        return None


def element_url(thread_id: str, element_id: str) -> str:
    """Return the address of an element's content."""
    return _address(ELEMENTS, thread_id, element_id)


def image_url(thread_id: str, memory_key: str) -> str:
    """Return the address of a stored image of a thread's agents, for a `chainlit.Image` without content."""
    return _address(IMAGES, thread_id, memory_key)


def _address(prefix: str, thread_id: str, name: str) -> str:
    root = os.environ.get("CHAINLIT_PARENT_ROOT_PATH", "") + os.environ.get("CHAINLIT_ROOT_PATH", "")
    return f"{root.rstrip('/')}{prefix}/{quote(thread_id, safe='')}/{quote(name, safe='')}"


def is_element_url(url: str) -> bool:
    """Return whether `element_url` made this address."""
    return f"{ELEMENTS}/" in url
