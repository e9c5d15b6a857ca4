"""Decisions about the observation log. One that does not fit the log has no effect."""

from collections.abc import Container, Hashable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any, Literal

from memory_context.foundation.handlers import ContextEvent
from memory_context.sessions.transcript.transcript import Transcript

from .observations import Edit, ObservationChunk, ObservationLog, ObservationRecord, joined_ranges, reflected_chunks
from .transcript import Decided, Decision, keys_of
from .values import Arithmetic

__all__ = ["ObservationBuffered", "ObservationsActivated", "ObservationsRestored", "Reflected"]


class _LogDecision(Decision):
    """A decision about the log of the whole session."""

    def to_json(self, transcript: Transcript, slots: Container[tuple[str, Hashable]]) -> dict[str, Any]:
        return {**asdict(self, dict_factory=_json_object), "kind": self.kind}  # pyright: ignore[reportArgumentType]


@dataclass(frozen=True)
class ObservationBuffered(_LogDecision):
    """A chunk is finished; it stands in no view yet."""

    kind = "observed"
    chunk: ObservationChunk

    def apply(self, transcript: Transcript) -> None:
        if self.chunk.last <= transcript.end:
            transcript.state.observation.buffer(self.chunk)

    def audit(self, transcript: Transcript) -> list[ContextEvent]:
        first, last = self.chunk.first + 1, self.chunk.last
        return [ContextEvent("observed", (), f"messages {first}-{last}", self.chunk.tokens, self.chunk.made_by)]

    def tally(self) -> dict[str, int]:
        return {"observations": 1}


@dataclass(frozen=True)
class ObservationsActivated(_LogDecision):
    """Chunks up to position `upto` join the log; messages before `left` leave the view, except `kept`.

    Attributes:
        lead: Text before the log from now on; `lead_tokens` counts it.
    """

    kind = "activated"
    upto: int
    left: int
    kept: tuple[int, ...] = ()
    reason: Literal["ratio", "budget", "cold", "model_changed", "observe_now"] = "ratio"
    lead: str = ""
    lead_tokens: int = 0
    arithmetic: Arithmetic | None = None

    @property
    def rewrites_prefix(self) -> bool:
        return True

    def apply(self, transcript: Transcript) -> None:
        state = transcript.state
        before = [position for position in range(state.start, self.left) if not state.is_away(position)]
        if not state.observation.activate(self.upto, self.left, self.kept):
            return
        state.observation.lead, state.observation.lead_tokens = self.lead, self.lead_tokens
        transcript.leave_view(before)

    def changes_from(self, transcript: Transcript) -> int:
        return transcript.state.start

    def audit(self, transcript: Transcript) -> list[ContextEvent]:
        activated = transcript.decisions(ObservationsActivated)[:-1]
        first = max([transcript.state.start, *(one.left for _, one in activated[-1:])])
        if self.left <= first:
            return []
        keys = keys_of(entries := transcript.entries(first, self.left))
        tokens = sum(entry.full_tokens for entry in entries)
        return [ContextEvent("folded", tuple(keys), f"observed: messages {first + 1}-{self.left}", tokens, "observed")]

    def tally(self) -> dict[str, int]:
        return {"activations": 1}

    def decided(self, transcript: Transcript, earlier: Sequence[Decision]) -> Decided:
        left_before = max((one.left for one in earlier if isinstance(one, ObservationsActivated)), default=0)
        return Decided("observed", self.reason, self.left - max(left_before, transcript.state.start), self.arithmetic)


@dataclass(frozen=True)
class Reflected(_LogDecision):
    """The log was condensed.

    Attributes:
        tokens: Of each chunk afterwards; if their number differs, the edits were made for another log and are ignored.
        level: Compression level, 0 to 4.
    """

    kind = "reflected"
    generation: int
    edits: tuple[Edit, ...]
    tokens: tuple[int, ...]
    level: int = 0
    record: ObservationRecord | None = None

    @classmethod
    def of(
        cls,
        log: ObservationLog,
        edits: Sequence[Edit],
        tokens: tuple[int, ...],
        level: int = 0,
        record: ObservationRecord | None = None,
    ) -> "Reflected":
        """Return the next reflection of a log, each edit with the messages it rests on."""
        ranges = {line.id: line.ranges for line in log.lines}
        sources = ([one for id_ in edit.ids for one in ranges.get(id_, ())] for edit in edits)
        sourced = (replace(edit, ranges=joined_ranges(some)) for edit, some in zip(edits, sources, strict=True))
        return cls(log.generation + 1, tuple(sourced), tokens, level, record)

    @property
    def rewrites_prefix(self) -> bool:
        return True

    def apply(self, transcript: Transcript) -> None:
        log = transcript.state.observation
        chunks = reflected_chunks(log.chunks, self.edits, log.lines_made + 1)
        if self.generation != log.generation + 1 or len(chunks) != len(self.tokens):
            return
        log.chunks = [
            chunk if chunk.tokens == tokens else replace(chunk, tokens=tokens)
            for chunk, tokens in zip(chunks, self.tokens, strict=True)
        ]
        log.lines_made += len(self.edits)
        log.generation = self.generation

    def changes_from(self, transcript: Transcript) -> int:
        return transcript.state.start

    def tally(self) -> dict[str, int]:
        return {"reflections": 1}

    def decided(self, transcript: Transcript, earlier: Sequence[Decision]) -> Decided:
        return Decided("reflected", f"level {self.level}", len(self.edits))


@dataclass(frozen=True)
class ObservationsRestored(_LogDecision):
    """The application replaced the log by one that it saved."""

    kind = "observations_restored"
    log: ObservationLog

    @property
    def rewrites_prefix(self) -> bool:
        return True

    def apply(self, transcript: Transcript) -> None:
        """Take the log over as far as this transcript's messages reach; `left` never moves back."""
        state, saved = transcript.state, self.log
        restored = ObservationLog.at(state.start)
        for chunk in (one for one in saved.chunks + saved.buffered if one.last <= transcript.end):
            restored.buffer(chunk)
        ends = [state.start, *(chunk.last for chunk in restored.buffered)]
        logged = max(end for end in ends if end <= max(saved.logged, state.start))
        left = max(end for end in ends if end <= min(max(saved.left, state.start), logged))
        if left < state.observation.left:
            return
        before = [position for position in range(state.start, left) if not state.is_away(position)]
        kept = tuple(position for position in saved.kept if state.start <= position < left)
        restored.activate(logged, left, kept)
        restored.lead, restored.lead_tokens, restored.generation = saved.lead, saved.lead_tokens, saved.generation
        state.observation = restored
        transcript.leave_view(before)

    def changes_from(self, transcript: Transcript) -> int:
        return transcript.state.start

    def tally(self) -> dict[str, int]:
        return {"activations": 1}

    def decided(self, transcript: Transcript, earlier: Sequence[Decision]) -> Decided:
        return Decided("observations", "restored", len(self.log.chunks))


def _json_object(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in pairs}
