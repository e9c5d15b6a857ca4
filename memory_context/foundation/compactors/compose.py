"""Composes facts and excerpt from an analysis, by one rule for every sort of content.

Facts are the analyzer's lines (at most a quarter), then ranked names. Of a content too long to show there is a table of
its records, or an excerpt: head, tail, and relevant lines between.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import islice

from ..patterns import regex
from ..references import DESCRIPTION_LIMIT, elided, one_line
from ..text.landmarks import Passage, definitions_in
from ..tokens import TokenCounter, cut_to_tokens, equal_shares
from ..utf8 import json_object
from .analyzers.output import size_and_first_line
from .analyzers.wrapper import Unwrapped, unwrapped
from .compactor import Analysis, Compacted, Hint, Result
from .excerpt import ELISION_TOKENS, Label, excerpt
from .lines import Lines, without_markup
from .names import ANALYSED_CHARACTERS, Names, analysed_text, is_name, reads_as_order, stands_whole
from .records import table_of

__all__ = ["Reading", "analyze_anything", "composed", "shown_arguments"]

FACTS_SHARE = 0.2
"""Share of a result's own tokens: short results keep fewer facts."""
LEAST_FACTS_TOKENS = 60
LINES_SHARE, LEAST_LINES_TOKENS = 0.25, 20
"""Share and minimum of the budget for the analyzer's lines; of a small budget they take half."""

_LINE_LIMIT = 200
_LABELS = 200
_ARGUMENTS_LIMIT = 90  # of a description; more if the rest leaves room
_LEAST_ARGUMENT, _LEAST_CONTENT, _LONGEST_NAME = 10, 20, 200
_PARSED_ARGUMENTS = 200_000
_RANKED_WORDS = 20_000
_EXIT_STATUS = regex(r"\bexit(?:ed)?\b[^\d\n]{0,40}\b(?:status|code)\b[ :=]*(-?\d+)", re.IGNORECASE)
_WRAPPED_ERROR = regex(r"\bis_?error[\"']?\s*[=:]\s*true\b.{0,2}$", re.IGNORECASE)
_NOTICE = regex(
    r"\b(?:truncated|(?:saved|written|stored|persisted|dumped) (?:to|in|at|as|under)|(?:full|complete|whole|entire) "
    r"(?:output|result|response|content|log|text|file))\b",
    re.IGNORECASE,
)
_PLACE = regex(r"\w[/\\]\w|[/\\]\w+[/\\.]|[A-Za-z_]\w*\.[A-Za-z]\w{0,4}\b|\b(?=\w*\d)(?=\w*[A-Za-z])[\w-]{6,}")
"""A path, a file, or an identifier of letters and digits."""
_NOTICE_LINES, _NOTICE_LIMIT = 4, 400
_NAMES_HEAD_TOKENS = 6
_QUOTATION_TOKENS = 8  # the text that marks names as quotations
_LEAST_NAME_TOKENS = 3
_NAMES_OF_A_ROW = 10
_DIGITS = regex(r"\d+")
_PASSED_OVER = 40  # most names skipped as too long
_STATUS_LINE_LIMIT = 160
_STATUS_LINES = 2
_TRIES = 4
"""Attempts to fit an excerpt of wrapped text: escapes take tokens, too."""
_MARK_TOKENS = 8


def analyze_anything(result: Result) -> Analysis:
    """Return the size of any content, and its first line if informative."""
    return Analysis(size_and_first_line(result.content))


class Reading:
    """A result and what was found out about it, each part when it is first asked for.

    Args:
        analysis: Of the unwrapped text.
        inner: That text, if already unwrapped.
    """

    def __init__(self, result: Result, analysis: Analysis, inner: Unwrapped | None = None) -> None:
        self.result = result
        self.analysis = analysis
        self.inner = inner or unwrapped(result.content)
        self.text = self.inner.elided.text
        self._names: Names | None = None

    def names(self, words: str) -> Names:
        """Return the names of the part that is analysed for these words; mostly the whole, so the same ones."""
        if self._names is None or len(self.text) > ANALYSED_CHARACTERS:
            text = without_markup(analysed_text(self.text, words))
            if self._names is None or self._names.text != text:
                self._names = Names(text, self.analysis.names)
        return self._names

    @property
    def lines(self) -> Lines | None:
        """The lines of the text, if it is analysed as it is."""
        names = self.names("") if len(self.text) <= ANALYSED_CHARACTERS else None
        return names.lines if names and names.text == self.text else None

    @cached_property
    def labels(self) -> list[Label]:
        definitions = list(islice(definitions_in(self.inner.text), _LABELS))
        named = [(Passage(one.start, one.end), one.signature) for one in definitions]
        named += [(run, mark) for run, mark in self.inner.elided.runs if mark]
        placed = self.inner.outside([passage for passage, _ in named])
        return [(passage, name) for passage, (_, name) in zip(placed, named, strict=True)]

    @cached_property
    def notice(self) -> str:
        """The line above or below a cut output that names the place of the whole output; empty without one."""
        text = self.text.strip()
        lines = [*text[:_NOTICE_LIMIT].split("\n")[:_NOTICE_LINES], *text[-_NOTICE_LIMIT:].split("\n")[-_NOTICE_LINES:]]
        said = (line for line in map(one_line, lines) if _NOTICE.search(line) and _PLACE.search(line))
        return next((line for line in said if not reads_as_order(line)), "")

    @cached_property
    def status(self) -> str:
        outcome = "failed" if _has_failed(self.result, self.analysis, self.inner) else "succeeded"
        return f"{one_line(self.result.source, 60)} {outcome}."

    @cached_property
    def description(self) -> str:
        return _description(self.result, self.analysis, self.inner)


def composed(reading: Reading, hint: Hint) -> Compacted:
    """Return the compacted result within the limits of the hint."""
    content, limit = reading.result.content, hint.excerpt_limit_tokens
    is_long = limit > 0 and (reading.result.token_count > limit or hint.counter.is_over(content, limit))
    notice = reading.notice if is_long and hint.facts_limit_tokens > 0 else ""
    room = limit + hint.facts_limit_tokens - hint.counter.count(notice)
    if is_long and (table := table_of(reading.text, room, hint.counter)) is not None:
        return Compacted(reading.status, reading.description, notice, table=table)
    passages = _excerpt(reading, hint) if is_long else None
    shown = "\n".join(content[one.start : one.end] for one in passages or ())
    facts = _facts(reading, hint, shown) if hint.facts_limit_tokens > 0 else ""
    return Compacted(reading.status, reading.description, facts, passages, reading.labels if passages else ())


def _excerpt(reading: Reading, hint: Hint) -> list[Passage]:
    result, inner = reading.result, reading.inner
    content, limit = result.content, hint.excerpt_limit_tokens
    words = f"{hint.said}\n{hint.task}"[:_RANKED_WORDS]
    choose = partial(excerpt, counter=hint.counter, words=words)
    room = limit
    for _ in range(_TRIES if inner.is_wrapped or inner.elided.runs else 0):
        whole = not hint.counter.is_over(reading.text, room)
        chosen = [Passage(0, len(reading.text))] if whole else choose(reading.text, room, lines=reading.lines)
        passages = inner.outside(inner.split(inner.elided.outside(chosen)))
        tokens = hint.counter.count("\n".join(content[one.start : one.end] for one in passages))
        tokens += ELISION_TOKENS * len(chosen) + _MARK_TOKENS * (len(passages) - len(chosen))
        if tokens <= limit:
            return passages
        room = int(room * limit / tokens)
    lines = None if inner.is_wrapped or inner.elided.runs else reading.lines
    return choose(content, limit, token_count=result.token_count, lines=lines)


def _facts(reading: Reading, hint: Hint, shown: str) -> str:
    """Return lines and names that neither view nor excerpt shows."""
    content, result, analysis, inner = reading.result.content, reading.result, reading.analysis, reading.inner
    limit = min(hint.facts_limit_tokens, max(int(result.token_count * FACTS_SHARE), LEAST_FACTS_TOKENS))
    limit -= _QUOTATION_TOKENS
    found = (one_line(line, _LINE_LIMIT) for line in (reading.notice, *analysis.facts))
    read = [line for line in found if line not in shown]
    room = max(int(limit * LINES_SHARE), min(limit // 2, LEAST_LINES_TOKENS))
    lines = _lines_within(read, room, hint.counter)
    text = "\n".join(lines)
    limit -= hint.counter.count(text)
    task, answer = hint.task[:_RANKED_WORDS], (hint.answer or hint.said)[:_RANKED_WORDS]
    ranked = reading.names(f"{answer}\n{task}").ranked(task, answer)
    told = "\n".join([text, hint.answer, shown])
    told = f"{told}\n{reading.description}"

    def is_verbatim(name: str) -> bool:  # escaped text, pieces of names and sentences cannot be searched for
        is_new = name not in hint.known and name not in told
        return (
            is_new and is_name(name) and stands_whole(name, reading.text) and (not inner.is_wrapped or name in content)
        )

    names = _names_within(ranked, limit, hint.counter, is_verbatim)
    where = "Names in the rest" if shown else "Names in it"
    return "\n".join([*lines, *([f"{where}: {', '.join(names)}"] if names else [])])


def _lines_within(lines: Sequence[str], limit_tokens: int, counter: TokenCounter) -> list[str]:
    """Return the first lines that fit, the very first perhaps cut."""
    kept: list[str] = []
    for line in lines:
        short = one_line(line, _LINE_LIMIT)
        tokens = counter.count(short) + 1
        if not short or short in kept:
            continue
        if tokens > limit_tokens:
            if kept:
                break
            short, tokens = cut_to_tokens(short, max(limit_tokens - 2, 1), counter).rstrip() + "…", limit_tokens
        limit_tokens -= tokens
        kept.append(short)
    return kept


def _names_within(names: Iterable[str], limit: int, counter: TokenCounter, fits: Callable[[str], bool]) -> list[str]:
    """Return the first names that fit; rows differing in digits are sampled."""
    room = limit - _NAMES_HEAD_TOKENS
    kept: dict[str, int] = {}
    said = ""  # also what a longer name has replaced, which stands in that name
    alike: Counter[str] = Counter()
    passed_over = 0
    for name in names:
        if room < _LEAST_NAME_TOKENS or passed_over > _PASSED_OVER:
            break
        row = _DIGITS.sub("0", name)
        if alike[row] >= _NAMES_OF_A_ROW or name in said or not fits(name):
            continue
        tokens = counter.count(f", {name}")
        parts = [one for one in kept if one in name]
        freed = sum(kept[one] for one in parts)
        if tokens > room + freed:
            passed_over += 1
            continue
        for one in parts:
            del kept[one]
        room += freed - tokens
        kept[name] = tokens
        said += f"\n{name}"
        alike[row] += row != name
    return list(kept)


def _has_failed(result: Result, analysis: Analysis, inner: Unwrapped) -> bool:
    """Return whether framework, wrapper, analyzer or result reports failure.

    Exit statuses stand in the first or last lines, MCP flags at the very end.
    """
    if result.is_error or inner.has_failed:
        return True
    if analysis.has_failed is not None or inner.has_failed is not None:
        return bool(analysis.has_failed)
    content = inner.text.rstrip()
    if _WRAPPED_ERROR.search(content[-_STATUS_LINE_LIMIT:]):
        return True
    first = content[: _STATUS_LINE_LIMIT + 1].split("\n", 1)[:1]
    last = content[-_STATUS_LINE_LIMIT * _STATUS_LINES :].split("\n")[-_STATUS_LINES:]
    lines = [line for line in (*first, *last) if len(line) <= _STATUS_LINE_LIMIT]
    return any(int(match[1]) != 0 for line in lines for match in _EXIT_STATUS.finditer(line))


def _description(result: Result, analysis: Analysis, inner: Unwrapped) -> str:
    what = analysis.description  # may hold untrusted text, such as a page title
    if reads_as_order(what):
        what = analyze_anything(replace(result, content=inner.elided.text)).description
    what = one_line(what)
    room = max(DESCRIPTION_LIMIT - len(what) - 2, _ARGUMENTS_LIMIT)
    asked = shown_arguments(result.arguments, room)
    asked = asked or (f"output of {one_line(result.source, 60)}" if result.source else "")
    return one_line(f"{asked}, {what}" if asked else what)


def shown_arguments(arguments: str, limit: int = _ARGUMENTS_LIMIT) -> str:
    """Return the arguments of a call in one line of at most `limit` characters.

    They tell the results of one tool apart: long ones lose their middle, short ones nothing, and contents (many
    characters, or several lines) give way to names.
    """
    parsed = json_object(arguments or "{}") if len(arguments) <= _PARSED_ARGUMENTS else None
    if parsed is None:
        return _shown(arguments, limit)
    given = [(name, value) for name, value in parsed.items() if value not in (None, "", [], {})]
    given = given[: max(limit // _LEAST_ARGUMENT, 1)]
    texts = [value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for _, value in given]
    sizes = [min(len(name) + 1 + len(text), limit) for (name, _), text in zip(given, texts, strict=True)]
    names = [0 if "\n" in text or len(text) > _LONGEST_NAME else size for text, size in zip(texts, sizes, strict=True)]
    contents = [size - name for name, size in zip(names, sizes, strict=True)]
    room = limit - max(len(given) - 1, 0)  # spaces between
    of_names = equal_shares(names, room - sum(min(size, _LEAST_CONTENT) for size in contents))
    of_contents = equal_shares(contents, room - sum(of_names))
    pieces = [
        f"{name}={_shown(text, max(of_name + of_content - len(name) - 1, 1))}"
        for (name, _), text, of_name, of_content in zip(given, texts, of_names, of_contents, strict=True)
    ]
    return _shown(" ".join(pieces), limit)


def _shown(text: str, limit: int) -> str:
    return elided(text, limit).replace("[", "(").replace("]", ")")
