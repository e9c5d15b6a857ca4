"""Which session, and whose transcript in it, a command is about; what was named wrongly is told with what is near."""

from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated

import typer

from .console import ASKED_WRONGLY, Failure, user_of

if TYPE_CHECKING:
    from ..store import Archived, MemoryStore, SessionInfo
    from ..store.inventory import TranscriptInfo

__all__ = ["NamedSession", "SessionArgument", "TranscriptOption", "named_session"]

SessionArgument = Annotated[str, typer.Argument(metavar="SESSION", help="The session's id.")]
TranscriptOption = Annotated[
    str | None, typer.Option("--agent", help="Whose transcript. [default: the only agent with one]")
]

_COMPARED = 1000


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
        return await store.conversations.read(self.user_id, self.session_id, agent)


async def named_session(store: "MemoryStore", user: str | None, session_id: str) -> NamedSession:
    """Return the session with this id.

    Raises:
        Failure: There is none; says since when, or which are near.
    """
    name = await user_of(store, user)
    info = await store.conversations.session(name, session_id)
    if info is not None:
        return NamedSession(name, info, await store.inventory.transcripts(name, session_id))
    deleted_at = await store.conversations.deleted_at(name, session_id)
    if deleted_at is not None:
        raise Failure(f"session {session_id!r} was deleted on {deleted_at:%Y-%m-%d}")
    known = [one.session_id for one in await store.conversations.sessions(name, limit=_COMPARED)]
    near = [one for one in known if one.startswith(session_id)][:3] or get_close_matches(session_id, known, 3)
    offer = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
    raise Failure(f"user {name!r} has no session {session_id!r}{offer or ': memory-context sessions list shows all'}")
