"""How far a transcript is archived: part of a saved state, so that whoever loads it goes on where it was."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any

from ..store import ChatMessage
from ..transcript import Transcript, count_saved_decisions, last_clear
from ..utf8 import escape, unescape

__all__ = ["ArchiveCursor", "BatchCursor"]


@dataclass(frozen=True)
class BatchCursor:
    """A place in the archive of a session.

    Attributes:
        sequence: Number of the last batch; -1 for none.
        branch: Which line of batches it is on; empty for the main one.
        position: Entries before it are archived.
        decision: Decisions before it in the log are archived.
        begins_anew: Whether the next batch has to hold everything from the beginning.
    """

    sequence: int = -1
    branch: str = ""
    position: int = 0
    decision: int = 0
    begins_anew: bool = False


@dataclass(frozen=True)
class ArchiveCursor:
    """How far a transcript is archived, and what is not.

    Attributes:
        line: The place it has reached; None if that has to be asked, and everything written anew.
        delivered: Chat messages by id: their words are in the transcript once it has an entry at that position.
        chat: Chat messages that are not durable yet.
    """

    line: BatchCursor | None = BatchCursor()
    delivered: Mapping[str, int] = field(default_factory=dict[str, int])
    chat: tuple[ChatMessage, ...] = ()

    def has_cleared(self, transcript: Transcript) -> bool:
        """Whether what this transcript cleared, and that it did, is archived."""
        line = self.line
        is_reached = line is not None and not line.begins_anew and line.decision > last_clear(transcript)
        return is_reached or last_clear(transcript) < 0

    def to_state(self, transcript: Transcript, *, with_cleared: bool) -> dict[str, Any]:
        """Return it as part of a saved state of this transcript, JSON-native.

        Args:
            transcript: What is archived so far.
            with_cleared: Whether it was saved with what was cleared.
        """
        line = self.line
        if line is not None:  # a saved state leaves decisions out
            count = count_saved_decisions(transcript, line.decision, with_cleared=with_cleared)
            line = replace(line, decision=count)
        return {
            "line": None if line is None else asdict(line),
            "delivered": dict(self.delivered),
            "chat": [
                {
                    "id": one.id,
                    "text": escape(one.text),
                    "sender": one.sender,
                    "timestamp": one.timestamp.isoformat(),
                    "is_verified": one.is_verified,
                }
                for one in self.chat
            ],
        }

    @classmethod
    def from_state(cls, saved: Mapping[str, Any] | None) -> "ArchiveCursor":
        """Return what `to_state` gave, for the transcript that was saved with it; of None, that nothing is known.

        Raises:
            ValueError: It is no such thing.
        """
        if saved is None:
            return cls(line=None)
        try:
            return cls(
                None if saved["line"] is None else BatchCursor(**saved["line"]),
                {str(id_): int(at) for id_, at in saved["delivered"].items()},
                tuple(
                    ChatMessage(
                        one["id"],
                        unescape(one["text"]),
                        one["sender"],
                        datetime.fromisoformat(one["timestamp"]),
                        bool(one.get("is_verified", True)),
                    )
                    for one in saved["chat"]
                ),
            )
        except (LookupError, TypeError, AttributeError) as error:
            raise ValueError(f"this is no saved state, or it was cut: {error!r}") from error
