"""A and B by turns: how two ways to do something compare within one run.

Machines are noisy, so an absolute time is nothing to hold on to; the ratio of two medians of one run is.
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.tables import print_table

__all__ = ["WARM_UP", "Measured", "Timed", "compare", "print_measured", "timed"]

WARM_UP = 5
"""Rounds that do not count."""


@dataclass(frozen=True)
class Measured:
    """One figure beside its target.

    Attributes:
        name: What was compared with what.
        value: A ratio, or a count.
        target: What it has to be, in words; empty if it is only reported.
        is_met: Whether it is; None if it is only reported.
        detail: The medians, or what was counted.
    """

    name: str
    value: float
    target: str = ""
    is_met: bool | None = None
    detail: str = ""


Timed = Callable[[], Awaitable[float]]
"""Does something once, on fresh content, and returns the seconds of the part that counts."""


async def compare(name: str, a: Timed, b: Timed, rounds: int, at_most: float | None = None) -> Measured:
    """Run A and B by turns and return the ratio of their medians."""
    times_a: list[float] = []
    times_b: list[float] = []
    for number in range(WARM_UP + rounds):
        pairs = [(times_a, a), (times_b, b)]
        for times, once in pairs if number % 2 else reversed(pairs):
            seconds = await once()
            if number >= WARM_UP:
                times.append(seconds)
    ratio = median(times_a) / median(times_b)
    return Measured(
        name,
        ratio,
        "" if at_most is None else f"<= {at_most:g}",
        None if at_most is None else ratio <= at_most,
        f"{1000 * median(times_a):.3f} ms / {1000 * median(times_b):.3f} ms",
    )


async def timed(work: Awaitable[object]) -> float:
    """Do something and return the seconds it took."""
    began = time.perf_counter()
    await work
    return time.perf_counter() - began


def print_measured(measured: Sequence[Measured], title: str) -> None:
    """Print the figures beside their targets."""
    marks = {True: "met", False: "MISSED", None: "-"}
    print_table(
        title,
        ["measured", "value", "target", "is", "of"],
        [[one.name, f"{one.value:.4g}", one.target or "-", marks[one.is_met], one.detail] for one in measured],
    )
