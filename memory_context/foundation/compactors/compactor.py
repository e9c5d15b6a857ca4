"""The contract of compactors: input and output values, without any framework's types."""

from collections.abc import Callable, Container, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

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
DEFAULT_EXCERPT_LIMIT_TOKENS = 1500


@dataclass(frozen=True)
class Result:
    """A tool result.

    Attributes:
        source: Tool name, or the speaker.
        arguments: JSON; empty without a call.
        is_error: Framework's flag; None if unknown.
        token_count: 0 if unknown.
        duration_seconds: From call message to result; None without a call.
        readings: Analyses of built-in compactors, cached with the result.
    """

    content: str = field(repr=False)
    source: str
    arguments: str = ""
    is_error: bool | None = None
    token_count: int = 0
    duration_seconds: float | None = None
    readings: dict[Hashable, Any] = field(default_factory=dict[Hashable, Any], init=False, repr=False, compare=False)


@dataclass(frozen=True)
class Hint:
    """The agent's context and the limits of a compaction.

    Attributes:
        task: Request of the user.
        said: The agent's last words and calls before the result.
        answer: Its words and calls after seeing the result; empty while the result is fresh.
        known: Names in the rest of the view, which are not repeated; or its text.
        excerpt_limit_tokens: 0 for no excerpt.
        masks_credentials: Mask credentials in the output.
    """

    task: str = ""
    said: str = ""
    answer: str = ""
    known: Container[str] = field(default="", repr=False)
    facts_limit_tokens: int = DEFAULT_FACTS_LIMIT_TOKENS
    excerpt_limit_tokens: int = DEFAULT_EXCERPT_LIMIT_TOKENS
    counter: TokenCounter = field(default_factory=default_token_counter, repr=False)
    masks_credentials: bool = True


@dataclass(frozen=True)
class Compacted:
    """The replacement of a result.

    Attributes:
        status: Success or failure, in a sentence.
        description: One line for the placeholder.
        facts: Text beside the placeholder; may be empty.
        excerpt: Ordered passages of a content too long to show; None to let the generic rule choose.
        labels: Ordered descriptions of ranges; gaps in an excerpt are named by them.
        table: The records of the content in rows, in place of facts and excerpt, within the limits of both.
    """

    status: str
    description: str
    facts: str
    excerpt: Sequence[Passage] | None = None
    labels: Sequence[Label] = ()
    table: str = ""

    @property
    def is_part(self) -> bool:
        """True if it has an excerpt or a table, which are only a part of the content."""
        return self.excerpt is not None or self.table != ""


class Compactor(Protocol):
    """Reduces a result within the limits of the hint; pure and deterministic."""

    def compact(self, result: Result, hint: Hint) -> Compacted: ...


@dataclass(frozen=True)
class Analysis:
    """An analysis of a content; a common rule selects from it.

    Attributes:
        description: Sort and size, such as `pytest log, 812 lines`.
        has_failed: Failure that the content reports; None if unclear.
        facts: Most important first; at most 200 characters each.
        names: Identifiers likely to be needed, verbatim, most important first; generic ones follow them.
    """

    description: str
    has_failed: bool | None = None
    facts: Sequence[str] = ()
    names: Sequence[str] = ()


Analyzer = Callable[[Result], Analysis | None]
"""Returns None for other sorts of content; must not raise on any content."""
