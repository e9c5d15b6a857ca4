"""Facts that a summary must keep: errors, outcomes, names and figures, best first.

Form and position identify them, so no model is needed to check a summary.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from ..patterns import regex
from ..references import shorten
from ..text.landmarks import error_lines
from ..text.tokenize import words_in

__all__ = ["SalientFact", "Statement", "all_facts", "exact_facts", "salient_facts"]

FactKind = Literal["error", "spoken", "outcome", "path", "figure", "id", "url"]

_SEARCHED_CHARACTERS = 200_000  # at each end of a content
_SPOKEN_CHARACTERS = 20_000
_EXAMINED = 2_000  # matches per pattern
_LIMITS: dict[FactKind, int] = {"error": 6, "spoken": 8, "outcome": 10, "path": 8, "figure": 8, "id": 8, "url": 3}
_A_LIST = 4  # times its limit, a kind of facts is a list
_FIRST_ERRORS = 2  # others come last: error reports repeat each other
_ERROR_CHARACTERS = 140
_CONTEXT_CHARACTERS = 40  # context around a figure
_SHORT = 4
_NEAR_CHARACTERS = 40  # between an outcome's number and word

_TIME = regex(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?|\b\d\d:\d\d:\d\d(?:[.,]\d{1,9})?\b"
)
_URL = regex(r"\bhttps?://[^\s<>\"'`)\]}]{1,300}")
_SEGMENT = r"[\w.@+-]{1,100}"
_FILE_TYPES = (
    "c cc cfg conf cpp cs css csv db doc docx env gif go gz h hpp html ini ipynb java jpg js json jsx kt lock log lua "
    "md parquet pdf php png pptx py r rb rs rst scala sh sql svg swift tar toml ts tsv tsx txt vue xls xlsx xml yaml "
    "yml zip"
)
_PATH = regex(
    rf"(?<![\w.@+:/\\<-])(?:(?:[A-Za-z]:)?[\\/]|~/)?(?:{_SEGMENT}[\\/]){{1,30}}{_SEGMENT}"
    rf"|(?<![\w.@+:/\\<-])/{_SEGMENT}"
    rf"|(?<![\w.@+:/\\<-])[\w-]{{1,80}}(?:\.[\w-]{{1,40}}){{0,3}}\.(?:{'|'.join(_FILE_TYPES.split())})\b"
)
_NUMBER = r"\d{1,30}(?:[,_]\d{3}){0,9}(?:\.\d{1,30})?"
_OUTCOME_WORDS = (
    r"(?:totals?|sum|failed|failures?|failing|passed|errors?|warnings?|skipped|exit(?:ed)?|status|return ?code|code|"
    r"count|found|rows?|match(?:es)?|affected|inserted|updated|deleted|added|removed|changed|missing|invalid|rejected|"
    r"timeouts?|retries|version|port|balance|amount|price|score)"
)
_WORD_THEN_NUMBER = regex(
    rf"\b({_OUTCOME_WORDS})\b(?:[ _](?:code|status|with|of|is|was)){{0,3}}[\"']?[ \t]{{0,4}}[:=]?[ \t]{{0,4}}[\"']?"
    rf"([-+]?[$€£¥]?{_NUMBER})(?![\w]|\.\d)",
    re.IGNORECASE,
)
_NUMBER_THEN_WORD = regex(
    rf"(?<![\w.,])([-+]?[$€£¥]?{_NUMBER})[ \t]{{1,3}}(?:[A-Za-z]{{1,20}}[ \t])?({_OUTCOME_WORDS})\b", re.IGNORECASE
)
_UNITS = (
    r"%|‰|°C|°F|ms|µs|us|ns|s|secs?|seconds?|min(?:utes?)?|hours?|days?|weeks?|months?|years?|[kKMGTP]i?[Bb]|bytes?|"
    r"kg|g|mg|km|m|cm|mm|mi|lb|kWh|kW|MW|W|V|A|[kMG]?Hz|USD|EUR|GBP|JPY|CHF|px|rpm|req/s|tokens?|users?|items?|requests?"
)
_FIGURE = regex(
    rf"(?<![\w.,:/-])(?:[-+±]?[$€£¥]{_NUMBER}|[-+±]{_NUMBER}|{_NUMBER}[ \u00a0]?(?:{_UNITS})(?![\w/])"
    rf"|\d{{1,12}}\.\d{{1,12}}(?![\w.])|\d{{4}}-\d\d-\d\d(?![\w-]))"
)
_LEADING_NUMBER = regex(rf"[-+±]?[$€£¥]?(?:\d{{4}}-\d\d-\d\d|{_NUMBER})")
_LABELLED_ID = regex(
    r"(?<![\w-])([\w-]{0,40}(?:id|key|uuid|sha|hash|ref|number|no))[\"']?[ \t]{0,2}[:=#][ \t]{0,2}[\"']?"
    r"([\w.@/-]{1,80}\w|\w)",
    re.IGNORECASE,
)
_ID = regex(
    r"(?<![\w-])(?:[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|[A-Z][A-Z0-9]{1,9}-\d{1,10}"
    r"|[A-Za-z][A-Za-z0-9]{0,40}(?:_[A-Za-z0-9]{1,40}){0,6}_[A-Za-z0-9]{0,40}\d[A-Za-z0-9]{0,40}"
    r"|(?=[0-9a-f]{0,63}\d)(?=[0-9a-f]{0,63}[a-f])[0-9a-f]{7,64})(?![\w-])"
)
_ANY_NUMBER = regex(r"(?<!\w)[-+±]?[$€£¥]?\w{0,30}\d\w{0,30}(?:[.,:/-]\w{0,30}\d\w{0,30}){0,9}%?")
_WORDS_BEFORE = regex(r"(?:[^\W\d_][\w-]{0,30}[ =:]{1,2}){1,2}$")
_WORDS_AFTER = regex(r"(?:[ ]?[^\W\d_][\w-]{0,30}){1,2}")
_SPOKEN = regex(r"[\w/~][\w./:@+#-]{2,120}\w")
_WORD = regex(r"\w+")
_DIGIT_COMMA = regex(r"(?<=\d)[,_](?=\d{3}(?!\d))")
_SPACES = regex(r"\s+")


@dataclass(frozen=True)
class SalientFact:
    """A fact that a summary must state.

    Attributes:
        needle: Text to find: a whole name or number, or all words of an error.
        text: Line appended if the needle is missing.
        word: Of an outcome: stem of the word near its number.
    """

    kind: FactKind
    needle: str
    text: str
    word: str = ""


class Statement:
    """A text searched for facts."""

    def __init__(self, text: str) -> None:
        self._text = _normal(text)
        self._words = frozenset(_WORD.findall(self._text))

    def says(self, fact: SalientFact, times: int = 1) -> bool:
        """Return whether it states a fact, ignoring case, spaces, digit grouping and the word order of errors.

        Args:
            times: Places needed: one of a number cannot stand for several facts.
        """
        needle = _normal(fact.needle)
        if fact.kind == "error":
            return self._words.issuperset(_WORD.findall(needle))
        for place in _places(self._text, needle):
            around = self._text[max(place - _NEAR_CHARACTERS, 0) : place + len(needle) + _NEAR_CHARACTERS]
            times -= fact.word in around
            if times <= 0:
                return True
        return False


def salient_facts(content: str, spoken_of: str = "") -> list[SalientFact]:
    """Return the facts that a summary must keep, most important first.

    Args:
        spoken_of: The agent's task and words; facts that share words come first.
    """
    text = content
    if len(text) > 2 * _SEARCHED_CHARACTERS:
        text = f"{text[:_SEARCHED_CHARACTERS]}\n{text[-_SEARCHED_CHARACTERS:]}"
    text = _TIME.sub(" ", text)
    spoken_of = spoken_of[:_SPOKEN_CHARACTERS]
    wanted = words_in(spoken_of.casefold())
    errors = _best("error", _errors(content), frozenset())
    urls = _best("url", _urls(text), wanted)
    spoken = _best("spoken", _spoken(text, spoken_of), frozenset())
    text = _URL.sub(" ", text)
    facts = [
        *errors[:_FIRST_ERRORS],
        *spoken,
        *_best("outcome", _outcomes(text), wanted),
        *_best("path", _paths(text), wanted),
        *_best("figure", _figures(text), wanted),
        *errors[_FIRST_ERRORS:],
        *_best("id", _ids(text), wanted),
        *urls,
    ]
    distinct = {(fact.needle, fact.word): fact for fact in reversed(facts)}
    return [fact for fact in reversed(distinct.values()) if Statement(fact.text).says(fact)]


def exact_facts(text: str) -> Iterator[SalientFact]:
    """Yield the URLs, paths and ids of a short text as they are written."""
    yield from _urls(text)
    text = _URL.sub(" ", text)
    yield from _paths(text)
    yield from _ids(text)


def all_facts(text: str) -> list[SalientFact]:
    """Return every error, URL, path, id and number of a short text, numbers with the words around them."""
    named, rest = list(exact_facts(text)), text
    for fact in named:
        rest = rest.replace(fact.needle, " ") if len(fact.needle) > _SHORT else rest  # a short one may be any number
    errors = _errors(text.replace("; ", "\n"))  # as facts of a log are joined
    return list(dict.fromkeys([*errors, *named, *_numbers(rest)]))


def _numbers(text: str) -> Iterator[SalientFact]:
    for match in islice(_ANY_NUMBER.finditer(text), _EXAMINED):
        before = _WORDS_BEFORE.search(text, max(match.start() - _CONTEXT_CHARACTERS, 0), match.start())
        after = _WORDS_AFTER.match(text, match.end())
        context = "".join([before[0] if before else "", match[0], after[0] if after else ""])
        yield SalientFact("figure", match[0], context.strip())


def _best(kind: FactKind, facts: Iterable[SalientFact], wanted: frozenset[str]) -> list[SalientFact]:
    """Keep facts of one kind: near the agent's words, frequent, early."""
    found: dict[tuple[str, str], SalientFact] = {}
    counts: Counter[tuple[str, str]] = Counter()
    for fact in facts:
        name = (fact.needle, fact.word)
        found.setdefault(name, fact)
        counts[name] += 1
    order = {name: number for number, name in enumerate(found)}

    def rank(name: tuple[str, str]) -> tuple[int, int, int]:
        shared = len(words_in(found[name].text.casefold()) & wanted)
        return -shared, -counts[name] if kind in ("path", "id") else 0, order[name]

    limit = _LIMITS[kind]
    if len(found) > _A_LIST * limit:  # list entries matter only if spoken of
        limit //= _A_LIST
    return [found[name] for name in sorted(found, key=rank)[:limit]]


def _errors(content: str) -> Iterator[SalientFact]:
    for passage in error_lines(content, 0, len(content), 4 * _LIMITS["error"]):
        line = _TIME.sub(" ", content[passage.start : passage.end])
        line = shorten(line, _ERROR_CHARACTERS).strip("[]|-: …")
        if line and not line.startswith("Traceback ("):  # the error itself stands at its end
            yield SalientFact("error", line, line)


def _spoken(text: str, spoken_of: str) -> Iterator[SalientFact]:
    for match in islice(_SPOKEN.finditer(spoken_of), _EXAMINED):
        name = match[0]
        is_name = any(map(str.isdigit, name)) or any(mark in name for mark in "_./") or name[1:] != name[1:].lower()
        place = next(_places(text, name), None) if is_name else None
        if place is not None:
            yield SalientFact("spoken", name, _around(text, place, place + len(name)))


def _outcomes(text: str) -> Iterator[SalientFact]:
    for match in islice(_WORD_THEN_NUMBER.finditer(text), _EXAMINED):
        yield SalientFact("outcome", match[2], shorten(match[0], 200), _stem(match[1]))
    for match in islice(_NUMBER_THEN_WORD.finditer(text), _EXAMINED):
        yield SalientFact("outcome", match[1], shorten(match[0], 200), _stem(match[2]))


def _paths(text: str) -> Iterator[SalientFact]:
    for match in islice(_PATH.finditer(text), _EXAMINED):
        path = match[0].rstrip(".:-+@")
        segments = [segment for segment in re.split(r"[\\/]", path) if segment]
        is_rooted = path[:1] in "/~\\." or path[1:2] == ":"
        has_type = "." in segments[-1].strip(".") if segments else False
        if any(map(str.isalpha, path)) and (is_rooted or has_type or len(segments) > 2) and len(path) > 2:
            yield SalientFact("path", path, path)


def _figures(text: str) -> Iterator[SalientFact]:
    for match in islice(_FIGURE.finditer(text), _EXAMINED):
        number = _LEADING_NUMBER.match(match[0])
        if number is not None:
            yield SalientFact("figure", number[0], _around(text, match.start(), match.end()))


def _ids(text: str) -> Iterator[SalientFact]:
    for match in islice(_LABELLED_ID.finditer(text), _EXAMINED):
        if any(map(str.isdigit, match[2])):
            yield SalientFact("id", match[2], shorten(f"{match[1]}: {match[2]}", 120))
    for match in islice(_ID.finditer(text), _EXAMINED):
        yield SalientFact("id", match[0], match[0])


def _urls(text: str) -> Iterator[SalientFact]:
    for match in islice(_URL.finditer(text), _EXAMINED):
        url = match[0].rstrip(".,;:!?")
        yield SalientFact("url", url, url)


def _around(text: str, start: int, end: int) -> str:
    first = max(text.rfind("\n", 0, start) + 1, start - _CONTEXT_CHARACTERS)
    last = text.find("\n", end, end + _CONTEXT_CHARACTERS)
    last = last if last >= 0 else min(end + _CONTEXT_CHARACTERS, len(text))
    before, after = text[first:start], text[end:last]
    if first and text[first - 1] != "\n":
        before = before.partition(" ")[2]
    if last < len(text) and text[last] != "\n":
        after = after.rpartition(" ")[0]
    return _SPACES.sub(" ", before + text[start:end] + after).strip()


def _normal(text: str) -> str:
    return _SPACES.sub(" ", _DIGIT_COMMA.sub("", text.casefold()))


def _places(text: str, needle: str) -> Iterator[int]:
    """Yield offsets of whole tokens: `3` not in `13`, `1.5` not in `1.52`."""
    place = text.find(needle)
    while place >= 0 and needle:
        end = place + len(needle)
        before, after = text[place - 1 : place] if place else "", text[end : end + 1]
        joins_before = _joins(before, needle[0]) or (
            before in (".", ",") and needle[0].isdigit() and text[place - 2 : place - 1].isdigit()
        )
        joins_after = _joins(after, needle[-1]) or (
            after in (".", ",") and needle[-1].isdigit() and text[end + 1 : end + 2].isdigit()
        )
        if not joins_before and not joins_after:
            yield place
        place = text.find(needle, place + 1)


def _stem(word: str) -> str:
    """Return the common beginning of `failed`, `failures` and `failing`."""
    return word.casefold().rstrip("s")[:4]


def _joins(outside: str, inside: str) -> bool:
    return (outside.isalnum() or outside == "_") and (inside.isalnum() or inside == "_")
