"""Ids of users, agents and sessions."""

import hashlib
from typing import Any, Literal, NamedTuple

__all__ = ["SessionKey", "Sharing", "checked_identifier", "checked_limit", "subagent_session"]

_CHARACTERS = 128
_HASH_CHARACTERS = 12


Sharing = Literal["shared", "read_only", "isolated"]
"""What an agent reads of other agents' items, and they of its own."""


class SessionKey(NamedTuple):
    """Identifies one agent's conversation with one user."""

    user_id: str
    agent_id: str
    session_id: str


def checked_identifier(name: str, value: Any) -> str:
    """Return a printable id of 1 to 128 characters; else raise ValueError."""
    if not isinstance(value, str) or not value or len(value) > _CHARACTERS or not value.isprintable():
        raise ValueError(f"{name}={value!r}: use 1 to {_CHARACTERS} printable characters")
    return value


def checked_limit(limit: Any) -> int:
    """Return a number of at least 1; else raise ValueError."""
    if not isinstance(limit, int) or limit < 1:
        raise ValueError(f"limit={limit!r} must be at least 1, as an int")
    return limit


def subagent_session(session_id: str, agent_id: str) -> str:
    """Return `<session>/<agent>`; a hash shortens it to 128 characters."""
    name = f"{session_id}/{agent_id}"
    if len(name) <= _CHARACTERS:
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_CHARACTERS]
    return f"{name[: _CHARACTERS - _HASH_CHARACTERS - 1]}~{digest}"
