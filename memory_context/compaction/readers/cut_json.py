"""The members of a JSON object or array with where they stand, also of one that was cut off.

A strict parser says nothing of a document whose end is missing. Here its members are decoded one by one, down to the
one that was cut, whose value is what is there of it.
"""

import json
import re
from dataclasses import dataclass
from typing import Any

__all__ = ["Member", "assembled", "decode", "members_at", "skip_space"]

_MEMBERS = 20_000
_DEEPEST = 24
_CUT_STRING = 2000
_DECODER = json.JSONDecoder(strict=False)
_SPACE = re.compile(r"[ \t\r\n\ufeff]*")


@dataclass(frozen=True)
class Member:
    """A member: its key (empty in an array), its value, and where it, and its value, begin and end."""

    key: str
    value: Any
    start: int
    value_start: int
    end: int


def decode(text: str, position: int) -> tuple[Any, int]:
    """Return the value that begins here and where it ends.

    Raises:
        ValueError: None begins here, or not all of it is there.
    """
    try:
        return _DECODER.raw_decode(text, position)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def members_at(
    text: str, start: int, limit: int = _MEMBERS, depth: int = 0, seen: "dict[int, list[Member]] | None" = None
) -> tuple[list[Member], int, bool]:
    """Return the members of the object or array that begins here, its end, and whether it is whole.

    Args:
        text: The text.
        start: Where it begins; there are no members if nothing of the sort does.
        limit: The most members.
        depth: How deep it lies in what is read; a member that was cut off is entered down to a limit.
        seen: Takes the members of every container that was entered, by where it begins.
    """
    opening = text[start : start + 1]
    members: list[Member] = []
    if opening not in ("{", "["):
        return members, start, False
    if seen is not None:
        seen[start] = members
    position = skip_space(text, start + 1)
    while len(members) < limit:
        if text[position : position + 1] in ("}", "]"):
            return members, position + 1, True
        member_start, key = position, ""
        if opening == "{":
            key, position = _key(text, position)
            if not position:
                return members, member_start, False
        value, end, is_whole = _value(text, position, depth, seen)
        if end > position:
            members.append(Member(key, value, member_start, position, end))
        position = skip_space(text, end)
        if not is_whole or text[position : position + 1] not in (",", "}", "]"):
            break
        if text[position] == ",":
            position = skip_space(text, position + 1)
    return members, position, False


def _key(text: str, position: int) -> tuple[str, int]:
    """Return the key that stands here and where its value begins; 0 if there is none."""
    try:
        key, end = decode(text, position) if text[position : position + 1] == '"' else ("", 0)
    except ValueError:
        return "", 0
    end = skip_space(text, end)
    return (str(key), skip_space(text, end + 1)) if text[end : end + 1] == ":" else ("", 0)


def _value(text: str, position: int, depth: int, seen: "dict[int, list[Member]] | None") -> tuple[Any, int, bool]:
    """Return the value that begins here, where it ends, and whether it is whole; of no value the end is the start."""
    try:
        value, end = decode(text, position)
        return value, end, True
    except ValueError:
        pass
    opening = text[position : position + 1]
    if opening == '"':
        return text[position + 1 : position + _CUT_STRING], len(text), False
    if opening not in ("{", "[") or depth > _DEEPEST:
        return None, position, False
    members, end, _ = members_at(text, position, depth=depth + 1, seen=seen)
    return assembled(opening, members), end, False


def assembled(opening: str, members: list[Member]) -> Any:
    """Return the object or array that has these members."""
    return {member.key: member.value for member in members} if opening == "{" else [member.value for member in members]


def skip_space(text: str, position: int) -> int:
    """Return where white space that begins here ends."""
    match = _SPACE.match(text, position)
    return match.end() if match else position
