"""Calls and tokens of a light model."""

import operator
from dataclasses import dataclass

from typing_extensions import Self

__all__ = ["NO_USAGE", "LightModelBill", "LightModelUsage"]


class _Sum:
    """Adds and subtracts field by field."""

    def __add__(self, other: Self) -> Self:
        return type(self)(*map(operator.add, vars(self).values(), vars(other).values()))

    def __sub__(self, other: Self) -> Self:
        return type(self)(*map(operator.sub, vars(self).values(), vars(other).values()))


@dataclass(frozen=True)
class LightModelUsage(_Sum):
    """Calls of a light model, with tokens as its client reports them.

    Attributes:
        calls: One repeated without the token cap counts twice.
        failures: Questions without a usable answer, unless refused by the breaker.
        unreported_calls: Calls with unknown tokens.
    """

    calls: int = 0
    failures: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    unreported_calls: int = 0

    @property
    def tokens(self) -> int:
        """Known tokens read and written."""
        return self.prompt_tokens + self.completion_tokens


NO_USAGE = LightModelUsage()


@dataclass(frozen=True)
class LightModelBill(_Sum):
    """The light model's calls in a session, excluding the agent's own model."""

    decisions: LightModelUsage = NO_USAGE
    summaries: LightModelUsage = NO_USAGE
    titles: LightModelUsage = NO_USAGE
    learning: LightModelUsage = NO_USAGE
    observations: LightModelUsage = NO_USAGE

    @property
    def total(self) -> LightModelUsage:
        return self.decisions + self.summaries + self.titles + self.learning + self.observations

    def __str__(self) -> str:
        total = self.total
        if not total.calls:
            return "no calls"
        kinds = (
            (self.decisions, "decision"),
            (self.summaries, "summary"),
            (self.titles, "title"),
            (self.learning, "learning"),
            (self.observations, "observation"),
        )
        by_kind = ", ".join(_count(used.calls, kind) for used, kind in kinds if used.calls)
        text = (
            f"{_count(total.calls, 'call')} ({by_kind}), {total.prompt_tokens:,} tokens read and "
            f"{total.completion_tokens:,} written"
        )
        if total.unreported_calls:
            text += f"; tokens of {_count(total.unreported_calls, 'call')} unknown"
        return f"{text}; {total.failures:,} without a usable answer" if total.failures else text


def _count(count: int, noun: str) -> str:
    plural = {"summary": "summaries", "learning": "learning"}.get(noun, f"{noun}s")
    return f"{count:,} {noun if count == 1 else plural}"
