"""The ids by which users, agents and sessions are told apart: what they may be, and what those of sub-agents are."""

import hashlib
from typing import Any, NamedTuple

__all__ = ["SessionKey", "checked_identifier", "subagent_session"]

_CHARACTERS = 128
_HASH_CHARACTERS = 12


class SessionKey(NamedTuple):
    """What tells one agent's conversation with one user from all others."""

    user_id: str
    agent_id: str
    session_id: str


def checked_identifier(name: str, value: Any) -> str:
    """Return an id that every table takes.

    Raises:
        ValueError: It is no str, empty, longer than 128 characters, or not printable.
    """
    if not isinstance(value, str) or not value or len(value) > _CHARACTERS or not value.isprintable():
        raise ValueError(f"{name}={value!r}: use 1 to {_CHARACTERS} printable characters")
    return value


def subagent_session(session_id: str, agent_id: str) -> str:
    """Return the session of a sub-agent: `<session>/<agent>`, its end a hash beyond 128 characters; always the same."""
    name = f"{session_id}/{agent_id}"
    if len(name) <= _CHARACTERS:
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_CHARACTERS]
    return f"{name[: _CHARACTERS - _HASH_CHARACTERS - 1]}~{digest}"
