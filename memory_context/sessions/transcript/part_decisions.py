"""Decisions about parts of messages."""

from collections.abc import Container, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from memory_context.foundation.handlers import ContextEvent
from memory_context.foundation.messages import Address
from memory_context.sessions.transcript.transcript import Transcript
from memory_context.sessions.transcript.values import ChosenBy, MaskedPart, ShortenedPart

from .entries import PartId, StoredPart
from .transcript import Decided, Decision, EntryDecision, audit_line
from .values import Arithmetic

__all__ = [
    "CallRefused",
    "CompactedTextChosen",
    "CredentialsMasked",
    "FirstViewChosen",
    "PartOffloaded",
    "PartShortened",
    "PartsCompacted",
    "RepeatFound",
]


@dataclass(frozen=True)
class PartOffloaded(EntryDecision):
    """A part's content is committed; `is_new` is False for an image that was opened from the store."""

    kind, outlives_clear = "offloaded", True  # a clear may come later
    address: Address
    stored: StoredPart
    is_new: bool = True

    def apply(self, transcript: Transcript) -> None:
        if self.position < transcript.first:
            return
        entry, state = transcript[self.position], transcript.state
        part = entry.part(self.address)
        part.stored = self.stored
        entry.touch()
        state.has_items |= bool(self.stored.refs)
        if self.position < state.start or state.is_away(self.position):
            entry.drop_stored([part])
        elif part.is_result and self.position < state.consumed:
            part.stored = self.stored.without_first_view()  # stored after the answer
            state.answered_whole.add((self.position, self.address))
        state.note_facts(self.position, part)

    def archived(self) -> Decision:
        return replace(self, stored=self.stored.without_first_view())

    def to_json(self, transcript: Transcript, slots: Container[tuple[str, Hashable]]) -> dict[str, Any]:
        saved = self.stored
        if (CompactedTextChosen.kind, (self.position, self.address)) in slots:  # the text is saved there
            saved = replace(saved, compacted="", compacted_tokens=0)
        return Decision.to_json(replace(self, stored=saved), transcript, slots)

    def memory_keys(self) -> tuple[str, ...]:
        return tuple(ref.key for ref in self.stored.refs)

    def audit(self, transcript: Transcript) -> list[ContextEvent]:
        if not (self.is_new and self.stored.refs):
            return []
        tokens = sum(ref.token_count for ref in self.stored.refs)
        return [ContextEvent("stored", self.memory_keys(), tokens=tokens, reason="offload")]

    def tally(self) -> dict[str, int]:
        return {"offloads": int(self.is_new and bool(self.stored.refs))}


@dataclass(frozen=True)
class FirstViewChosen(EntryDecision):
    """The first view of a stored result. Once archived, the log omits its text, which the entry keeps until answered.

    Attributes:
        tokens: Of the excerpt, or of the whole content with its headline.
        excerpt: None for a result that is shown whole.
        headline: The line above a whole result; may be empty.
        base: The earlier result from which `excerpt` says the difference.
    """

    kind = "first_view"
    address: Address
    tokens: int
    excerpt: str | None = None
    headline: str = ""
    base: PartId | None = None

    def apply(self, transcript: Transcript) -> None:
        state, part_id = transcript.state, (self.position, self.address)
        if self.position < max(transcript.first, state.start, state.consumed):
            return
        state.first_views.add(part_id)
        if self.base is not None:
            state.compared[part_id] = self.base
        entry = transcript[self.position]
        part = entry.part(self.address)
        if part.stored is not None:
            excerpt, headline = self.excerpt or part.stored.excerpt, self.headline or part.stored.headline
            part.stored = replace(part.stored, excerpt=excerpt, excerpt_tokens=self.tokens, headline=headline)
            entry.touch()

    def archived(self) -> Decision:
        return replace(self, excerpt=None, headline="")

    def tally(self) -> dict[str, int]:
        return {"differences": int(self.base is not None)}

    def to_json(self, transcript: Transcript, slots: Container[tuple[str, Hashable]]) -> dict[str, Any]:
        now = transcript[self.position].part(self.address).stored
        is_archived = self.excerpt is None and not self.headline
        saved = replace(self, excerpt=now.excerpt, headline=now.headline) if now and is_archived else self
        return Decision.to_json(saved, transcript, slots)


@dataclass(frozen=True)
class CompactedTextChosen(EntryDecision):
    """The text of a part once it is compacted; `description` replaces the item's."""

    kind, outlives_clear = "retained", True
    address: Address
    text: str
    tokens: int
    by: ChosenBy = "compactor"
    description: str = ""

    def apply(self, transcript: Transcript) -> None:
        if self.position < transcript.first:
            return
        entry = transcript[self.position]
        part = entry.part(self.address)
        if part.stored is None:
            return
        refs = part.stored.refs
        if self.description:
            refs = (replace(refs[0], description=self.description), *refs[1:])
        part.stored = replace(part.stored, refs=refs, compacted=self.text, compacted_tokens=self.tokens)
        transcript.state.retained[self.slot()] = self.by
        if self.by == "newer":
            transcript.state.subjects.superseded.pop(self.position, None)
        transcript.state.note_facts(self.position, part)
        entry.touch()
        if part.stored.excerpt is not None:
            entry.drop_texts([self.address])

    @property
    def is_planned(self) -> bool:
        return self.by in ("age", "newer")

    def slot(self) -> PartId:
        return self.position, self.address

    def tally(self) -> dict[str, int]:
        return {"summaries": int(self.by == "model")}


@dataclass(frozen=True)
class PartsCompacted(Decision):
    """These parts are shown compacted from now on.

    `reason`: `consumed` for results answered just now, which rewrites nothing cached; `saves` for earlier ones;
    `aged` for the oldest facts; `superseded` for older states of a subject, `older_image` for images that newer ones
    replace; `budget`; `unavailable` if a load lacks them; `forgotten`; `late`: older data.
    """

    kind = "compacted"
    parts: tuple[PartId, ...]
    reason: Literal[
        "consumed", "saves", "aged", "superseded", "older_image", "late", "budget", "unavailable", "forgotten"
    ]
    arithmetic: Arithmetic | None = None

    def apply(self, transcript: Transcript) -> None:
        state, by_entry = transcript.state, dict[int, list[Address]]()
        for position, address in self.parts:
            state.compacted.add((position, address))
            state.answered_whole.discard((position, address))
            by_entry.setdefault(position, []).append(address)
        for position, addresses in by_entry.items():
            parts = [transcript[position].part(address) for address in addresses]
            transcript[position].drop_stored(parts)
            for part in parts:
                state.note_facts(position, part)

    def positions(self) -> tuple[int, ...]:
        return tuple(position for position, _ in self.parts)

    @property
    def rewrites_prefix(self) -> bool:
        return self.reason != "consumed"

    @property
    def is_planned(self) -> bool:
        return self.reason in ("consumed", "saves", "aged", "superseded", "budget")

    def changes_from(self, transcript: Transcript) -> int | None:
        is_whole = self.rewrites_prefix and self.reason != "older_image"
        return transcript.state.start if is_whole else min(self.positions(), default=None)

    def audit(self, transcript: Transcript) -> list[ContextEvent]:
        keys = _keys_of_parts(transcript, self.parts)
        tokens = sum(transcript[position].part(address).tokens for position, address in self.parts)
        return [ContextEvent("compacted", tuple(keys), self.reason, tokens, self.reason)]

    def tally(self) -> dict[str, int]:
        return {"compactions" if self.rewrites_prefix else "answered_compactions": 1}

    def decided(self, transcript: Transcript, earlier: Sequence[Decision]) -> Decided:
        return Decided("compacted", self.reason, len(self.parts), self.arithmetic)

    def reasons(self) -> dict[PartId, str]:
        return dict.fromkeys(self.parts, self.reason)


@dataclass(frozen=True)
class PartShortened(ShortenedPart, EntryDecision):
    """A part is shortened."""

    kind = "shortened"

    @property
    def is_planned(self) -> bool:
        return True

    def apply(self, transcript: Transcript) -> None:
        transcript.state.shortened[self.position, self.address] = self
        transcript[self.position].touch()

    def audit(self, transcript: Transcript) -> list[ContextEvent]:
        keys = _keys_of_parts(transcript, [(self.position, self.address)])
        return audit_line("shortened", keys, f"to {self.tokens:,} tokens")

    def tally(self) -> dict[str, int]:
        return {"shortenings": 1}


@dataclass(frozen=True)
class CredentialsMasked(MaskedPart, EntryDecision):
    """Credentials in the shown text of a result are masked."""

    kind = "masked"

    def apply(self, transcript: Transcript) -> None:
        transcript.state.masked[self.slot()] = self
        transcript[self.position].touch()

    def slot(self) -> PartId:
        return self.position, self.address

    def decided(self, transcript: Transcript, earlier: Sequence[Decision]) -> Decided:
        return Decided("masked", "credentials", len(self.masks))


@dataclass(frozen=True)
class CallRefused(EntryDecision):
    """A call was not run: its arguments held a reference in place of the text `key`. Only earlier versions made it."""

    kind = "call_refused"
    key: str

    def memory_keys(self) -> tuple[str, ...]:
        return (self.key,)


@dataclass(frozen=True)
class RepeatFound(EntryDecision):
    """A large text repeats stored items (`keys`, if known)."""

    kind = "repeated"
    address: Address
    keys: tuple[str, ...]

    def apply(self, transcript: Transcript) -> None:
        transcript.state.repeated.add((self.position, self.address))

    def memory_keys(self) -> tuple[str, ...]:
        return self.keys


def _keys_of_parts(transcript: Transcript, parts: Iterable[PartId]) -> list[str]:
    stored = [transcript[position].part(address).stored for position, address in parts]
    return [ref.key for one in stored if one is not None for ref in one.refs]
