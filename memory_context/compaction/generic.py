"""The compactor for any result: status, size, first and last line, lines that report errors."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

from ..references import one_line
from ..tokens import TokenCounter, cut_to_tokens
from .excerpt import Passage, error_lines, excerpt

__all__ = ["Compacted", "Compactor", "GenericCompactor", "Result"]

DEFAULT_FACTS_LIMIT_TOKENS = 60

_ARGUMENT_LIMIT = 60
_PARSED_ARGUMENTS = 20_000
_LINE_LIMIT = 100
_EXIT_STATUS = re.compile(r"\bexit(?:ed)?\b[^\d\n]{0,40}\b(?:status|code)\b[ :=]*(-?\d+)", re.IGNORECASE)
_WRAPPED_ERROR = re.compile(r"\bis_?error[\"']?\s*[=:]\s*true\b.{0,2}$", re.IGNORECASE)
_STATUS_LINE_LIMIT = 160
_STATUS_LINES = 2


@dataclass(frozen=True)
class Result:
    """What a tool gave back, free of any framework's types.

    Attributes:
        content: The text.
        source: The tool's name, or who said it.
        arguments: The call's arguments as JSON; empty if there was no call.
        is_error: What the framework said of it; None if it said nothing.
        token_count: Tokens of the content; 0 if unknown.
    """

    content: str
    source: str
    arguments: str = ""
    is_error: bool | None = None
    token_count: int = 0


@dataclass(frozen=True)
class Compacted:
    """What survives of a result.

    Attributes:
        status: Whether it succeeded, in a sentence.
        description: What the content is, for the placeholder.
        facts: Lines worth keeping beside the placeholder; may be empty.
        excerpt: The passages to show first, of a content longer than the limit; None if it is not longer, empty if the
            limit has no room for any.
    """

    status: str
    description: str
    facts: str
    excerpt: Sequence[Passage] | None = None


class Compactor(Protocol):
    """Decides what survives of a result; pure, deterministic, within its limits."""

    def compact(self, result: Result, excerpt_limit_tokens: int, counter: TokenCounter) -> Compacted:
        """Return what survives of a result.

        Args:
            result: The result.
            excerpt_limit_tokens: What the excerpt may take; a shorter content needs none.
            counter: Counts tokens.
        """
        ...


class GenericCompactor:
    """Keeps what is worth keeping of any text.

    Args:
        facts_limit_tokens: The most that the facts of one result take.
    """

    def __init__(self, facts_limit_tokens: int = DEFAULT_FACTS_LIMIT_TOKENS) -> None:
        self._facts_limit_tokens = facts_limit_tokens

    def compact(self, result: Result, excerpt_limit_tokens: int, counter: TokenCounter) -> Compacted:
        """Return status, description, first, last and error lines, and the passages of a long content."""
        content = result.content
        outcome = "failed" if _is_failure(result) else "succeeded"
        return Compacted(
            status=f"{one_line(result.source, 60)} {outcome}.",
            description=_description(result),
            facts=_within(_facts(content), self._facts_limit_tokens, counter),
            excerpt=excerpt(content, excerpt_limit_tokens, counter, result.token_count)
            if counter.is_over(content, excerpt_limit_tokens)
            else None,
        )


def _is_failure(result: Result) -> bool:
    """Whether the framework or the result itself says that it failed.

    Shells report an exit status in their first or last lines, MCP wrappers at the very end; anywhere else such words
    are content.
    """
    if result.is_error:
        return True
    content = result.content.rstrip()
    if _WRAPPED_ERROR.search(content[-_STATUS_LINE_LIMIT:]):
        return True
    first = content[: _STATUS_LINE_LIMIT + 1].split("\n", 1)[:1]
    last = content[-_STATUS_LINE_LIMIT * _STATUS_LINES :].split("\n")[-_STATUS_LINES:]
    lines = [line for line in (*first, *last) if len(line) <= _STATUS_LINE_LIMIT]
    return any(int(match[1]) != 0 for line in lines for match in _EXIT_STATUS.finditer(line))


def _description(result: Result) -> str:
    lines = result.content.count("\n") + (not result.content.endswith("\n"))
    size = f"{lines:,} lines" if lines > 1 else f"{len(result.content):,} characters"
    arguments = _short_arguments(result.arguments)
    return f"{one_line(arguments, 110)}, {size}" if arguments else f"output of {one_line(result.source, 60)}, {size}"


def _short_arguments(arguments: str) -> str:
    if len(arguments) > _PARSED_ARGUMENTS:
        return one_line(arguments, _ARGUMENT_LIMIT)
    try:
        parsed: Any = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        return one_line(arguments, _ARGUMENT_LIMIT)
    if not isinstance(parsed, dict):
        return one_line(arguments, _ARGUMENT_LIMIT)
    shown: list[str] = []
    for name, value in cast(dict[str, Any], parsed).items():
        text = value if isinstance(value, str) else json.dumps(value)
        shown.append(f"{name}={one_line(text, _ARGUMENT_LIMIT)}")
    return " ".join(shown)


def _within(text: str, limit_tokens: int, counter: TokenCounter) -> str:
    cut = cut_to_tokens(text, limit_tokens, counter)
    return cut if len(cut) == len(text) else cut_to_tokens(cut, limit_tokens - 1, counter).rstrip() + "…"


def _facts(content: str) -> str:
    """First line, lines with errors, last line; each named, none twice."""
    window = content[:2000], content[-2000:]
    first = next((line.strip() for line in window[0].split("\n") if line.strip()), "")
    last = next((line.strip() for line in reversed(window[1].split("\n")) if line.strip()), "")
    errors = [
        one_line(content[passage.start : passage.end], _LINE_LIMIT)
        for passage in error_lines(content, 0, len(content), 2)
    ]
    named = [("First line: ", first), *(("", error) for error in errors), ("Last line: ", last)]
    facts: list[str] = []
    seen: set[str] = set()
    for name, line in named:
        short = one_line(line, _LINE_LIMIT)
        if short and short not in seen:
            seen.add(short)
            facts.append(name + short)
    return "\n".join(facts)
