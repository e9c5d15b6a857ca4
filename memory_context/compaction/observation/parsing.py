"""Reads answers of observer and reflector, whatever form a small model gave them. Pure; trusts nothing."""

import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, time
from functools import cache, partial
from typing import Any, Literal, TypeVar, cast

from autogen_core.models import LLMMessage

from memory_context.foundation.errors import LightModelError
from memory_context.foundation.light_model.answers import Completion
from memory_context.foundation.patterns import regex
from memory_context.foundation.references import shorten
from memory_context.foundation.runtime.background import in_thread_if_large
from memory_context.foundation.text.json_text import json_objects
from memory_context.foundation.text.statements import canonical_words
from memory_context.foundation.tokens import TokenCounter
from memory_context.sessions.transcript.observations import Edit, ObservationRecord, Priority

from .prompts import AGAIN, MARKS, OBSERVER_INSTRUCTIONS, REFLECTOR_INSTRUCTIONS

__all__ = [
    "CompletionFunction",
    "LogLine",
    "ModelCalls",
    "ObserverAnswer",
    "is_degenerate",
    "parsed_edits",
    "parsed_observations",
]

_DETAILS = 60
_LINE_CHARACTERS, _DETAIL_CHARACTERS, _HINT_CHARACTERS = 1_000, 400, 600

_WINDOW, _SAMPLED = 40, 50_000  # characters
_LEAST_WINDOWS, _LEAST_LINES = 300, 6
_LEAST_DISTINCT = 0.5
"""Share of windows and of lines that must differ; of real observations more than nine tenths do."""

_TAG = r"^[ \t]*<{0}>(.*?)(?:{1}|\Z)"
_OBSERVATIONS = regex(
    _TAG.format("observations", r"^[ \t]*</observations>|^[ \t]*<(?:current-task|suggested-response)>"),
    re.DOTALL | re.MULTILINE | re.IGNORECASE,
)
_HINTS = {
    name: regex(_TAG.format(name, rf"</{name}>|^[ \t]*<"), re.DOTALL | re.MULTILINE | re.IGNORECASE)
    for name in ("current-task", "suggested-response")
}
_ANY_TAG = regex(r"^[ \t]*</?[a-z][a-z-]{0,30}>[ \t]*$", re.MULTILINE | re.IGNORECASE)
_DATE = regex(r"^\W{0,8}(?:date\b\W{0,5})?(\d{4})-(\d\d)-(\d\d)(?:\W{1,4}\w{2,10}day)?\W{0,6}$", re.IGNORECASE)
_ITEM = regex(r"^([ \t]*)(?:[-*•+]|\d{1,3}[.)])[ \t]+(.*\S)")
_TIME = regex(r"^[(\[]?(\d{1,2}):(\d\d)(?::\d\d)?(?:[ ]?([ap])\.?m\b\.?)?[)\]]?[ \t,:-]*", re.IGNORECASE)
_EMOJI: dict[str, Priority] = {"🔴": "user", "🟡": "project", "🟢": "minor", "✅": "done"}
_PRIORITIES: dict[str, Priority] = {**{mark: cast(Priority, name) for name, mark in MARKS.items()}, **_EMOJI}
_MARK = regex("(" + "|".join(map(re.escape, _PRIORITIES)) + r")\ufe0f?(?:[ \t]+|$)")
_NUMBERS = r"\d{1,9}(?:\s?[-–]\s?\d{1,9})?(?:\s?,\s?\d{1,9}(?:\s?[-–]\s?\d{1,9})?)*"
_CITED = regex(rf"[ \t]*[(\[](?:messages?[ ])?({_NUMBERS})[)\]]\.?$", re.IGNORECASE)
_CITED_CHARACTERS, _EDIT_CHARACTERS = 400, 20_000
_SPAN = regex(r"(\d+)(?:\s?[-–]\s?(\d+))?")
_NOTHING = regex(r"\W*(?:none|n/?a|nothing|empty|unknown|null|task|next|text|detail)?\W*", re.IGNORECASE)
_PLACEHOLDER = regex(r"\b(?:HH:MM|YYYY-MM-DD|MARK TEXT|\(NUMBERS\))|^[\[<{][^\]>}]*[\]>}]$")
_ECHOED_WORDS = 5

_EDIT = regex(
    r"^[ \t]*(?:[-*•][ \t]+|\d{1,3}[.)][ \t]+)?\W{0,2}(merge|reword|drop)\b([\d \t,#*\[\]()–-]{1,4000})"
    r"(?:[:→=]>?[ \t]*(.*))?$",
    re.IGNORECASE,
)
T = TypeVar("T")
_RUNAWAY = 1.5  # times the most tokens: some clients ignore that limit


@dataclass(frozen=True)
class LogLine:
    """One line of an answer.

    Attributes:
        text: Sub-bullets are lines of their own.
        cited: Messages that it names, as ranges of positions; all within the observed ones.
        said_at: As the model wrote it, like `day`.
    """

    text: str
    cited: tuple[tuple[int, int], ...] = ()
    day: date | None = None
    said_at: time | None = None
    priority: Priority | None = None


@dataclass(frozen=True)
class ObserverAnswer:
    """An observer's answer; hints that it lacks are empty."""

    lines: tuple[LogLine, ...]
    current_task: str = ""
    suggested_response: str = ""

    @property
    def has_hints(self) -> bool:
        return bool(self.current_task or self.suggested_response)


def is_degenerate(text: str) -> bool:
    """Return whether an answer repeats itself: half of its windows of 40 characters, or of its lines, have occurred."""
    sample = text[:_SAMPLED]
    windows = len(sample) - _WINDOW
    if windows >= _LEAST_WINDOWS:
        distinct = len({sample[start : start + _WINDOW] for start in range(windows)})
        if distinct < _LEAST_DISTINCT * windows:
            return True
    lines = [_bare(line) for line in text.splitlines() if line.strip()]
    return len(lines) >= _LEAST_LINES and len(set(lines)) < _LEAST_DISTINCT * len(lines)


def _bare(line: str) -> str:
    item = _ITEM.match(line.rstrip())
    text = _TIME.sub("", item[2] if item else line.rstrip())
    match = _citation(text)
    return text[: match.start()] if match else text


def parsed_observations(text: str, first: int, last: int) -> ObserverAnswer:
    """Return the lines and hints of an observer's answer; without tags its list items are the lines.

    Placeholders and sentences of the prompt are no content.

    Args:
        first: Position of the first observed message; numbers outside of `[first, last)` are text.
    """
    blocks = [match[1] for match in _OBSERVATIONS.finditer(text)]
    rest = text
    for pattern in _HINTS.values():
        rest = pattern.sub("\n", rest)
    lines = list(_log_lines("\n".join(blocks or [rest]), first, last, is_tagged=bool(blocks)))
    task, response = (_hint(pattern.search(text)) for pattern in _HINTS.values())
    has_marks = any(line.priority for line in lines)
    default: Priority = "minor" if has_marks else "project"
    return ObserverAnswer(tuple(replace(one, priority=one.priority or default) for one in lines), task, response)


def _log_lines(text: str, first: int, last: int, *, is_tagged: bool) -> Iterator[LogLine]:
    day: date | None = None
    current: LogLine | None = None
    indent = 0
    for depth, content in _items(text, is_tagged=is_tagged):
        if (match := _DATE.match(content)) is not None:
            day = _date(*map(int, match.groups())) or day
        elif current is not None and depth > indent:
            current = _with_detail(current, content, first, last)
        else:
            if current is not None:
                yield current
            current, indent = _log_line(content, day, first, last), depth
    if current is not None:
        yield current


def _items(text: str, *, is_tagged: bool) -> Iterator[tuple[int, str]]:
    """Yield indentation and text of list items and dates; between tags, other lines go on or stand for themselves."""
    raws = [raw.rstrip() for raw in _ANY_TAG.sub("", text).splitlines() if raw.strip()]
    has_items = any(map(_ITEM.match, raws))
    pending: tuple[int, str] | None = None
    for raw in raws:
        item, bare = _ITEM.match(raw), raw.strip()
        is_own = bool(_DATE.match(bare) or _TIME.match(bare) or _MARK.match(bare))
        if item is None and not is_own and (not is_tagged or bare.startswith("#")):
            continue
        if item is None and not is_own and has_items and pending is not None:
            if len(pending[1]) < _LINE_CHARACTERS:
                pending = pending[0], f"{pending[1]} {bare}"
            continue
        if pending is not None:
            yield pending
        pending = (len(item[1].expandtabs(4)), item[2]) if item else (0, bare)
    if pending is not None:
        yield pending


def _log_line(content: str, day: date | None, first: int, last: int) -> LogLine | None:
    if _is_echo(content):
        return None
    content, at, priority = _head(content)
    content, cited = _cited(content, first, last)
    text = shorten(content, _LINE_CHARACTERS)
    return None if _is_empty(text) else LogLine(text, cited, day, at, priority)


def _with_detail(line: LogLine, content: str, first: int, last: int) -> LogLine:
    if _is_echo(content) or line.text.count("\n") >= _DETAILS:
        return line
    content, cited = _cited(content, first, last)
    cited = tuple(sorted({*line.cited, *cited}))
    text = shorten(content.lstrip("→-> "), _DETAIL_CHARACTERS)
    return line if _is_empty(text) else replace(line, text=f"{line.text}\n- {text}", cited=cited)


def _head(content: str) -> tuple[str, time | None, Priority | None]:
    """Split off time and mark, in either order."""
    at, priority = None, None
    for _ in range(2):
        if priority is None and (mark := _MARK.match(content)) is not None:
            priority, content = _PRIORITIES[mark[1]], content[mark.end() :]
        if at is None and (match := _TIME.match(content)) is not None:
            at, content = _time(int(match[1]), int(match[2]), match[3]), content[match.end() :]
    return content, at, priority


def _cited(content: str, first: int, last: int) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Split off the numbers of messages at the end; brackets with another number are text."""
    match = _citation(content)
    if match is None:
        return content, ()
    spans = [(int(a) - 1, int(b or a)) for a, b in _SPAN.findall(match[1])]
    if not all(first <= start < end <= last for start, end in spans):
        return content, ()
    return content[: match.start()], tuple(sorted(set(spans)))


def _citation(text: str) -> "re.Match[str] | None":
    return _CITED.search(text, max(len(text) - _CITED_CHARACTERS, 0))


def _hint(match: "re.Match[str] | None") -> str:
    text = shorten(match[1], _HINT_CHARACTERS) if match else ""
    return "" if _is_empty(text) or _is_echo(text) else text


def _is_empty(text: str) -> bool:
    return _NOTHING.fullmatch(text) is not None


def _is_echo(text: str) -> bool:
    """Return whether a text is a placeholder or a sentence of the prompt."""
    if _PLACEHOLDER.search(text.strip()):
        return True
    words = canonical_words(text[:_LINE_CHARACTERS])
    return len(words) >= _ECHOED_WORDS and " ".join(words) in _prompt_words()


@cache
def _prompt_words() -> str:
    return " ".join(canonical_words(f"{OBSERVER_INSTRUCTIONS}\n{REFLECTOR_INSTRUCTIONS}"))


def _date(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day)
    except ValueError:
        return None


def _time(hour: int, minute: int, half: str | None) -> time | None:
    if half and 1 <= hour <= 12:
        hour = hour % 12 + (12 if half.lower() == "p" else 0)
    return time(hour, minute) if hour < 24 and minute < 60 else None


def parsed_edits(text: str, known: Sequence[int]) -> list[Edit]:
    """Return the edits of a reflector's answer, lines or JSON; unknown and repeated numbers are left out."""
    ids, used = set(known), set[int]()
    edits: list[Edit] = []
    for operation, numbers, new in (*_edits_in_lines(text), *_edits_in_json(text)):
        given = tuple(dict.fromkeys(numbers))
        new = "" if operation == "drop" else _edited_text(new)
        is_known = bool(given) and ids.issuperset(given) and used.isdisjoint(given)
        if not is_known or (operation != "drop" and (_is_empty(new) or _is_echo(new))):
            continue
        used.update(given)
        edits.append(Edit(operation if len(given) > 1 or operation == "drop" else "reword", given, new))
    return edits


_Operation = Literal["merge", "reword", "drop"]


def _edits_in_lines(text: str) -> Iterator[tuple[_Operation, list[int], str]]:
    pending: tuple[_Operation, list[int], str] | None = None
    for raw in text.splitlines():
        match = _EDIT.match(raw)
        if match is not None:
            if pending is not None:
                yield pending
            pending = cast(_Operation, match[1].lower()), _numbers(match[2]), match[3] or ""
        elif pending is not None and len(pending[2]) < _EDIT_CHARACTERS and raw.strip() and not _ANY_TAG.match(raw):
            pending = pending[0], pending[1], f"{pending[2]}\n{raw.strip()}"
    if pending is not None:
        yield pending


def _edits_in_json(text: str) -> Iterator[tuple[_Operation, list[int], str]]:
    for found in json_objects(text, is_cut=True) if "{" in text else ():
        inner = found.get("edits")
        for one in cast("list[Any]", inner) if isinstance(inner, list) else [found]:
            edit = cast("dict[str, Any]", one) if isinstance(one, dict) else {}
            operation = str(edit.get("operation") or edit.get("op") or "").lower()
            if operation in ("merge", "reword", "drop"):
                ids = edit.get("ids") or edit.get("id")
                yield operation, _numbers(str(ids)), str(edit.get("text") or "")


def _numbers(text: str) -> list[int]:
    """Return the numbers of a list such as `3, 4-6`; a range of more than a thousand is none."""
    numbers: list[int] = []
    for a, b in _SPAN.findall(text):
        span = range(int(a), int(b or a) + 1)
        numbers += span if 0 < len(span) <= 1000 else ()
    return numbers


def _edited_text(text: str) -> str:
    """Return an edit's text without citation, time and mark, which are those of its lines."""
    first, *others = text.strip().splitlines() or [""]
    content, _, _ = _head(first)
    details = [shorten(one.strip().lstrip("-*• "), _DETAIL_CHARACTERS) for one in others[:_DETAILS]]
    return "\n".join([shorten(content, _LINE_CHARACTERS), *(f"- {one}" for one in details if one)])


CompletionFunction = Callable[[Sequence[LLMMessage], int], Awaitable[Completion]]
"""Takes messages and the most tokens of the answer; raises LightModelError."""


class ModelCalls:
    """Asks for texts and counts what that took in `record`."""

    def __init__(self, complete: CompletionFunction | None, counter: TokenCounter) -> None:
        self._complete = complete
        self._counter = counter
        self.record = ObservationRecord()

    async def ask(
        self, prompt: Callable[[str], list[LLMMessage]], read: Callable[[str], T | None], limit_tokens: int
    ) -> T:
        """Return what is read of an answer, after at most two calls.

        Args:
            prompt: Returns the messages; takes a hint to the model, empty at first.
            read: Returns None if the answer is of no use.

        Raises:
            LightModelError: There is no model, it failed, or both answers are degenerate or unreadable.
        """
        if self._complete is None:
            raise LightModelError("no model is asked")
        for hint in ("", AGAIN):
            answer = await self._complete(prompt(hint), limit_tokens)
            self._count(answer)
            checked = partial(self._checked, answer, read, limit_tokens)
            if (found := await in_thread_if_large(len(answer.text), checked)) is not None:
                return found
        raise LightModelError("the answers repeat themselves or do not have the form asked for")

    def _checked(self, answer: Completion, read: Callable[[str], T | None], limit_tokens: int) -> T | None:
        if is_degenerate(answer.text) or self._counter.is_over(answer.text, int(_RUNAWAY * limit_tokens)):
            return None
        return read(_whole_lines(answer))

    def _count(self, answer: Completion) -> None:
        self.record = replace(
            self.record,
            calls=self.record.calls + 1,
            prompt_tokens=self.record.prompt_tokens + answer.prompt_tokens,
            completion_tokens=self.record.completion_tokens + answer.completion_tokens,
        )


def _whole_lines(answer: Completion) -> str:
    """Return an answer without the line in which its token limit cut it."""
    return (answer.text.rpartition("\n")[0] if answer.is_cut else "") or answer.text
