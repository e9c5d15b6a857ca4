"""What the events of a transcript add up to. `Transcript` keeps it up to date; every change costs what is new."""

from dataclasses import dataclass, field

from autogen_core.models import UserMessage

from ..light_model import LightModelBill
from .entries import ChosenBy, Entry, ExpansionShown, HistoryFolded, Offered, Part, PartId, PartShortened

__all__ = ["TranscriptState"]


@dataclass
class TranscriptState:
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
        facts: Results shown compacted whose text has facts below its first line, with about what those take.
        redelivered: Positions of messages that came again; views show the copies.
        repeated: Parts that repeat what is stored, and are not stored themselves.
        expanded: The expansions that are shown, by their places.
        expanded_at: The same, by the position of the message they follow, in the order they came.
        unseen: Those of them that no view has shown yet.
        spoken: For each source of words that carry no result: the position of its latest message.
        first_spoken: Position of the first such message.
        offered: What stands before the view in each call; a clear changes nothing of it.
        light_model: The light model's calls in the session; a clear changes nothing of it either.
        has_items: Whether something was stored as an item.
    """

    start: int = 0
    shown: int = 0
    consumed: int = 0
    answered_from: int = 0
    answered: int = 0
    answers: int = 0
    own_answer: int = -1
    compacted: set[PartId] = field(default_factory=set[PartId])
    shortened: dict[PartId, PartShortened] = field(default_factory=dict[PartId, PartShortened])
    answered_whole: set[PartId] = field(default_factory=set[PartId])
    retained: dict[PartId, ChosenBy] = field(default_factory=dict[PartId, ChosenBy])
    fold: HistoryFolded | None = None
    redelivered: set[int] = field(default_factory=set[int])
    repeated: set[PartId] = field(default_factory=set[PartId])
    facts: dict[PartId, int] = field(default_factory=dict[PartId, int])
    expanded: dict[tuple[int, str], ExpansionShown] = field(default_factory=dict[tuple[int, str], ExpansionShown])
    expanded_at: dict[int, dict[str, ExpansionShown]] = field(default_factory=dict[int, dict[str, ExpansionShown]])
    unseen: set[tuple[int, str]] = field(default_factory=set[tuple[int, str]])
    spoken: dict[str, int] = field(default_factory=dict[str, int])
    first_spoken: int | None = None
    offered: Offered = field(default_factory=Offered)
    light_model: LightModelBill = field(default_factory=LightModelBill)
    has_items: bool = False

    def is_folded(self, position: int) -> bool:
        """Whether the entry is behind the fold's placeholder."""
        return self.fold is not None and position < self.fold.upto and position not in self.fold.kept

    def is_hidden(self, position: int) -> bool:
        """Whether views leave the entry out: it is folded, or a copy of it came later."""
        return position in self.redelivered or self.is_folded(position)

    @classmethod
    def at(cls, position: int) -> "TranscriptState":
        """Return the state of a view that begins at a position."""
        return cls(start=position, shown=position, consumed=position, answered_from=position, answered=position)

    def hear(self, entry: Entry) -> None:
        """Note who speaks in an entry; the newest entry comes last."""
        message = entry.message
        if isinstance(message, UserMessage) and not entry.carries_result:
            self.spoken[message.source] = entry.position
            if self.first_spoken is None:
                self.first_spoken = entry.position

    def note_facts(self, position: int, part: Part) -> None:
        """Note what the facts of a part take, after what it is compacted to, or that it is compacted, has changed."""
        part_id, stored = (position, part.address), part.stored
        is_shown = part_id in self.compacted and position >= self.start and not self.is_hidden(position)
        if is_shown and part.is_result and stored is not None and stored.refs and "\n" in stored.compacted:
            self.facts[part_id] = stored.facts_tokens
        else:
            self.facts.pop(part_id, None)

    def expand(self, expanded: ExpansionShown) -> None:
        """Show an expansion, which no view has shown yet."""
        position, name = expanded.place
        self.expanded[expanded.place] = self.expanded_at.setdefault(position, {})[name] = expanded
        self.unseen.add(expanded.place)

    def withdraw(self, place: tuple[int, str]) -> bool:
        """Show an expansion no more; whether it was shown."""
        if self.expanded.pop(place, None) is None:
            return False
        self.unseen.discard(place)
        after = self.expanded_at[place[0]]
        del after[place[1]]
        if not after:
            del self.expanded_at[place[0]]
        return True

    def fold_behind(self, fold: HistoryFolded) -> list[int]:
        """Put a fold in force; return the positions it folds that were not folded before."""
        before, self.fold = self.fold, fold
        candidates = [*before.kept, *range(before.upto, fold.upto)] if before else range(self.start, fold.upto)
        self.answered_whole = {part for part in self.answered_whole if not self.is_folded(part[0])}
        self.facts = {part: tokens for part, tokens in self.facts.items() if not self.is_folded(part[0])}
        return [position for position in candidates if self.is_folded(position)]
