"""The lines of a text and where its runs and words stand: one tokenization for names and excerpts.

Runs of base64, markup, numbers of graphics and reserved words name nothing and are taken out.
"""

import html
import math
import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain

from ..patterns import BytesPattern, at_first_use, regex
from ..text.landmarks import Passage
from ..text.tokenize import places_of_words
from ..utf8 import TERMINAL_CODE, to_utf8

__all__ = [
    "BREAK",
    "LAST_BREAK",
    "LONGEST_LINE",
    "MARK",
    "RUN",
    "Elided",
    "Lines",
    "is_reserved",
    "runs_in",
    "without_base64",
    "without_markup",
]


LONGEST_LINE = 240
"""Longer lines are cut between names."""

_IN_A_RUN = r"[^\s\"'`<>(){}\[\],;|\\]"
_URL = rf"https?://(?:{_IN_A_RUN}|\({_IN_A_RUN}{{0,80}}\)|\[credential\**\])+"
RUN = regex(rf"{_URL}|{_IN_A_RUN}+\(?")
"""A stretch that may hold names; an opening bracket tells calls."""
BREAK = regex(r"(?:[\s\"'`<>{}\[\],;|]|\\[nrt])")
"""Ends any name."""
LAST_BREAK = regex(rf".*{BREAK.pattern}", re.DOTALL)
_SPACES = str.maketrans(dict.fromkeys("\"'`<>){}[],;|\\", " "))


def runs_in(text: str) -> list[list[str]]:
    """Return the runs of each line."""
    if "://" in text or not text.isascii():
        return list(map(RUN.findall, text.split("\n")))
    # as RUN does, several times faster
    return [line.split() for line in text.replace("(", "( ").translate(_SPACES).split("\n")]


class Lines:
    """Lines of a text with their spans, long ones in pieces.

    Attributes:
        spans: Start and end of each line, with its line break.
        texts: Without line breaks.
    """

    def __init__(self, text: str, windows: Sequence[tuple[int, int]] | None = None) -> None:
        self.spans: list[tuple[int, int]] = []
        self.texts: list[str] = []
        for start, end in windows or [(0, len(text))]:
            for line in text[start:end].split("\n"):
                for piece in (line,) if len(line) <= LONGEST_LINE else _cut(line):
                    self.texts.append(piece)
                    self.spans.append((start, start + len(piece)))
                    start += len(piece)
                start = min(start + 1, end)
                self.spans[-1] = self.spans[-1][0], start

    @cached_property
    def runs(self) -> dict[str, list[int]]:
        """Lines of each run, one for each occurrence, in order of first occurrences."""
        places = defaultdict[str, list[int]](list)
        for number, runs in enumerate(runs_in("\n".join(self.texts))):
            for run in runs:
                places[run].append(number)
        return dict(places)

    @cached_property
    def _runs_of_words(self) -> dict[str, list[int]]:
        return places_of_words(list(self.runs))

    def relevance(self, wanted: frozenset[str]) -> list[float]:
        """Return the relevance of each line to unstemmed words, as `text.tokenize.relevance` weighs them."""
        values = [0.0] * len(self.texts)
        lines = list(self.runs.values())
        for word in sorted(wanted & self._runs_of_words.keys()):
            having = {*chain.from_iterable(map(lines.__getitem__, self._runs_of_words[word]))}
            weight = math.log(1 + len(values) / len(having))
            for number in having:
                values[number] += weight
        return values


def _cut(line: str) -> Iterator[str]:
    """Yield pieces of a long line, cut between names."""
    start = 0
    while len(line) - start > LONGEST_LINE:
        limit = start + LONGEST_LINE
        cut = LAST_BREAK.match(line, start, limit) or BREAK.search(line, limit)
        if cut is None:
            break
        yield line[start : cut.end()]
        start = cut.end()
    yield line[start:]


MARK = "[base64, "
"""Beginning of the mark that stands for a run, such as `[base64, 41 kB]`."""

_MARKED = regex(rf"{re.escape(MARK)}[\d,]+ k?B\]")
_LEAST_RUN, _LEAST_IN_URL = 160, 40
_RUN = regex(
    rf"(?<=;base64,)[A-Za-z0-9+/_%-]{{{_LEAST_IN_URL},}}={{0,2}}"
    rf"|(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{{{_LEAST_RUN},}}={{0,2}}"
    r"|^(?:[A-Za-z0-9+/]{60,76}\r?\n){3,}[A-Za-z0-9+/]{0,76}={0,2}\r?$",
    re.MULTILINE,
)
_MAY_BE_RUN = at_first_use(BytesPattern, r";base64,|[A-Za-z0-9+/_-]{60}")
"""Stands in each run; RE2 finds ten times faster that most texts have none."""
_KINDS = (regex(r"[A-Z]"), regex(r"[a-z]"), regex(r"[0-9]"))
_LOOKED_AT = 400


class Elided:
    """A text without codes of terminals, with a mark for each run of base64, and the way back to the whole text.

    Attributes:
        text: With marks.
        runs: Ranges of the whole text that are left out, each with its mark; that of a code is empty.
    """

    def __init__(self, whole: str) -> None:
        found = _RUN.finditer(whole) if _MAY_BE_RUN.is_in(to_utf8(whole)) else ()
        marked = [(Passage(*one.span()), _mark(one)) for one in found if _is_base64(one[0])]
        if "\x1b" in whole:
            marked += [(Passage(*one.span()), "") for one in TERMINAL_CODE.finditer(whole)]
            marked.sort(key=lambda one: one[0].start)
        self.runs: list[tuple[Passage, str]] = []
        self._starts: list[int] = []
        self._ends: list[int] = []
        pieces: list[str] = []
        length = position = 0
        for run, mark in marked:
            if run.start < position:  # in the target of a link
                continue
            self.runs.append((run, mark))
            pieces += (whole[position : run.start], mark)
            self._starts.append(length + run.start - position)
            length = self._starts[-1] + len(mark)
            self._ends.append(length)
            position = run.end
        self.text = "".join([*pieces, whole[position:]])

    def outside(self, passages: Sequence[Passage]) -> list[Passage]:
        """Return the corresponding passages of the whole text: split around base64, with their codes."""
        pieces: list[Passage] = []
        for passage in passages if self.runs else ():
            first, last = bisect_left(self._ends, passage.start), bisect_right(self._starts, passage.end)
            start = passage.start + self._moved_by(first)
            for run in (run for run, mark in self.runs[first:last] if mark):
                pieces.append(Passage(start, run.start))
                start = run.end
            pieces.append(Passage(start, passage.end + self._moved_by(last)))
        return [one for one in pieces if one.end > one.start] if self.runs else list(passages)

    def _moved_by(self, number: int) -> int:
        """Return how much further back the whole text stands after so many runs."""
        return self.runs[number - 1][0].end - self._ends[number - 1] if number else 0


def without_base64(text: str) -> str:
    """Return a text with a mark for each run of base64."""
    return Elided(text).text


def _is_base64(run: str) -> bool:
    return all(kind.search(run, 0, _LOOKED_AT) for kind in _KINDS)


def _mark(match: re.Match[str]) -> str:
    size = match.end() - match.start()
    return f"{MARK}{f'{round(size / 1000):,} kB' if size >= 1000 else f'{size} B'}]"


# --- markup

_MARKUP = regex(r"\s*<(?:!|\?xml|[A-Za-z][\w:.-]*[\s/>])")
_UNREAD = regex(r"<!--.*?(?:-->|\Z)|<(script|style)\b.*?(?:</\1|\Z)|<!\w[^>]*>", re.DOTALL | re.IGNORECASE)
_TAG = regex(r"</?([A-Za-z_][\w:.-]*)([^<>]*)>")
_VALUE = regex(r"(?<![\w:.-])([\w:.-]+)\s{0,9}=\s{0,9}(?:\"([^\"]*)\"|'([^']*)')")
_DRAWN = regex(r"(?<=[\"'])[Mm] ?-?[\d.][-\d.,\sMmZzLlHhVvCcSsQqTtAae]{20,}")
"""Path data of graphics, also in scripts."""
_PAGE = regex(r"<(?:html|head|body|div|svg)\b", re.IGNORECASE)
_LINKS = frozenset(("href", "src", "action", "value", "alt", "title"))
_OF_MARKUP = frozenset(("class", "style", "d", "points", "transform", "viewBox", "encoding", "version", "type"))


def without_markup(text: str) -> str:
    """Return a text without marks, tags, scripts, styles and drawings; links of pages and data of XML stay."""
    text = _DRAWN.sub(" ", _MARKED.sub(" ", text))
    if not _MARKUP.match(text[:2000]):
        return text
    is_page = _PAGE.search(text[:20_000]) is not None

    def values_in(tag: re.Match[str]) -> str:
        values = [
            one[2] or one[3]
            for one in _VALUE.finditer(tag[2])
            if (one[1] in _LINKS if is_page else one[1] not in _OF_MARKUP and not one[1].startswith("xml"))
        ]
        return f" {' '.join(filter(None, values))} "

    return html.unescape(_TAG.sub(values_in, _UNREAD.sub(" ", text)))


# --- reserved words

_WORDS = (
    "ALTER ARRAY BEGIN BETWEEN BIGINT BIGSERIAL BLOB BOOLEAN CASCADE CASE CAST CHAR CHECK COLUMN COMMIT "
    "CONSTRAINT COUNT CREATE CROSS CURRENT_DATE CURRENT_TIMESTAMP DATABASE DATE DATETIME DECLARE DEFAULT DELETE "
    "DESC DISTINCT DOUBLE DROP ELSE EXECUTE EXISTS FALSE FLOAT FOREIGN FROM FULL FUNCTION GRANT GROUP HAVING INDEX "
    "INNER INSERT INTEGER INTERVAL INTO ISNULL JOIN JSONB LANGUAGE LEFT LIKE LIMIT NULL NUMERIC OFFSET ORDER "
    "OUTER OVER PARTITION PRECISION PRIMARY PROCEDURE REFERENCES REPLACE RETURNING RETURNS REVOKE RIGHT ROLLBACK "
    "ROWS SCHEMA SELECT SERIAL SETOF SMALLINT TABLE TEMPORARY TEXT THEN TIME TIMESTAMP TIMESTAMPTZ TRIGGER TRUE UNION "
    "UNIQUE UPDATE USAGE USING UUID VALUE VALUES VARCHAR VIEW WHEN WHERE WITH "
    "ATTLIST CDATA DOCTYPE ELEMENT ENTITY HTML PCDATA PUBLIC UTF-8 utf-8 charset=utf-8 viewBox "
    "CRITICAL DEBUG ERROR FATAL INFO TRACE WARN WARNING "
    "NaN static_cast const_cast dynamic_cast reinterpret_cast size_t ssize_t wchar_t"
)
_RESERVED = frozenset(_WORDS.split())
_TYPE = regex(r"u?int\d{1,3}_t|__\w+__")


def is_reserved(word: str) -> bool:
    """Return whether a word belongs to SQL, HTML or a language, and so names nothing of this content."""
    return word in _RESERVED or _TYPE.fullmatch(word) is not None
