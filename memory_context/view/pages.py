"""Pages of a transcript as text. Messages and characters count from 1."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from memory_context.foundation.credentials.masks import masked
from memory_context.foundation.messages import heading_of, source_of
from memory_context.foundation.references import shorten
from memory_context.foundation.tokens import TokenCounter, cut_to_tokens
from memory_context.sessions.transcript.entries import Entry
from memory_context.sessions.transcript.transcript import Transcript

from .history import history_text

__all__ = ["HistoryPage", "PageRequest", "read_history"]

_FOOTER_TOKENS = 80
_LINE_CHARACTERS, _BEFORE_CHARACTERS = 160, 40
_READ_CHARACTERS = 10_000  # of a text, masked before its line is cut out


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
