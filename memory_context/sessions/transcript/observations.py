"""Observations of old messages: the log as a part of the transcript's state.

    start <= left <= logged <= observed <= end        each an end of a chunk, or where the view begins

Messages before `left` are out of the view, before `logged` their observations stand in the log, before `observed` a
chunk covers them. What does not fit is ignored, so a range is never observed twice or left out.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from functools import cached_property
from itertools import groupby
from typing import Literal

from memory_context.foundation.references import defused, fenced, shorten

__all__ = [
    "Edit",
    "ObservationChunk",
    "ObservationLine",
    "ObservationLog",
    "ObservationRecord",
    "Priority",
    "joined_ranges",
    "reflected_chunks",
]

Priority = Literal["user", "project", "minor", "done"]
LineKind = Literal["observed", "fact", "digest"]
Range = tuple[int, int]

_ACCOUNT_CHARACTERS = 300
_MARKS: dict[Priority, str] = {"user": "!! ", "project": "! ", "minor": "", "done": "x "}
_OLD, _DAYS_TOLD = timedelta(hours=12), 7
_RANKS: tuple[Priority, ...] = ("user", "project", "minor", "done")


@dataclass(frozen=True)
class ObservationLine:
    """One observation.

    Attributes:
        text: One line, sub-bullets on lines of their own; without bullet, time and priority.
        ranges: Messages it rests on, from the first to before the last position; sorted, disjoint.
        at: When that was said. Content only, never a cursor.
        kind: `fact` repeats what an observer or reflector left out; `digest` is of an earlier version, without a model.
        id: Ascending in the session; 0 until recorded.
    """

    text: str
    ranges: tuple[tuple[int, int], ...]
    at: datetime
    priority: Priority = "project"
    kind: LineKind = "observed"
    id: int = 0


@dataclass(frozen=True)
class ObservationRecord:
    """What an observation or reflection read and cost.

    Attributes:
        input_tokens: Tokens of the observed messages, or of the log before a reflection.
        prompt_tokens: As the light model's client reports them; 0 if unknown or without a model.
        facts_added: Lines of facts that the model had left out.
        slices: Calls for parts of a range that does not fit the light model's window.
        reason: Why an earlier version did not use a model's answer; else empty.
    """

    input_tokens: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    calls: int = 0
    facts_added: int = 0
    slices: int = 1
    is_sync: bool = False
    reason: str = ""


@dataclass(frozen=True)
class ObservationChunk:
    """The observations of the messages from `first` to before `last`.

    Attributes:
        tokens: Of `text`.
        made_by: `digest` in what an earlier version made without a model.
        current_task: Hint for the agent; empty if there is none. `hints_tokens` counts `hints`.
        suggested_response: Hint for the agent's next message.
    """

    first: int
    last: int
    lines: tuple[ObservationLine, ...]
    tokens: int = 0
    made_by: Literal["model", "digest"] = "model"
    current_task: str = ""
    suggested_response: str = ""
    hints_tokens: int = 0
    record: ObservationRecord | None = None

    @cached_property
    def text(self) -> str:
        """The chunk as a view shows it: dated lines as data, message numbers from 1."""
        lines = [f"Messages {self.first + 1}-{self.last}:"]
        for day, group in groupby(self.lines, lambda line: line.at.astimezone(timezone.utc).date()):
            lines.append(f"Date: {day:%Y-%m-%d}")
            lines += map(_line_text, group)
        return fenced("\n".join(lines))

    @property
    def hints(self) -> str:
        """The hints for the end of a view; "" without any."""
        hints = (("Current task", self.current_task), ("Suggestion, not the user's words", self.suggested_response))
        lines = [f"{name}: {defused(text)}" for name, text in hints if text]
        return fenced("\n".join(lines)) if lines else ""

    @property
    def account(self) -> str:
        """Who made it of which messages, and which facts were added that its maker had left out."""
        facts = "; ".join(line.text for line in self.lines if line.kind == "fact")
        made = f"messages {self.first + 1}-{self.last}, by {self.made_by}"
        return f"{made}; added verbatim: {shorten(facts, _ACCOUNT_CHARACTERS)}" if facts else made


def _line_text(line: ObservationLine) -> str:
    first, *others = defused(line.text).split("\n")
    at = line.at.astimezone(timezone.utc)
    sources = ", ".join(str(a + 1) if b == a + 1 else f"{a + 1}-{b}" for a, b in line.ranges)
    return "\n".join([f"- {at:%H:%M} {_MARKS[line.priority]}{first} ({sources})", *(f"  {one}" for one in others)])


@dataclass
class ObservationLog:
    """Positions and chunks of one session.

    Attributes:
        kept: Positions before `left` that views still show: instructions and the task.
        chunks: Those of the log, without gaps up to `logged`; `buffered`: finished ones from there to `observed`.
        lead: Text before the log. `lead_tokens` counts it.
        generation: Number of reflections.
    """

    left: int = 0
    logged: int = 0
    observed: int = 0
    kept: tuple[int, ...] = ()
    chunks: list[ObservationChunk] = field(default_factory=list[ObservationChunk])
    buffered: list[ObservationChunk] = field(default_factory=list[ObservationChunk])
    lead: str = ""
    lead_tokens: int = 0
    generation: int = 0
    lines_made: int = 0

    @classmethod
    def at(cls, position: int) -> "ObservationLog":
        return cls(position, position, position)

    @property
    def tokens(self) -> int:
        """Tokens of the chunks in the log."""
        return sum(chunk.tokens for chunk in self.chunks)

    @property
    def lines(self) -> list[ObservationLine]:
        return [line for chunk in self.chunks for line in chunk.lines]

    @property
    def hints(self) -> ObservationChunk | None:
        """The newest chunk of the log with hints."""
        return next((one for one in reversed(self.chunks) if one.current_task or one.suggested_response), None)

    def days_before(self, now: datetime) -> str:
        """Return how long before a time the newest days of the log were; "" if all of it is of the last hours."""
        today = now.astimezone(timezone.utc).date()
        old = {line.at.astimezone(timezone.utc).date() for line in self.lines if now - line.at >= _OLD}
        ago = {day: (today - day).days for day in sorted(old - {today})[-_DAYS_TOLD:]}
        told = "; ".join(f"{day} was {'yesterday' if days == 1 else f'{days} days ago'}" for day, days in ago.items())
        return f"[Today is {today:%Y-%m-%d, %A}. Of the observations, {told}.]" if told else ""

    @property
    def has_finished(self) -> bool:
        """True if messages in the view have their observations already."""
        return bool(self.buffered) or self.left < self.logged

    def is_left(self, position: int) -> bool:
        return position < self.left and position not in self.kept

    def buffer(self, chunk: ObservationChunk) -> None:
        if chunk.first == self.observed < chunk.last:
            self.buffered.append(self._numbered(chunk))
            self.observed = chunk.last

    def activate(self, logged: int, left: int, kept: tuple[int, ...]) -> bool:
        """Move the positions; return False, and change nothing, if one would move back or not to a chunk's end."""
        joining = [chunk for chunk in self.buffered if chunk.last <= logged]
        ends = {self.left, *(chunk.last for chunk in (*self.chunks, *joining))}
        is_to_an_end = logged == (joining[-1].last if joining else self.logged)
        if not (is_to_an_end and self.left <= left <= logged and left in ends):
            return False
        self.chunks += joining
        self.buffered = self.buffered[len(joining) :]
        self.logged, self.left, self.kept = logged, left, kept
        return True

    def _numbered(self, chunk: ObservationChunk) -> ObservationChunk:
        first = self.lines_made + 1
        self.lines_made += len(chunk.lines)
        return replace(chunk, lines=tuple(replace(line, id=number) for number, line in enumerate(chunk.lines, first)))


@dataclass(frozen=True)
class Edit:
    """One change of a reflection.

    Attributes:
        operation: `merge` makes one line of several, `reword` one of one, `drop` removes them.
        ids: Lines it concerns; unless the log has all of them, the edit is ignored.
        priority: None keeps the highest of the lines; no edit raises a line to `user`.
        ranges: Messages of these lines, so that forgetting a message finds the text; `Reflected.of` fills them.
    """

    operation: Literal["merge", "reword", "drop"]
    ids: tuple[int, ...]
    text: str = ""
    priority: Priority | None = None
    kind: LineKind = "observed"
    ranges: tuple[tuple[int, int], ...] = ()


def reflected_chunks(chunks: Sequence[ObservationChunk], edits: Iterable[Edit], next_id: int) -> list[ObservationChunk]:
    """Return the chunks after the edits; those without a change are the same objects, changed ones have no `tokens`.

    A result keeps the ranges of its lines and stands where the newest of them stood. A chunk left without lines joins
    its neighbour. Without any line left, nothing changes.
    """
    line_of = {line.id: line for chunk in chunks for line in chunk.lines}
    results: dict[int, ObservationLine | None] = {}
    for edit in edits:
        if not edit.ids or any(one not in line_of or one in results for one in edit.ids):
            continue
        results.update(dict.fromkeys(edit.ids))
        if edit.operation != "drop" and edit.text.strip():
            results[max(edit.ids)] = _merged([line_of[one] for one in edit.ids], edit, next_id)
            next_id += 1
    if not results or all(one in results and results[one] is None for one in line_of):
        return [*chunks]
    return _joined([_with_lines(chunk, results) for chunk in chunks])


def _merged(lines: Sequence[ObservationLine], edit: Edit, number: int) -> ObservationLine:
    newest = max(lines, key=lambda line: line.id)
    highest = _RANKS[min(_RANKS.index(line.priority) for line in lines)]
    priority = edit.priority or highest
    if priority == "user" and highest != "user":
        priority = highest
    ranges = joined_ranges(one for line in lines for one in line.ranges)
    return ObservationLine(edit.text.strip(), ranges, newest.at, priority, edit.kind, number)


def joined_ranges(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """Return ranges sorted and disjoint; neighbours become one."""
    union: list[Range] = []
    for first, last in sorted(ranges):
        if union and first <= union[-1][1]:
            union[-1] = union[-1][0], max(last, union[-1][1])
        else:
            union.append((first, last))
    return tuple(union)


def _with_lines(chunk: ObservationChunk, results: dict[int, ObservationLine | None]) -> ObservationChunk:
    if not any(line.id in results for line in chunk.lines):
        return chunk
    lines = (results.get(line.id, line) for line in chunk.lines)
    return replace(chunk, lines=tuple(line for line in lines if line is not None), tokens=0)


def _joined(chunks: Sequence[ObservationChunk]) -> list[ObservationChunk]:
    joined: list[ObservationChunk] = []
    first: int | None = None
    for chunk in chunks:
        if chunk.lines:
            joined.append(chunk if first is None else replace(chunk, first=first, tokens=0))
            first = None
        elif joined:
            joined[-1] = replace(joined[-1], last=chunk.last, tokens=0)
        else:
            first = chunk.first if first is None else first
    return joined
