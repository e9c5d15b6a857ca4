"""Snapshots: which items a scope could read at one time, to come back to that later or elsewhere."""

from datetime import datetime
from typing import Annotated

from pydantic import AwareDatetime, BaseModel, ConfigDict, StringConstraints
from typing_extensions import Self

from ..references import KEY_PATTERN

__all__ = ["MemorySnapshot"]


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
