"""The transcript: everything that happened, in order, never rewritten, and what follows from it.

Entries and decisions only come at the end. What they add up to (what is consumed, compacted, folded) is derived as they
come, by the rules in `append` and `decide` and nowhere else, so replaying the same events gives the same state.
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
    CompactedTextChosen,
    Decision,
    Entry,
    ExpansionShown,
    ExpansionWithdrawn,
    HistoryFolded,
    MessageRedelivered,
    Offered,
    Part,
    PartId,
    PartOffloaded,
    PartsCompacted,
    PartShortened,
    RepeatFound,
    StoredPart,
    ViewCleared,
    ViewShown,
)
from .state import TranscriptState
from .sums import RunningSums

__all__ = ["Transcript"]


class Transcript:
    """Messages and decisions of one session, append-only.

    Attributes:
        log: The decisions, each with the number of entries there were when it was taken.
        state: What all of it adds up to.
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
        self.state = TranscriptState.at(first_position)
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
        start = self.state.start if start is None else start
        return self._entries[max(start - self._first, 0) : None if end is None else max(end - self._first, 0)]

    def shown(self, end: int | None = None) -> Iterator[Entry]:
        """Yield the entries up to `end` (exclusive) that views show, in order."""
        start, end, fold = self.state.start, self.end if end is None else end, self.state.fold
        kept: list[int] = []
        if fold is not None:
            kept = [position for position in sorted(fold.kept) if start <= position < min(fold.upto, end)]
            start = max(start, fold.upto)
        for position in chain(kept, range(start, end)):
            if position not in self.state.redelivered:
                yield self[position]

    def task(self, user_sources: Sequence[str]) -> int | None:
        """Return the position of the current task: the user's latest word, else the first message to the agent."""
        state = self.state
        latest = [state.spoken[source] for source in user_sources if source in state.spoken]
        return max(latest, default=state.first_spoken)

    def full_tokens(self, start: int, end: int) -> int:
        """Return what the entries from `start` up to `end` (exclusive) take as they came; unmeasured ones count 0."""
        for position in self.touched[self._summed :]:
            self._full_tokens.put(position - self._first, self[position].full_tokens)
        self._summed = len(self.touched)
        return self._full_tokens.before(end - self._first) - self._full_tokens.before(max(start - self._first, 0))

    def has_answer(self) -> bool:
        """Whether an assistant message ever came since the view's beginning."""
        return self.state.answered > self.state.start

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
                self.decide(MessageRedelivered(earlier.position, again.position))
        elif copy := self._whole_copy():
            self.decide(ViewCleared(copy))
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
        self.pairing.forget_open_calls(before=self.state.consumed)
        self._entries.append(entry)
        entry.journal = self.touched
        entry.touch()
        self.state.hear(entry)
        self.pairing.add(entry.position, entry.message)
        if isinstance(entry.message, AssistantMessage):
            self.state.answered = self.end
            self.state.answers += 1

    def decide(self, decision: Decision) -> None:
        """Record a decision and let it take effect."""
        self.replay(self.end, decision)
        if self.on_decision is not None:
            self.on_decision(self, decision)

    def replay(self, at: int, decision: Decision) -> None:
        """Let a decision take effect again that was taken when there were `at` entries."""
        self._apply(decision)
        if isinstance(decision, PartOffloaded):  # its texts are with the part, and only as long as they are shown
            decision = replace(decision, stored=_without_first_view(decision.stored))
        elif isinstance(decision, ExpansionShown):
            self._expanded_in_log[decision.place] = len(self.log)
        self.log.append((at, decision))

    def _apply(self, decision: Decision) -> None:
        state = self.state
        if isinstance(decision, PartOffloaded):
            if decision.position >= self._first:
                self._store(self[decision.position], decision)
        elif isinstance(decision, ViewShown):
            state.shown = decision.upto
            state.unseen.clear()
        elif isinstance(decision, CompactedTextChosen):
            if decision.position >= self._first:
                self._retain(decision)
        elif isinstance(decision, PartsCompacted):
            self._compact(decision.parts)
        elif isinstance(decision, HistoryFolded):
            self.pairing.forget_open_calls(before=decision.upto)  # a result that is still to come would be folded too
            for position in state.fold_behind(decision):
                self._drop_stored_texts(self[position], self[position].measured)
            self.touched += decision.kept  # the fold before may have stood for them
            self._withdraw([place for place in state.expanded if state.is_folded(place[0])])
        elif isinstance(decision, PartShortened):
            state.shortened[decision.position, decision.address] = decision
            self[decision.position].touch()
        elif isinstance(decision, ExpansionShown):
            if decision.position >= state.start and not state.is_folded(decision.position):
                state.expand(decision)
                self.touched.append(decision.position)
        elif isinstance(decision, ExpansionWithdrawn):
            self._withdraw(decision.places)
        elif isinstance(decision, ViewCleared):
            self._clear(decision.position)
        elif isinstance(decision, RepeatFound):
            state.repeated.add((decision.position, decision.address))
        elif isinstance(decision, Offered):
            state.offered = decision
        elif isinstance(decision, LightModelBill):
            state.light_model = decision
        elif decision.again_at is not None:
            state.redelivered.add(decision.position)
            if state.first_spoken == decision.position:
                later = (entry for entry in self.entries(start=decision.position + 1) if _is_told(entry))
                fresh = (entry.position for entry in later if entry.position not in state.redelivered)
                state.first_spoken = next(fresh, None)
            self.touched.append(decision.position)
            # what was opened for it is decided again with the copy
            self._withdraw([place for place in state.expanded if place[0] == decision.position])

    # --- rules

    def _redelivered(self) -> list[tuple[Entry, Entry]]:
        """Return the messages of the unanswered tail with their copies, once the whole tail has come a second time.

        After a failed run AutoGen delivers everything unanswered once more, in order. Model messages have no
        identity: a repeat that is incomplete or in another order is new, and so is one of a tail that no view showed.
        """
        state = self.state
        if not state.shown < self.end:
            return []
        unanswered = max(state.answered, state.start)
        came = [entry for entry in self.entries(start=max(unanswered, state.shown)) if _is_told(entry)]
        tail = [
            entry
            for entry in self.entries(start=unanswered, end=state.shown)
            if _is_told(entry) and entry.position not in state.redelivered
        ]
        if not came or len(came) != len(tail) or not all(map(_equal, tail, (entry.message for entry in came))):
            return []
        if not self.has_answer():  # without answers of its own, what came after an earlier view answered that view
            before = self.entries(end=state.answered_from)
            if any(_is_told(entry) and entry.position not in state.redelivered for entry in before):
                return []
        return list(zip(tail, came, strict=True))

    def _whole_copy(self) -> int | None:
        """Return where the whole thread begins once more, if it has just been delivered a second time.

        SelectorGroupChat does so when it loads a state: into a context that is still in use, and never answered.
        """
        state, count = self.state, self.end - self.state.start
        middle = state.start + count // 2
        if count < 4 or count % 2 or self.has_answer() or not state.start < state.shown <= middle:
            return None
        if any(position >= state.start for position in state.redelivered):
            return None
        halves = zip(reversed(self.entries(end=middle)), reversed(self.entries(start=middle)), strict=True)
        return middle if all(_equal(old, new.message) for old, new in halves) else None

    def _is_code_output(self, message: LLMMessage) -> bool:
        """Whether an agent reports right after its own words, as CodeExecutorAgent does with the output of its code."""
        previous = self._entries[-1].message if self._entries else None
        return (
            isinstance(message, UserMessage)
            and isinstance(previous, AssistantMessage)
            and self.end - 1 == self.state.own_answer
            and source_of(message) == source_of(previous)
        )

    def _store(self, entry: Entry, decision: PartOffloaded) -> None:
        part = entry.part(decision.address)
        part.stored = decision.stored
        entry.touch()
        self.state.has_items |= bool(decision.stored.refs)
        if entry.position < self.state.start or self.state.is_folded(entry.position):
            self._drop_stored_texts(entry, [part])
        elif part.is_result and entry.position < self.state.consumed:
            part.stored = _without_first_view(part.stored)  # stored late: the agent has read it whole
            self.state.answered_whole.add((entry.position, part.address))
        self.state.note_facts(entry.position, part)

    def _consume(self, message: LLMMessage) -> None:
        state = self.state
        if state.shown <= state.consumed:
            return
        if isinstance(message, AssistantMessage):
            state.own_answer = self.end
        if isinstance(message, AssistantMessage) or not self.has_answer():
            seen = self.entries(start=state.consumed, end=state.shown)
            state.answered_from, state.consumed = state.consumed, state.shown
            state.answered_whole |= {
                (entry.position, part.address)
                for entry in seen
                if not state.is_folded(entry.position)
                for part in entry.measured
                if part.is_result and part.stored and (entry.position, part.address) not in state.compacted
            }

    def _retain(self, decision: CompactedTextChosen) -> None:
        entry = self[decision.position]
        part = entry.part(decision.address)
        if part.stored is not None:
            refs = part.stored.refs
            if decision.description:
                refs = (replace(refs[0], description=decision.description), *refs[1:])
            part.stored = replace(part.stored, refs=refs, compacted=decision.text, compacted_tokens=decision.tokens)
            self.state.retained[decision.position, decision.address] = decision.by
            self.state.note_facts(entry.position, part)
            entry.touch()
            if part.stored.excerpt is not None:
                entry.drop_texts([decision.address])  # the view goes on with the excerpt

    def _compact(self, parts: Iterable[PartId]) -> None:
        of_entry: dict[int, list[Part]] = {}
        for position, address in parts:
            self.state.compacted.add((position, address))
            self.state.answered_whole.discard((position, address))
            of_entry.setdefault(position, []).append(self[position].part(address))
        for position, compacted in of_entry.items():
            self._drop_stored_texts(self[position], compacted)
            for part in compacted:
                self.state.note_facts(position, part)

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
            if self.state.withdraw(place):
                self.touched.append(place[0])
                index = self._expanded_in_log.pop(place)
                at, expanded = self.log[index]
                if isinstance(expanded, ExpansionShown):
                    self.log[index] = (at, replace(expanded, text=""))  # no view shows it again; what it took is known

    def _clear(self, position: int) -> None:
        self._withdraw([*self.state.expanded])
        before, self.state = self.state, TranscriptState.at(position)
        self.state.offered, self.state.light_model = before.offered, before.light_model
        for entry in self.entries():
            self.state.hear(entry)
        self.pairing.forget_open_calls(before=position)
        for entry in self.entries(start=self._first, end=position):
            self._drop_stored_texts(entry, entry.measured)


def _without_first_view(stored: StoredPart) -> StoredPart:
    return replace(stored, excerpt=None, headline="")  # what it took stays known


def _is_told(entry: Entry) -> bool:
    """Whether a person or another agent says it, rather than the system, the agent or its tools."""
    return isinstance(entry.message, UserMessage) and not entry.carries_result


def _equal(entry: Entry, message: LLMMessage) -> bool:
    return not entry.dropped and entry.message == message
