"""The transcript: everything that happened, in order, never rewritten, and what follows from it.

Entries and decisions only come at the end. What they add up to (what is consumed, compacted, folded) is derived as they
come, by the rules in `append` and `decide` and nowhere else, so replaying the same events gives the same standing.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from itertools import chain

from autogen_core import FunctionCall
from autogen_core.models import AssistantMessage, LLMMessage, UserMessage

from ..light_model import LightModelBill
from ..messages import Pairing, calls_of, copy_message, results_of, source_of
from .entries import (
    Cleared,
    Decision,
    Entry,
    Expanded,
    Folded,
    Offered,
    Offloaded,
    Part,
    PartId,
    PlannedCompaction,
    Redelivered,
    Repeated,
    Retained,
    Shortened,
    Shown,
    Stored,
    Withdrawn,
)
from .standing import Standing
from .sums import RunningSums

__all__ = ["Transcript"]


class Transcript:
    """Messages and decisions of one session, append-only.

    Attributes:
        log: The decisions, each with the number of entries there were when it was taken.
        standing: What all of it adds up to.
        touched: Positions of entries, in the order of events that changed how they are rendered; a new entry is one.
            It only grows, so whoever keeps something derived of the entries reads on from where it stopped.
        on_decision: Called with the transcript and each decision that is taken now, once it has taken effect; not for
            one that is replayed. It must not raise.
    """

    def __init__(self, first_position: int = 0) -> None:
        self._first = first_position
        self._entries: list[Entry] = []
        self.log: list[tuple[int, Decision]] = []
        self.on_decision: Callable[[Transcript, Decision], None] | None = None
        self.touched: list[int] = []
        self.pairing = Pairing()
        self.standing = Standing.at(first_position)
        self._expanded_in_log: dict[tuple[int, str], int] = {}
        self._full_tokens = RunningSums()
        self._summed = 0

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

    def shown(self, end: int | None = None) -> Iterator[Entry]:
        """Yield the entries up to `end` (exclusive) that views show, in order."""
        start, end, fold = self.standing.start, self.end if end is None else end, self.standing.fold
        kept: list[int] = []
        if fold is not None:
            kept = [position for position in sorted(fold.kept) if start <= position < min(fold.upto, end)]
            start = max(start, fold.upto)
        for position in chain(kept, range(start, end)):
            if position not in self.standing.redelivered:
                yield self[position]

    def task(self, user_sources: Sequence[str]) -> int | None:
        """Return the position of the current task: the user's latest word, else the first message to the agent."""
        standing = self.standing
        latest = [standing.spoken[source] for source in user_sources if source in standing.spoken]
        return max(latest, default=standing.first_spoken)

    def full_tokens(self, start: int, end: int) -> int:
        """Return what the entries from `start` up to `end` (exclusive) take as they came; unmeasured ones count 0."""
        for position in self.touched[self._summed :]:
            self._full_tokens.put(position - self._first, self[position].full_tokens)
        self._summed = len(self.touched)
        return self._full_tokens.before(end - self._first) - self._full_tokens.before(max(start - self._first, 0))

    def has_answer(self) -> bool:
        """Whether an assistant message ever came since the view's beginning."""
        return self.standing.answered > self.standing.start

    def call_answered_by(self, position: int, index: int) -> FunctionCall | None:
        """Return the call that a result answers; None for an orphan."""
        caller = self.pairing.callers.get((position, index))
        return None if caller is None else calls_of(self[caller[0]].message)[caller[1]]

    def calls_answered_by(self, entry: Entry) -> set[int]:
        """Return the positions of the messages whose calls an entry's results answer."""
        slots = ((entry.position, index) for index in range(len(results_of(entry.message))))
        return {self.pairing.callers[slot][0] for slot in slots if slot in self.pairing.callers}

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
        entry.journal = self.touched
        entry.touch()
        self.standing.hear(entry)
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
            decision = replace(decision, stored=_without_first_view(decision.stored))
        elif isinstance(decision, Expanded):
            self._expanded_in_log[decision.place] = len(self.log)
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
            self.pairing.forget_open_calls(before=decision.upto)  # a result that is still to come would be folded too
            for position in standing.fold_behind(decision):
                self._drop_stored_texts(self[position], self[position].measured)
            self.touched += decision.kept  # the fold before may have stood for them
            self._withdraw([place for place in standing.expanded if standing.is_folded(place[0])])
        elif isinstance(decision, Shortened):
            standing.shortened[decision.position, decision.address] = decision
            self[decision.position].touch()
        elif isinstance(decision, Expanded):
            if decision.position >= standing.start and not standing.is_folded(decision.position):
                standing.expand(decision)
                self.touched.append(decision.position)
        elif isinstance(decision, Withdrawn):
            self._withdraw(decision.places)
        elif isinstance(decision, Cleared):
            self._clear(decision.position)
        elif isinstance(decision, Repeated):
            standing.repeated.add((decision.position, decision.address))
        elif isinstance(decision, Offered):
            standing.offered = decision
        elif isinstance(decision, LightModelBill):
            standing.light_model = decision
        elif decision.again_at is not None:
            standing.redelivered.add(decision.position)
            if standing.first_spoken == decision.position:
                later = (entry for entry in self.entries(start=decision.position + 1) if _is_told(entry))
                fresh = (entry.position for entry in later if entry.position not in standing.redelivered)
                standing.first_spoken = next(fresh, None)
            self.touched.append(decision.position)
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
        entry.touch()
        self.standing.has_items |= bool(decision.stored.refs)
        if entry.position < self.standing.start or self.standing.is_folded(entry.position):
            self._drop_stored_texts(entry, [part])
        elif part.is_result and entry.position < self.standing.consumed:
            part.stored = _without_first_view(part.stored)  # stored late: the agent has read it whole
            self.standing.answered_whole.add((entry.position, part.address))
        self.standing.note_facts(entry.position, part)

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
            refs = part.stored.refs
            if decision.description:
                refs = (replace(refs[0], description=decision.description), *refs[1:])
            part.stored = replace(part.stored, refs=refs, compacted=decision.text, compacted_tokens=decision.tokens)
            self.standing.retained[decision.position, decision.address] = decision.by
            self.standing.note_facts(entry.position, part)
            entry.touch()
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
            for part in compacted:
                self.standing.note_facts(position, part)

    @staticmethod
    def _drop_stored_texts(entry: Entry, parts: list[Part]) -> None:
        """Keep no text in the process that the store has and no view will show again."""
        entry.touch()
        stored = [part for part in parts if part.stored]
        # only the strings in them are stored, not how a call's arguments are written
        entry.drop_texts(part.address for part in stored if part.address.kind != "arguments")
        for part in stored:
            part.stored = _without_first_view(part.stored) if part.stored else None

    def _withdraw(self, places: Iterable[tuple[int, str]]) -> None:
        for place in places:
            if self.standing.withdraw(place):
                self.touched.append(place[0])
                index = self._expanded_in_log.pop(place)
                at, expanded = self.log[index]
                if isinstance(expanded, Expanded):
                    self.log[index] = (at, replace(expanded, text=""))  # no view shows it again; what it took is known

    def _clear(self, position: int) -> None:
        self._withdraw([*self.standing.expanded])
        before, self.standing = self.standing, Standing.at(position)
        self.standing.offered, self.standing.light_model = before.offered, before.light_model
        for entry in self.entries():
            self.standing.hear(entry)
        self.pairing.forget_open_calls(before=position)
        for entry in self.entries(start=self._first, end=position):
            self._drop_stored_texts(entry, entry.measured)


def _without_first_view(stored: Stored) -> Stored:
    return replace(stored, excerpt=None, headline="")  # what it took stays known


def _is_told(entry: Entry) -> bool:
    """Whether a person or another agent says it, rather than the system, the agent or its tools."""
    return isinstance(entry.message, UserMessage) and not entry.carries_result


def _equal(entry: Entry, message: LLMMessage) -> bool:
    return not entry.dropped and entry.message == message
