"""How work grows with its input, shown without a clock on the wall: by the ratio of two sizes, or by counting calls."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["assert_linear", "calls_counted"]

_TIMES = 8
_MOST = 3.0  # linear work takes 8 times as long, n log n at most 10, quadratic work 64
_TRIES = 8
_LEAST_SECONDS = 0.0002


def assert_linear(work: Callable[[str], object], unit: str, *, characters: int = 20_000) -> None:
    """Fail if a text of eight times the length takes over 24 times the processor time of this thread.

    Noise only lengthens a run, so the shortest of up to eight tries of each size counts.

    Args:
        work: The work on a text.
        unit: The text, again and again.
        characters: Length of the shorter text.
    """
    short, long = (unit * (size // len(unit) + 1) for size in (characters, characters * _TIMES))
    least_short = least_long = float("inf")
    for _ in range(_TRIES):
        least_short = min(least_short, _seconds(work, short))
        least_long = min(least_long, _seconds(work, long))
        if least_long <= _MOST * _TIMES * max(least_short, _LEAST_SECONDS):
            return
    raise AssertionError(f"{len(short):,} characters take {least_short:.3g} s, {len(long):,} take {least_long:.3g} s")


def _seconds(work: Callable[[str], object], text: str) -> float:
    started = time.thread_time()
    work(text)
    return time.thread_time() - started


@contextmanager
def calls_counted() -> Iterator[Callable[[], int]]:
    """Count the calls of functions, Python's and built-in ones, in this thread: the same on any machine."""
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        yield lambda: calls
    finally:
        sys.setprofile(None)
