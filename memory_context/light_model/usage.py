"""Calls and tokens of a light model, by the kind of question."""

from dataclasses import dataclass, fields
from typing import Any

from typing_extensions import Self

__all__ = ["LightModelBill", "LightModelUsage"]


class _Sum:
    """A dataclass whose fields, except `kind`, are added and subtracted one by one."""

    def __add__(self, other: Self) -> Self:
        return type(self)(*(one + other_one for one, other_one in zip(_values(self), _values(other), strict=True)))

    def __sub__(self, other: Self) -> Self:
        return type(self)(*(one - other_one for one, other_one in zip(_values(self), _values(other), strict=True)))


@dataclass(frozen=True)
class LightModelUsage(_Sum):
    """Calls of a light model.

    Attributes:
        calls: Calls of the client; one repeated without the token cap counts twice.
        failures: Questions without a usable answer, except those that the open breaker refused.
        prompt_tokens: As the client reports them.
        completion_tokens: As the client reports them.
        unreported_calls: Calls whose tokens are unknown: failed, cancelled, under way, or not reported.
    """

    calls: int = 0
    failures: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    unreported_calls: int = 0

    @property
    def tokens(self) -> int:
        """Tokens read and written, as far as they are known."""
        return self.prompt_tokens + self.completion_tokens


_NONE = LightModelUsage()


@dataclass(frozen=True)
class LightModelBill(_Sum):
    """The light model's calls in a session so far. Tokens and costs of the agent's own model do not include them.

    Attributes:
        decisions: Questions which references a request needs.
        summaries: Summaries of large results.
        titles: Titles of sessions.
    """

    decisions: LightModelUsage = _NONE
    summaries: LightModelUsage = _NONE
    titles: LightModelUsage = _NONE

    @property
    def total(self) -> LightModelUsage:
        """Calls of all kinds."""
        return self.decisions + self.summaries + self.titles

    def __str__(self) -> str:
        """Return the calls by kind and their tokens, for people."""
        total = self.total
        if not total.calls:
            return "no calls"
        kinds = ((self.decisions, "decision"), (self.summaries, "summary"), (self.titles, "title"))
        by_kind = ", ".join(_count(used.calls, kind) for used, kind in kinds if used.calls)
        text = (
            f"{_count(total.calls, 'call')} ({by_kind}), {total.prompt_tokens:,} tokens read and "
            f"{total.completion_tokens:,} written"
        )
        if total.unreported_calls:
            text += f"; tokens of {_count(total.unreported_calls, 'call')} unknown"
        return f"{text}; {total.failures:,} without a usable answer" if total.failures else text


def _values(value: Any) -> list[Any]:
    return [getattr(value, one.name) for one in fields(value) if one.name != "kind"]


def _count(count: int, noun: str) -> str:
    plural = "summaries" if noun == "summary" else f"{noun}s"
    return f"{count:,} {noun if count == 1 else plural}"
