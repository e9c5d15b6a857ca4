"""Which bytes a browser asks for: players of audio and video want a part, and some play nothing without."""

import re

__all__ = ["byte_range"]

_RANGE = re.compile("bytes=([0-9]{0,18})-([0-9]{0,18})")


def byte_range(header: str | None, size: int) -> tuple[int, int] | None:
    """Return the first byte and the one after the last, of a Range header (RFC 9110, 14.2); None for all of them.

    What cannot be met is answered with all, as the standard allows: several ranges, one behind the end, nonsense.
    """
    match = _RANGE.fullmatch(header.strip()) if header else None
    if match is None or match.groups() == ("", ""):
        return None
    first, last = match.groups()
    if not first:
        start, end = max(size - int(last), 0), size
    else:
        start, end = int(first), min(int(last) + 1, size) if last else size
    return (start, end) if start < end else None
