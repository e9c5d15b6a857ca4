"""The report of `explain()`, from the last two views and the decisions between."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from memory_context.sessions.transcript.entries import PartId
from memory_context.sessions.transcript.transcript import Decided, Transcript
from memory_context.sessions.transcript.values import OfferedHead
from memory_context.sessions.transcript.view_decisions import ViewShown

from .sections import SECTIONS, Price
from .view import PartState, Segment, View, number_of

__all__ = ["SegmentChange", "ViewReport", "report", "stable_tokens"]


_CHANGES: dict[Price, str] = {"fixed": "unplanned", "planned": "planned", "volatile": "volatile"}


@dataclass(frozen=True)
class SegmentChange:
    """One difference between two consecutive views.

    Attributes:
        position: Position of the entry; -1 beside the history.
        before: Previous state; None if new.
        after: Present state; None if removed.
        reason: The decision: `consumed`, `saves`, `aged`, `budget`, `folded`, `added`, …; beside the history also
            `removed`, `volatile`, `planned`, or `unplanned` (a section that should be fixed).
    """

    position: int
    kind: str
    before: PartState | None
    after: PartState | None
    reason: str

    @property
    def number(self) -> str:
        return number_of(self.position)


@dataclass(frozen=True)
class ViewReport:
    """The segments of the last view, and the changes since the one before.

    Attributes:
        stable_tokens: Tokens of unchanged leading messages.
        token_budget: None is unlimited.
        is_without_history: True if earlier messages of the session could not be read yet.
        offered: The prompt in front of the view, as far as known.
    """

    segments: tuple[Segment, ...]
    tokens: int
    stable_tokens: int
    token_budget: int | None
    changes: tuple[SegmentChange, ...]
    decisions: tuple[Decided, ...] = ()
    is_without_history: bool = False
    offered: OfferedHead = field(default_factory=OfferedHead)

    @property
    def head_in_words(self) -> str:
        """The prompt in front, in words."""
        known = self.offered
        named = {
            f"memory tools ({known.reason})": known.memory_tools_tokens,
            "instructions": known.instructions_tokens,
            "own tools": known.own_tools_tokens,
            "system prompt": known.system_tokens,
        }
        parts = ", ".join(f"{name} {tokens:,}" for name, tokens in named.items() if tokens)
        return f"before it: {known.tokens:,} tokens: {parts}" if parts else ""

    def __str__(self) -> str:
        budget = f" of {self.token_budget:,}" if self.token_budget is not None else ""
        lines = [f"view: {self.tokens:,} tokens{budget}, {self.stable_tokens:,} unchanged at its head"]
        if head := self.head_in_words:
            lines.append(head)
        if self.is_without_history:
            lines.append("earlier messages of the session could not be read yet; they join as soon as they can")
        for s in self.segments:
            shown = f"{s.tokens:>7,}" if s.tokens == s.full_tokens else f"{s.tokens:>7,} of {s.full_tokens:,}"
            beside = s.why or " ".join(s.keys)
            lines.append(f"{s.number:>5}  {s.state:<11} {s.kind:<9} {s.source:<20} {shown}  {beside}".rstrip())
        lines += [
            f"changed: message {c.number} {c.kind}: {c.before or '-'} -> {c.after or '-'} ({c.reason})"
            for c in self.changes
        ]
        lines += [f"decided: {decided}" for decided in self.decisions]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<ViewReport {len(self.segments)} segments, {self.tokens:,} tokens, {len(self.changes)} changes>"


def stable_tokens(before: View, after: View) -> int:
    """Return the tokens of the leading messages that did not change."""
    index = after.same_head(before)
    for old, new in zip(before.messages_from(index), after.messages_from(index), strict=False):
        if old is not new and old.message != new.message:
            break
        index += 1
    return after.tokens_before(index)


def report(transcript: Transcript, before: View, after: View, token_budget: int | None) -> ViewReport:
    """Return the report on `after`."""
    return ViewReport(
        segments=tuple(_segments(after)),
        tokens=after.tokens,
        stable_tokens=stable_tokens(before, after),
        token_budget=token_budget,
        changes=tuple(_changes(transcript, _segments(before), _segments(after))),
        decisions=tuple(_decided(transcript)),
        is_without_history=any(segment.owner == "history" for segment in _segments(after)),
        offered=transcript.state.offered,
    )


def _decided(transcript: Transcript) -> Iterator[Decided]:
    log = [decision for _, decision in transcript.log]
    shown = [number for number, _ in transcript.decisions(ViewShown)]
    start = shown[-2] + 1 if len(shown) > 1 else 0
    for decision in log[start : shown[-1] if shown else None]:
        if decided := decision.decided(transcript, log[:start]):
            yield decided


def _segments(view: View) -> list[Segment]:
    return [segment for message in view.messages for segment in message.segments]


def _changes(transcript: Transcript, before: Sequence[Segment], after: Sequence[Segment]) -> list[SegmentChange]:
    old, new = {s.place: s for s in before}, {s.place: s for s in after}
    planned = {part: reason for _, decision in transcript.log for part, reason in decision.reasons().items()}
    changes: list[SegmentChange] = []
    for place in sorted(old.keys() | new.keys()):
        was, now = old.get(place), new.get(place)
        if was and now and (was.state, was.tokens) == (now.state, now.tokens):
            continue
        sample = now or was
        assert sample is not None
        changes.append(
            SegmentChange(
                sample.position,
                sample.kind,
                was.state if was else None,
                now.state if now else None,
                _reason(transcript, sample, was, now, planned),
            )
        )
    return changes


def _reason(
    transcript: Transcript,
    sample: Segment,
    was: Segment | None,
    now: Segment | None,
    planned: dict[PartId, str],
) -> str:
    state = transcript.state
    if sample.position < 0:
        return _CHANGES[SECTIONS[sample.kind].price] if was and now else "added" if now else "removed"
    if sample.position < state.start:
        return "cleared"
    if state.observation.is_left(sample.position):
        return "observed"
    if sample.kind == "fold" or state.is_folded(sample.position):
        return "folded"
    if now is None and sample.position in state.redelivered:
        return "redelivered"
    if sample.kind == "expansion":
        return sample.why if now is not None else "withdrawn"
    if now is None:
        return "repeated"
    if now.state == "shortened":
        return "budget"
    if was is not None and now.state == "placeholder":
        return planned.get(now.part, "consumed") if now.part else "consumed"
    return "added" if was is None else "stored"
