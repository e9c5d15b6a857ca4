"""Outliers of a log: its only error, its last status, lines unlike all others.

Lines of machine output repeat each other but for times, ids and amounts. A line with a word or value that hardly any
other line has is an outlier in any language; error words only rank them.
"""

import re
from collections import Counter
from collections.abc import Sequence
from itertools import chain

from ..text import Passage, error_lines
from .analyzers.output import frame_of, lines_in
from .names import reads_as_order

__all__ = ["telling_lines"]

_LOOKED_AT = 200_000  # from each end
_SHOWN_CHARACTERS, _BEFORE_CHARACTERS = 180, 60
_LEAST_LINES = 10
_COLUMNS = 12
_RARE = 1 / 200
"""A word or value is rare if at most so many of the lines have it, or one."""
_USUAL = 0.9
"""A value is usual in its column if so many of the lines have it."""
_MOST_ODD = 3
"""If more lines are odd, only those that report an error or end the log are told."""
_MOST_ODD_SHARE = 1 / 20
"""If more lines are odd, none is: they do not repeat each other."""
_STATUS = re.compile(
    r"\b(?:done|finished|completed?|succe(?:ss|eded)|success\w+|fail(?:ed|ures?)|aborted|passed|exit(?:ed)?|status|result"
    r"|totals?|summary|ok)\b",
    re.IGNORECASE,
)
_LEVEL = re.compile(r"\b(?:ERROR|FATAL|CRITICAL|SEVERE|PANIC)\b")
_DATA = re.compile(r"\s*(?:[{<]|\[\s*[\[{\"'])")
_WORD = re.compile(r"(?<!\w)[^\W\d_]{2,}(?!\w)")
_WORD_OR_BREAK = re.compile(rf"{_WORD.pattern}|\n")


def telling_lines(content: str, is_known: bool) -> list[Passage]:
    """Return the lines that report an error or a status, the only error first, then the last line; often none.

    Of a long line, the part around the outlier. Of JSON and markup only texts in fields are analysed.

    Args:
        content: Any text.
        is_known: Whether a analyzer has facts: then only repetitive content is analysed.
    """
    if _DATA.match(content):
        if content.count("\\n") < _LEAST_LINES:
            return []
        content = content.rstrip('"}] \n').replace("\\n", " \n")  # a text in a field: escaped, and as long
    lines = _lines(content)
    texts = [text for _, text in lines]
    if len(lines) < _LEAST_LINES:
        return []
    last = len(lines) - 1
    most_odd = max(_MOST_ODD, len(lines) * _MOST_ODD_SHARE)
    odd = _by_words(texts, most_odd)
    if len(odd) <= most_odd:
        odd = _by_columns(texts) | odd
    if len(odd) > most_odd:
        odd = {} if is_known or not _STATUS.search(texts[last]) else {last: 0}
    errors = {number for number in odd if _LEVEL.search(texts[number]) or _reports(texts[number])}
    told = errors | ({last} & odd.keys() if len(odd) > _MOST_ODD else odd.keys() - {0})  # the first one is a heading
    told = {number for number in told if not reads_as_order(texts[number])}
    ranked = sorted(told, key=lambda number: (number not in errors, number != last, number))
    passages = [_around(*lines[number], odd[number]) for number in ranked]
    reported = [] if is_known or errors else error_lines(content, 0, len(content), 2)
    return passages if len(reported) != 1 else [*reported, *passages]


def _reports(text: str) -> bool:
    return bool(error_lines(text, 0, len(text), 1))


def _lines(content: str) -> list[tuple[int, str]]:
    """Return the lines that are not blank with their offsets, of a large content those near its ends."""
    body = frame_of(content).body  # what a shell says below its output is told as the status
    windows = [body]
    if body.end - body.start > 2 * _LOOKED_AT:
        end = content.rfind("\n", body.start, body.start + _LOOKED_AT)
        start = content.find("\n", body.end - _LOOKED_AT, body.end)
        windows = [Passage(body.start, max(end, body.start)), Passage(max(start, 0) or body.end, body.end)]
    return [(start, text.rstrip()) for start, text in lines_in(content, windows) if any(map(str.isalnum, text))]


def _by_words(texts: Sequence[str], most_odd: float) -> dict[int, int]:
    """Return the place of the first rare word by line; stop above `most_odd` lines, where all of them are too many."""
    lines = [set[str]()]
    for word in _WORD_OR_BREAK.findall("\n".join(texts)):  # all lines at once, several times faster than one by one
        if word == "\n":
            lines.append(set())
        else:
            lines[-1].add(word)
    counts = Counter(chain.from_iterable(lines))
    most = max(len(texts) * _RARE, 1)
    rare = {word for word, count in counts.items() if count <= most and _is_word(word)}
    odd: dict[int, int] = {}
    for number, words in enumerate(lines):
        if not rare.isdisjoint(words):
            placed = {match[0]: match.start() for match in _WORD.finditer(texts[number]) if match[0] in rare}
            odd[number] = min(placed.values())
            if len(odd) > most_odd:
                break
    return odd


def _is_word(text: str) -> bool:
    """Whether letters are no id: those change between capitals and others."""
    return text.islower() or text.istitle() or text.isupper() or not text.isascii()


def _by_columns(texts: Sequence[str]) -> dict[int, int]:
    """Return where a rare value stands where other lines have the same one, by the lines' numbers."""
    rows = [text.split(None, _COLUMNS)[:_COLUMNS] for text in texts]
    most = max(len(texts) * _RARE, 1)
    odd: dict[int, int] = {}
    for column in range(_COLUMNS):
        counts = Counter([row[column] for row in rows if len(row) > column])
        usual = [value for value, count in counts.most_common(1) if count >= len(rows) * _USUAL]
        for number, row in enumerate(rows if usual else ()):
            if len(row) > column and row[column] != usual[0] and counts[row[column]] <= most and number not in odd:
                odd[number] = texts[number].find(row[column])
    return odd


def _around(start: int, text: str, place: int) -> Passage:
    skipped = max(0, place - _BEFORE_CHARACTERS) if len(text) > _SHOWN_CHARACTERS else 0
    return Passage(start + skipped, start + min(len(text), skipped + _SHOWN_CHARACTERS))
