"""The transcript as text: its messages, the content of a fold, and pages. Messages and characters count from 1."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from memory_context.compaction.observation.facts import ARTIFACT_TRAIL_TOKENS, ArtifactTrail
from memory_context.foundation.credentials.masks import masked
from memory_context.foundation.messages import heading_of, source_of
from memory_context.foundation.policy import ContextPolicy
from memory_context.foundation.references import MemoryRef, one_line, shorten
from memory_context.foundation.tokens import TokenCounter, cut_to_tokens
from memory_context.sessions.transcript.entries import Entry, StoredPart
from memory_context.sessions.transcript.state import RunningSums
from memory_context.sessions.transcript.transcript import Transcript

__all__ = ["FoldedLines", "HistoryPage", "PageRequest", "fold_key", "folded_text", "history_text", "read_history"]


_OLDER_LINE_TOKENS = 20
_WORDS_LIMIT = 120
_TRAIL_SHARE = 0.75
"""Share of a fold's text for its artifact trail."""
_READ_CHARACTERS = 10_000  # of a text, before its first words are cut out


def fold_key(session_tag: str, first: int, last: int) -> str:
    """Return the key of folded entries, for this session only."""
    return f"history_{first + 1}-{last + 1}_{session_tag}"


def _positions_of(session_tag: str, key: str) -> range | None:
    stem, _, tag = key.rpartition("_")
    first, _, last = stem.removeprefix("history_").partition("-")
    if tag != session_tag or not stem.startswith("history_") or not (first.isdecimal() and last.isdecimal()):
        return None
    return range(int(first) - 1, int(last))


def folded_text(transcript: Transcript, session_tag: str, key: str) -> str | None:
    """Return the content of a fold; None for other keys."""
    positions = _positions_of(session_tag, key)
    if positions is None or not transcript.state.start <= positions.start < positions.stop <= transcript.end:
        return None
    return "\n".join(history_text(transcript[position]) for position in positions)


def history_text(entry: Entry) -> str:
    """Return one message as text, with stored parts as placeholders."""
    who = f"({entry.position + 1}) {source_of(entry.message) or 'system'}"
    known = {part.address: part.stored for part in entry.measured}
    lines: list[str] = []
    for address, text in entry.texts:
        heading = heading_of(entry.message, address)
        stored = known.get(address)
        head = f"({entry.position + 1})" if address.kind == "result" else who
        lines += [f"{head} {heading}:", stored.compacted if stored else text]
    images = [part.stored for part in entry.measured if part.address.kind == "image"]
    lines += [f"{who} showed: {stored.compacted if stored else '[image]'}" for stored in images]
    return "\n".join(lines)


class FoldedLines:
    """Cached lines of folded entries."""

    def __init__(self, transcript: Transcript, policy: ContextPolicy) -> None:
        self.transcript = transcript
        self._policy = policy
        self._counts = RunningSums()
        self._trail = ArtifactTrail()
        self._read = 0

    def text(self, ref: MemoryRef, upto: int, kept: Collection[int], limit_tokens: int, counter: TokenCounter) -> str:
        """Return reference, number of older lines, newest lines that fit, and the artifact trail."""
        start = self.transcript.state.history_start
        first = next(position for position in count(start) if position not in kept)
        head = (
            f"{ref.render()}\nFolded to keep the context small; nothing is lost. "
            f"read_history(first_message={first + 1}) pages it, "
            "retrieve_memory(memory_key=…) opens what was stored:"
        )
        budget = limit_tokens - counter.count(head) - _OLDER_LINE_TOKENS
        self._trail.read(self.transcript, start, upto)
        trail = self._trail.text(min(ARTIFACT_TRAIL_TOKENS, int(_TRAIL_SHARE * budget)), counter)
        budget -= counter.count(f"\n{trail}") if trail else 0
        shown: list[str] = []
        older = self._count(upto, kept)
        for line in self._newest_first(upto, kept):
            budget -= counter.count(line) + 1
            if budget < 0:
                break
            shown.append(line)
            older -= 1
        if older:
            shown.append(f"- ({older} older ones are in the history)")
        return "\n".join([head, *reversed(shown), *([trail] if trail else [])])

    def _count(self, upto: int, kept: Collection[int]) -> int:
        transcript, counts = self.transcript, self._counts
        for position in dict.fromkeys(transcript.touched[self._read :]):
            counts.put(position - transcript.first, len(_gist(transcript[position], self._policy)))
        self._read = len(transcript.touched)
        start = transcript.state.history_start
        behind = counts.before(upto - transcript.first) - counts.before(start - transcript.first)
        among = [position for position in kept if start <= position < upto]
        return behind - sum(len(_gist(transcript[position], self._policy)) for position in among)

    def _newest_first(self, upto: int, kept: Collection[int]) -> Iterator[str]:
        transcript, position = self.transcript, upto
        while True:
            position = transcript.first + self._counts.last_before(position - transcript.first)
            if position < transcript.state.history_start:
                return
            if position not in kept:
                yield from reversed(_gist(transcript[position], self._policy))


def _gist(entry: Entry, policy: ContextPolicy) -> list[str]:
    lines: list[str] = []
    source = source_of(entry.message)
    if source in policy.user_sources and all(address.kind == "image" for address in entry.dropped):
        said = " ".join(text for _, text in entry.texts)[:_READ_CHARACTERS]
        said = masked(said)  # before the cut, which could split a credential
        lines.append(f"- {source} said: {one_line(said, _WORDS_LIMIT)}")
    stored = [part.stored for part in entry.measured if part.stored]
    return lines + [f"- {ref.key}: {_failure(one)}{ref.description}" for one in stored for ref in one.refs]


def _failure(stored: StoredPart) -> str:
    return "failed, " if stored.compacted.partition("[MemoryRef")[0].rstrip().endswith(" failed.") else ""


_FOOTER_TOKENS = 80
_LINE_CHARACTERS, _BEFORE_CHARACTERS = 160, 40


@dataclass(frozen=True)
class PageRequest:
    """A page from `first_message` on; None begins with the first.

    Attributes:
        first_character: Continues a long message.
        limit: The most messages; None for as many as fit.
        words: With any, a message is one line for each text, which begins near the first of them.
        is_wanted: Selects messages.
        visible: Masks a text before it is cut.
    """

    first_message: int | None = None
    first_character: int = 1
    limit: int | None = None
    words: tuple[str, ...] = ()
    is_wanted: Callable[[Entry], bool] = lambda entry: True
    visible: Callable[[str], str] = lambda text: text


@dataclass(frozen=True)
class HistoryPage:
    """One page, in the order of the session.

    Attributes:
        place: Such as `messages 3-9 of 120`.
        following: The arguments of the call that reads on; empty at the end.
    """

    text: str
    first: int
    last: int
    place: str
    following: Mapping[str, int] = field(default_factory=dict[str, int])

    def footer(self, call: Callable[[Mapping[str, int]], str]) -> str:
        return f"[{self.place}. {f'Next: {call(self.following)}' if self.following else 'That is all.'}]"


def read_history(transcript: Transcript, request: PageRequest, limit_tokens: int, counter: TokenCounter) -> HistoryPage:
    """Return a page of the transcript since its last clear.

    Raises:
        ValueError: There is no such message; the text gives the valid numbers.
    """
    budget, shown = limit_tokens - _FOOTER_TOKENS, dict[int, str]()
    first_character, following = request.first_character, dict[str, int]()
    for position in _positions(transcript, request):
        entry = transcript[position]
        text = _brief_text(entry, request.words) if request.words else history_text(entry)
        text = request.visible(text)[first_character - 1 :]
        tokens = counter.count(f"{text}\n") if len(text) < budget * 16 else budget + 1
        if len(shown) == request.limit or (shown and tokens > budget):
            following = {"first_message": position + 1}
            break
        if tokens > budget:  # a long message: as much as fits, one character at least
            piece = cut_to_tokens(text, budget, counter) or text[:1]
            before = first_character - 1
            after = before + len(piece)
            place = f"message {position + 1}: characters {first_character}-{after} of {before + len(text)}"
            following = {"first_message": position + 1, "first_character": after + 1}
            return HistoryPage(piece, position + 1, position + 1, place, following)
        shown[position] = text
        budget -= tokens
        first_character = 1
    first, last = min(shown) + 1, max(shown) + 1
    place = f"messages {first}-{last} of {transcript.end}"
    return HistoryPage("\n".join(shown.values()), first, last, place, following)


def _brief_text(entry: Entry, words: Sequence[str]) -> str:
    """Return one line for each text of a message: its number, time, beginning or place of a word, and tokens."""
    known = {part.address: part for part in entry.measured}
    texts = entry.texts
    lines: list[str] = []
    for number, (address, text) in enumerate(texts, 1):
        part = known.get(address)
        text = masked((part.stored.compacted if part and part.stored else text)[:_READ_CHARACTERS])
        at = min((place for word in words if (place := text.casefold().find(word)) >= 0), default=0)
        name = f"{entry.position + 1}.{number}" if len(texts) > 1 else f"{entry.position + 1}"
        who = "" if address.kind == "result" else f"{source_of(entry.message) or 'system'} "
        line = shorten(text[max(at - _BEFORE_CHARACTERS, 0) :], _LINE_CHARACTERS)
        size = f" ({part.tokens:,} tokens)" if part and len(text) > _LINE_CHARACTERS else ""
        lines.append(
            f"({name}) {entry.added_at:%Y-%m-%d %H:%M} {who}{heading_of(entry.message, address)}: {line}{size}"
        )
    return "\n".join(lines)


def _positions(transcript: Transcript, request: PageRequest) -> list[int]:
    begin, end, number = transcript.state.start, transcript.end, request.first_message
    if number is not None and not begin < number <= end:
        available = f"messages {begin + 1}-{end}" if end > begin else "no messages yet"
        raise ValueError(f"there is no message {number}; this session has {available}")
    first = begin if number is None else number - 1
    positions = [position for position in range(first, end) if request.is_wanted(transcript[position])]
    if not positions:
        available = f"among messages {first + 1}-{end}" if end > first else "yet: this session has no messages yet"
        raise ValueError(f"there is none {available}")
    return positions
