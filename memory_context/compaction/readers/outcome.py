"""What an answer in JSON says of its own success, and which of its records report an error."""

from collections.abc import Sequence
from typing import Any, cast

from .columns import Column

__all__ = ["errors_in", "is_failed", "text_of"]

_ERROR_KEYS = ("error", "errors", "error_message", "errorMessage", "exception", "traceback", "stderr")
_MESSAGES = ("message", "msg", "detail", "details", "error", "reason", "description", "text", "title")
_BAD = {"failed", "failure", "error", "fail", "denied", "unhealthy"}
_GOOD = {"success", "ok", "succeeded", "passed"}


def errors_in(value: Any, rows: Sequence[dict[str, Any]], columns: Sequence[Column]) -> tuple[bool | None, list[str]]:
    """Return whether an object says that the call failed, and the errors that it or its records tell."""
    failed: bool | None = None
    lines: list[str] = []
    if isinstance(value, dict):
        named = cast("dict[str, Any]", value)
        said = next((text for key in _ERROR_KEYS if (text := text_of(named.get(key) or ""))), "")
        status = text_of(named.get("status") or "").lower()
        outcome: Any = named.get("success", named.get("ok"))
        flag: Any = named.get("isError", named.get("is_error"))
        if said:
            lines.append(f"error: {said}")
        if outcome is False or flag is True or status in _BAD or (said and not rows and len(named) < 8):
            failed = True
        elif outcome is True or flag is False or status in _GOOD:
            failed = False
    for column in columns:
        if column.name in _ERROR_KEYS and (told := [text for text in column.texts if text]):
            lines.append(f"{len(told):,} of {len(rows):,} records have {column.name}: {told[0]}")
    return failed, lines


def is_failed(row: dict[str, Any]) -> bool:
    """Whether a record reports an error."""
    return any(row.get(key) for key in _ERROR_KEYS) or text_of(row.get("status")).lower() in _BAD


def text_of(value: Any) -> str:
    """Return a scalar as text; of an object its message, of a list its first text."""
    if isinstance(value, dict):
        named = cast("dict[str, Any]", value)
        told = [text for key in _MESSAGES if isinstance(text := named.get(key), str)]
        return told[0] if told else ""
    if isinstance(value, list):
        first: Any = next(iter(cast("list[Any]", value)), None)
        return "" if isinstance(first, list) else text_of(first)
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
