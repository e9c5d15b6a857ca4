"""Decisions about what connectors observed (a newer state of a subject supersedes the older one) and compare with."""

from bisect import bisect_left
from collections.abc import Container, Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from memory_context.sessions.transcript.transcript import Transcript

from .transcript import Decision, EntryDecision

__all__ = ["ConnectorCompared", "SubjectObserved", "subject_line"]


@dataclass(frozen=True)
class SubjectObserved(EntryDecision):
    """A connector observed a state of a subject.

    Attributes:
        name: Connector and subject, with a space between.
        digest: Of the text, by which an equal one is known.
        supersedes: Position of the older observation that this one makes obsolete.
        same_as: Position of an equal observation, for which this message is a line.
    """

    kind = "subject"
    name: str
    digest: str
    supersedes: int | None = None
    same_as: int | None = None

    def apply(self, transcript: Transcript) -> None:
        if self.position < transcript.state.start:
            return
        subjects = transcript.state.subjects
        if self.same_as is not None:
            subjects.unchanged[self.same_as] = self.position
            return
        subjects.newest[self.name] = self.position
        subjects.names[self.position], subjects.digests[self.position] = self.name, self.digest
        if self.supersedes is not None and self.supersedes >= transcript.state.start:
            subjects.superseded[self.supersedes] = self.position

    def moved(self, offset: int) -> "SubjectObserved":
        before = (None if one is None else one + offset for one in (self.supersedes, self.same_as))
        supersedes, same_as = before
        return replace(self, position=self.position + offset, supersedes=supersedes, same_as=same_as)


@dataclass(frozen=True)
class ConnectorCompared(Decision):
    """What a connector compares with, JSON-native; with an empty state it looks at everything anew."""

    kind, outlives_clear, stands_in_views = "connector_compared", True, False
    connector_id: str
    state: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def slot(self) -> str:
        return self.connector_id

    def replaced(self) -> Decision:
        return ConnectorCompared(self.connector_id)

    def moved(self, offset: int) -> Decision:
        return self

    def to_json(self, transcript: Transcript, slots: Container[tuple[str, Hashable]]) -> dict[str, Any]:
        return {"kind": self.kind, "connector_id": self.connector_id, "state": self.state}


def subject_line(transcript: Transcript, name: str, what: str, position: int) -> str:
    """Return a line such as `[web page https://…: newer state at step 12]`."""
    step = bisect_left(transcript.pairing.asking, position)
    return f"[{name}: {what} {f'step {step}' if step else 'the start'}]"
