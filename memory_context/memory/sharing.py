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

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from ..store import ReadScope, Whereabouts

__all__ = ["Sharing", "refusal"]

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
