"""JSON and its like: which records there are, what they have, how they are called, and which stand out.

Agents come back to such a result for an id, for a name, for the least or the greatest of a number, or to learn which
fields there are; an error in it is usually one field.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, cast

from ..compactor import Result
from ..excerpt import Passage
from ..reading import Reading
from .columns import Column, categories, is_naming, ranges
from .framing import LABELS, LANDMARKS, NAMES, described, fact
from .outcome import errors_in, is_failed, text_of
from .parsing import PARSED, Document, find_document, passages_of
from .tools_listed import ListedTool, tools_in

__all__ = ["read_json"]

_VISITED = 5000
_COLUMNS = 12
_SAMPLED = 50
_SCALARS = 12
_OBJECTS = 5


@dataclass(frozen=True)
class _Records:
    """The largest list of like objects: how it is reached, the objects, and their keys if it is an object itself."""

    path: tuple[str, ...]
    rows: Sequence[dict[str, Any]]
    keys: Sequence[str] = ()


def read_json(result: Result) -> Reading | None:
    """Return what JSON, JSON Lines, printed Python data and lists of records in YAML say; None if it is none."""
    content = result.content
    document = find_document(content)
    if document is None:
        return None
    value, records = document.value, _records(document.value)
    rows = records.rows if records else ()
    columns = _columns(rows)
    tools = tools_in(value, rows)
    named = _called(records, columns, tools)
    failed, errors = errors_in(value, rows, columns)
    scalars = _scalars(value)
    facts = [*errors, *scalars[:1], *(tool.line() for tool in tools[:_COLUMNS])]
    if not tools and records:
        facts += _facts_of(columns, named)
    passages, labels = _places(content, document, records, named, columns)
    return Reading(
        _description(content, document, records, columns, tools),
        has_failed=failed,
        facts=[fact(line) for line in (*facts, *scalars[1:])][:_COLUMNS],
        names=_names(value, records, columns, tools),
        landmarks=passages,
        labels=labels,
    )


def _records(value: Any) -> _Records | None:
    """Return the longest list of objects that is near the top, or an object whose members are like objects."""
    best: _Records | None = None
    queue: list[tuple[Any, tuple[str, ...]]] = [(value, ())]
    for node, path in islice(queue, _VISITED):
        found = _of_list(node, path) or _of_object(node, path)
        if found and len(found.rows) > (len(best.rows) if best else 0):
            best = found
        if isinstance(node, dict) and len(queue) < _VISITED:
            queue += [(child, (*path, key)) for key, child in islice(cast("dict[str, Any]", node).items(), 200)]
    return best


def _of_list(node: Any, path: tuple[str, ...]) -> _Records | None:
    while isinstance(node, list):
        items = cast("list[Any]", node)
        rows = [cast("dict[str, Any]", item) for item in items if isinstance(item, dict)]
        if rows:
            return _Records(path, rows) if len(rows) * 2 > len(items) else None
        inner = [cast("list[Any]", item) for item in items if isinstance(item, list)]
        node, path = list(chain.from_iterable(inner)), (*path, "")
        if not inner or len(path) > _COLUMNS:
            return None
    return None


def _of_object(node: Any, path: tuple[str, ...]) -> _Records | None:
    if not isinstance(node, dict):
        return None
    named = cast("dict[str, Any]", node)
    rows = [cast("dict[str, Any]", child) for child in named.values() if isinstance(child, dict) and child]
    if len(rows) < 3 or len(rows) < len(named):
        return None
    shared = Counter(chain.from_iterable(rows[:_SAMPLED])).most_common(1)[0][1]
    return _Records(path, rows, list(named)) if shared * 2 > min(len(rows), _SAMPLED) else None


def _columns(rows: Sequence[dict[str, Any]]) -> list[Column]:
    """Return the fields of records, those of objects inside them too, the most common first."""
    counts = Counter(chain.from_iterable(rows))
    columns: list[Column] = []
    for key, _ in counts.most_common(_COLUMNS * 2):
        values = [row.get(key) for row in rows]
        inner = [cast("dict[str, Any]", value) for value in values if isinstance(value, dict)]
        if inner and len(inner) * 2 > len(rows):
            for child in islice(Counter(chain.from_iterable(inner[:_SAMPLED])), _COLUMNS):
                columns.append(Column(f"{key}.{child}", [_field(item, child) for item in values]))
        else:
            columns.append(Column(key, values, missing=len(rows) - counts[key]))
    return columns[: _COLUMNS * 3]


def _called(records: _Records | None, columns: Sequence[Column], tools: Sequence[ListedTool]) -> Sequence[str]:
    """Return what the records are called by: their keys, or the field that tells most of them apart."""
    if records is None or records.keys:
        return records.keys if records else ()
    if len(tools) == len(records.rows):
        return [tool.name for tool in tools]
    naming = [column.texts for column in columns if is_naming(column.name)]
    return max(naming, key=lambda texts: len(set(texts)), default=())


def _facts_of(columns: Sequence[Column], named: Sequence[str]) -> Iterator[str]:
    shown = [column.name + (f" ({column.missing:,} missing)" if column.missing else "") for column in columns]
    yield from ranges(columns, named)
    yield from categories(columns)
    yield f"fields: {', '.join(shown[:_COLUMNS])}{', …' if len(columns) > _COLUMNS else ''}"


def _names(value: Any, records: _Records | None, columns: Sequence[Column], tools: Sequence[ListedTool]) -> list[str]:
    """Return tools, keys, ids and names, by columns, those that tell most records apart first."""
    found: list[str] = [*(tool.name for tool in tools), *(tool.server for tool in tools)]
    if records and not tools:
        found += records.keys[:NAMES]
        naming = [column for column in columns if is_naming(column.name)]
        naming.sort(key=lambda column: -len(set(column.texts)))
        share = max(NAMES // max(len(naming), 1), 10)
        for column in naming:
            found += dict.fromkeys(islice((text for text in column.texts if text), share))
    if len(found) < NAMES and not tools:
        found += [text for key, text in _leaves(value) if is_naming(key)]
    return [name for name in dict.fromkeys(found) if 1 < len(name) <= 120 and name.isprintable()][:NAMES]


def _leaves(value: Any) -> Iterator[tuple[str, str]]:
    """Yield the scalars of the upper part of a value with their keys, from the top down."""
    queue: list[tuple[str, Any]] = [("", value)]
    for key, node in islice(queue, _VISITED):
        if isinstance(node, dict):
            queue += islice(cast("dict[str, Any]", node).items(), _SAMPLED)
        elif isinstance(node, list):
            queue += [(key, item) for item in cast("list[Any]", node)[:_SAMPLED]]
        elif node is not None and not isinstance(node, bool):
            yield key, text_of(node)


def _scalars(value: Any) -> list[str]:
    """Return the plain fields of an object at the top, and of objects just below it, in one line each."""
    if not isinstance(value, dict):
        return []
    named = cast("dict[str, Any]", value)
    inner = ((key, cast("dict[str, Any]", node)) for key, node in named.items() if isinstance(node, dict))
    found: list[str] = []
    for name, node in (("", named), *islice(inner, _OBJECTS)):
        plain = ((key, item) for key, item in node.items() if not isinstance(item, (dict, list)))
        if pairs := [f"{key}: {text_of(item)[:80]}" for key, item in islice(plain, _SCALARS)]:
            found.append((f"{name}: " if name else "") + "; ".join(pairs))
    return found


def _places(
    content: str, document: Document, records: _Records | None, named: Sequence[str], columns: Sequence[Column]
) -> tuple[list[Passage], list[tuple[Passage, str]]]:
    """Return the passages to show first, and the records or members by name."""
    passages = passages_of(content, document, records.path if records else ())
    if not records:
        value: Any = document.value
        keys = list(cast("dict[str, Any]", value)) if isinstance(value, dict) else ()
        labels = [(passage, key[:60]) for passage, key in zip(passages, keys, strict=False)]
        return passages[:LANDMARKS], labels[:LABELS]
    labels = [(passage, name[:60]) for passage, name in zip(passages, named, strict=False) if name]
    placed = zip(passages, records.rows, strict=False)
    bad = [passage for passage, row in placed if is_failed(row)]
    extremes = sorted({index for column in columns for index in column.extremes if index < len(passages)})
    marks = [*bad[: LANDMARKS // 2], *passages[:2], *(passages[index] for index in extremes)]
    return list(dict.fromkeys(marks))[:LANDMARKS], labels[:LABELS]


def _description(
    content: str, document: Document, records: _Records | None, columns: Sequence[Column], tools: Sequence[ListedTool]
) -> str:
    size = f"{len(content):,} characters"
    cut = "" if document.is_whole else "cut off" if len(content) <= PARSED else "of which the beginning was read"
    if tools:
        return described(f"list of {len(tools):,} tools", "", cut, size)
    if records and len(records.rows) > 1:
        where = f" in {'.'.join(key for key in records.path if key)}" if any(records.path) else ""
        shown = ", ".join(column.name for column in columns[:6])
        count = f"{len(records.rows):,}" + ("+" if cut else "")
        return described(f"{document.kind}, {count} records{where}", f"({shown})", cut, size)
    value = document.value
    if isinstance(value, dict):
        keys = ", ".join(list(cast("dict[str, Any]", value))[:8])
        return described(f"{document.kind} object", f"({keys})", cut, size)
    return described(f"{document.kind} list of {len(value):,}", "", cut, size)


def _field(value: Any, key: str) -> Any:
    return cast("dict[str, Any]", value).get(key) if isinstance(value, dict) else None
