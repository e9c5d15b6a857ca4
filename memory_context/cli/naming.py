"""Which item, session and transcript a command is about.

An id or a key may be given by its beginning if only one begins so. An error offers the nearest names.
"""

from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated

import typer

from ..identifiers import SessionKey
from .console import ASKED_WRONGLY, Failure, user_of

if TYPE_CHECKING:
    from ..store import Archived, MemoryStore, SessionInfo
    from ..store.admin.user_stats import TranscriptInfo

__all__ = ["NamedSession", "SessionArgument", "TranscriptOption", "named_session", "whole_key"]

SessionArgument = Annotated[str, typer.Argument(metavar="SESSION", help="The session's id, or its beginning.")]
TranscriptOption = Annotated[
    str | None, typer.Option("--agent", help="Whose transcript. [default: the only agent with one]")
]

_COMPARED = 1000
_OFFERED = 3


@dataclass(frozen=True)
class NamedSession:
    """A session that a command is about.

    Attributes:
        user_id: Whose it is.
        info: What is known of it.
        transcripts: The lines of transcripts in it, the one that was archived in last, first.
    """

    user_id: str
    info: "SessionInfo"
    transcripts: "list[TranscriptInfo]"

    @property
    def session_id(self) -> str:
        """Its id."""
        return self.info.session_id

    def agent(self, wanted: str | None) -> str:
        """Return whose transcript is meant: that of the agent that was named, or the only one.

        Raises:
            Failure: The agent has none, there are several, or none.
        """
        agents = list(dict.fromkeys(one.agent_id for one in self.transcripts))
        shown = ", ".join(map(repr, agents))
        if not agents:
            raise Failure(f"session {self.session_id!r} has no transcript: only chat messages were archived in it")
        if wanted is not None and wanted not in agents:
            raise Failure(f"session {self.session_id!r} has no transcript of {wanted!r}; there are those of {shown}")
        if wanted is None and len(agents) > 1:
            raise Failure(
                f"session {self.session_id!r} has transcripts of several agents, give --agent: {shown}", ASKED_WRONGLY
            )
        return wanted if wanted is not None else agents[0]

    async def archived(self, store: "MemoryStore", agent: str) -> "Archived":
        """Return what the archive has of an agent's transcript: read only, whoever is at work in it."""
        return await store.conversations.read(SessionKey(self.user_id, agent, self.session_id))


async def named_session(
    store: "MemoryStore", user: str | None, session_id: str, *, by_beginning: bool = True
) -> NamedSession:
    """Return the session with this id, or the only one whose id begins so.

    Args:
        store: Where it is.
        user: Whose it is; None for the only user.
        session_id: Its id, or the beginning of it.
        by_beginning: False to take whole ids only: what a script destroys is named in full.

    Raises:
        Failure: There is none, or several begin so; says since when it is deleted, or which are near.
    """
    name = await user_of(store, user)
    info = await store.conversations.session(name, session_id)
    if info is None:
        deleted_at = await store.conversations.deleted_at(name, session_id)
        if deleted_at is not None:
            raise Failure(f"session {session_id!r} was deleted on {deleted_at:%Y-%m-%d}")
    if info is None and by_beginning:
        found = await store.user_stats.sessions_beginning(name, session_id, _OFFERED + 1)
        own = [one for one in found if not one.startswith(f"{found[0]}/")]  # sub-agents' sessions extend their own's id
        if whole := _only(session_id, own, "session"):
            info = await store.conversations.session(name, whole)
    if info is not None:
        return NamedSession(name, info, await store.user_stats.transcripts(name, info.session_id))
    known = [one.session_id for one in await store.conversations.sessions(name, limit=_COMPARED)]
    near = get_close_matches(session_id, known, 3)
    offer = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
    raise Failure(f"user {name!r} has no session {session_id!r}{offer or ': memory-context sessions list shows all'}")


async def whole_key(store: "MemoryStore", user_id: str, key: str) -> str:
    """Return the key that is meant: this one if there is such an item, else the only one that begins so, else this one.

    Raises:
        Failure: Several begin so.
    """
    if await store.fetch_whereabouts(user_id, key) is not None:
        return key
    return _only(key, await store.user_stats.keys_beginning(user_id, key, _OFFERED + 1), "item") or key


def _only(beginning: str, found: list[str], noun: str) -> str | None:
    if len(found) > 1:
        more = ", …" if len(found) > _OFFERED else ""
        shown = ", ".join(map(repr, found[:_OFFERED]))
        raise Failure(f"{beginning!r} is the beginning of several {noun}s: {shown}{more}", ASKED_WRONGLY)
    return found[0] if found else None
