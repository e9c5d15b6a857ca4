"""What became of the mutants: counted by package, the survivors listed."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from .mutants import Mutant

__all__ = ["LEAST_KILLED", "Equivalent", "Result", "killed_share", "read_equivalents", "summarise"]

LEAST_KILLED = 0.85

Outcome = Literal["killed", "timed out", "survived", "not covered", "equivalent"]
_OUTCOMES: tuple[Outcome, ...] = ("killed", "timed out", "survived", "not covered", "equivalent")


@dataclass(frozen=True)
class Result:
    """What became of a mutant.

    Attributes:
        mutant: The mutant.
        outcome: `timed out` counts as noticed, `not covered` as survived; `equivalent` was shown to change nothing.
        detail: The test that noticed it, how many tests did not, or why it is equivalent.
        seconds: How long its tests took.
    """

    mutant: Mutant
    outcome: Outcome
    detail: str = ""
    seconds: float = 0.0

    def __str__(self) -> str:
        """Return it in a line."""
        return f"{self.outcome:<11} {self.seconds:5.1f} s  {self.mutant.module}:{self.mutant.line}  {self.detail}"


@dataclass(frozen=True)
class Equivalent:
    """A mutant that was shown to behave as the original does, or differs in a way that no promise covers.

    Attributes:
        module: Path of its module.
        diff: Its changed lines, as `Mutant.diff` has them; without numbers, so that it outlives other changes.
        reason: Why.
    """

    module: str
    diff: tuple[str, ...]
    reason: str


def read_equivalents(text: str) -> list[Equivalent]:
    """Read a list of equivalent mutants: blocks of a module, its changed lines, and a reason in one or more lines.

    Raises:
        ValueError: A block is incomplete.
    """
    found: list[Equivalent] = []
    for block in text.split("\n\n"):
        lines = [line for line in block.splitlines() if line and not line.startswith("#")]
        if not lines:
            continue
        diff = tuple(line for line in lines[1:] if line[:2] in ("- ", "+ "))
        reason = " ".join(line for line in lines[1:] if line not in diff)
        if not diff or not reason or not lines[0].endswith(".py"):
            raise ValueError(f"not a module, its changed lines and a reason: {block!r}")
        found.append(Equivalent(lines[0], diff, reason))
    return found


def killed_share(results: Iterable[Result]) -> float:
    """Return the share that tests noticed, of those not shown to be equivalent; 1 if there are none."""
    counts = Counter(result.outcome for result in results)
    counted = sum(counts.values()) - counts["equivalent"]
    return (counts["killed"] + counts["timed out"]) / counted if counted else 1.0


def summarise(results: Sequence[Result]) -> str:
    """Return the survivors with their changes, and a table by package."""
    lines: list[str] = []
    for result in results:
        if result.outcome in ("survived", "not covered"):
            lines += ["", str(result), *(f"    {line}" for line in result.mutant.diff)]
    lines += ["", f"{'':<30}" + "".join(f"{outcome:>13}" for outcome in _OUTCOMES) + f"{'noticed':>11}"]
    packages = sorted({_package_of(result) for result in results})
    for package in (*packages, "all"):
        these = [result for result in results if package in ("all", _package_of(result))]
        counts = Counter(result.outcome for result in these)
        cells = "".join(f"{counts[outcome]:>13}" for outcome in _OUTCOMES)
        lines.append(f"{package:<30}{cells}{killed_share(these):>11.1%}")
    return "\n".join(lines)


def _package_of(result: Result) -> str:
    return "/".join(Path(result.mutant.module).parts[:2])
