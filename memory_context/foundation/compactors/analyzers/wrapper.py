"""Unwraps MCP results (JSON or Python repr, perhaps nested or truncated) and maps offsets back, in linear time."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence, Set
from dataclasses import dataclass
from functools import cached_property

from memory_context.foundation.text.json_text import Literal, escape_pattern, read_literal
from memory_context.foundation.text.landmarks import Passage

from ...patterns import regex
from ..lines import Elided

__all__ = ["Unwrapped", "unwrapped"]

_LAYERS = 4
_HEAD = 600
_TEXTS = 500
_SHORT = 200
"""Shorter strings stay wrapped: a list of short strings is data."""

_FLAG = r"[\"']?is_?error[\"']?\s{0,4}[=:]\s{0,4}(true|false)\b"
_FLAG_AT_END = regex(_FLAG + r"[^\w]{0,40}$", re.IGNORECASE)
_FLAG_AT_START = regex(r"\s{0,40}\{[^\[]{0,60}?" + _FLAG, re.IGNORECASE)

_SCALAR = r"(?:null|None|true|True|false|False|\{\}|[\"'][^\"'\\]{0,60}[\"'])"
_FIELDS = rf"(?:[\"']\w{{1,30}}[\"']\s{{0,4}}:\s{{0,4}}{_SCALAR}\s{{0,4}},\s{{0,60}}){{0,4}}"
_ITEM = regex(rf"\{{\s{{0,60}}({_FIELDS})([\"'])text[\"']\s{{0,4}}:\s{{0,4}}(?=[\"'])")
_TYPE = regex(r"[\"']type[\"']\s{0,4}:\s{0,4}[\"']text[\"']")
_LIST_OPENS = regex(r"\s{0,40}\[\s{0,60}(?=\{)")
_OBJECT_OPENS = regex(r"\s{0,40}(?=\{)")
_OBJECT_ENDS = regex(r"[\"'][^{}\[\]]{0,200}(?:\{[^{}]{0,300}\}[^{}\[\]]{0,100})?\}\s{0,40}\Z")
_CONTENT_OPENS = regex(r"[\"']content[\"']\s{0,4}:\s{0,4}\[\s{0,60}(?=\{)")
_REPR_OPENS = regex(
    r"\s{0,40}(?:\w{1,40}\()?(?:[\w=', ]{0,120}?\b(?:content|result)=)?"
    r"\[(?=(?:Text|Image|Embedded|Audio)[A-Z]\w{1,30}\()"
)
_REPR_ITEM = regex(r"\bText(?:Content|ResultContent|ResourceContents)\(")
_REPR_TEXT = regex(r"\b(?:text|content)=(?=['\"])")
_FIELD_OPENS = regex(
    r"\s{0,40}\{\s{0,60}[\"'](?:result|output|content|text|data|response|body|stdout)[\"']\s{0,4}:\s{0,4}(?=[\"'])"
)
_FIELD_ENDS = regex(rf"[\"']\s{{0,40}}(?:,\s{{0,40}}{_FLAG}\s{{0,40}})?\}}\s{{0,40}}\Z", re.IGNORECASE)
_STRINGS_OPEN = regex(r"\s{0,40}\[?\s{0,40}(?=[\"'])")
_JSON_IN_STRING = regex(r"[\"'](?:\\[nrt]| ){0,40}[\[{]")
_NEXT_STRING = regex(r"\s{0,40},\s{0,40}(?=[\"'])")
_END = regex(r"\s{0,40}\]?\s{0,40}\Z")


@dataclass(frozen=True)
class _Layer:
    """One wrapper: ordered literals and their joined text."""

    content: str
    literals: Sequence[Literal]
    inner: str

    @cached_property
    def _runs(self) -> tuple[list[int], list[tuple[int, int, int, int]]]:
        """Ends of the runs of the inner text; of each its start, outer start, length and outer length."""
        runs: list[tuple[int, int, int, int]] = []
        inner = 0
        for literal in self.literals:
            outer = literal.start
            for match in escape_pattern(literal.is_python).finditer(self.content, literal.start, literal.end):
                start, end = match.span()
                length = start - outer
                runs.append((inner, outer, length, length))
                runs.append((inner + length, start, 1, end - start))  # an escape is one inner character
                inner, outer = inner + length + 1, end
            runs.append((inner, outer, literal.end - outer, literal.end - outer))
            inner += literal.end - outer + 1  # the joining newline
        return [start + length for start, _, length, _ in runs], runs

    def outside(self, offsets: Sequence[int], are_ends: bool) -> list[int]:
        """Map inner offsets to the wrapper; ends follow the preceding character."""
        ends, runs = self._runs
        outer: list[int] = []
        for offset in offsets:
            start, outer_start, length, outer_length = runs[min(bisect_right(ends, offset - are_ends), len(runs) - 1)]
            inside = max(offset - start, 0)
            outer.append(outer_start + (inside if inside < length else outer_length))
        return outer


@dataclass(frozen=True)
class Unwrapped:
    """A content without its wrappers.

    Attributes:
        text: Inner texts joined by newlines; the content itself without wrapper.
        has_failed: Error flag of the wrappers; None without one.
    """

    text: str
    has_failed: bool | None = None
    _layers: Sequence[_Layer] = ()

    @property
    def is_wrapped(self) -> bool:
        return bool(self._layers)

    @cached_property
    def elided(self) -> Elided:
        """The text as it is analysed and shown, without base64."""
        return Elided(self.text)

    def split(self, passages: Sequence[Passage]) -> list[Passage]:
        """Split passages at text boundaries, where images may stand."""
        joins, position = list[int](), 0
        for literal in self._layers[-1].literals[:-1] if self._layers else ():
            position += len(literal.text)
            joins.append(position)
            position += 1
        pieces: list[Passage] = []
        for passage in passages:
            start = passage.start
            for join in joins[bisect_left(joins, start) : bisect_left(joins, passage.end)]:
                pieces.append(Passage(start, join))
                start = join + 1
            pieces.append(Passage(start, passage.end))
        return [piece for piece in pieces if piece.end > piece.start]

    def outside(self, passages: Sequence[Passage]) -> list[Passage]:
        """Return the corresponding escaped passages of the content."""
        if not self._layers:
            return list(passages)
        starts = self._outside({passage.start for passage in passages}, are_ends=False)
        ends = self._outside({passage.end for passage in passages}, are_ends=True)
        return [Passage(starts[one.start], max(starts[one.start], ends[one.end])) for one in passages]

    def _outside(self, offsets: Set[int], are_ends: bool) -> dict[int, int]:
        inside = sorted(offsets)
        outside = inside
        for layer in reversed(self._layers):
            outside = layer.outside(outside, are_ends)
        return dict(zip(inside, outside, strict=True))


def unwrapped(content: str) -> Unwrapped:
    """Return the text inside an MCP result (also truncated) or quotes."""
    layers = _layers(content)
    return Unwrapped(layers[-1].inner, _flag_of(layers), layers) if layers else Unwrapped(content)


def _flag_of(layers: Sequence[_Layer]) -> bool | None:
    """Return the error flag beside the texts; flags inside are content."""
    flags: list[bool] = []
    for layer in layers:
        first, last = layer.literals[0], layer.literals[-1]
        end = layer.content[max(last.end + 1, len(layer.content) - 120) :]
        if match := _FLAG_AT_END.search(end) or _FLAG_AT_START.match(layer.content[: first.start]):
            flags.append(match[1].lower() == "true")
    return any(flags) if flags else None


def _layers(content: str) -> list[_Layer]:
    """Return the wrappers, outermost first."""
    layers: list[_Layer] = []
    while len(layers) < _LAYERS:
        head = content[:_HEAD]
        if opening := _REPR_OPENS.match(head):
            literals = _repr_items(content, opening.end())
        elif opening := _LIST_OPENS.match(head) or _content_opening(head):
            literals = _json_items(content, opening.end())
        elif literals := _object(content, head):
            pass
        elif opening := _STRINGS_OPEN.match(head):
            literals = _strings(content, opening.end())
        else:
            break
        if not literals:
            break
        layers.append(_Layer(content, literals, "\n".join(literal.text for literal in literals)))
        content = layers[-1].inner
    return layers


def _content_opening(head: str) -> "re.Match[str] | None":
    """Match a result's content list, also inside JSON-RPC or server-sent events."""
    begins = head.lstrip()
    return _CONTENT_OPENS.search(head) if begins.startswith(("{", "data:", "event:")) else None


def _json_items(content: str, position: int, limit: int = _TEXTS) -> list[Literal]:
    literals: list[Literal] = []
    while len(literals) < limit and (match := _ITEM.search(content, position)):
        if not literals and match.start() != position and "type" not in content[position : position + 60]:
            return []
        literal = read_literal(content, match.end(), is_python=match[2] == "'")
        is_cut = literal.end >= len(content)
        if not (is_cut or _TYPE.search(match[1]) or _TYPE.search(content, literal.end, literal.end + 200)):
            break
        literals.append(literal)
        position = literal.end
        if "structuredContent" in content[position : position + 300]:  # repeats the same text
            break
    return literals


def _object(content: str, head: str) -> list[Literal]:
    """Return the text of an object that is a content item, or has no other field."""
    if (opening := _OBJECT_OPENS.match(head)) and (literals := _json_item(content, opening.end())):
        return literals
    return _field(content, opening.end()) if (opening := _FIELD_OPENS.match(head)) else []


def _json_item(content: str, position: int) -> list[Literal]:
    """Return the text of a content item without a list."""
    literals = _json_items(content, position, 1) if (match := _ITEM.match(content, position)) else []
    is_whole = match is not None and all(_OBJECT_ENDS.match(content, one.end) for one in literals)
    is_cut = any(one.end >= len(content) for one in literals)
    return literals if is_whole or is_cut else []


def _field(content: str, position: int) -> list[Literal]:
    """Return the text of an object's only field, if it is JSON or long enough for a text."""
    literal = read_literal(content, position, is_python=content[position] == "'")
    is_only = literal.end >= len(content) or _FIELD_ENDS.match(content, literal.end) is not None
    is_text = "\\" in content[literal.start : literal.end] and len(literal.text) > _SHORT
    holds_json = _JSON_IN_STRING.match(content, position) is not None and len(literal.text) > 1
    return [literal] if is_only and (is_text or holds_json) else []


def _repr_items(content: str, position: int) -> list[Literal]:
    literals: list[Literal] = []
    while len(literals) < _TEXTS and (item := _REPR_ITEM.search(content, position)):
        match = _REPR_TEXT.search(content, item.end(), item.end() + 1000)
        if match is None:
            break
        literals.append(read_literal(content, match.end(), is_python=True))
        position = literals[-1].end
    return literals


def _strings(content: str, position: int) -> list[Literal]:
    """Return a string or list of strings, if long enough for texts."""
    holds_json = _JSON_IN_STRING.match(content, position) is not None
    literals: list[Literal] = []
    while len(literals) < _TEXTS:
        literal = read_literal(content, position, is_python=content[position] == "'")
        literals.append(literal)
        following = _NEXT_STRING.match(content, literal.end + 1)
        if following is None:
            break
        position = following.end()
    is_whole = _END.match(content, literals[-1].end + 1) is not None
    is_text = "\\" in content[literals[0].start : literals[0].end] and len(literals[0].text) > _SHORT
    is_escaped_json = holds_json and '"' in literals[0].text[:100]
    return literals if is_whole and (is_text or is_escaped_json) else []
