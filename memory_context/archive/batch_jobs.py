"""Jobs written in the transaction of a batch, for work that derives from archived messages."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autogen_core.models import AssistantMessage, UserMessage

from ..identifiers import SessionKey
from ..policy import ContextPolicy
from ..store import CONVERSATION_JOB, NewJob
from ..transcript import Entry

__all__ = ["BatchJob", "conversation_job", "is_said"]


@dataclass(frozen=True)
class BatchJob:
    """A job of this kind is written with each batch that needs it.

    Attributes:
        kind: Registered with the store's `Jobs` by whoever handles it; its handler is idempotent.
        payload: Returns what the handler needs beside the place of the batch, from its entries; None for no job.
    """

    kind: str
    payload: Callable[[Sequence[Entry]], Mapping[str, Any] | None]

    def of(self, key: SessionKey, branch: str, sequence: int, entries: Sequence[Entry]) -> list[NewJob]:
        """Return the job of a batch, if it needs one; the payload names session, agent, branch and sequence."""
        more = self.payload(entries)
        place = {"session": key.session_id, "agent": key.agent_id, "branch": branch, "sequence": sequence}
        return [] if more is None else [NewJob(self.kind, {**place, **more})]


def conversation_job(policy: ContextPolicy, *, is_private: bool) -> BatchJob:
    """Return the job that makes the messages of a batch searchable."""
    more = {"is_private": is_private, "user_sources": list(policy.user_sources)}
    return BatchJob(CONVERSATION_JOB, lambda entries: more if any(map(is_said, entries)) else None)


def is_said(entry: Entry) -> bool:
    """Return True for a person's or another agent's message, and for the agent's answer; not for calls and results."""
    message = entry.message
    if isinstance(message, AssistantMessage):
        return isinstance(message.content, str)
    return isinstance(message, UserMessage) and entry.is_told
