"""The lines of a text and where its runs and words stand: one tokenization for names and excerpts."""

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain

from ..text.relevance import relevance
from ..text.tokenize import tokens_by_word

__all__ = ["BREAK", "LAST_BREAK", "LONGEST_LINE", "RUN", "Lines"]

LONGEST_LINE = 240
"""Longer lines are cut between names."""

_IN_A_RUN = r"[^\s\"'`<>(){}\[\],;|\\]"
_URL = rf"https?://(?:{_IN_A_RUN}|\({_IN_A_RUN}{{0,80}}\)|\[credential\**\])+"
RUN = re.compile(rf"{_URL}|{_IN_A_RUN}+\(?")
"""A stretch that may hold names; an opening bracket tells calls."""
BREAK = re.compile(r"(?:[\s\"'`<>{}\[\],;|]|\\[nrt])")
"""Ends any name."""
LAST_BREAK = re.compile(rf".*{BREAK.pattern}", re.DOTALL)
_SPACES = str.maketrans(dict.fromkeys("\"'`<>){}[],;|\\", " "))


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
        places: dict[str, list[int]] = {}
        for number, runs in enumerate(self._split()):
            for run in runs:
                if run in places:
                    places[run].append(number)
                else:
                    places[run] = [number]
        return places

    def _split(self) -> list[list[str]]:
        text = "\n".join(self.texts)
        if "://" in text or not text.isascii():
            return [RUN.findall(line) for line in self.texts]
        # as RUN does, several times faster
        return [line.split() for line in text.replace("(", "( ").translate(_SPACES).split("\n")]

    @cached_property
    def _runs_of_words(self) -> dict[str, list[str]]:
        return tokens_by_word(list(self.runs))

    def relevance(self, wanted: frozenset[str]) -> list[float]:
        """Return the relevance of each line to unstemmed words."""
        having: dict[int, set[str]] = {}
        for word in wanted & self._runs_of_words.keys():
            for number in chain.from_iterable(self.runs[run] for run in self._runs_of_words[word]):
                having.setdefault(number, set()).add(word)
        return relevance(having, len(self.texts))


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
