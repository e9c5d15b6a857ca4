"""The contract of compactors: values that go in and come out. Pure, deterministic, without any framework."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ..tokens import TokenCounter, default_token_counter
from .excerpt import Label, Passage

__all__ = [
    "DEFAULT_EXCERPT_LIMIT_TOKENS",
    "DEFAULT_FACTS_LIMIT_TOKENS",
    "Analysis",
    "Analyzer",
    "Compacted",
    "Compactor",
    "Hint",
    "Result",
]

DEFAULT_FACTS_LIMIT_TOKENS = 280
DEFAULT_EXCERPT_LIMIT_TOKENS = 1800


@dataclass(frozen=True)
class Result:
    """What a tool gave back, free of any framework's types.

    Attributes:
        content: The text.
        source: The tool's name, or who said it.
        arguments: The call's arguments as JSON; empty if there was no call.
        is_error: What the framework said of it; None if it said nothing.
        token_count: Tokens of the content; 0 if unknown.
        duration_seconds: From the call's message to the result's; None if there was no call.
    """

    content: str = field(repr=False)
    source: str
    arguments: str = ""
    is_error: bool | None = None
    token_count: int = 0
    duration_seconds: float | None = None


@dataclass(frozen=True)
class Hint:
    """What is known of the agent's work when a result is compacted, and how much may survive.

    Attributes:
        task: What the user asked for.
        said: What the agent said and called last before the result came.
        answer: What it said and called after it had seen the result; empty while the result is fresh.
        known: What else the view says: a name that stands there need not be kept.
        facts_limit_tokens: The most that the facts may take.
        excerpt_limit_tokens: The most that the excerpt may take; 0 if none is wanted.
        counter: Counts tokens.
        masks_credentials: Whether credentials in the result are masked in what survives of it.
    """

    task: str = ""
    said: str = ""
    answer: str = ""
    known: str = field(default="", repr=False)
    facts_limit_tokens: int = DEFAULT_FACTS_LIMIT_TOKENS
    excerpt_limit_tokens: int = DEFAULT_EXCERPT_LIMIT_TOKENS
    counter: TokenCounter = field(default_factory=default_token_counter, repr=False)
    masks_credentials: bool = True


@dataclass(frozen=True)
class Compacted:
    """What survives of a result.

    Attributes:
        status: Whether it succeeded, in a sentence.
        description: What the content is, in a line, for the placeholder.
        facts: What is worth keeping beside the placeholder; may be empty.
        excerpt: The passages to show of a content that cannot be shown whole, in order; None if the compactor leaves
            that choice to the generic one, empty if there is no room for any.
        labels: What stretches of the content are, in order: what an excerpt leaves out is named by them.
    """

    status: str
    description: str
    facts: str
    excerpt: Sequence[Passage] | None = None
    labels: Sequence[Label] = ()


class Compactor(Protocol):
    """Decides what survives of a result; pure, deterministic, within the limits of the hint."""

    def compact(self, result: Result, hint: Hint) -> Compacted:
        """Return what survives of a result."""
        ...


@dataclass(frozen=True)
class Analysis:
    """An analysis of a content; a common rule chooses what fits of it.

    Attributes:
        description: What the content is, in a few words with its size, such as `pytest log, 812 lines`.
        has_failed: Whether the content itself says that the call failed; None if it does not say.
        facts: Lines worth keeping whatever the agent does, the most important first; each at most 200 characters.
        names: Identifiers that are likely to be asked for, verbatim, the most important first. Others are found by
            their form and come after them.
    """

    description: str
    has_failed: bool | None = None
    facts: Sequence[str] = ()
    names: Sequence[str] = ()


Analyzer = Callable[[Result], Analysis | None]
"""Analyses a result; None if this is not its sort of content. Must not raise on any content."""
