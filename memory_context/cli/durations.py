"""Lengths of time as people write and read them: `7d` on the command line, "7 d" in a table."""

import re
from datetime import datetime, timedelta, timezone

from .console import ASKED_WRONGLY, Failure

__all__ = ["age", "duration_of", "time_ago"]

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_WRITTEN = re.compile(rf"(\d{{1,6}})\s*([{''.join(_UNITS)}])")


def duration_of(text: str) -> timedelta:
    """Return how long `90s`, `15m`, `12h`, `7d` or `4w` is.

    Raises:
        Failure: It is none of these.
    """
    written = _WRITTEN.fullmatch(text.strip().lower())
    if written is None or int(written[1]) == 0:
        raise Failure(f"{text!r} is no length of time: write for example 90s, 15m, 12h, 7d or 4w", ASKED_WRONGLY)
    return timedelta(**{_UNITS[written[2]]: int(written[1])})


def time_ago(text: str | None) -> datetime | None:
    """Return the time that is so long ago, in UTC, or that a date such as `2026-01-31` began; None for None.

    Raises:
        Failure: It is neither.
    """
    if text is None:
        return None
    try:
        day = datetime.fromisoformat(text)
    except ValueError:
        try:
            return datetime.now(timezone.utc) - duration_of(text)
        except OverflowError:
            raise Failure(f"{text!r} reaches back further than time does", ASKED_WRONGLY) from None
    return day if day.tzinfo is not None else day.replace(tzinfo=timezone.utc)


def age(time: datetime) -> str:
    """Return how long ago a time was, in its largest unit, such as `3 d`."""
    seconds = max((datetime.now(timezone.utc) - time).total_seconds(), 0)
    for sign, length in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= length:
            return f"{int(seconds // length)} {sign}"
    return f"{int(seconds)} s"
