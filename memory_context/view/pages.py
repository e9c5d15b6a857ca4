"""Pages of a transcript as text. Messages, their parts and characters count from 1."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from memory_context.foundation.credentials.masks import masked
from memory_context.foundation.messages import Address, heading_of, source_of
from memory_context.foundation.references import shorten
from memory_context.foundation.tokens import TokenCounter, cut_to_tokens
from memory_context.sessions.transcript.entries import Entry
from memory_context.sessions.transcript.transcript import Transcript

from .history import history_text

__all__ = ["HistoryPage", "PageRequest", "brief_text", "part_address", "read_history", "read_part"]

_FOOTER_TOKENS = 80
_LINE_CHARACTERS, _BEFORE_CHARACTERS = 160, 40
_READ_CHARACTERS = 10_000  # of a text, masked before its line is cut out


@dataclass(frozen=True)
class PageRequest:
    """A page: from `first_message` on, or back from `last_message` if that is given alone, or of both.

    Attributes:
        first_character: Continues a long message.
        limit: The most messages; None for as many as fit.
        is_brief: One line for each text.
        words: A line begins near the first of them.
        is_wanted: Selects messages.
        visible: Masks a text before it is cut.
    """

    first_message: int | None = None
    last_message: int | None = None
    first_character: int = 1
    limit: int | None = None
    is_brief: bool = False
    words: tuple[str, ...] = ()
    is_wanted: Callable[[Entry], bool] = lambda entry: True
    visible: Callable[[str], str] = lambda text: text


@dataclass(frozen=True)
class HistoryPage:
    """One page, in the order of the session.

    Attributes:
        place: Such as `messages 3-9 of 120`.
        calls: What reads on (`Next`, `Before`), and the arguments of that call.
    """

    text: str
    first: int
    last: int
    place: str
    calls: tuple[tuple[str, Mapping[str, int]], ...] = ()

    def footer(self, call: Callable[[Mapping[str, int]], str]) -> str:
        reads_on = " ".join(f"{label}: {call(arguments)}" for label, arguments in self.calls)
        return f"[{self.place}. {reads_on or 'That is all.'}]"


def read_history(transcript: Transcript, request: PageRequest, limit_tokens: int, counter: TokenCounter) -> HistoryPage:
    """Return a page of the transcript since its last clear.

    Raises:
        ValueError: There is no such message; the text gives the valid numbers.
    """
    positions = _positions(transcript, request)
    is_older = request.first_message is None and request.last_message is not None
    budget, shown = limit_tokens - _FOOTER_TOKENS, dict[int, str]()
    first_character, stopped_at = request.first_character, None
    for position in reversed(positions) if is_older else positions:
        entry = transcript[position]
        text = brief_text(entry, request.words) if request.is_brief else history_text(entry)
        text = request.visible(text)[first_character - 1 :]
        tokens = counter.count(f"{text}\n") if len(text) < budget * 16 else budget + 1
        if len(shown) == request.limit or (shown and tokens > budget):
            stopped_at = position
            break
        if tokens > budget:
            return _piece(transcript, request, text, position, budget, counter, is_older)
        shown[position] = text
        budget -= tokens
        first_character = 1
    calls = () if stopped_at is None else (_call(request, stopped_at + 1, is_older),)
    first, last = min(shown) + 1, max(shown) + 1
    place = f"messages {first}-{last} of {transcript.end}"
    return HistoryPage("\n".join(shown[one] for one in sorted(shown)), first, last, place, calls)


def read_part(
    text: str, number: int, part: int, first_character: int, limit_tokens: int, counter: TokenCounter
) -> HistoryPage:
    """Return as much of one text of a message as fits."""
    piece = cut_to_tokens(text[first_character - 1 :], limit_tokens - _FOOTER_TOKENS, counter)
    after = first_character - 1 + len(piece)
    place = f"message {number}, part {part}: characters {first_character}-{after} of {len(text)}"
    following = {"first_message": number, "part": part, "first_character": after + 1}
    return HistoryPage(piece, number, number, place, (("Next", following),) if after < len(text) else ())


def part_address(entry: Entry, number: int) -> Address:
    """Return the address of a message's nth text, or raise ValueError."""
    texts = entry.texts
    if not 1 <= number <= len(texts):
        raise ValueError(f"message {entry.position + 1} has {len(texts)} parts, not {number}")
    return texts[number - 1][0]


def brief_text(entry: Entry, words: Sequence[str] = ()) -> str:
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
    begin, end = transcript.state.start, transcript.end
    for number in (request.first_message, request.last_message):
        if number is not None and not begin < number <= end:
            available = f"messages {begin + 1}-{end}" if end > begin else "no messages yet"
            raise ValueError(f"there is no message {number}; this session has {available}")
    first = begin if request.first_message is None else request.first_message - 1
    last = end if request.last_message is None else request.last_message
    positions = [position for position in range(first, last) if request.is_wanted(transcript[position])]
    if not positions:
        available = f"among messages {first + 1}-{last}" if last > first else "yet: this session has no messages yet"
        raise ValueError(f"there is none {available}")
    return positions


def _call(request: PageRequest, number: int, is_older: bool) -> tuple[str, Mapping[str, int]]:
    if is_older:
        return "Before", {"last_message": number}
    last = {} if request.last_message is None else {"last_message": request.last_message}
    return "Next", {"first_message": number, **last}


def _piece(
    transcript: Transcript,
    request: PageRequest,
    text: str,
    position: int,
    budget: int,
    counter: TokenCounter,
    is_older: bool,
) -> HistoryPage:
    """Return the part of a long message that fits, one character at least."""
    piece = cut_to_tokens(text, budget, counter) or text[:1]
    offset = request.first_character - 1
    after = offset + len(piece)
    within = replace(request, last_message=position + 1) if is_older else request
    label, following = _call(within, position + 1, is_older=False)
    calls: list[tuple[str, Mapping[str, int]]] = [(label, {**following, "first_character": after + 1})]
    if is_older and position > transcript.state.start:
        calls.append(_call(request, position, is_older=True))
    place = f"message {position + 1}: characters {offset + 1}-{after} of {offset + len(text)}"
    return HistoryPage(piece, position + 1, position + 1, place, tuple(calls))
