"""The plainest ranking by terms there is, as the floor that a search has to beat: BM25 over lowercase words."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Sequence

__all__ = ["Bm25", "windows"]

K1 = 1.2
B = 0.75
_WORD = re.compile(r"\w+")


class Bm25:
    """BM25 with Lucene's idf over a fixed list of texts, which are known by their place in it.

    Args:
        texts: What is searched.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        counts = [Counter(_words(text)) for text in texts]
        lengths = [count.total() for count in counts]
        mean_length = sum(lengths) / max(len(lengths), 1) or 1.0
        self._norms = [K1 * (1 - B + B * length / mean_length) for length in lengths]
        self._postings: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        for number, count in enumerate(counts):
            for word, occurrences in count.items():
                self._postings[word].append((number, occurrences))

    def rank(self, query: str, limit: int) -> list[int]:
        """Return the places of the texts that answer a query best, the best first; those without its words never."""
        scores: defaultdict[int, float] = defaultdict(float)
        for word in _words(query):
            postings = self._postings.get(word, [])
            idf = math.log1p((len(self._norms) - len(postings) + 0.5) / (len(postings) + 0.5))
            for number, occurrences in postings:
                scores[number] += idf * occurrences * (K1 + 1) / (occurrences + self._norms[number])
        return sorted(scores, key=lambda number: (-scores[number], number))[:limit]


def windows(texts: Sequence[str], sessions: Sequence[str]) -> list[str]:
    """Return each text with the one before and the one after it in its session, in the same order."""
    around: list[str] = []
    for number, session in enumerate(sessions):
        places = range(max(number - 1, 0), min(number + 2, len(texts)))
        around.append("\n".join(texts[place] for place in places if sessions[place] == session))
    return around


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())
