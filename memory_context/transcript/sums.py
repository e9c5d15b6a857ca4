"""Sums over a list of numbers that grows at its end: each is added once, so that asking costs what is new."""

from bisect import bisect_left, bisect_right
from itertools import accumulate, islice

__all__ = ["RunningSums"]


class RunningSums:
    """Numbers, and what those before any place add up to."""

    def __init__(self) -> None:
        self._values: list[int] = []
        self._sums = [0]  # of the first 0, 1, 2 … values, as far as they were asked for

    def put(self, index: int, value: int) -> None:
        """Set the number at an index, or add one behind the last; a change at the front has later sums made anew."""
        if index == len(self._values):
            self._values.append(value)
        elif self._values[index] != value:
            self._values[index] = value
            del self._sums[index + 1 :]

    def before(self, index: int) -> int:
        """Return the sum of the first `index` numbers."""
        done = len(self._sums) - 1
        if index > done:
            self._sums += islice(accumulate(self._values[done:], initial=self._sums[-1]), 1, None)
        return self._sums[index]

    def last_before(self, index: int) -> int:
        """Return the index of the last number other than 0 among the first `index`; -1 if there is none."""
        total = self.before(index)
        return bisect_left(self._sums, total, 0, index + 1) - 1 if total else -1

    def count_within(self, total: int, index: int) -> int:
        """Return how many of the first `index` numbers add up to at most a total."""
        self.before(index)
        return bisect_right(self._sums, total, 0, index + 1) - 1
