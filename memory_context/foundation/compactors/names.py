"""Ranks names that a later call may need: paths, ids, URLs, symbols, codes, numbers.

Weights are rounded from a logistic regression of later use (docs/lab.md).
"""

import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import chain, pairwise

from ..patterns import regex
from ..text.landmarks import definition_starts
from ..text.tokenize import parts_in, places_of_parts, places_of_words, words_in
from .lines import BREAK, LAST_BREAK, LONGEST_LINE, Lines, is_reserved, runs_in

__all__ = ["Names", "analysed_text", "is_name", "mentioned_names", "ranked_names", "reads_as_order", "stands_whole"]

ANALYSED_CHARACTERS = 48_000
_HEAD_SHARE, _TAIL_SHARE = 0.6, 0.2
_AROUND_CHARACTERS = 1000
_LEAST_LENGTH, _MOST_LENGTH = 4, 160
_LEAST_NUMBER = 7  # characters: shorter numbers are amounts and counts
_NEAR_LINES = 4
_CHARACTERS_OF_AN_ESCAPE = 200
_LINES_OF_A_BLOCK = 8
_CACHED_RUNS = 1 << 14
_NO_WORDS = (frozenset[str](), frozenset[str]())

# regression weights, in log-odds
_NEAR_ANSWER = 0.6
_IN_TASKS_BLOCK = 2.4
_IN_ANSWERS_BLOCK = -3.0  # the answer has already used that block
_IMPORTED = 1.3
_SHARE_IN_TASK = 1.3
_PARTS_IN_TASK = 0.8
_PARTS_IN_ANSWER = 0.5
_COST = -0.7  # for each factor of e in length
_KNOWN = 1.0  # limit for the analyzer's names
_SHAPES = {"path": -1.2, "number": -1.3, "hyphened": -1.0, "camel": -0.8, "dotted": -0.6}

_ESCAPED_BREAK = regex(r"(?<!\\)\\+[nrt]")  # lookbehind keeps time linear
_ESCAPED_QUOTE = regex(r"\\+(?=[\"'/\\])")
_ESCAPED_CHARACTER = regex(r"(?<!\\)\\+u([0-9a-fA-F]{4})")
_FIELD = regex(r"[\"']([A-Za-z_$][\w$-]{0,63}|[0-9]{1,2}[A-Za-z]{4,40})[\"']\s{0,20}:(\s{0,20}[{\[])?")
_NUMBERED_FIELD = regex(r"(?=.*[A-Za-z]{4})[A-Za-z]*[0-9]{1,2}[A-Za-z]*")  # address1, 52WeekChange
_WITHOUT_SPACES = "⺀"  # scripts without spaces start here
_MASK = "***"  # a masked credential, not a glob
_EDGES = ".,:-/(*#=!?&%~^"  # stripped, unless a pattern below keeps it
_ROOT = regex(r"(?:(?<![/.~])(?:~|\.\.?(?:/\.\.?){0,9})?/\.?|^\.)$")
_PADDED = regex(r"[A-Za-z0-9+/_-]{8,}={1,2}")  # Base64
_URN = regex(r"[a-z][\w.+-]*(?::[\w.+%-]+)+:[\w.+%-]*\d[\w.+%-]*")
_IMPORT = regex(r"^[ \t]*(?:\d+[\t :][ \t]*)?(?:import|from|#include|use|require|using)\b", re.MULTILINE)
_JOINT = regex(r"[/.=@#]")
_PLACE = regex(r"(.*?[^:])(?::\d+){1,2}")
_ORDER = regex(
    r"\b(?:ignor|disregard|forget|overrid)\w*\b[^.\n]{0,40}\b(?:instructions?|prompts?|rules)\b"
    r"|\byou (?:are now|must now|must immediately)\b|\bsystem prompt\b",
    re.IGNORECASE,
)
_ORDER_IN_A_NAME = regex(
    r"\b(?:ignor|disregard|forget|overrid)[a-z]*\b.{0,40}\b(?:previous|prior|above|earlier|all|your|these|those)\b.{0,40}"
    r"\b(?:instructions?|prompts?|rules|orders)\b|\byou (?:are now|must|should|have to)\b|^please\b",
    re.IGNORECASE,
)
_JOINTS = str.maketrans("_-./\\:", "      ")
_FILE_NAME = regex(r"[^\s/\\][^/\\]*\.[A-Za-z0-9]{1,5}")
_MOST_WORDS_OF_A_NAME = 6


class Names:
    """The names of a text, found once and ranked for each use.

    Args:
        known: The analyzer's names, most important first.
    """

    def __init__(self, text: str, known: Sequence[str] = ()) -> None:
        self.text = text
        self.lines = Lines(text)
        self._worth = {name: _KNOWN * (1 - order / len(known)) for order, name in enumerate(known)}
        self._near_task: tuple[frozenset[str] | None, list[float]] = None, []

    def ranked(self, task: str, answer: str) -> list[str]:
        """Return the names verbatim, those most likely to be needed first; see `ranked_names`."""
        (task_words, task_parts), (answer_words, answer_parts) = _said(task), _said(answer)
        gains, answered = self._line_values(task_words, answer_words)
        is_answered = any(answered)
        of_words = _having(self._names_of_words, task_words)
        of_parts = _having(self._names_of_parts, task_parts | answer_parts)
        scored: list[tuple[float, int, str]] = []
        for order, name in enumerate(self._found):
            score = name.value + max(map(gains.__getitem__, name.lines))
            if is_answered:
                score += _IN_ANSWERS_BLOCK * max(map(answered.__getitem__, name.lines))
            words, parts = _vocabulary(name.text) if order in of_words or order in of_parts else _NO_WORDS
            if order in of_words:
                score += _SHARE_IN_TASK * _share(words, task_words)
            if order in of_parts:
                score += _PARTS_IN_TASK * _share(parts, task_parts) + _PARTS_IN_ANSWER * _share(parts, answer_parts)
            scored.append((-score, order, name.text))
        scored.sort()
        return [text for _, _, text in scored]

    def _line_values(self, task_words: frozenset[str], answer_words: frozenset[str]) -> tuple[list[float], list[float]]:
        """Return what a name gains from each line, and how far the answer is about its block, 0 to 1."""
        of_answer = self.lines.relevance(answer_words)
        near_answer = _relative(_spread(of_answer))
        if task_words != self._near_task[0]:  # mostly the same task for first view and facts
            self._near_task = task_words, self._of_blocks(self.lines.relevance(task_words))
        both = zip(near_answer, self._near_task[1], strict=True)
        gains = [_NEAR_ANSWER * near + _IN_TASKS_BLOCK * in_task for near, in_task in both]
        for number in self._importing:
            gains[number] += _IMPORTED
        return gains, self._of_blocks(of_answer)

    def _of_blocks(self, values: list[float]) -> list[float]:
        """Return per line, 0 to 1, the relevance of its definition or section."""
        if not any(values):
            return values
        sums = [
            (end - start, sum(sorted(values[start:end])[-_LINES_OF_A_BLOCK:])) for start, end in pairwise(self._blocks)
        ]
        return _relative([value for length, value in sums for _ in range(length)])

    @cached_property
    def _importing(self) -> set[int]:
        return {self._line_at(match.start()) for match in _IMPORT.finditer(self.text)}

    @cached_property
    def _names_of_words(self) -> dict[str, list[int]]:
        return places_of_words([name.text for name in self._found])

    @cached_property
    def _names_of_parts(self) -> dict[str, list[int]]:
        return places_of_parts([name.text for name in self._found])

    @cached_property
    def _blocks(self) -> list[int]:
        numbers = {self._line_at(start) for start in definition_starts(self.text)} - {0}
        return [0, *sorted(numbers), len(self.lines.texts)]

    def _line_at(self, position: int) -> int:
        return bisect_right(self._starts, position) - 1

    @cached_property
    def _starts(self) -> list[int]:
        return [start for start, _ in self.lines.spans]

    @cached_property
    def _found(self) -> list["_Name"]:
        """Return known names first; names that occur only as a field are left out."""
        found: dict[str, _Name] = {}
        for text in self._worth:
            if "\n" not in text and (value := _value(text)) is not None:
                found[text] = _Name(text, value + self._worth[text], [0])
        for run, lines in self.lines.runs.items():
            for text, value in _names_in(run):
                if (name := found.get(text)) is not None:
                    name.lines += lines
                elif value is not None:
                    found[text] = _Name(text, value, lines[:])
        fields = _fields(self.text)
        return [name for name in found.values() if name.text in self._worth or len(name.lines) > fields[name.text]]


def ranked_names(content: str, *, task: str, answer: str, known: Sequence[str] = ()) -> list[str]:
    """Return names verbatim, those most likely to be needed first; large contents are sampled.

    Args:
        task: Names near its words come first.
        answer: The agent's words and calls after seeing the content.
        known: The analyzer's names, most important first.
    """
    return Names(analysed_text(content, f"{answer}\n{task}"), known).ranked(task, answer)


def mentioned_names(text: str) -> frozenset[str]:
    """Return the names in a text, also by their parts."""
    names: set[str] = set()
    for run in {*chain.from_iterable(runs_in(text))}:
        names |= _mentioned_in(run)
    return frozenset(names)


@lru_cache(maxsize=_CACHED_RUNS)
def _mentioned_in(run: str) -> frozenset[str]:
    found = ((name, name.rpartition("/")[2], *_JOINT.split(name)) for name, _ in _names_in(run))
    return frozenset(name for name in chain.from_iterable(found) if not _is_ordinary(name))


def _is_ordinary(word: str) -> bool:
    return word.isalpha() and (word.islower() or word.istitle())


def reads_as_order(text: str) -> bool:
    """Return whether a text looks like a prompt injection."""
    return _ORDER.search(text) is not None


def is_name(text: str) -> bool:
    """Return whether a text may be listed as a name, and not as an order or a sentence.

    Several words must form a path, or longer ones begin with a capital or digit.
    """
    if _ORDER_IN_A_NAME.search(text.translate(_JOINTS)):
        return False
    words = text.split()
    if len(words) < 2 or "/" in text or "\\" in text or _FILE_NAME.fullmatch(text):
        return True
    telling = [word for word in words if len(word) > 3]
    return len(words) <= _MOST_WORDS_OF_A_NAME and not any(word[0].islower() for word in telling)


def stands_whole(name: str, text: str) -> bool:
    """Return whether a name occurs as a whole word, except in scripts without spaces."""
    place = text.find(name)
    while place >= 0:
        end = place + len(name)
        is_escape = place > 1 and text[place - 2] == "\\" and text[place - 1] in "nrt"
        goes_on = _goes_on(text[end - 1 : end + 1])
        if not goes_on and (is_escape or place == 0 or not _goes_on(text[place - 1 : place + 1])):
            return True
        place = text.find(name, place + 1)
    return False


def _goes_on(pair: str) -> bool:
    return len(pair) == 2 and all((one.isalnum() or one == "_") and one < _WITHOUT_SPACES for one in pair)


def analysed_text(content: str, words: str = "") -> str:
    """Return the unescaped sample that is analysed: the ends, and the surroundings of `words`."""
    text = _window(content, words)
    if text.count("\\") * _CHARACTERS_OF_AN_ESCAPE > len(text):  # a few escapes in code are left
        text = _ESCAPED_QUOTE.sub("", _ESCAPED_BREAK.sub("\n", text))
        text = _ESCAPED_CHARACTER.sub(lambda escape: chr(int(escape[1], 16)), text)
    return text


def _window(content: str, words: str) -> str:
    if len(content) <= ANALYSED_CHARACTERS:
        return content
    head, tail = int(ANALYSED_CHARACTERS * _HEAD_SHARE), int(ANALYSED_CHARACTERS * _TAIL_SHARE)
    pieces = [_without_cut_names(content, 0, head)]
    room, end = ANALYSED_CHARACTERS - head - tail, len(content) - tail
    places: list[int] = []
    for word in sorted(words_in(words[:20_000]), key=lambda word: (-len(word), word))[:40]:
        place = content.find(word, head, end)
        if place >= 0:
            places.append(place)
    done = head
    for place in sorted(places):
        start, stop = max(place - _AROUND_CHARACTERS // 2, done), min(place + _AROUND_CHARACTERS // 2, end)
        if stop <= start or room <= 0:
            continue
        pieces.append(_without_cut_names(content, start, stop))
        room -= stop - start
        done = stop
    return "\n".join([*pieces, _without_cut_names(content, end, len(content))])


def _without_cut_names(content: str, start: int, end: int) -> str:
    if start > 0:
        following = BREAK.search(content, start - 1, end)
        start = following.end() if following else end
    if end < len(content):
        before = LAST_BREAK.match(content, start, end + 1)
        end = before.end() if before else start
    return content[start:end]


def _fields(text: str) -> Counter[str]:
    """Count the names that are fields, as in JSON.

    A name with a digit or hyphen may be an id, so it must repeat. `address1` also counts if it holds no object and
    most keys are plain words.
    """
    fields: Counter[str] = Counter()
    holding: set[str] = set()
    for match in _FIELD.finditer(text):
        start = match.start()
        if text[max(start - LONGEST_LINE, 0) : start].rstrip()[-1:] in ("", "{", ",", "[", "("):
            fields[match[1]] += 1
            if match[2]:
                holding.add(match[1])
    once = [name for name, count in fields.items() if count == 1 and not name.replace("_", "a").isalpha()]
    are_plain = 4 * len(once) <= len(fields)
    for name in once:
        if name in holding or not are_plain or not _NUMBERED_FIELD.fullmatch(name):
            del fields[name]
    return fields


@dataclass(slots=True)
class _Name:
    """A name with its lines; `value` is `_value` and what the analyzer adds."""

    text: str
    value: float
    lines: list[int] = field(default_factory=list[int])


def _value(text: str) -> float | None:
    """Return what a name is worth in any line; None for an ordinary word."""
    return None if (shape := _shape(text)) is None else _SHAPES.get(shape, 0.0) + _COST * math.log(len(text) / 3.5)


def _spread(values: Sequence[float]) -> list[float]:
    """Spread values to surrounding lines, decreasing with distance."""
    shares = [1 - abs(distance) / (_NEAR_LINES + 1) for distance in range(-_NEAR_LINES, _NEAR_LINES + 1)]
    spread = [0.0] * (len(values) + 2 * _NEAR_LINES)
    for number, value in enumerate(values):
        if value:
            for other, share in enumerate(shares, number):
                if (near := value * share) > spread[other]:  # `max` takes three times as long
                    spread[other] = near
    return spread[_NEAR_LINES:-_NEAR_LINES]


def _relative(values: list[float]) -> list[float]:
    most = max(values, default=0.0)
    return [value / most for value in values] if most else values


@lru_cache(maxsize=8)  # the task, and what the agent says of one result and of the next
def _said(text: str) -> tuple[frozenset[str], frozenset[str]]:
    return words_in(text), parts_in(text)


def _having(places: Mapping[str, list[int]], wanted: frozenset[str]) -> set[int]:
    return {*chain.from_iterable(map(places.__getitem__, wanted & places.keys()))}


@lru_cache(maxsize=_CACHED_RUNS)
def _vocabulary(name: str) -> tuple[frozenset[str], frozenset[str]]:
    return words_in(name), parts_in(name)


def _share(some: frozenset[str], of: frozenset[str]) -> float:
    return len(some & of) / len(some) if some else 0.0


@lru_cache(maxsize=_CACHED_RUNS)
def _names_in(run: str) -> Sequence[tuple[str, float | None]]:
    """Return the names in a run with their values; the results of a session repeat them."""
    if len(run) < _LEAST_LENGTH or _is_ordinary(run):
        return ()
    return [(text, _value(text)) for text in _texts_in(run)]


def _texts_in(run: str) -> Iterable[str]:
    text = run.rstrip("(")
    if not text.isidentifier():
        text = _whole(run)
    if not _LEAST_LENGTH <= len(text) <= _MOST_LENGTH or _MASK in text or "[" in text:
        return ()
    if ":" not in text or "://" in text or text[0].isdigit() or _URN.fullmatch(text):
        return (text,)
    place = _PLACE.fullmatch(text)
    if place:
        return (place[1],)
    if "::" in text:
        return (text,)
    return tuple(piece.strip(".,-/(*#=!?") for piece in text.split(":") if len(piece) >= _LEAST_LENGTH)


def _whole(run: str) -> str:
    """Strip punctuation, but keep parts of a path or of Base64."""
    is_base64 = run[-1] == "=" and _PADDED.fullmatch(run) and any(map(str.isdigit, run)) and not run.islower()
    end = run if is_base64 else run.rstrip(_EDGES)
    text = end.lstrip(_EDGES)
    if len(text) == len(end):
        return text
    root = _ROOT.search(end[: len(end) - len(text)])
    is_path = "/" in text or (root is not None and root[0] == "." in text and run[-1] != "(")
    return root[0] + text if root is not None and is_path else text


def _shape(text: str) -> str | None:
    """Return the sort of a name; None for an ordinary word."""
    if _is_ordinary(text) or is_reserved(text):
        return None
    if text.isidentifier():
        return _shape_of_symbol(text)
    if text.startswith(("http://", "https://")):
        return "url"
    if not any(map(str.isalnum, text)):
        return None
    if "@" in text[1:] and "." in text:
        return "address"
    if "/" in text:
        return "path"
    if not text.isascii():
        return None
    if "=" in text:
        return "assignment"
    if text[0].isdigit() or text[0] in "+$":
        return "number" if len(text) >= _LEAST_NUMBER or not text.replace(".", "").isdecimal() else None
    if "." in text:
        return "dotted"
    if "-" in text and "_" not in text and not any(map(str.isdigit, text)):
        return "hyphened"
    return _shape_of_symbol(text.replace("-", "_"))


def _shape_of_symbol(text: str) -> str | None:
    if "_" in text:
        return "compound" if text.isascii() and text.strip("_") else None
    return None if not text.isascii() else "capitals" if text.isupper() else "camel"
