"""JSONPath (RFC 9535) in bounded time and memory, for untrusted paths and documents.

`$..*..*` can exhaust memory and the library's regular expressions can hang. So steps are charged to a budget, matches
are not kept, and `match` and `search` use RE2.
"""

import json
import time
from collections.abc import AsyncIterable, Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from typing import Any, cast

from jsonpath import JSONPath, JSONPathEnvironment, JSONPathError, JSONPathMatch
from jsonpath.filter import BaseExpression, FilterQuery
from jsonpath.function_extensions import ExpressionType, FilterFunction
from jsonpath.selectors import Filter, JSONPathSelector

from memory_context.foundation.compactors.analyzers.wrapper import unwrapped
from memory_context.foundation.errors import TransformError
from memory_context.foundation.patterns import PATTERN_LIMIT_CHARACTERS, TextPattern, regex
from memory_context.foundation.text.json_text import find_document

from .filter import FilterResult

__all__ = ["find_values"]

_DOCUMENT_LIMIT_CHARACTERS = 32_000_000  # parsed: up to 25 bytes a character
_STEPS = 1_000_000
_SECONDS = 8.0
_PATH_LIMIT_CHARACTERS = 200
_NAME = regex(r"[A-Za-z_][A-Za-z0-9_]*")


def find_values(content: str, json_path: str, *, first_match: int, max_matches: int) -> FilterResult:
    """Return the selected values from the `first_match`-th on, one a line.

    A wrapper, such as an MCP result with its JSON as text, is read from its inside, as descriptions are; a path that
    selects nothing there may be one of the wrapper.

    Raises:
        TransformError: The content is not JSON, or the path is invalid or selects too much.
    """
    documents = _documents(content)
    found = _find(*next(documents), json_path, first_match, max_matches)
    for document, note in () if found.total else documents:
        found = _find(document, note, json_path, first_match, max_matches)
    return found


def _find(document: Any, note: str, json_path: str, first_match: int, max_matches: int) -> FilterResult:
    query = _compile(json_path, _Budget())
    wanted = range(first_match, first_match + max_matches)
    found: list[str] = []
    total, is_complete = 0, True
    try:
        for match in query.finditer(document):
            total += 1
            if total in wanted:
                value = json.dumps(match.obj, ensure_ascii=False, separators=(",", ":"))
                found.append(f"{_render_path(match)}: {value}")
    except _SpentError:
        is_complete = False
        if not found:
            raise TransformError(
                f"{json_path!r} visits too much of this content; send a path with fewer '..' and '*', "
                "or a pattern instead of json_path"
            ) from None
    except (JSONPathError, RecursionError) as error:
        raise TransformError(
            f"{json_path!r} cannot be evaluated on this content ({_say(error)}); send a path without '..', "
            "or a pattern instead of json_path"
        ) from None
    return FilterResult(len(found), total, is_complete, lambda count: "\n".join(found[:count]), note)


class _SpentError(Exception): ...


class _Budget:
    def __init__(self) -> None:
        self._steps = _STEPS
        self._deadline = time.monotonic() + _SECONDS

    def spend(self) -> None:
        self._steps -= 1
        if self._steps < 0 or time.monotonic() > self._deadline:
            raise _SpentError


class _Paid(JSONPathSelector):
    """A selector that charges a budget and keeps no results."""

    __slots__ = ("_budget", "_selector")

    def __init__(self, selector: JSONPathSelector, budget: _Budget) -> None:
        super().__init__(env=selector.env, token=selector.token)
        self._selector = selector
        self._budget = budget

    def resolve(self, node: JSONPathMatch) -> Iterable[JSONPathMatch]:
        self._budget.spend()
        for match in self._selector.resolve(node):
            self._budget.spend()
            node.children.clear()  # the library would keep every match
            yield match

    def resolve_async(self, node: JSONPathMatch) -> AsyncIterable[JSONPathMatch]:
        raise AssertionError("the library asks for this only where a path is evaluated asynchronously")


def _charge(path: JSONPath, budget: _Budget) -> None:
    """Charge each step of a path, also of the paths inside its filters."""
    for segment in path.segments:
        expressions = [selector.expression for selector in segment.selectors if isinstance(selector, Filter)]
        while expressions:
            expression: BaseExpression = expressions.pop()
            if isinstance(expression, FilterQuery):
                _charge(expression.path, budget)
            else:
                expressions += expression.children()
        segment.selectors = tuple(_Paid(selector, budget) for selector in segment.selectors)


class _Match(FilterFunction):
    @property
    def arg_types(self) -> list[ExpressionType]:
        return [ExpressionType.VALUE, ExpressionType.VALUE]

    @property
    def return_type(self) -> ExpressionType:
        return ExpressionType.LOGICAL

    def __call__(self, value: object, pattern: object) -> bool:
        return isinstance(value, str) and isinstance(pattern, str) and _text_pattern(pattern).is_whole(value)


class _Search(_Match):
    def __call__(self, value: object, pattern: object) -> bool:
        return isinstance(value, str) and isinstance(pattern, str) and _text_pattern(pattern).is_in(value)


_text_pattern = lru_cache(maxsize=64)(TextPattern)


class _Environment(JSONPathEnvironment):
    """Strict RFC 9535, since the library's own `=~` uses `re`; linear-time expressions."""

    def setup_function_extensions(self) -> None:
        super().setup_function_extensions()
        self.function_extensions["match"] = _Match()
        self.function_extensions["search"] = _Search()


_ENVIRONMENT = _Environment(strict=True)


def _compile(json_path: str, budget: _Budget) -> JSONPath:
    """Return a path for one evaluation."""
    if len(json_path) > PATTERN_LIMIT_CHARACTERS:
        raise TransformError(f"json_path has {len(json_path):,} characters; send at most {PATTERN_LIMIT_CHARACTERS:,}")
    try:
        path = cast(JSONPath, _ENVIRONMENT.compile(json_path.strip()))  # only the library's dialect has compound paths
    except (JSONPathError, RecursionError, ValueError) as error:
        raise TransformError(
            f"json_path {json_path!r} is unusable ({_say(error)}); send a path such as $.items[0].name, "
            "$..id or $.items[?@.price > 10]; names with other characters go in brackets, $['my-name'], and regular "
            "expressions are written search(@.name, 'pattern')"
        ) from None
    _charge(path, budget)
    return path


def _documents(content: str) -> Iterator[tuple[Any, str]]:
    """Yield the JSON inside a wrapper, with a note, then the JSON of the content itself."""
    inner = unwrapped(content) if len(content) <= _DOCUMENT_LIMIT_CHARACTERS else None
    if inner is not None and inner.is_wrapped:
        with suppress(TransformError):
            yield _parse(inner.text), "Paths are those of the JSON inside the wrapper."
    yield _parse(content), ""


def _parse(content: str) -> Any:
    if len(content) > _DOCUMENT_LIMIT_CHARACTERS:
        raise TransformError(
            f"the content has {len(content):,} characters, too many for json_path "
            f"(at most {_DOCUMENT_LIMIT_CHARACTERS:,}); send a pattern instead"
        )
    try:
        document = json.loads(content)
    except RecursionError:
        raise TransformError("the content is JSON nested too deeply for json_path; send a pattern instead") from None
    except ValueError as error:
        found = find_document(content)  # JSON Lines, printed Python data, or with some words before
        if found is not None and found.is_whole:
            return found.value
        raise TransformError(f"the content is not JSON ({error}); send a pattern instead of json_path") from None
    if not isinstance(document, (dict, list)):
        raise TransformError("the content is a single JSON value, there is nothing to select; use transform='full'")
    return cast(Any, document)


def _render_path(match: JSONPathMatch) -> str:
    path = "$"
    for part in match.parts:
        if isinstance(part, int):
            path += f"[{part}]"
        elif _NAME.fullmatch(part):
            path += f".{part}"
        else:
            path += f"[{json.dumps(part[:_PATH_LIMIT_CHARACTERS], ensure_ascii=False)}]"
        if len(path) > _PATH_LIMIT_CHARACTERS:
            return path[:_PATH_LIMIT_CHARACTERS] + "…"
    return path


def _say(error: Exception) -> str:
    if isinstance(error, RecursionError) and not isinstance(error, JSONPathError):
        return "nested too deeply"
    return str(error).partition("\n")[0][:200].rstrip(".") or type(error).__name__
