"""The transcript: everything that happened, in order, never rewritten, and what follows from it.

Entries and decisions only come at the end. What they add up to (what is consumed, compacted, folded) is derived as they
come, by the rules in `append` and `decide` and nowhere else, so replaying the same events gives the same standing.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone

from autogen_core import FunctionCall
from autogen_core.models import AssistantMessage, LLMMessage, UserMessage

from ..messages import Pairing, calls_of, copy_message, source_of
from .entries import (
    Cleared,
    Decision,
    Entry,
    Expanded,
    Folded,
    Offloaded,
    Part,
    PartId,
    PlannedCompaction,
    Redelivered,
    Repeated,
    Retained,
    RetainedBy,
    Shortened,
    Shown,
    Stored,
    Withdrawn,
)

__all__ = ["Standing", "Transcript"]


@dataclass
class Standing:
    """What the events so far add up to.

    Attributes:
        start: Position where the view begins: 0, or after the last clear.
        shown: Entries before it have been handed out in a view.
        consumed: Entries before it have been handed out and answered.
        answered_from: Where `consumed` was before: what stands from there on was fresh in the last view.
        answered: Position after the last assistant message.
        answers: How many assistant messages have come.
        own_answer: Position of the last assistant message that answered a view: it is this agent's own, while a
            hand-off brings those of others.
        compacted: Parts that are shown compacted.
        shortened: Parts that are shown as a shorter text.
        answered_whole: Consumed results that are stored and not compacted yet: because that does not pay, or not yet.
        retained: Parts of which it was chosen what they are compacted to, with who chose last.
        fold: The fold in force.
        redelivered: Positions of messages that came again; views show the copies.
        repeated: Parts that repeat what is stored, and are not stored themselves.
        expanded: The expansions that are shown, by their places.
        unseen: Those of them that no view has shown yet.
    """

    start: int = 0
    shown: int = 0
    consumed: int = 0
    answered_from: int = 0
    answered: int = 0
    answers: int = 0
    own_answer: int = -1
    compacted: set[PartId] = field(default_factory=set[PartId])
    shortened: dict[PartId, Shortened] = field(default_factory=dict[PartId, Shortened])
    answered_whole: set[PartId] = field(default_factory=set[PartId])
    retained: dict[PartId, RetainedBy] = field(default_factory=dict[PartId, RetainedBy])
    fold: Folded | None = None
    redelivered: set[int] = field(default_factory=set[int])
    repeated: set[PartId] = field(default_factory=set[PartId])
    expanded: dict[tuple[int, str], Expanded] = field(default_factory=dict[tuple[int, str], Expanded])
    unseen: set[tuple[int, str]] = field(default_factory=set[tuple[int, str]])

    def is_folded(self, position: int) -> bool:
        """Whether the entry is behind the fold's placeholder."""
        return self.fold is not None and position < self.fold.upto and position not in self.fold.kept

    def is_hidden(self, position: int) -> bool:
        """Whether views leave the entry out: it is folded, or a copy of it came later."""
        return position in self.redelivered or self.is_folded(position)


class Transcript:
    """Messages and decisions of one session, append-only.

    Attributes:
        log: The decisions, each with the number of entries there were when it was taken.
        standing: What all of it adds up to.
        on_decision: Called with the transcript and each decision that is taken now, once it has taken effect; not for
            one that is replayed. It must not raise.
    """

    def __init__(self, first_position: int = 0) -> None:
        self._first = first_position
        self._entries: list[Entry] = []
        self.log: list[tuple[int, Decision]] = []
        self.on_decision: Callable[[Transcript, Decision], None] | None = None
        self.pairing = Pairing()
        self.standing = _standing_at(first_position)

    @classmethod
    def of(cls, messages: Iterable[LLMMessage]) -> "Transcript":
        """Return a transcript of what happened elsewhere."""
        transcript = cls()
        for message in messages:
            transcript.append(message)
        return transcript

    # --- reading

    @property
    def end(self) -> int:
        """The position the next message will have."""
        return self._first + len(self._entries)

    @property
    def first(self) -> int:
        """The position of the oldest entry held."""
        return self._first

    def __getitem__(self, position: int) -> Entry:
        if position < self._first:
            raise IndexError(f"message {position + 1} is not held; the oldest is {self._first + 1}")
        return self._entries[position - self._first]

    def entries(self, start: int | None = None, end: int | None = None) -> list[Entry]:
        """Return the entries from `start` (the view's beginning if None) up to `end` (exclusive)."""
        start = self.standing.start if start is None else start
        return self._entries[max(start - self._first, 0) : None if end is None else max(end - self._first, 0)]

    def task(self, user_sources: Sequence[str]) -> int | None:
        """Return the position of the current task: the user's latest word, else the first message to the agent."""
        first: int | None = None
        for entry in reversed(self.entries()):
            if _is_told(entry) and entry.position not in self.standing.redelivered:
                if source_of(entry.message) in user_sources:
                    return entry.position
                first = entry.position
        return first

    def has_answer(self) -> bool:
        """Whether an assistant message ever came since the view's beginning."""
        return self.standing.answered > self.standing.start

    def call_answered_by(self, position: int, index: int) -> FunctionCall | None:
        """Return the call that a result answers; None for an orphan."""
        caller = self.pairing.callers.get((position, index))
        return None if caller is None else calls_of(self[caller[0]].message)[caller[1]]

    # --- writing

    def deliver(self, message: LLMMessage, added_at: datetime | None = None) -> Entry:
        """Add a message that is delivered now, and record which earlier ones it completes a second delivery of."""
        entry = self.append(message, added_at)
        if copies := self._redelivered():
            for earlier, again in copies:
                self.decide(Redelivered(earlier.position, again.position))
        elif copy := self._whole_copy():
            self.decide(Cleared(copy))
        return entry

    def append(self, message: LLMMessage, added_at: datetime | None = None) -> Entry:
        """Add a copy of a message.

        An assistant message consumes what was shown before it. In a context that never receives one, any message does.
        """
        entry = Entry(
            self.end,
            copy_message(message),
            added_at or datetime.now(timezone.utc),
            carries_result=self._is_code_output(message),
        )
        self.take(entry)
        return entry

    def take(self, entry: Entry) -> None:
        """Add an entry that belongs at the end as it is: for loading."""
        self._consume(entry.message)
        # a result that comes after the agent went on without it is told where it comes: the call keeps its stand-in
        self.pairing.forget_open_calls(before=self.standing.consumed)
        self._entries.append(entry)
        self.pairing.add(entry.position, entry.message)
        if isinstance(entry.message, AssistantMessage):
            self.standing.answered = self.end
            self.standing.answers += 1

    def decide(self, decision: Decision) -> None:
        """Record a decision and let it take effect."""
        self.replay(self.end, decision)
        if self.on_decision is not None:
            self.on_decision(self, decision)

    def replay(self, at: int, decision: Decision) -> None:
        """Let a decision take effect again that was taken when there were `at` entries."""
        self._apply(decision)
        if isinstance(decision, Offloaded):  # its texts are with the part, and only as long as they are shown
            decision = replace(decision, stored=_without_excerpt(decision.stored))
        self.log.append((at, decision))

    def _apply(self, decision: Decision) -> None:
        standing = self.standing
        if isinstance(decision, Offloaded):
            if decision.position >= self._first:
                self._store(self[decision.position], decision)
        elif isinstance(decision, Shown):
            standing.shown = decision.upto
            standing.unseen.clear()
        elif isinstance(decision, Retained):
            if decision.position >= self._first:
                self._retain(decision)
        elif isinstance(decision, PlannedCompaction):
            self._compact(decision.parts)
        elif isinstance(decision, Folded):
            standing.fold = decision
            self.pairing.forget_open_calls(before=decision.upto)  # a result that is still to come would be folded too
            standing.answered_whole = {part for part in standing.answered_whole if not standing.is_folded(part[0])}
            for entry in self.entries(end=decision.upto):
                if standing.is_folded(entry.position):
                    self._drop_stored_texts(entry, entry.measured)
            self._withdraw([place for place in standing.expanded if standing.is_folded(place[0])])
        elif isinstance(decision, Shortened):
            standing.shortened[decision.position, decision.address] = decision
            self[decision.position].revision += 1
        elif isinstance(decision, Expanded):
            if decision.position >= standing.start and not standing.is_folded(decision.position):
                standing.expanded[decision.place] = decision
                standing.unseen.add(decision.place)
        elif isinstance(decision, Withdrawn):
            self._withdraw(decision.places)
        elif isinstance(decision, Cleared):
            self._clear(decision.position)
        elif isinstance(decision, Repeated):
            standing.repeated.add((decision.position, decision.address))
        elif decision.again_at is not None:
            standing.redelivered.add(decision.position)
            # what was opened for it is decided again with the copy
            self._withdraw([place for place in standing.expanded if place[0] == decision.position])

    # --- rules

    def _redelivered(self) -> list[tuple[Entry, Entry]]:
        """Return the messages of the unanswered tail with their copies, once the whole tail has come a second time.

        After a failed run AutoGen delivers everything unanswered once more, in order. Model messages have no
        identity: a repeat that is incomplete or in another order is new, and so is one of a tail that no view showed.
        """
        standing = self.standing
        if not standing.shown < self.end:
            return []
        unanswered = max(standing.answered, standing.start)
        came = [entry for entry in self.entries(start=max(unanswered, standing.shown)) if _is_told(entry)]
        tail = [
            entry
            for entry in self.entries(start=unanswered, end=standing.shown)
            if _is_told(entry) and entry.position not in standing.redelivered
        ]
        if not came or len(came) != len(tail) or not all(map(_equal, tail, (entry.message for entry in came))):
            return []
        if not self.has_answer():  # without answers of its own, what came after an earlier view answered that view
            before = self.entries(end=standing.answered_from)
            if any(_is_told(entry) and entry.position not in standing.redelivered for entry in before):
                return []
        return list(zip(tail, came, strict=True))

    def _whole_copy(self) -> int | None:
        """Return where the whole thread begins once more, if it has just been delivered a second time.

        SelectorGroupChat does so when it loads a state: into a context that is still in use, and never answered.
        """
        standing, count = self.standing, self.end - self.standing.start
        middle = standing.start + count // 2
        if count < 4 or count % 2 or self.has_answer() or not standing.start < standing.shown <= middle:
            return None
        if any(position >= standing.start for position in standing.redelivered):
            return None
        halves = zip(reversed(self.entries(end=middle)), reversed(self.entries(start=middle)), strict=True)
        return middle if all(_equal(old, new.message) for old, new in halves) else None

    def _is_code_output(self, message: LLMMessage) -> bool:
        """Whether an agent reports right after its own words, as CodeExecutorAgent does with the output of its code."""
        previous = self._entries[-1].message if self._entries else None
        return (
            isinstance(message, UserMessage)
            and isinstance(previous, AssistantMessage)
            and self.end - 1 == self.standing.own_answer
            and source_of(message) == source_of(previous)
        )

    def _store(self, entry: Entry, decision: Offloaded) -> None:
        part = entry.part(decision.address)
        part.stored = decision.stored
        entry.revision += 1
        if entry.position < self.standing.start or self.standing.is_folded(entry.position):
            self._drop_stored_texts(entry, [part])
        elif part.is_result and entry.position < self.standing.consumed:
            part.stored = _without_excerpt(part.stored)  # stored late: the agent has read it whole
            self.standing.answered_whole.add((entry.position, part.address))

    def _consume(self, message: LLMMessage) -> None:
        standing = self.standing
        if standing.shown <= standing.consumed:
            return
        if isinstance(message, AssistantMessage):
            standing.own_answer = self.end
        if isinstance(message, AssistantMessage) or not self.has_answer():
            seen = self.entries(start=standing.consumed, end=standing.shown)
            standing.answered_from, standing.consumed = standing.consumed, standing.shown
            standing.answered_whole |= {
                (entry.position, part.address)
                for entry in seen
                if not standing.is_folded(entry.position)
                for part in entry.measured
                if part.is_result and part.stored and (entry.position, part.address) not in standing.compacted
            }

    def _retain(self, decision: Retained) -> None:
        entry = self[decision.position]
        part = entry.part(decision.address)
        if part.stored is not None:
            part.stored = replace(part.stored, compacted=decision.text, compacted_tokens=decision.tokens)
            self.standing.retained[decision.position, decision.address] = decision.by
            entry.revision += 1
            if part.stored.excerpt is not None:
                entry.drop_texts([decision.address])  # the view goes on with the excerpt

    def _compact(self, parts: Iterable[PartId]) -> None:
        of_entry: dict[int, list[Part]] = {}
        for position, address in parts:
            self.standing.compacted.add((position, address))
            self.standing.answered_whole.discard((position, address))
            of_entry.setdefault(position, []).append(self[position].part(address))
        for position, compacted in of_entry.items():
            self._drop_stored_texts(self[position], compacted)

    @staticmethod
    def _drop_stored_texts(entry: Entry, parts: list[Part]) -> None:
        """Keep no text in the process that the store has and no view will show again."""
        entry.revision += 1
        stored = [part for part in parts if part.stored]
        # only the strings in them are stored, not how a call's arguments are written
        entry.drop_texts(part.address for part in stored if part.address.kind != "arguments")
        for part in stored:
            part.stored = _without_excerpt(part.stored) if part.stored else None

    def _withdraw(self, places: Iterable[tuple[int, str]]) -> None:
        gone = [self.standing.expanded.pop(place) for place in places if place in self.standing.expanded]
        if not gone:
            return
        self.standing.unseen &= self.standing.expanded.keys()
        for index, (at, decision) in enumerate(self.log):
            if isinstance(decision, Expanded) and any(decision is one for one in gone):
                self.log[index] = (at, replace(decision, text=""))  # no view shows it again; what it took is known

    def _clear(self, position: int) -> None:
        self._withdraw([*self.standing.expanded])
        self.standing = _standing_at(position)
        self.pairing.forget_open_calls(before=position)
        for entry in self.entries(start=self._first, end=position):
            self._drop_stored_texts(entry, entry.measured)


def _standing_at(position: int) -> Standing:
    return Standing(start=position, shown=position, consumed=position, answered_from=position, answered=position)


def _without_excerpt(stored: Stored) -> Stored:
    return replace(stored, excerpt=None)  # what it took stays known


def _is_told(entry: Entry) -> bool:
    """Whether a person or another agent says it, rather than the system, the agent or its tools."""
    return isinstance(entry.message, UserMessage) and not entry.carries_result


def _equal(entry: Entry, message: LLMMessage) -> bool:
    return not entry.dropped and entry.message == message
