"""Excerpts of a long text: head, tail and the most relevant lines between, with named gaps."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import islice

from ..patterns import regex
from ..references import shorten
from ..text.landmarks import Passage, error_lines
from ..text.tokenize import words_in
from ..tokens import TokenCounter, cut_to_tokens
from .lines import MARK, Lines

__all__ = ["ELISION_TOKENS", "FIRST_ELISION_TOKENS", "Label", "Passage", "excerpt", "render_passages"]

HEAD_SHARE = 0.6
"""Share of the head in what both ends take."""
ENDS_SHARE = 0.5
"""Share of head and tail together with words or landmarks."""
ERROR_SHARE = 0.15
ERROR_LINES = 8
CHARACTERS_PER_TOKEN = 8
"""Above real text, so that a cut by tokens falls inside the window."""
FIRST_ELISION_TOKENS = 60
"""Cost limit of the first gap line, which explains how to read on."""
ELISION_TOKENS = 30
"""Cost limit of each further gap line, labels included."""

_WEIGHED_CHARACTERS = 60_000
_AROUND_LINES = 3
_LANDMARK, _ERROR_LINE = 1.0, 2.0
_SHARE_OF_HIGH = 50
_LABELS_OF_A_GAP = 4
_NUMBERED = regex(
    r"(?<![\w./-])(?:[A-Za-z]+[-_/#:]?\d{3,}|\d{5,}|\d{1,3}(?:\.\d{1,3}){3}|(?=\w*\d\w*\d)(?=\w*[a-z])[0-9a-z]{7,})"
    r"(?![\w/-]|\.\w)"
)
_NUMBER = regex(r"(?<![\w./-])\d{3,4}(?![\w/-]|\.\d)")
_NUMBERED_NAMES, _FEW_NUMBERS, _RARE, _COMPARED = 20, 3, 4, 200
_LABEL_CHARACTERS = 40


Label = tuple[Passage, str]
"""A range and its description, such as a function body and its first line."""


def excerpt(
    content: str,
    limit_tokens: int,
    counter: TokenCounter,
    token_count: int = 0,
    *,
    words: str = "",
    landmarks: Sequence[Passage] = (),
    lines: Lines | None = None,
) -> list[Passage]:
    """Return the passages to show of a content, in order.

    Args:
        content: Must exceed the limit.
        limit_tokens: Includes gap lines (`FIRST_ELISION_TOKENS` once, then `ELISION_TOKENS` each).
        token_count: 0 if unknown.
        words: The agent's words; lines with them are preferred.
        landmarks: Important passages, most important first.
        lines: Of the content, if known.
    """
    density = len(content) / token_count if token_count else 4.0
    budget = limit_tokens - FIRST_ELISION_TOKENS - ELISION_TOKENS
    if budget <= 0:
        return []
    reported = error_lines(content, 0, len(content), ERROR_LINES)
    if not words and not landmarks:
        return _ends_and_errors(content, budget, counter, density, reported)
    ends = int(budget * ENDS_SHARE)
    head, tail = _ends(content, ends, counter, density)
    reported += _numbered_names(content, head.end, tail.start, words)
    landmarks = [*reported, *landmarks]
    if lines is None:
        lines = Lines(content, _windows(content, head.end, tail.start, words, landmarks))
    middle = _Middle(content, head.end, tail.start, words, landmarks, len(reported), lines)
    return _merged([head, *middle.best(budget - ends, counter, density), tail])


def _ends_and_errors(
    content: str, budget: int, counter: TokenCounter, density: float, reported: Sequence[Passage]
) -> list[Passage]:
    error_budget = int(budget * ERROR_SHARE) if reported else 0
    head, tail = _ends(content, budget - error_budget, counter, density)
    errors: list[Passage] = []
    for passage in error_lines(content, head.end, tail.start, ERROR_LINES) if reported else ():
        cost = counter.count(content[passage.start : passage.end]) + ELISION_TOKENS
        if cost > error_budget:
            break
        error_budget -= cost
        errors.append(passage)
    return _merged([head, *errors, tail])


def _ends(content: str, budget: int, counter: TokenCounter, density: float) -> tuple[Passage, Passage]:
    window, head_budget = budget * CHARACTERS_PER_TOKEN, int(budget * HEAD_SHARE)
    head_text = cut_to_tokens(content[:window], head_budget, counter, "start", density)
    head = Passage(0, _end_of_line(content, len(head_text)))
    tail_text = cut_to_tokens(content[-window:], budget - head_budget, counter, "end", density)
    start = max(len(content) - len(tail_text), head.end)
    return head, Passage(_start_of_line(content, start), len(content))


class _Middle:
    """Scored lines between head and tail; the first `errors` landmarks report errors or are asked for."""

    def __init__(
        self, content: str, start: int, end: int, words: str, landmarks: Sequence[Passage], errors: int, lines: Lines
    ) -> None:
        self._content = content
        values = _relative(lines.relevance(words_in(words)), lines.spans, start, end)
        worth = {one.start: _ERROR_LINE if number < errors else _LANDMARK for number, one in enumerate(landmarks)}
        for place in sorted(worth):
            number = bisect_right(lines.spans, (place, len(content))) - 1
            if number >= 0 and place < lines.spans[number][1]:
                values[number] += worth[place]
        cut = [(first if first > start else start, last if last < end else end) for first, last in lines.spans]
        self._lines = [one for one in cut if one[0] < one[1]]
        self._values = _blurred([value for one, value in zip(cut, values, strict=True) if one[0] < one[1]])

    def best(self, budget: int, counter: TokenCounter, density: float) -> list[Passage]:
        """Return the best lines that fit, in order.

        Token counts are estimated, then counted together: many times faster than one by one.
        """
        chosen: dict[int, float] = {}
        room = float(budget)
        worthy = [number for number, value in enumerate(self._values) if value > 0]
        for number in sorted(worthy, key=lambda number: (-self._values[number], number)):
            if room <= 0:
                break
            cost = (self._lines[number][1] - self._lines[number][0]) / density + 1
            is_apart = number - 1 not in chosen and number + 1 not in chosen
            cost += ELISION_TOKENS if is_apart else 0
            if cost <= room:
                room -= cost
                chosen[number] = cost
        while chosen:
            lines = [Passage(*self._lines[number]) for number in sorted(chosen)]
            passages = _merged(lines)
            tokens = counter.count("\n".join(self._content[one.start : one.end] for one in passages))
            excess = tokens + ELISION_TOKENS * len(passages) - budget
            if excess <= 0:
                return lines
            while chosen and excess > 0:
                excess -= chosen.popitem()[1]
        return []


def _numbered_names(content: str, start: int, end: int, words: str) -> list[Passage]:
    """Return where rare ids among the words stand, such as `SO-51337`, and numbers if they are few."""
    found: list[Passage] = []
    named, numbers = (dict.fromkeys(pattern.findall(words)) for pattern in (_NUMBERED, _NUMBER))
    for name in islice({**named, **(numbers if len(numbers) <= _FEW_NUMBERS else {})}, _NUMBERED_NAMES):
        places: list[Passage] = []
        place = content.find(name, start, end)
        for _ in range(_COMPARED):
            if place < 0:
                break
            after = place + len(name)
            if not (content[place - 1 : place].isalnum() or content[after : after + 1].isalnum()):
                places.append(Passage(place, after))
            place = content.find(name, after, end)
        if place < 0 and len(places) <= _RARE:
            found += places
    return found


def _relative(values: list[float], spans: Sequence[tuple[int, int]], start: int, end: int) -> list[float]:
    """Return values relative to a high one between start and end."""
    between = [value for value, (first, last) in zip(values, spans, strict=True) if last > start and first < end]
    if not any(between):
        return values
    high = sorted(between)[-max(1, len(between) // _SHARE_OF_HIGH)] or max(between)
    return [min(value / high, 1.5) for value in values]


def _windows(content: str, start: int, end: int, words: str, landmarks: Sequence[Passage]) -> list[tuple[int, int]]:
    """Return the analysed ranges: all, or around landmarks and words."""
    if end - start <= _WEIGHED_CHARACTERS:
        return [(start, end)]
    places = [landmark.start for landmark in landmarks if start <= landmark.start < end][:60]
    for word in sorted(words_in(words), key=lambda word: (-len(word), word))[:40]:
        place = content.find(word, start, end)
        if place >= 0:
            places.append(place)
    around = _WEIGHED_CHARACTERS // 120
    windows: list[tuple[int, int]] = []
    for place in sorted(places):
        first = content.find("\n", max(start, place - around), place) + 1 or max(start, place - around)
        first, last = max(first, windows[-1][1] if windows else start), min(end, place + around)
        if last > first:
            windows.append((first, last))
    return windows


def _blurred(values: Sequence[float]) -> list[float]:
    """Spread scores to neighbouring lines, so that chosen lines are contiguous."""
    shares = [1 - abs(distance) / (_AROUND_LINES + 1) for distance in range(-_AROUND_LINES, _AROUND_LINES + 1)]
    blurred = [0.0] * (len(values) + 2 * _AROUND_LINES)
    for number, value in enumerate(values):
        if value:
            for other, share in enumerate(shares, number):
                blurred[other] += value * share
    return blurred[_AROUND_LINES:-_AROUND_LINES]


def render_passages(
    content: str,
    passages: Sequence[Passage],
    elision: Callable[[str, bool], str] = lambda what, is_first: f"[… {what} left out …]",
    labels: Sequence[Label] = (),
) -> str:
    """Return the passages as one text with named gaps.

    Args:
        elision: Makes a gap line from the gap's name, such as `lines 81-419`, and whether it is the first.
        labels: Descriptions of ranges; a gap is named by those that begin in it. A gap that is a run of base64 takes
            no line of its own.
    """
    pieces: list[str] = []
    runs = {passage: name for passage, name in labels if name.startswith(MARK)}
    labels = [label for label in labels if label[0] not in runs]
    position, is_first = 0, True
    for passage in [*passages, Passage(len(content), len(content))]:
        gap, text = Passage(position, passage.start), content[passage.start : passage.end]
        if gap in runs:
            pieces.append(f"{pieces.pop() if pieces else ''}{runs[gap]}{text.rstrip()}")
        elif gap.end > gap.start:
            pieces.append(elision(_gap_name(content, gap) + _labels_in(gap, labels), is_first))
            is_first = False
        if text and gap not in runs:
            pieces.append(text.strip("\n"))
        position = passage.end
    return "\n".join(pieces)


def _labels_in(gap: Passage, labels: Sequence[Label]) -> str:
    names = [shorten(name, _LABEL_CHARACTERS) for passage, name in labels if gap.start <= passage.start < gap.end]
    more = f" and {len(names) - _LABELS_OF_A_GAP} more" if len(names) > _LABELS_OF_A_GAP else ""
    return f" ({', '.join(names[:_LABELS_OF_A_GAP])}{more})" if names else ""


def _gap_name(content: str, gap: Passage) -> str:
    """Name a gap by whole lines, else by characters; both from 1."""
    start, end = gap.start, gap.end
    starts_line = start == 0 or content[start - 1] == "\n" or content[start] == "\n"
    ends_line = end == len(content) or content[end - 1] == "\n" or content[end] == "\n"
    if not (starts_line and ends_line):
        return f"characters {start + 1}-{end}"
    first = content.count("\n", 0, start) + (1 if start == 0 or content[start - 1] == "\n" else 2)
    last = content.count("\n", 0, end - 1) + 1  # a line break ends its line
    return f"lines {first}-{last}" if last > first else f"line {first}"


def _end_of_line(content: str, end: int) -> int:
    """Move a cut back to a line end, unless most would go."""
    if end >= len(content) or content[end] == "\n":
        return min(end, len(content))
    line_end = content.rfind("\n", 0, end)
    return line_end if line_end > end // 2 else end


def _start_of_line(content: str, start: int) -> int:
    """Move a cut forward to a line start, unless most would go."""
    if start == 0 or content[start - 1] == "\n":
        return start
    line_start = content.find("\n", start) + 1
    return line_start if 0 < line_start < start + (len(content) - start) // 2 else start


def _merged(passages: list[Passage]) -> list[Passage]:
    merged: list[Passage] = []
    for passage in passages:
        if passage.end <= passage.start:
            continue
        if merged and passage.start <= merged[-1].end + 1:
            merged[-1] = Passage(merged[-1].start, max(merged[-1].end, passage.end))
        else:
            merged.append(passage)
    return merged
