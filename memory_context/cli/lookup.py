"""Lookup of sessions, items and times. A unique prefix names a session or item; errors offer the nearest names."""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Annotated

import typer

from ..identifiers import SessionKey
from .command import Target
from .console import USAGE_ERROR, Failure

if TYPE_CHECKING:
    from ..store import Archived, MemoryStore, SessionInfo
    from ..store.admin.user_stats import TranscriptInfo

__all__ = [
    "NamedSession",
    "SessionArgument",
    "TranscriptOption",
    "find_key",
    "find_session",
    "parse_duration",
    "parse_since",
]

_COMPARED_SESSIONS = 1000
_OFFERED_NAMES = 3
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_DURATION = re.compile(rf"(\d{{1,6}})\s*([{''.join(_UNITS)}])")

SessionArgument = Annotated[str, typer.Argument(metavar="SESSION", help="The session's id, or its beginning.")]
TranscriptOption = Annotated[
    str | None, typer.Option("--agent", help="Whose transcript. [default: the only agent with one]")
]


# --- sessions, items


@dataclass(frozen=True)
class NamedSession:
    """A session with its transcripts, the latest archived first."""

    user_id: str
    info: "SessionInfo"
    transcripts: "list[TranscriptInfo]"

    @property
    def session_id(self) -> str:
        return self.info.session_id

    def agent(self, wanted: str | None) -> str:
        """Return the wanted agent, or the only one with a transcript.

        Raises:
            Failure: The wanted agent has none, or the choice is ambiguous.
        """
        agents = list(dict.fromkeys(one.agent_id for one in self.transcripts))
        shown = ", ".join(map(repr, agents))
        if not agents:
            raise Failure(f"session {self.session_id!r} has no transcript: only chat messages were archived in it")
        if wanted is not None and wanted not in agents:
            raise Failure(f"session {self.session_id!r} has no transcript of {wanted!r}; there are those of {shown}")
        if wanted is None and len(agents) > 1:
            raise Failure(
                f"session {self.session_id!r} has transcripts of several agents, give --agent: {shown}", USAGE_ERROR
            )
        return wanted if wanted is not None else agents[0]

    async def archived(self, store: "MemoryStore", agent: str) -> "Archived":
        """Return an agent's archive, read only."""
        return await store.conversations.read(SessionKey(self.user_id, agent, self.session_id))


async def find_session(target: Target, session_id: str, *, by_beginning: bool = True) -> NamedSession:
    """Return the session with an id or a unique prefix.

    Args:
        by_beginning: False to accept whole ids only, for scripts that delete.

    Raises:
        Failure: None or several match; names the day of a deletion, or near ids.
    """
    store, name = target.store, await target.user()
    info = await store.conversations.session(name, session_id)
    if info is None:
        deleted_at = await store.conversations.deleted_at(name, session_id)
        if deleted_at is not None:
            raise Failure(f"session {session_id!r} was deleted on {deleted_at:%Y-%m-%d}")
    if info is None and by_beginning:
        found = await store.user_stats.sessions_beginning(name, session_id, _OFFERED_NAMES + 1)
        own = [one for one in found if not one.startswith(f"{found[0]}/")]  # sub-agents' ids extend their parent's
        if whole := _only(session_id, own, "session"):
            info = await store.conversations.session(name, whole)
    if info is None:
        raise await _no_session(store, name, session_id)
    return NamedSession(name, info, await store.user_stats.transcripts(name, info.session_id))


async def _no_session(store: "MemoryStore", user: str, session_id: str) -> Failure:
    from difflib import get_close_matches

    known = [one.session_id for one in await store.conversations.sessions(user, limit=_COMPARED_SESSIONS)]
    near = get_close_matches(session_id, known, _OFFERED_NAMES)
    offer = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
    return Failure(f"user {user!r} has no session {session_id!r}{offer or ': memory-context sessions list shows all'}")


async def find_key(store: "MemoryStore", user_id: str, key: str) -> str:
    """Return the key with a unique prefix; an unknown key is returned unchanged.

    Raises:
        Failure: Several keys have this prefix.
    """
    if await store.fetch_whereabouts(user_id, key) is not None:
        return key
    return _only(key, await store.user_stats.keys_beginning(user_id, key, _OFFERED_NAMES + 1), "item") or key


def _only(beginning: str, found: list[str], noun: str) -> str | None:
    if len(found) > 1:
        more = ", …" if len(found) > _OFFERED_NAMES else ""
        shown = ", ".join(map(repr, found[:_OFFERED_NAMES]))
        raise Failure(f"{beginning!r} is the beginning of several {noun}s: {shown}{more}", USAGE_ERROR)
    return found[0] if found else None


# --- times


def parse_duration(text: str) -> timedelta:
    """Return the length of `90s`, `15m`, `12h`, `7d` or `4w`.

    Raises:
        Failure: The text has another form.
    """
    written = _DURATION.fullmatch(text.strip().lower())
    if written is None or int(written[1]) == 0:
        raise Failure(f"{text!r} is not a length of time: write for example 90s, 15m, 12h, 7d or 4w", USAGE_ERROR)
    return timedelta(**{_UNITS[written[2]]: int(written[1])})


def parse_since(text: str | None) -> datetime | None:
    """Return the time that was a duration ago, or the beginning of a date such as `2026-01-31`; UTC without a zone.

    Raises:
        Failure: The text is neither.
    """
    if text is None:
        return None
    try:
        day = datetime.fromisoformat(text)
    except ValueError:
        try:
            return datetime.now(timezone.utc) - parse_duration(text)
        except OverflowError:
            raise Failure(f"{text!r} reaches back further than time does", USAGE_ERROR) from None
    return day if day.tzinfo is not None else day.replace(tzinfo=timezone.utc)
