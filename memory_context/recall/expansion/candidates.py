"""References and keys that a message can refer to. Tool results never open keys: their text may imitate references."""

import string
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple

from autogen_core.models import AssistantMessage, UserMessage

from memory_context.foundation.messages import source_of
from memory_context.foundation.patterns import regex
from memory_context.foundation.policy import ContextPolicy
from memory_context.foundation.references import KEY_PATTERN, QUOTATION, MemoryRef
from memory_context.foundation.text.tokenize import folded, terms_of
from memory_context.sessions.transcript.entries import Entry
from memory_context.sessions.transcript.transcript import Transcript
from memory_context.sessions.transcript.view_decisions import UserMemoryChanged, UserMemoryLoaded
from memory_context.view.render import text_in_view

__all__ = [
    "CandidateReference",
    "Expansion",
    "ExpansionAnswer",
    "ExpansionRequest",
    "References",
    "head_and_tail",
    "known_to_agent",
    "named_keys",
    "unknown_keys",
    "without_keys",
]

_UNKNOWN_KEYS_LIMIT, _LONGEST_KEY, _SEARCHED_CHARACTERS = 5, 64, 3000
_KEY_CHARACTERS = string.ascii_letters + string.digits + "_.-"
_KEPT_CHARACTERS, _READ_CHARACTERS = 600, 100_000
_RUN = regex(r"(?<![A-Za-z0-9_.-])[A-Za-z.-]*[0-9_][A-Za-z0-9_.-]*")  # keys have a digit or `_`
_SIZE = regex(r"\b\d+(?:[ ,.]\d{3})*(?:\.\d+)? (?:lines|tokens|words|pages|[kM]?B)\b")  # rows say the kind
_ALL_OF = "all of "  # begins the label of an answer that shows an item whole
_PLACEHOLDER = regex(r"\[MemoryRef: [^\]\r\n]*\]?")
_KEY_IN_PLACEHOLDER = regex(rf"\[MemoryRef: ({KEY_PATTERN.pattern})(?![A-Za-z0-9_.-])")
_KEY_SHAPE = regex(r"[A-Za-z0-9][A-Za-z0-9_.-]*_(?=[a-z]*[2-7])[a-z2-7]{6,20}")


class ReferenceWords(NamedTuple):
    """The words of a reference.

    Attributes:
        described: Terms that say what it is.
        known: These, and those of its kept lines.
        text: All of it, folded.
    """

    described: frozenset[str]
    known: frozenset[str]
    text: str

    @classmethod
    def of(cls, ref: MemoryRef, source: str, kept_text: str) -> "ReferenceWords":
        kept = kept_text[:_KEPT_CHARACTERS]
        described = _terms_of(f"{_SIZE.sub('', ref.description)} {ref.key} {source}")
        known = described | _terms_of(kept.replace(QUOTATION, ""))
        return cls(described, known, folded(f"{ref.description} {source} {ref.key} {kept}"))


def _terms_of(text: str) -> frozenset[str]:
    return frozenset(term.lstrip("0") or term for term in terms_of(text))


@dataclass(frozen=True)
class CandidateReference:
    """A stored content that a request may need.

    Attributes:
        kept_text: Status, placeholder and kept lines in the view.
        position: Of the newest message with it.
        is_visible: Shown in full.
    """

    ref: MemoryRef
    source: str = ""
    kept_text: str = ""
    position: int = 0
    is_visible: bool = False

    @cached_property
    def words(self) -> ReferenceWords:
        return ReferenceWords.of(self.ref, self.source, self.kept_text)

    def seen(self, *, is_visible: bool) -> "CandidateReference":
        """Return it as the view shows it now, with the words that were read."""
        if is_visible == self.is_visible:
            return self
        now = replace(self, is_visible=is_visible)
        if (words := vars(self).get("words")) is not None:
            vars(now)["words"] = words
        return now


@dataclass(frozen=True)
class ExpansionRequest:
    """A request and its visible context, whose texts are read when they are first needed.

    Attributes:
        visible_texts: Folded.
        opened_texts: Those of them that expansions show; None for all.
        position: Of the request in the transcript.
    """

    request: str
    last_answer: str = ""
    references: tuple[CandidateReference, ...] = ()
    visible_texts: Callable[[], Iterable[str]] = tuple
    opened_texts: Callable[[], Iterable[str]] | None = None
    position: int = 0


@dataclass(frozen=True)
class Expansion:
    """An item to expand; `why` is a short reason, such as "rare word 'E1234'"."""

    key: str
    reason: Literal["named", "matched", "model"]
    why: str


@dataclass(frozen=True)
class ExpansionAnswer:
    """The decision about a request.

    Attributes:
        expansions: Most certain first.
        is_ambiguous: Memories are searched.
        search_query: "" for no search.
        asks_for_said: It asks for words or conclusions of earlier conversations.
    """

    expansions: tuple[Expansion, ...] = ()
    is_ambiguous: bool = False
    search_query: str = ""
    asks_for_said: bool = False
    decided_by: Literal["rules", "model"] = "rules"
    why: str = ""


class References:
    """The references and visible texts of one transcript. Each is read once: when it arrives, and when it changed.

    Attributes:
        unread: References whose words no decision should have to wait for.
    """

    def __init__(self, transcript: Transcript, policy: ContextPolicy) -> None:
        self.unread: list[CandidateReference] = []
        self._transcript = transcript
        self._policy = policy
        self._read_to = 0  # in the transcript's journal
        self._begin = 0  # of the view
        self._held: dict[int, list[CandidateReference]] = {}  # by position; all that follow, too
        self._shown_whole: dict[int, list[str]] = {}  # keys of items that answers of memory tools show
        self._texts: dict[int, str] = {}  # visible ones, folded
        self._fold: CandidateReference | None = None  # the newest
        self._keys: set[str] = set()  # all that were ever held

    def read(self) -> None:
        """Read what arrived or changed since the last time."""
        transcript = self._transcript
        for position in dict.fromkeys(transcript.touched[self._read_to :]):
            if position >= transcript.first:
                self._read_entry(transcript[position])
        self._read_to = len(transcript.touched)
        fold = transcript.state.fold
        if fold is not None and (self._fold is None or self._fold.kept_text != fold.text):
            self._fold = CandidateReference(fold.ref, "memory", fold.text, fold.upto - 1)
            self.unread.append(self._fold)
        start, (kept, begin) = transcript.state.start, transcript.state.frame
        if begin != self._begin:  # messages left the view
            self._begin = begin
            self._held = {at: held for at, held in self._held.items() if at >= start}
            self._texts = {at: text for at, text in self._texts.items() if at >= begin or at in kept}

    def _read_entry(self, entry: Entry) -> None:
        before = {(one.ref, one.kept_text): one for one in self._held.pop(entry.position, ())}
        self._shown_whole.pop(entry.position, None)
        self._texts.pop(entry.position, None)
        source, texts = source_of(entry.message) or "", list[str]()
        held, shown_whole = list[CandidateReference](), list[str]()
        for part in entry.measured:
            is_held = part.address not in entry.dropped
            is_visible = is_held and text_in_view(self._transcript, self._policy, entry, part)[0] == "full"
            if is_visible and part.address.kind != "image":
                texts.append(folded((entry.text(part.address) or "")[:_READ_CHARACTERS]))
            if part.stored is None:
                continue
            kept_text = part.stored.compacted
            for ref in part.stored.refs:
                new = CandidateReference(ref, source, kept_text, entry.position, is_visible)
                held.append(before.get((ref, kept_text), new).seen(is_visible=is_visible))
            answered = None if part.stored.refs else MemoryRef.parse(kept_text.removeprefix(_ALL_OF))
            # a mere notice that the item was read before is shorter than it
            if answered and is_visible and part.tokens > answered.token_count // 2 and kept_text.startswith(_ALL_OF):
                shown_whole.append(answered.key)
        if held:
            self._held[entry.position] = held
        if shown_whole:
            self._shown_whole[entry.position] = shown_whole
        if texts:
            self._texts[entry.position] = "\n".join(texts)
        self._keys.update(one.ref.key for one in held)
        self.unread += held

    def request(self, asked: Sequence[Entry]) -> ExpansionRequest:
        """Return the request of unanswered entries, without their own results."""
        transcript, state = self._transcript, self._transcript.state
        first = min(entry.position for entry in asked)
        before = reversed(transcript.entries(end=first))
        answer = next((entry for entry in before if isinstance(entry.message, AssistantMessage)), None)

        return ExpansionRequest(
            request="\n".join(entry.words for entry in asked),
            last_answer=answer.words if answer is not None else "",
            references=tuple(self.before(first)),
            visible_texts=lambda: self.visible_texts(first, answer),
            opened_texts=lambda: (folded(expanded.text) for expanded in state.expanded.values()),
            position=first,
        )

    def visible_texts(self, end: int, besides: Entry | None = None) -> Iterator[str]:
        """Yield, folded, the texts shown in full before a position, all expansions and the user memory."""
        state = self._transcript.state
        for entry in self._transcript.shown(end):
            if entry is not besides and entry.position in self._texts:
                yield self._texts[entry.position]
        for shown in (*state.expanded.values(), state.newest(UserMemoryLoaded), state.newest(UserMemoryChanged)):
            if shown is not None:
                yield folded(shown.text)

    def are_named_in(self, text: str) -> bool:
        """Return whether a text names a key, or something that may be one of another session."""
        known = {*self._keys, self._fold.ref.key} if self._fold else self._keys
        return bool(named_keys(text, known) or unknown_keys(text, known))

    def before(self, end: int) -> Iterator[CandidateReference]:
        """Yield each reference before a position once, newest first; the fold's last."""
        self.read()
        state, (kept, begin) = self._transcript.state, self._transcript.state.frame
        in_frame, seen = {*kept}, set[str]()
        places = [one for one in self._shown_whole if one < end and (one >= begin or one in in_frame)]
        shown_whole = {key for place in places for key in self._shown_whole[place]}
        for position in sorted(self._held, reverse=True):
            if not state.start <= position < end or position in state.redelivered:
                continue
            is_in_view = position >= begin or position in in_frame
            for one in self._held[position]:
                if one.ref.key not in seen:
                    seen.add(one.ref.key)
                    yield one.seen(is_visible=(one.is_visible and is_in_view) or one.ref.key in shown_whole)
        if state.fold is not None and self._fold is not None:
            yield self._fold


def named_keys(text: str, known: Collection[str]) -> list[str]:
    """Return the known keys in a text in order: `log_k3f7x2` is in `"log_k3f7x2".` but not in `my_log_k3f7x2`."""
    wanted = frozenset(known)
    runs = _RUN.finditer(text) if wanted else ()
    found = (next((key for key in _keys_in(run[0]) if key in wanted), None) for run in runs)
    return list(dict.fromkeys(key for key in found if key))


def unknown_keys(text: str, known: Collection[str] = ()) -> list[str]:
    """Return up to five unknown words in the shape of a key; look them up before use.

    Shape: the key of `[MemoryRef: key …`, or a stem, `_` and 6 to 20 of a-z and 2-7 with a digit.
    """
    known = frozenset(known)
    found = {match[1]: None for match in _KEY_IN_PLACEHOLDER.finditer(text) if match[1] not in known}
    for run in _RUN.finditer(text):
        found.update((key, None) for key in _keys_in(run[0]) if key not in known and _KEY_SHAPE.fullmatch(key))
        if len(found) >= _UNKNOWN_KEYS_LIMIT:
            break
    return list(found)[:_UNKNOWN_KEYS_LIMIT]


def known_to_agent(transcript: Transcript, keys: Collection[str], end: int) -> set[str]:
    """Return the keys given to the agent by an expansion, a fold, a user or a hand-off."""
    given = {key for _, decision in transcript.log for key in decision.keys_shown()}
    for entry in transcript.entries(end=end):
        if isinstance(entry.message, UserMessage) and not entry.carries_result:
            given.update(named_keys(entry.words, keys))
    return given.intersection(keys)


def head_and_tail(text: str, characters: int = _SEARCHED_CHARACTERS) -> str:
    """Return a text or both its ends, without cut words, which may look like keys."""
    if len(text) <= 2 * characters:
        return text
    return f"{text[:characters].rstrip(_KEY_CHARACTERS)}\n{text[-characters:].lstrip(_KEY_CHARACTERS)}"


def without_keys(text: str, keys: Iterable[str]) -> str:
    """Remove placeholders and keys, whose parts would count as words."""
    words = _PLACEHOLDER.sub(" ", text)
    for key in keys:
        words = words.replace(key, " ")
    return words


def _keys_in(run: str) -> list[str]:
    """Return the keys in a run, longest first."""
    run = run.lstrip("._-")
    core = len(run.rstrip("._-"))
    ends = range(min(len(run), _LONGEST_KEY), core - 1, -1) if core <= _LONGEST_KEY else ()
    return [run[:end] for end in ends if end]
