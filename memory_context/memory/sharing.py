"""Sharing of items between a user's agents, and the texts of refusals.

`isolated` reads only items of the own agent and session; the others read all but private ones. Items stored as `shared`
never become private; all others are. Each scope forgets its own items; with the user's agreement (`forget_memory`) a
`shared` agent forgets any that are not private.
"""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, StringConstraints
from typing_extensions import Self

from ..references import KEY_PATTERN

__all__ = [
    "MemorySnapshot",
    "Sharing",
    "refusal",
]

if TYPE_CHECKING:
    from ..store import ReadScope, Whereabouts


Sharing = Literal["shared", "read_only", "isolated"]


def refusal(key: str, item: "Whereabouts", scope: "ReadScope", sharing: Sharing) -> str:
    """Return why an item is unreadable and what to do instead, for a model."""
    owner = f"agent {item.agent_id!r}" if item.agent_id else "no agent"
    where = f" (session {item.session_id!r})" if item.session_id else ""
    is_own_agent = bool(item.agent_id) and item.agent_id == scope.agent_id
    if scope.keys is not None:
        why = "is not in the snapshot that this memory was restored to"
    elif item.is_private and sharing != "isolated":
        whose = "another session of this agent" if is_own_agent else owner
        return f"item {key!r} is private to {whose}{where}: ask it to include the content"
    elif sharing == "isolated":
        whose = "another session of this agent" if is_own_agent else f"another agent, {owner}{where},"
        why = f"belongs to {whose} and this agent is isolated"
    else:
        why = f"belongs to {owner}{where}, beyond the reach of this memory"
    return f"item {key!r} {why}: ask for its content in the message"


class MemorySnapshot(BaseModel):
    """Readable keys of a scope, without content.

    Attributes:
        agent_id: Empty for none.
        session_id: Empty for none.
        taken_at: UTC.
        keys: Newest first.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    user_id: str
    agent_id: str
    session_id: str
    taken_at: AwareDatetime | datetime
    keys: tuple[Annotated[str, StringConstraints(pattern=f"^{KEY_PATTERN.pattern}$")], ...]

    def to_json(self) -> str:
        return self.model_dump_json()

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read the JSON of `to_json`.

        Raises:
            ValueError: The text is not a snapshot.
        """
        return cls.model_validate_json(text)
