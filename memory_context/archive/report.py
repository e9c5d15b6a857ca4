"""What became of a session when it was taken up again: what is there, and what is known to be missing."""

from dataclasses import dataclass, fields
from datetime import datetime
from typing import Literal

from ..notebooks import html_table

__all__ = ["ResumeReport"]

ResumeOutcome = Literal["new", "resumed", "state", "pending", "unreadable", "off"]


@dataclass(frozen=True)
class ResumeReport:
    """How a context began.

    Attributes:
        outcome: `new`: the archive knows nothing of the session. `resumed`: it goes on from the archive. `state`: a
            saved state was newer. `pending`: the archive was not read yet, since nobody used the context or the store
            is away; what is said meanwhile is added to the session later. `unreadable`: a newer version archived it;
            this one goes on beside it. `off`: there is no archive.
        messages: How many messages it goes on with.
        batches: From how many batches.
        archived_at: When the last of them was written, in UTC; None for none.
        missing_batches: Numbers of batches that are not there.
        missing_messages: How many messages are known to be missing with them.
        damaged_batches: Numbers of batches that are not what was written.
        later_keys: Items that the session stored after its last batch: their messages are missing, they are not.
        branches: Other lines, archived by processes that went on with the session at the same time.
    """

    outcome: ResumeOutcome = "pending"
    messages: int = 0
    batches: int = 0
    archived_at: datetime | None = None
    missing_batches: tuple[int, ...] = ()
    missing_messages: int = 0
    damaged_batches: tuple[int, ...] = ()
    later_keys: tuple[str, ...] = ()
    branches: tuple[str, ...] = ()

    @property
    def is_complete(self) -> bool:
        """Whether nothing is known to be missing."""
        return not (self.missing_batches or self.damaged_batches or self.later_keys or self.branches)

    def _repr_html_(self) -> str:
        """Return its fields as a table, for notebooks."""
        return html_table(str(self), (), [(one.name, getattr(self, one.name)) for one in fields(self)])

    def __str__(self) -> str:
        if self.outcome == "new" and self.later_keys:
            return (
                f"{len(self.later_keys)} items of a session of which no message was archived: "
                f"{', '.join(self.later_keys)}"
            )
        if self.outcome != "resumed":
            return {
                "new": "a new session",
                "state": f"{self.messages} messages from a saved state",
                "pending": "not read from the archive yet",
                "unreadable": "archived by a newer version of memory_context: going on beside it",
                "off": "a session without an archive",
            }[self.outcome]
        said = [f"{self.messages} messages from {self.batches} batches"]
        if self.archived_at is not None:
            said.append(f"the last of {self.archived_at:%Y-%m-%d %H:%M:%S} UTC")
        if self.missing_batches:
            numbers = ", ".join(map(str, self.missing_batches))
            said.append(f"batches {numbers} are missing, with {self.missing_messages} messages")
        if self.damaged_batches:
            said.append(f"batches {', '.join(map(str, self.damaged_batches))} are not what was written")
        if self.later_keys:
            said.append(f"items stored after it, whose messages are missing: {', '.join(self.later_keys)}")
        if self.branches:
            said.append(f"{len(self.branches)} other lines were archived by processes that went on with it too")
        return "; ".join(said)
