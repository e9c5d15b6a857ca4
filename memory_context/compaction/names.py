"""Ranks names that a later call may need: paths, ids, URLs, symbols, codes, numbers.

Weights are rounded from a logistic regression of later use (docs/measurements.md).
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from ..text import DEFINITION, line_relevance, parts_in, shared_parts, shared_words, words_in

__all__ = ["analysed_text", "is_name", "ranked_names", "reads_as_order", "stands_whole"]

ANALYSED_CHARACTERS = 48_000
_HEAD_SHARE, _TAIL_SHARE = 0.6, 0.2
_AROUND_CHARACTERS = 1000
_LONGEST_LINE = 240
_LEAST_LENGTH, _MOST_LENGTH = 4, 160
_LEAST_NUMBER = 7  # characters: shorter numbers are amounts and counts
_NEAR_LINES = 4
_LINES_OF_A_BLOCK = 8

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

_ESCAPED_BREAK = re.compile(r"(?<!\\)\\+[nrt]")  # lookbehind keeps time linear
_ESCAPED_QUOTE = re.compile(r"\\+(?=[\"'/\\])")
_ESCAPED_CHARACTER = re.compile(r"(?<!\\)\\+u([0-9a-fA-F]{4})")
_IN_A_RUN = r"[^\s\"'`<>(){}\[\],;|\\]"
_URL = rf"https?://(?:{_IN_A_RUN}|\({_IN_A_RUN}{{0,80}}\)|\[credential\**\])+"
_RUN = re.compile(rf"{_URL}|{_IN_A_RUN}+\(?")
_RUN_OR_BREAK = re.compile(rf"{_RUN.pattern}|\n")
_BREAK = re.compile(r"(?:[\s\"'`<>{}\[\],;|]|\\[nrt])")  # ends any name
_LAST_BREAK = re.compile(rf".*{_BREAK.pattern}", re.DOTALL)
_FIELD = re.compile(r"[\"']([A-Za-z_$][\w$-]{0,63}|[0-9]{1,2}[A-Za-z]{4,40})[\"']\s{0,20}:(\s{0,20}[{\[])?")
_NUMBERED_FIELD = re.compile(r"(?=.*[A-Za-z]{4})[A-Za-z]*[0-9]{1,2}[A-Za-z]*")  # address1, 52WeekChange
_WITHOUT_SPACES = "⺀"  # scripts without spaces start here
_MASK = "***"  # a masked credential, not a glob
_EDGES = ".,:-/(*#=!?&%~^"  # stripped, unless a pattern below keeps it
_ROOT = re.compile(r"(?:(?<![/.~])(?:~|\.\.?(?:/\.\.?){0,9})?/\.?|^\.)$")
_PADDED = re.compile(r"[A-Za-z0-9+/_-]{8,}={1,2}")  # Base64
_URN = re.compile(r"[a-z][\w.+-]*(?::[\w.+%-]+)+:[\w.+%-]*\d[\w.+%-]*")
_IMPORT = re.compile(r"\s*(?:\d+[\t :]\s*)?(?:import|from|#include|use|require|using)\b")
_PLACE = re.compile(r"(.*?[^:])(?::\d+){1,2}")
_ORDER = re.compile(
    r"\b(?:ignor|disregard|forget|overrid)\w*\b[^.\n]{0,40}\b(?:instructions?|prompts?|rules)\b"
    r"|\byou (?:are now|must now|must immediately)\b|\bsystem prompt\b",
    re.IGNORECASE,
)
_ORDER_IN_A_NAME = re.compile(
    r"\b(?:ignor|disregard|forget|overrid)[a-z]*\b.{0,40}\b(?:previous|prior|above|earlier|all|your|these|those)\b.{0,40}"
    r"\b(?:instructions?|prompts?|rules|orders)\b|\byou (?:are now|must|should|have to)\b|^please\b",
    re.IGNORECASE,
)
_JOINTS = str.maketrans("_-./\\:", "      ")
_FILE_NAME = re.compile(r"[^\s/\\][^/\\]*\.[A-Za-z0-9]{1,5}")
_MOST_WORDS_OF_A_NAME = 6


def ranked_names(content: str, *, task: str, answer: str, known: Sequence[str] = ()) -> Iterator[str]:
    """Yield names verbatim, those most likely to be needed first; large contents are sampled.

    Args:
        task: Names near its words come first.
        answer: The agent's words and calls after seeing the content.
        known: The analyzer's names, most important first.
    """
    worth = {name: _KNOWN * (1 - order / len(known)) for order, name in enumerate(known)}
    analysed = analysed_text(content, f"{answer}\n{task}")
    lines = _lines(analysed)
    task_words, task_parts, answer_parts = words_in(task), parts_in(task), parts_in(answer)
    of_answer = line_relevance(lines, words_in(answer))
    near_answer = _relative(_spread(of_answer))
    near_task, answered = _block_relevance(lines, line_relevance(lines, task_words), of_answer)
    fields = _fields(analysed)
    found = [name for name in _found_in(lines, known) if name.text in worth or len(name.lines) > fields[name.text]]
    texts = [name.text for name in found]
    of_words, of_parts = shared_words(texts, task_words), shared_parts(texts, task_parts | answer_parts)
    scored: list[tuple[float, int, str]] = []
    for order, name in enumerate(found):
        text = name.text
        score = _SHAPES.get(name.shape, 0.0) + worth.get(text, 0.0) + _COST * math.log(len(text) / 3.5)
        score += _NEAR_ANSWER * max(map(near_answer.__getitem__, name.lines))
        score += _IN_TASKS_BLOCK * max(map(near_task.__getitem__, name.lines))
        score += _IN_ANSWERS_BLOCK * max(map(answered.__getitem__, name.lines))
        score += _IMPORTED * name.is_imported
        if order in of_words:
            score += _SHARE_IN_TASK * _share(words_in(text), task_words)
        if order in of_parts:
            parts = parts_in(text)
            score += _PARTS_IN_TASK * _share(parts, task_parts) + _PARTS_IN_ANSWER * _share(parts, answer_parts)
        scored.append((-score, order, text))
    scored.sort()
    for _, _, text in scored:
        yield text


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
    if "\\" in text:
        text = _ESCAPED_QUOTE.sub("", _ESCAPED_BREAK.sub("\n", text))
        text = _ESCAPED_CHARACTER.sub(lambda escape: chr(int(escape[1], 16)), text)
    return text


def _lines(text: str) -> list[str]:
    lines: list[str] = []
    for line in text.split("\n"):
        if len(line) <= _LONGEST_LINE:
            lines.append(line)
        else:
            lines += _cut(line)
    return lines


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
        following = _BREAK.search(content, start - 1, end)
        start = following.end() if following else end
    if end < len(content):
        before = _LAST_BREAK.match(content, start, end + 1)
        end = before.end() if before else start
    return content[start:end]


def _cut(line: str) -> Iterator[str]:
    """Yield pieces of a long line, cut between names."""
    start = 0
    while len(line) - start > _LONGEST_LINE:
        limit = start + _LONGEST_LINE
        cut = _LAST_BREAK.match(line, start, limit) or _BREAK.search(line, limit)
        if cut is None:
            break
        yield line[start : cut.end()]
        start = cut.end()
    yield line[start:]


def _fields(text: str) -> Counter[str]:
    """Count the names that are fields, as in JSON.

    A name with a digit or hyphen may be an id, so it must repeat. `address1` also counts if it holds no
    object and most
    keys are plain words.
    """
    fields: Counter[str] = Counter()
    holding: set[str] = set()
    for match in _FIELD.finditer(text):
        start = match.start()
        if text[max(start - _LONGEST_LINE, 0) : start].rstrip()[-1:] in ("", "{", ",", "[", "("):
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
    text: str
    shape: str
    lines: list[int] = field(default_factory=list[int])
    is_imported: bool = False


def _found_in(lines: Sequence[str], known: Sequence[str]) -> list[_Name]:
    """Return the names in lines, known ones first."""
    found: dict[str, _Name] = {}
    for text in known:
        if "\n" not in text and (shape := _shape(text)) is not None:
            found[text] = _Name(text, shape, [0])
    by_run: dict[str, list[_Name]] = {"\n": []}  # cache: most runs repeat
    number, is_import = 0, None
    for run in _RUN_OR_BREAK.findall("\n".join(lines)):  # one scan for all lines is several times faster
        names = by_run.get(run)
        if names is None:
            names = by_run[run] = _names_of(run, found)
        elif run == "\n":
            number, is_import = number + 1, None
        for name in names:
            name.lines.append(number)
            if is_import is None:
                is_import = _IMPORT.match(lines[number]) is not None
            name.is_imported |= is_import
    return list(found.values())


def _names_of(run: str, found: dict[str, _Name]) -> list[_Name]:
    """Return the names in a run and add them to `found`."""
    if run.isalpha() and (run.islower() or run.istitle()):
        return []  # an ordinary word
    names: list[_Name] = []
    for text in _names_in(run):
        name = found.get(text)
        if name is None:
            if (shape := _shape(text)) is None:
                continue
            name = found[text] = _Name(text, shape)
        names.append(name)
    return names


def _block_relevance(lines: Sequence[str], *relevances: Sequence[float]) -> list[list[float]]:
    """Return per line, 0 to 1, the relevance of its definition or section, for each relevance of lines."""
    starts = [0, *(number for number, line in enumerate(lines) if number and DEFINITION.match(line)), len(lines)]
    blocks: list[list[float]] = []
    for values in relevances:
        sums = [(end - start, sum(sorted(values[start:end])[-_LINES_OF_A_BLOCK:])) for start, end in pairwise(starts)]
        blocks.append(_relative([value for length, value in sums for _ in range(length)]))
    return blocks


def _spread(values: Sequence[float]) -> list[float]:
    """Spread values to surrounding lines, decreasing with distance."""
    spread = [0.0] * len(values)
    for number, value in enumerate(values):
        if value:
            for other in range(max(number - _NEAR_LINES, 0), min(number + _NEAR_LINES + 1, len(values))):
                spread[other] = max(spread[other], value * (1 - abs(other - number) / (_NEAR_LINES + 1)))
    return spread


def _relative(values: list[float]) -> list[float]:
    most = max(values, default=0.0)
    return [value / most for value in values] if most else values


def _share(some: frozenset[str], of: frozenset[str]) -> float:
    return len(some & of) / len(some) if some else 0.0


def _names_in(run: str) -> Iterable[str]:
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
    end = run if _PADDED.fullmatch(run) and any(map(str.isdigit, run)) and not run.islower() else run.rstrip(_EDGES)
    text = end.lstrip(_EDGES)
    root = _ROOT.search(end[: len(end) - len(text)])
    is_path = "/" in text or (root is not None and root[0] == "." in text and run[-1] != "(")
    return root[0] + text if root is not None and is_path else text


def _shape(text: str) -> str | None:
    """Return the sort of a name; None for an ordinary word."""
    if text.startswith(("http://", "https://")):
        return "url"
    if not any(map(str.isalnum, text)) or (text.isalpha() and (text.islower() or text.istitle())):
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
    if "_" in text or "-" in text:
        return "compound"
    return "capitals" if text.isupper() else "camel"
