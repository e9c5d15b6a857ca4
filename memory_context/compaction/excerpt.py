"""The passages of a long text that are shown when it cannot be shown whole, with what lies between them said exactly.

Most of what an agent uses at once stands near the head or the tail of an output; what does not is mostly an error. So
an excerpt is a head, the lines that report errors, and a tail. What is left out is named by its lines (characters,
where a line itself is too long), so that the agent can ask for just that.
"""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from ..escaping import to_utf8
from ..patterns import LinePattern
from ..tokens import TokenCounter, cut_to_tokens

__all__ = ["Passage", "error_lines", "excerpt", "render_passages"]

HEAD_SHARE = 0.6
ERROR_SHARE = 0.15
ERROR_LINES = 8
CHARACTERS_PER_TOKEN = 8
"""Windows are this many characters a token: more than real text has, so that a cut by tokens always happens inside."""
ELISION_TOKENS = 60
"""What one line about left-out text costs at most."""

_ERROR = LinePattern(
    r"\b(?:\w*Error|\w*Exception|error|ERROR|[Ff]atal|FATAL|[Pp]anic)\b[^:\n]{0,20}: *\S"  # ValueError: …
    r"|^ *(?:FAILED|FAIL|ERROR|FATAL|E  )\b|^Traceback \(|\bfailed\b"
    r"|(?:[Pp]ermission|[Aa]ccess) denied|[Nn]o such file|command not found"
)
_NO_REPORT = re.compile(r"\s*(?:\d+[:\t ]\s*)?(?:except\b|raise\b|#|//|\*|\"\"\"|'''|>|<)")
"""How lines of source code begin that speak of errors without reporting one, after a line number perhaps."""
_SEARCHED_CHARACTERS = 2_000_000
_EXAMINED_MATCHES = 1000
_LONGEST_ERROR_LINE = 300


@dataclass(frozen=True)
class Passage:
    """A stretch of a text, by its characters, from 0, end exclusive."""

    start: int
    end: int


def excerpt(content: str, limit_tokens: int, counter: TokenCounter, token_count: int = 0) -> list[Passage]:
    """Return the passages to show of a content, in order, within a limit.

    Args:
        content: A text that has more tokens than the limit.
        limit_tokens: What the passages may take, the lines about left-out text (`ELISION_TOKENS` each) included.
        counter: Counts tokens.
        token_count: Tokens of the content; 0 if unknown.
    """
    density = len(content) / token_count if token_count else 4.0
    budget = limit_tokens - 2 * ELISION_TOKENS
    if budget <= 0:
        return []
    reported = error_lines(content, 0, len(content), ERROR_LINES)
    error_budget = int(budget * ERROR_SHARE) if reported else 0
    head, tail = _ends(content, budget - error_budget, counter, density)
    errors: list[Passage] = []
    for passage in error_lines(content, head.end, tail.start, ERROR_LINES) if reported else ():
        cost = counter.count(content[passage.start : passage.end]) + ELISION_TOKENS
        if cost > error_budget:
            break
        error_budget -= cost
        errors.append(passage)
    return _merged([head, *errors, tail])


def _ends(content: str, budget: int, counter: TokenCounter, density: float) -> tuple[Passage, Passage]:
    """Return the head and the tail of a content that fit a budget, cut at lines where that leaves enough."""
    window, head_budget = budget * CHARACTERS_PER_TOKEN, int(budget * HEAD_SHARE)
    head_text = cut_to_tokens(content[:window], head_budget, counter, "start", density)
    head = Passage(0, _end_of_line(content, len(head_text)))
    tail_text = cut_to_tokens(content[-window:], budget - head_budget, counter, "end", density)
    start = max(len(content) - len(tail_text), head.end)
    return head, Passage(_start_of_line(content, start), len(content))


def error_lines(content: str, start: int, end: int, limit: int) -> list[Passage]:
    """Return lines between two characters that report an error; of a very long line, the part around it."""
    found: list[Passage] = []
    for match_start, match_end in _error_spans(content, start, min(end, start + _SEARCHED_CHARACTERS)):
        if found and match_start < found[-1].end:
            continue
        line_start = max(content.rfind("\n", start, match_start) + 1, start, match_start - _LONGEST_ERROR_LINE // 2)
        line_end = content.find("\n", match_end, end)
        line_end = min(end if line_end < 0 else line_end, line_start + _LONGEST_ERROR_LINE)
        if _NO_REPORT.match(content, line_start):
            continue
        found.append(Passage(line_start, line_end))
        if len(found) == limit:
            break
    return found


def _error_spans(content: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield where a word that reports an error stands, in characters; no more than are worth examining."""
    window = content[start:end]
    data = to_utf8(window)
    has_long_characters = len(data) != len(window)
    byte, character = 0, 0
    for span in islice(_ERROR.spans(data, 0, len(data), deadline=math.inf), _EXAMINED_MATCHES):
        match_start, match_end = span
        if has_long_characters:  # count on from the match before
            character += len(data[byte : span[0]].decode("utf-8", "surrogatepass"))
            length = len(data[span[0] : span[1]].decode("utf-8", "surrogatepass"))
            byte, match_start, match_end = span[0], character, character + length
        yield start + match_start, start + match_end


def render_passages(
    content: str, passages: Sequence[Passage], elision: Callable[[str], str] = lambda what: f"[… {what} left out …]"
) -> str:
    """Return the passages as one text in which every gap is named.

    Args:
        content: The whole text.
        passages: What to show, in order.
        elision: Makes the line for a gap from its name, such as `lines 81-419`.
    """
    pieces: list[str] = []
    position = 0
    for passage in passages:
        if passage.start > position:
            pieces.append(elision(_gap_name(content, position, passage.start)))
        pieces.append(content[passage.start : passage.end].strip("\n"))
        position = passage.end
    if position < len(content):
        pieces.append(elision(_gap_name(content, position, len(content))))
    return "\n".join(pieces)


def _gap_name(content: str, start: int, end: int) -> str:
    """Name a gap by its whole lines if it is made of such, else by its characters; both count from 1."""
    starts_line = start == 0 or content[start - 1] == "\n" or content[start] == "\n"
    ends_line = end == len(content) or content[end - 1] == "\n" or content[end] == "\n"
    if not (starts_line and ends_line):
        return f"characters {start + 1}-{end}"
    first = content.count("\n", 0, start) + (1 if start == 0 or content[start - 1] == "\n" else 2)
    last = content.count("\n", 0, end - 1) + 1  # a line break belongs to the line it ends
    return f"lines {first}-{last}" if last > first else f"line {first}"


def _end_of_line(content: str, end: int) -> int:
    """Move a cut back to the end of a line, unless most of the passage would go."""
    if end >= len(content) or content[end] == "\n":
        return min(end, len(content))
    line_end = content.rfind("\n", 0, end)
    return line_end if line_end > end // 2 else end


def _start_of_line(content: str, start: int) -> int:
    """Move a cut forward to the start of a line, unless most of the passage would go."""
    if start == 0 or content[start - 1] == "\n":
        return start
    line_start = content.find("\n", start) + 1
    return line_start if 0 < line_start < start + (len(content) - start) // 2 else start


def _merged(passages: list[Passage]) -> list[Passage]:
    merged: list[Passage] = []
    for passage in passages:
        if passage.end <= passage.start:
            continue
        if merged and passage.start <= merged[-1].end + 1:
            merged[-1] = Passage(merged[-1].start, max(merged[-1].end, passage.end))
        else:
            merged.append(passage)
    return merged
