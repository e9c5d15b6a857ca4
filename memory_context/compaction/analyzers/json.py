"""JSON and similar data: records, fields, names and errors."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple, cast

from ...text import PARSED_CHARACTERS, Document, find_document
from ..compactor import Analysis, Result
from .output import FACTS, NAMES, described, fact

__all__ = ["analyze_json"]

_VISITED = 5000
_FIELDS = 12
_SAMPLED = 50
_OBJECTS = 5

_ERROR_FIELDS = ("error", "errors", "error_message", "errorMessage", "exception", "traceback", "stderr")
_MESSAGES = ("message", "msg", "detail", "details", "error", "reason", "description", "text", "title")
_BAD = {"failed", "failure", "error", "fail", "denied", "unhealthy"}
_GOOD = {"success", "ok", "succeeded", "passed"}
_NAMING = {
    "id", "key", "name", "title", "path", "url", "uri", "email", "code", "slug", "sku", "file", "filename", "link",
    "login", "username", "user", "symbol", "uuid", "guid", "sha", "ref", "number", "label", "host", "hostname", "tool",
}  # fmt: skip


class _Records(NamedTuple):
    """The longest list of similar objects; keys if they are object members."""

    path: tuple[str, ...]
    rows: Sequence[dict[str, Any]]
    keys: Sequence[str] = ()


def analyze_json(result: Result) -> Analysis | None:
    """Analyse JSON, JSON Lines or printed Python data; None for other content."""
    document = find_document(result.content)
    if document is None:
        return None
    records = _records(document.value)
    fields = Counter(chain.from_iterable(records.rows))
    failed, errors = _errors(document.value, records.rows)
    scalars = _scalars(document.value)
    facts = [*errors, *scalars[:1]]
    if fields:
        facts.append(
            f"fields: {', '.join(_field(name, count, records) for name, count in fields.most_common(_FIELDS))}"
        )
    return Analysis(
        _description(result.content, document, records, list(fields)),
        has_failed=failed,
        facts=[fact(line) for line in (*facts, *scalars[1:])][:FACTS],
        names=_names(document.value, records, fields),
    )


def _field(name: str, count: int, records: _Records) -> str:
    missing = len(records.rows) - count
    return f"{name} ({missing:,} missing)" if missing else name


def _records(value: Any) -> _Records:
    """Return the longest list or mapping of objects near the top."""
    best = _Records((), ())
    queue: list[tuple[Any, tuple[str, ...]]] = [(value, ())]
    for node, path in islice(queue, _VISITED):
        found = _of_list(node, path) or _of_object(node, path)
        if found and len(found.rows) > len(best.rows):
            best = found
        if isinstance(node, dict) and len(queue) < _VISITED:
            queue += [(child, (*path, key)) for key, child in islice(cast("dict[str, Any]", node).items(), 200)]
    return best


def _of_list(node: Any, path: tuple[str, ...]) -> _Records | None:
    items = cast("list[Any]", node) if isinstance(node, list) else []
    if items and isinstance(items[0], list):
        items = list(chain.from_iterable(cast("list[Any]", item) for item in items if isinstance(item, list)))
    rows = [cast("dict[str, Any]", item) for item in items if isinstance(item, dict)]
    return _Records(path, rows) if len(rows) * 2 > len(items) else None


def _of_object(node: Any, path: tuple[str, ...]) -> _Records | None:
    if not isinstance(node, dict):
        return None
    named = cast("dict[str, Any]", node)
    rows = [cast("dict[str, Any]", child) for child in named.values() if isinstance(child, dict) and child]
    if len(rows) < 3 or len(rows) < len(named):
        return None
    shared = Counter(chain.from_iterable(rows[:_SAMPLED])).most_common(1)[0][1]
    return _Records(path, rows, list(named)) if shared * 2 > min(len(rows), _SAMPLED) else None


def _errors(value: Any, rows: Sequence[dict[str, Any]]) -> tuple[bool | None, list[str]]:
    """Return whether an object reports a failed call, and its errors."""
    failed: bool | None = None
    lines: list[str] = []
    if isinstance(value, dict):
        named = cast("dict[str, Any]", value)
        said = next((text for key in _ERROR_FIELDS if (text := _text(named.get(key) or ""))), "")
        status = _text(named.get("status") or "").lower()
        outcome: Any = named.get("success", named.get("ok"))
        flag: Any = named.get("isError", named.get("is_error"))
        if said:
            lines.append(f"error: {said}")
        if outcome is False or flag is True or status in _BAD or (said and not rows and len(named) < 8):
            failed = True
        elif outcome is True or flag is False or status in _GOOD:
            failed = False
    for key in _ERROR_FIELDS:
        if told := [text for row in rows if (text := _text(row.get(key) or ""))]:
            lines.append(f"{len(told):,} of {len(rows):,} records have {key}: {told[0]}")
    return failed, lines


def _names(value: Any, records: _Records, fields: Counter[str]) -> list[str]:
    """Return keys, ids and names by field, the most distinguishing first."""
    found: list[str] = [*records.keys[:NAMES]]
    naming = [
        list(dict.fromkeys(text for row in records.rows if (text := _text(row.get(name)))))
        for name in islice(filter(_is_naming, fields), _FIELDS)
    ]
    for texts in sorted(naming, key=len, reverse=True):
        found += texts[: max(NAMES // len(naming), 10)]
    if len(found) < NAMES:
        found += [text for key, text in _leaves(value) if _is_naming(key)]
    return [name for name in dict.fromkeys(found) if 1 < len(name) <= 120 and name.isprintable()][:NAMES]


def _is_naming(name: str) -> bool:
    """Return True for identifying fields: `id`, `flight_number`, `userEmail`."""
    words = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name[:60]).replace("-", "_")
    return name.lower() in _NAMING or words.rpartition("_")[2] in _NAMING


def _leaves(value: Any) -> Iterator[tuple[str, str]]:
    """Yield scalars near the top with their keys, breadth first."""
    queue: list[tuple[str, Any]] = [("", value)]
    for key, node in islice(queue, _VISITED):
        if isinstance(node, dict):
            queue += islice(cast("dict[str, Any]", node).items(), _SAMPLED)
        elif isinstance(node, list):
            queue += [(key, item) for item in cast("list[Any]", node)[:_SAMPLED]]
        elif node is not None and not isinstance(node, bool):
            yield key, _text(node)


def _scalars(value: Any) -> list[str]:
    """Return plain fields of the top two levels, one a line."""
    if not isinstance(value, dict):
        return []
    named = cast("dict[str, Any]", value)
    inner = ((key, cast("dict[str, Any]", node)) for key, node in named.items() if isinstance(node, dict))
    found: list[str] = []
    for name, node in (("", named), *islice(inner, _OBJECTS)):
        plain = ((key, item) for key, item in node.items() if not isinstance(item, (dict, list)))
        if pairs := [f"{key}: {_text(item)[:80]}" for key, item in islice(plain, _FIELDS)]:
            found.append((f"{name}: " if name else "") + "; ".join(pairs))
    return found


def _description(content: str, document: Document, records: _Records, fields: Sequence[str]) -> str:
    size = f"{len(content):,} characters"
    cut = (
        ""
        if document.is_whole
        else "cut off"
        if len(content) <= PARSED_CHARACTERS
        else "of which the beginning was read"
    )
    if len(records.rows) > 1:
        where = f" in {'.'.join(key for key in records.path if key)}" if any(records.path) else ""
        count = f"{len(records.rows):,}" + ("+" if cut else "")
        return described(f"{document.kind}, {count} records{where}", f"({', '.join(fields[:6])})", cut, size)
    value: Any = document.value
    if isinstance(value, dict):
        keys = ", ".join(list(cast("dict[str, Any]", value))[:8])
        return described(f"{document.kind} object", f"({keys})", cut, size)
    return described(f"{document.kind} list of {len(cast('list[Any]', value)):,}", "", cut, size)


def _text(value: Any) -> str:
    """Return a scalar, an object's message or a list's first text."""
    if isinstance(value, dict):
        named = cast("dict[str, Any]", value)
        return next((text for key in _MESSAGES if isinstance(text := named.get(key), str)), "")
    if isinstance(value, list):
        first: Any = next(iter(cast("list[Any]", value)), None)
        return "" if isinstance(first, list) else _text(first)
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
