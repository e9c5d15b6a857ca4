"""Who reads, and how far: the one value that every read path takes, so that none can forget it."""

from dataclasses import dataclass
from typing import Any, Literal

from memory_context.escaping import escape

__all__ = ["Reach", "ReadScope", "scope_params"]

Reach = Literal["user", "agent", "session"]


@dataclass(frozen=True)
class ReadScope:
    """Who reads a user's items, and how far. By itself it is nobody, who reads all that is private to none.

    What is private is read by the agent and session that stored it; no reach goes beyond that, only `keys` do.

    Attributes:
        agent_id: The agent that reads; empty for none.
        session_id: The session it reads in; empty for none.
        reach: Everything of the user, of this agent, or of this agent in this session.
        keys: Exactly these items instead, whatever the reach and whoever they are private to; None for no such list.
    """

    agent_id: str = ""
    session_id: str = ""
    reach: Reach = "user"
    keys: tuple[str, ...] | None = None

    @property
    def is_narrow(self) -> bool:
        """Whether it leaves out more than what is private to others."""
        return self.reach != "user" or self.keys is not None


def scope_params(scope: ReadScope) -> dict[str, Any]:
    """Return the parameters of the statements that read items."""
    agent_id, session_id = escape(scope.agent_id), escape(scope.session_id)
    return {
        "reader_agent": agent_id,
        "reader_session": session_id,
        "within_agent": None if scope.reach == "user" else agent_id,
        "within_session": session_id if scope.reach == "session" else None,
        "only_keys": None if scope.keys is None else [escape(key) for key in scope.keys],
    }
