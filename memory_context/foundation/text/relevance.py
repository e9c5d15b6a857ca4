"""The relevance score of excerpt lines, names and retrieved passages."""

import math
from collections import Counter
from collections.abc import Mapping, Set
from itertools import chain

__all__ = ["relevance"]


def relevance(having: Mapping[int, Set[str]], count: int) -> list[float]:
    """Return per passage the sum of its wanted words' weights, log(1 + N / n) where n of N passages have the word.

    Args:
        having: Wanted words by passage index; passages without any may be missing.
    """
    counts = Counter(chain.from_iterable(having.values()))
    weights = {word: math.log(1 + count / having_it) for word, having_it in counts.items()}
    values = [0.0] * count
    for index, words in having.items():
        values[index] = sum(weights[word] for word in sorted(words))  # sorted: float sums are reproducible
    return values
