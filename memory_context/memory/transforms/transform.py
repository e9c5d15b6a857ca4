"""The transforms of `retrieve`, also the summary: content in, text out. Pure.

Lines and characters count from 1, inclusive; only "\\n" ends a line. A partial content ends with a footer that names
part, size and the call that continues.
"""

from dataclasses import dataclass, fields, replace
from typing import Any, Literal, cast, get_args

from memory_context.foundation.compactors.compactor import Hint, Result
from memory_context.foundation.compactors.excerpt import ELISION_TOKENS, FIRST_ELISION_TOKENS, Passage, render_passages
from memory_context.foundation.compactors.registry import Compactors
from memory_context.foundation.compactors.summary_prompt import cut_at_sentence
from memory_context.foundation.errors import TransformError
from memory_context.foundation.references import shorten
from memory_context.foundation.text.documents import is_document
from memory_context.foundation.tokens import TokenCounter, cut_to_tokens

from .filter import FilterResult, find_matches
from .slicing import LEAST_ROOM_TOKENS, PARAMETERS, Cut, Slicer, call_text, implied_by

__all__ = ["FULL", "MemoryTransform", "TransformName", "TransformUnit", "cut", "summarize"]


_FACTS_SHARE, _FACTS_SHARE_OF_DOCUMENT = 0.5, 0.15
"""Share of the limit for facts and names; documents need more passages."""
_NEXT_LINES, _NEXT_CHARACTERS = 50, 4_000  # most of the first gap that the footer's call opens
_BY_MODEL = "A model wrote this summary; the whole content is one retrieve_memory call away."
_COMPACTORS = Compactors()


def summarize(slicer: Slicer, limit_tokens: int, model_summary: str | None = None) -> Cut:
    """Return the summary of a content; a content within the limit stays whole.

    Args:
        slicer: Its limit covers the answer with footer.
        limit_tokens: Limit of the summary without footer.

    Raises:
        ValueError: The slicer's limit has no room for the footer.
    """
    limit = limit_tokens if slicer.limit is None else min(limit_tokens, slicer.limit)
    if not slicer.counter.is_over(slicer.content, limit):
        return Cut(slicer.content, True, "all of")
    text, footer = _by_model(slicer, model_summary, limit) if model_summary else _extract(slicer, limit)
    return Cut(slicer.within_limit(text, footer), False, "summary of")


def _by_model(slicer: Slicer, summary: str, limit: int) -> tuple[str, str]:
    footer = _footer(slicer, call_text(slicer.key, "full", {}))
    room = _room(slicer, limit, footer) - slicer.counter.count(_BY_MODEL + "\n") - 1
    return f"{_BY_MODEL}\n{cut_at_sentence(summary, max(room, LEAST_ROOM_TOKENS), slicer.counter)}", footer


def _extract(slicer: Slicer, limit: int) -> tuple[str, str]:
    """Return the compacted text, and the footer that opens the first gap."""
    content, counter = slicer.content, slicer.counter
    longest = _footer(slicer, slicer.call_for(len(content) // 2, len(content)))
    limit = _room(slicer, limit, longest)
    share = _FACTS_SHARE_OF_DOCUMENT if is_document(content) else _FACTS_SHARE
    result = Result(content, "", token_count=slicer.token_count)
    hint = Hint(counter=counter, masks_credentials=False)  # the reader may see the whole content
    facts = replace(hint, facts_limit_tokens=int(limit * share), excerpt_limit_tokens=0)
    kept = _COMPACTORS.compact(result, facts)
    text = f"{kept.description}\n{kept.facts}".rstrip("\n")
    room = limit - counter.count(text) + FIRST_ELISION_TOKENS - ELISION_TOKENS  # here the first gap costs no more
    kept = _COMPACTORS.compact(result, replace(hint, facts_limit_tokens=0, excerpt_limit_tokens=room))
    passages = list(kept.excerpt or ())
    if passages:
        text += "\n" + render_passages(content, passages, labels=kept.labels)
    if counter.is_over(text, limit):
        text = cut_to_tokens(text, limit, counter)
    return text, _footer(slicer, _call_for_first_gap(slicer, passages))


def _room(slicer: Slicer, limit: int, footer: str) -> int:
    if slicer.limit is None:
        return limit
    return max(min(limit, slicer.limit - slicer.counter.count("\n" + footer)), LEAST_ROOM_TOKENS)


def _footer(slicer: Slicer, call: str) -> str:
    return f"[summary of {slicer.described()}. Next: {call}, or a pattern]"


def _call_for_first_gap(slicer: Slicer, passages: list[Passage]) -> str:
    content = slicer.content
    start = passages[0].end if passages and passages[0].start == 0 else 0
    if content[start : start + 1] == "\n" and content[start - 1 : start] != "\n":
        start += 1
    start = start if start < len(content) else 0
    end = min(len(content), start + _NEXT_CHARACTERS)
    last = start - 1
    for _ in range(_NEXT_LINES):
        last = content.find("\n", last + 1, end)
        if last < 0:
            break
    else:
        return slicer.call_for(start, last + 1)
    line_end = content.rfind("\n", start, end) + 1
    return slicer.call_for(start, end if end == len(content) or line_end <= start else line_end)


TransformName = Literal["full", "excerpt", "summary", "first_n", "last_n", "filtered"]
TransformUnit = Literal["lines", "tokens"]

_EXAMPLES = {
    "full": 'transform="full"',
    "excerpt": "start_line=1, end_line=50 (or start_char=1, end_char=2000)",
    "summary": 'transform="summary", limit_tokens=300',
    "first_n": 'transform="first_n", n=50 (unit="lines" or "tokens")',
    "last_n": 'transform="last_n", n=50 (unit="lines" or "tokens")',
    "filtered": 'pattern="error|warning" (or json_path="$.items[0]")',
}
_BOUNDS: dict[str, tuple[int, int | None]] = {
    "n": (1, None),
    "first_match": (1, None),
    "max_matches": (1, 1000),
    "context_lines": (0, 100),
    "context_chars": (0, 5000),
    "limit_tokens": (50, 4000),
}
_DEFAULT_LINES = 50  # of excerpt, first_n and last_n
_SINGULAR = {"matches": "match", "values": "value"}
_KINDS: dict[str, type] = dict.fromkeys(("unit", "pattern", "json_path"), str) | {"ignore_case": bool}


@dataclass(frozen=True)
class MemoryTransform:
    """A cut of a content; made by the constructors below, or by `of` from a tool call.

    Raises:
        TransformError: A parameter is missing, invalid or superfluous; the message says what to send instead.
    """

    name: TransformName = "full"
    start_line: int | None = None
    end_line: int | None = None
    start_char: int | None = None
    end_char: int | None = None
    n: int | None = None
    unit: TransformUnit = "lines"
    pattern: str | None = None
    json_path: str | None = None
    first_match: int = 1
    max_matches: int = 20
    ignore_case: bool = False
    context_lines: int = 2
    context_chars: int = 200
    limit_tokens: int = 300

    def __post_init__(self) -> None:
        if self.name not in PARAMETERS:
            raise TransformError(
                f"there is no transform {self.name!r}; send one of {', '.join(get_args(TransformName))}"
            )
        for name, value in self._given().items():
            if name not in PARAMETERS[self.name]:
                takes = ", ".join(PARAMETERS[self.name]) or "no parameters"
                raise self._wrong(f"takes {takes}, not {name!r}")
            kind = _KINDS.get(name, int)
            if type(value) is not kind:
                raise self._wrong(f"needs {name} as {kind.__name__}, not {value!r}")
        if self.name == "excerpt":
            if not self._given():
                object.__setattr__(self, "start_line", 1)
                object.__setattr__(self, "end_line", _DEFAULT_LINES)
            self._check_excerpt()
        elif self.name in ("first_n", "last_n"):
            if self.n is None:
                object.__setattr__(self, "n", _DEFAULT_LINES)
            if self.unit not in get_args(TransformUnit):
                raise self._wrong(f'has unit "lines" or "tokens", not {self.unit!r}')
        elif self.name == "filtered":
            self._check_filtered()
        self._check_bounds()

    @classmethod
    def full(cls) -> "MemoryTransform":
        """Return the transform to the unchanged content."""
        return cls()

    @classmethod
    def excerpt(
        cls,
        *,
        start_line: int | None = None,
        end_line: int | None = None,
        start_char: int | None = None,
        end_char: int | None = None,
    ) -> "MemoryTransform":
        """Return the transform to a range of lines or characters; by default the first 50 lines.

        An open end means the content's.
        """
        return cls("excerpt", start_line=start_line, end_line=end_line, start_char=start_char, end_char=end_char)

    @classmethod
    def summary(cls, limit_tokens: int = 300) -> "MemoryTransform":
        """Return the transform to a model's summary, else to facts, names and passages.

        Args:
            limit_tokens: 50 to 4000, without footer; shorter contents stay whole.
        """
        return cls("summary", limit_tokens=limit_tokens)

    @classmethod
    def first_n(cls, n: int = _DEFAULT_LINES, unit: TransformUnit = "lines") -> "MemoryTransform":
        """Return the transform to the beginning."""
        return cls("first_n", n=n, unit=unit)

    @classmethod
    def last_n(cls, n: int = _DEFAULT_LINES, unit: TransformUnit = "lines") -> "MemoryTransform":
        """Return the transform to the end."""
        return cls("last_n", n=n, unit=unit)

    @classmethod
    def filtered(
        cls,
        *,
        pattern: str | None = None,
        json_path: str | None = None,
        first_match: int = 1,
        max_matches: int = 20,
        ignore_case: bool = False,
        context_lines: int = 2,
        context_chars: int = 200,
    ) -> "MemoryTransform":
        """Return the transform to the matches of an RE2 pattern or the values at a JSON path.

        Args:
            pattern: Matches within lines, once a line; in lines over 400 characters each occurrence counts.
            json_path: RFC 9535, for JSON content.
            first_match: From 1.
            context_lines: Lines around a match.
            context_chars: Characters around a match in a long line.
        """
        return cls(
            "filtered",
            pattern=pattern,
            json_path=json_path,
            first_match=first_match,
            max_matches=max_matches,
            ignore_case=ignore_case,
            context_lines=context_lines,
            context_chars=context_chars,
        )

    @classmethod
    def of(cls, name: str = "full", **params: Any) -> "MemoryTransform":
        """Return the transform of a tool call; None means not sent. `full` with parameters is the one that takes them.

        Example:
            >>> MemoryTransform.of(start_line=3, end_line=9) == MemoryTransform.excerpt(start_line=3, end_line=9)
            True
        """
        known = {field.name for field in fields(cls)} - {"name"}
        given = {key: value for key, value in params.items() if value is not None}
        name = implied_by(given) if name == "full" else name
        if name in PARAMETERS and (unknown := [key for key in given if key not in known]):
            takes = ", ".join(PARAMETERS[name]) or "no parameters"
            raise TransformError(f"{name} takes {takes}, not {unknown[0]!r}; send for example {_EXAMPLES[name]}")
        return cls(cast(TransformName, name), **{key: value for key, value in given.items() if key in known})

    def call(self, key: str, **changes: Any) -> str:
        """Return its tool call with some parameters changed."""
        return call_text(key, self.name, self._given() | changes)

    def __str__(self) -> str:
        return " ".join([self.name, *(f"{name}={value!r}" for name, value in self._given().items())])

    def _given(self) -> dict[str, Any]:
        values = {field.name: (getattr(self, field.name), field.default) for field in fields(self)[1:]}
        return {
            name: value
            for name, (value, default) in values.items()
            if value != default or type(value) is not type(default)
        }

    def _wrong(self, problem: str) -> TransformError:
        return TransformError(f"{self.name} {problem}; send for example {_EXAMPLES[self.name]}")

    def _check_excerpt(self) -> None:
        lines, chars = (self.start_line, self.end_line), (self.start_char, self.end_char)
        if (lines == (None, None)) == (chars == (None, None)):
            raise self._wrong("needs a range, either of lines or of characters")
        for unit, (start, end) in (("line", lines), ("char", chars)):
            if (start is not None and start < 1) or (end is not None and end < 1):
                raise self._wrong(f"counts from 1, so start_{unit}={start} and end_{unit}={end} do not do")
            if start is not None and end is not None and start > end:
                raise self._wrong(f"has start_{unit}={start} after end_{unit}={end}; the smaller one comes first")

    def _check_filtered(self) -> None:
        if (self.pattern is None) == (self.json_path is None):
            raise self._wrong("needs either pattern or json_path")
        if self.json_path is not None and (self.ignore_case or self.context_lines != 2 or self.context_chars != 200):
            raise self._wrong("takes ignore_case, context_lines and context_chars with pattern only")

    def _check_bounds(self) -> None:
        for name in filter(_BOUNDS.__contains__, PARAMETERS[self.name]):
            (least, most), value = _BOUNDS[name], getattr(self, name)
            if value < least or (most is not None and value > most):
                range_text = f"of at least {least}" if most is None else f"between {least} and {most}"
                raise self._wrong(f"needs {name} {range_text}, not {value}")


FULL = MemoryTransform.full()


def cut(
    content: str,
    transform: MemoryTransform,
    *,
    key: str,
    counter: TokenCounter,
    answer_limit_tokens: int | None = None,
    token_count: int | None = None,
    model_summary: str | None = None,
) -> Cut:
    """Return the part of a content that a transform selects. CPU-bound: run it in a thread for long content.

    Args:
        key: The `memory_key`, for calls in footers.
        answer_limit_tokens: Limit of `Cut.text` with footer; None for no limit.
        token_count: Saves counting if known.
        model_summary: Used by the transform `summary`.

    Raises:
        TransformError: The pattern, path or range is invalid for this content; the message says what to send
            instead.
        ValueError: `answer_limit_tokens` has no room for the footer.
    """
    slicer = Slicer(content, key, counter, answer_limit_tokens, token_count)
    if transform.name == "filtered":
        return _filtered(slicer, transform)
    if transform.name == "summary":
        return summarize(slicer, transform.limit_tokens, model_summary)
    if transform.name == "full" or not content:
        if not content and transform.name == "excerpt":
            raise TransformError('the content is empty; there is no range to send, only transform="full"')
        return slicer.range(0, len(content))
    if transform.name == "excerpt" and transform.start_char is None and transform.end_char is None:
        return slicer.lines(transform.start_line or 1, transform.end_line)
    if transform.name == "excerpt":
        return slicer.characters(transform.start_char or 1, transform.end_char)
    n = transform.n or 1
    is_first = transform.name == "first_n"
    if transform.unit == "tokens":
        return slicer.tokens(n, "start" if is_first else "end")
    if is_first:
        return slicer.lines(1, n)
    return slicer.lines(max(slicer.line_count - n + 1, 1), None, keep="end")


def _filtered(slicer: Slicer, transform: MemoryTransform) -> Cut:
    if transform.pattern is not None:
        found = find_matches(
            slicer.content,
            transform.pattern,
            ignore_case=transform.ignore_case,
            context_lines=transform.context_lines,
            context_chars=transform.context_chars,
            first_match=transform.first_match,
            max_matches=transform.max_matches,
        )
        noun, what = "matches", f"matches of '{shorten(transform.pattern, 40)}' in"
    else:
        path = transform.json_path or "$"
        from .jsonpath import find_values  # loads a JSONPath engine

        found = find_values(slicer.content, path, first_match=transform.first_match, max_matches=transform.max_matches)
        noun, what = "values", f"values at '{shorten(path, 40)}' in"
    if not found.total:
        return Cut(slicer.within_limit("", _nothing_found(slicer, transform)), False, what)
    if not found.shown:
        raise TransformError(f"there are {found.total:,} {noun}; send first_match between 1 and {found.total}")
    return Cut(_matches(slicer, transform, found, noun), False, what)


def _matches(slicer: Slicer, transform: MemoryTransform, found: FilterResult, noun: str) -> str:
    def text_of(count: int) -> str:
        return f"{found.render(count)}\n{_matches_footer(slicer, transform, found, count, noun)}"

    text = text_of(found.shown)
    if slicer.limit is None or not slicer.counter.is_over(text, slicer.limit):
        return text
    fits, over = 0, found.shown
    while over - fits > 1:
        middle = (fits + over) // 2
        if slicer.counter.is_over(text_of(middle), slicer.limit):
            over = middle
        else:
            fits = middle
    if fits:
        return text_of(fits)
    return slicer.within_limit(found.render(1), _matches_footer(slicer, transform, found, 1, noun, is_cut=True))


def _matches_footer(
    slicer: Slicer, transform: MemoryTransform, found: FilterResult, count: int, noun: str, is_cut: bool = False
) -> str:
    first = transform.first_match
    last = first + count - 1
    total = f"{'' if found.is_total_exact else 'at least '}{found.total:,}"
    shown = f"{noun} {first:,}-{last:,} of {total} in {slicer.described()}"
    shown += f"; {_SINGULAR[noun]} {first} is cut" if is_cut else ""
    note = f" {found.note}" if found.note else ""
    if last >= found.total and not found.is_total_exact:
        return f"[{shown}.{note} The search stopped there as it took too long; a simpler one reaches further]"
    if last >= found.total:
        return f"[{shown}.{note} That is the last.]"
    call = transform.call(slicer.key, first_match=last + 1)
    if _is_too_long(slicer, call):
        call = f"the same call with first_match={last + 1}"
    return f"[{shown}.{note} Next: {call}]"


def _nothing_found(slicer: Slicer, transform: MemoryTransform) -> str:
    if transform.pattern is None:
        path = shorten(transform.json_path or "", 80)
        outline = '$.* shows the top level: send json_path="$.*", or a pattern'
        return f"[no value at '{path}' in {slicer.described()}. {outline}]"
    return f"[no match of '{shorten(transform.pattern, 80)}' in {slicer.described()}. {_hint(slicer, transform)}]"


def _hint(slicer: Slicer, transform: MemoryTransform) -> str:
    pattern = transform.pattern or ""
    if not transform.ignore_case and (again := find_matches(slicer.content, pattern, ignore_case=True)).total:
        call = transform.call(slicer.key, ignore_case=True)
        if _is_too_long(slicer, call):
            call = "the same call with ignore_case=True"
        return f"Ignoring case there are {again.total:,}. Next: {call}"
    if "\n" in pattern or r"\n" in pattern:
        return "A pattern matches within one line, never across a line end; look for one line of it"
    if "$" in pattern and "\r\n" in slicer.content:
        return r"The lines end with \r\n, so write \r?$ for the end of a line"
    return "Try a shorter or rarer part of the text"


def _is_too_long(slicer: Slicer, call: str) -> bool:
    """Return whether a call takes more than a third of the limit."""
    return slicer.limit is not None and slicer.counter.is_over(call, slicer.limit // 3)
