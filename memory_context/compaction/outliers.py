"""Outliers of a log: its only error, its last status, unusual lines.

A line with a rare word or value is an outlier in any language; error words only rank outliers.
"""

import math
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
_SAMPLED_LINES = 60
_RARE = 1 / 200
"""Largest share of lines with a rare word or value (or one line)."""
_USUAL = 0.9
"""Least share of lines with the usual value of a column."""
_MOST_ODD = 3
"""With more outliers, only errors and the last line are returned."""
_MOST_ODD_SHARE = 1 / 20
"""With more outliers, the content is not repetitive and has none."""
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
    """Return outlier lines, the only error first, then the last line; often none.

    Long lines are cut around the outlier. In JSON and markup only texts in fields count.

    Args:
        is_known: The analyzer has facts; only repetitive content is then analysed.
    """
    if _DATA.match(content):
        if content.count("\\n") < _LEAST_LINES:
            return []
        content = content.rstrip('"}] \n').replace("\\n", " \n")  # same length, to keep offsets
    lines = _lines(content)
    texts = [text for _, text in lines]
    if len(lines) < _LEAST_LINES:
        return []
    last = len(lines) - 1
    odd = _odd(texts)
    if odd is None:
        odd = {} if is_known or not _STATUS.search(texts[last]) else {last: 0}
    errors = {number for number in odd if _LEVEL.search(text := texts[number]) or error_lines(text, 0, len(text), 1)}
    told = errors | ({last} & odd.keys() if len(odd) > _MOST_ODD else odd.keys() - {0})  # line 0 is a heading
    told = {number for number in told if not reads_as_order(texts[number])}
    ranked = sorted(told, key=lambda number: (number not in errors, number != last, number))
    passages = [_around(*lines[number], odd[number]) for number in ranked]
    reported = [] if is_known or errors else error_lines(content, 0, len(content), 2)
    return passages if len(reported) != 1 else [*reported, *passages]


def _lines(content: str) -> list[tuple[int, str]]:
    """Return nonblank lines with offsets, of large contents near the ends."""
    body = frame_of(content).body  # the shell's last lines are the status
    windows = [body]
    if body.end - body.start > 2 * _LOOKED_AT:
        end = content.rfind("\n", body.start, body.start + _LOOKED_AT)
        start = content.find("\n", body.end - _LOOKED_AT, body.end)
        windows = [Passage(body.start, max(end, body.start)), Passage(max(start, 0) or body.end, body.end)]
    return [(start, text.rstrip()) for start, text in lines_in(content, windows) if any(map(str.isalnum, text))]


def _odd(texts: Sequence[str]) -> dict[int, int] | None:
    """Return the offset of what is rare in each outlier; None if lines do not repeat each other."""
    most_odd = max(_MOST_ODD, len(texts) * _MOST_ODD_SHARE)
    sample = texts[:: len(texts) // _SAMPLED_LINES or 1]
    if len(_by_words(sample, math.inf)) * 2 > len(sample):
        return None
    odd = _by_words(texts, most_odd)
    if len(odd) <= most_odd:
        odd = _by_columns(texts) | odd
    return None if len(odd) > most_odd else odd


def _by_words(texts: Sequence[str], most_odd: float) -> dict[int, int]:
    """Return rare words' offsets by line; stop early above `most_odd` lines."""
    lines = [set[str]()]
    for word in _WORD_OR_BREAK.findall("\n".join(texts)):  # one scan, several times faster
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
    """Return False for ids, which mix capitals and other letters."""
    return text.islower() or text.istitle() or text.isupper() or not text.isascii()


def _by_columns(texts: Sequence[str]) -> dict[int, int]:
    """Return rare values' offsets by line, in otherwise constant columns."""
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
