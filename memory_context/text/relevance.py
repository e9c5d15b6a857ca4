"""One score of relevance, for lines of excerpts, names and retrieved passages."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from itertools import chain

from .tokenize import shared_words

__all__ = ["line_relevance", "relevance"]


def relevance(having: Mapping[int, Set[str]], count: int) -> list[float]:
    """Return for each of `count` passages the sum of the weights of its wanted words.

    A word weighs log(1 + N / n) where n of N passages have it.

    Args:
        having: The wanted words of each passage, by its index; passages without any may be left out.
        count: The number of passages.
    """
    counts = Counter(chain.from_iterable(having.values()))
    weights = {word: math.log(1 + count / having_it) for word, having_it in counts.items()}
    values = [0.0] * count
    for index, words in having.items():
        values[index] = sum(weights[word] for word in sorted(words))  # in one order, so that sums are reproducible
    return values


def line_relevance(lines: Sequence[str], wanted: frozenset[str]) -> list[float]:
    """Return the relevance of each line to words as they are written; no line may have a line break."""
    return relevance(shared_words(lines, wanted), len(lines))
