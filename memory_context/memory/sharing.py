"""Who of a user's agents reads what: the three ways to share, and what a refusal says.

| sharing | reads | what it stores is read by | forgets |
|---|---|---|---|
| `shared` | all of the user's that is not private to others | all agents of the user | its own |
| `read_only` | the same | itself | its own |
| `isolated` | its own | itself | its own |

"Its own" is what the same agent stored in the same session; what only itself reads is called private. Offloads count
like anything else that is stored. What was stored for all once stays so, also when it is stored privately later in the
same place. A snapshot that is restored replaces the second column: its keys are read, and what is stored from then on.
With the user's agreement (`forget_memory`) a `shared` agent also forgets what is private to nobody, whoever stored it.

A key that sharing keeps from an agent is not silently missing: the agent is told whose it is, to ask for the content.
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
    """Return why a reader may not read an item of its user, and what it can do instead; a model reads this."""
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
    """The keys that a scope could read, and no content; it crosses processes as JSON.

    Attributes:
        user_id: Whose items.
        agent_id: The agent that took it; empty for none.
        session_id: The session it was taken in; empty for none.
        taken_at: When, in UTC.
        keys: The keys, the newest first.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    user_id: str
    agent_id: str
    session_id: str
    taken_at: AwareDatetime | datetime
    keys: tuple[Annotated[str, StringConstraints(pattern=f"^{KEY_PATTERN.pattern}$")], ...]

    def to_json(self) -> str:
        """Return it as JSON."""
        return self.model_dump_json()

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the snapshot that `to_json` wrote.

        Raises:
            ValueError: It is none.
        """
        return cls.model_validate_json(text)
