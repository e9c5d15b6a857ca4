"""What a light model was used for, in calls and tokens: as its clients report them, and by the kind of question."""

from dataclasses import dataclass, fields
from typing import Literal

from typing_extensions import Self

__all__ = ["LightModelBill", "LightModelUsage"]


@dataclass(frozen=True)
class LightModelUsage:
    """Calls of a light model.

    Attributes:
        calls: Calls of the client; one repeated without the token cap counts twice.
        failures: Questions that got no usable answer, those refused by the open breaker not counted.
        prompt_tokens: As the client reports them.
        completion_tokens: As the client reports them.
        unreported_calls: Calls whose tokens are not known: they failed, were given up, are under way, or the client
            reported none.
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

    def __add__(self, other: Self) -> Self:
        return type(self)(*(getattr(self, one.name) + getattr(other, one.name) for one in fields(self)))

    def __sub__(self, other: Self) -> Self:
        return type(self)(*(getattr(self, one.name) - getattr(other, one.name) for one in fields(self)))


_NONE = LightModelUsage()


@dataclass(frozen=True)
class LightModelBill:
    """The light model's calls in a session so far. Tokens and costs of the agent's own model do not include them.

    As a decision of the transcript it replaces the one before, so the last one has the sums of the whole session.

    Attributes:
        decisions: Questions which references a request needs.
        summaries: Summaries of large results.
        titles: Titles of sessions.
    """

    decisions: LightModelUsage = _NONE
    summaries: LightModelUsage = _NONE
    titles: LightModelUsage = _NONE
    kind: Literal["light_model"] = "light_model"

    @property
    def total(self) -> LightModelUsage:
        """Calls of all kinds."""
        return self.decisions + self.summaries + self.titles

    def __add__(self, other: Self) -> Self:
        return type(self)(
            self.decisions + other.decisions, self.summaries + other.summaries, self.titles + other.titles
        )

    def __sub__(self, other: Self) -> Self:
        return type(self)(
            self.decisions - other.decisions, self.summaries - other.summaries, self.titles - other.titles
        )

    def __str__(self) -> str:
        """Return the calls by kind and their tokens, for people."""
        total = self.total
        if not total.calls:
            return "no calls"
        kinds = (
            (self.decisions, "decision", "decisions"),
            (self.summaries, "summary", "summaries"),
            (self.titles, "title", "titles"),
        )
        by_kind = ", ".join(_counted(used.calls, one, many) for used, one, many in kinds if used.calls)
        read, written = total.prompt_tokens, total.completion_tokens
        said = f"{_counted(total.calls, 'call', 'calls')} ({by_kind}), {read:,} tokens read and {written:,} written"
        if total.unreported_calls:
            said += f"; tokens of {_counted(total.unreported_calls, 'call', 'calls')} unknown"
        return f"{said}; {total.failures:,} without a usable answer" if total.failures else said


def _counted(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"
