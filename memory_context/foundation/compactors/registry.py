"""Selects a compactor: one registered for the tool, else a matching analyzer, else the generic rule. Registered
compactors that fail are skipped and logged; slow ones are disabled.
"""

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any, TypeVar, cast, overload

from ..credentials.masks import masked_in_place, without_padding
from ..runtime.background import in_own_thread
from .analyzers import BUILT_IN
from .analyzers.wrapper import unwrapped
from .compactor import Analysis, Analyzer, Compacted, Compactor, Hint, Result
from .compose import Reading, analyze_anything, composed
from .excerpt import FIRST_ELISION_TOKENS

__all__ = ["CompactFunction", "Compactors", "contract_violation"]

_logger = logging.getLogger("memory_context")

CompactFunction = Callable[[Result, Hint], Compacted]
_Given = TypeVar("_Given", bound="Compactor | CompactFunction")
_Answer = TypeVar("_Answer")
_MASKED = "masked"
_SECONDS = 2.0
"""Timeout of a registered compactor."""
_STATUS_LIMIT_CHARACTERS = 300
_TOLERATED_TOKENS = 8  # lines counted together may take a few more


@dataclass(frozen=True)
class _Registered:
    takes: Callable[[Result], bool]
    compact: CompactFunction
    name: str


class Compactors:
    """The compactors of a context; itself a compactor.

    The last registered is tried first, the built-in analyzers last.

    Args:
        analyzers: None for all built-in ones.

    Example:
        compactors = Compactors()

        @compactors.register("query_*")
        def compact_query(result: Result, hint: Hint) -> Compacted: ...
    """

    def __init__(self, analyzers: Sequence[Analyzer] | None = None) -> None:
        self._analyzers = tuple(BUILT_IN if analyzers is None else analyzers)
        self._registered: list[_Registered] = []
        self._complained: set[str] = set()

    @overload
    def register(self, tool: str | Callable[[Result], bool]) -> Callable[[_Given], _Given]: ...

    @overload
    def register(self, tool: str | Callable[[Result], bool], compactor: _Given) -> _Given: ...

    def register(
        self, tool: str | Callable[[Result], bool], compactor: "Compactor | CompactFunction | None" = None
    ) -> Any:
        """Register a compactor for a tool, directly or as a decorator.

        Args:
            tool: Tool name, glob pattern (`query_*`), or a predicate on results.
            compactor: An object with `compact(result, hint)`, or such a function; None returns a decorator.

        Raises:
            TypeError: The compactor is neither.
        """
        if compactor is None:

            def decorator(given: _Given) -> _Given:
                self.register(tool, given)
                return given

            return decorator
        compact = getattr(compactor, "compact", compactor)
        if not callable(compact):
            raise TypeError(f"{compactor!r} is no compactor: it has no method compact(result, hint) and is no function")
        takes = tool if callable(tool) else _takes_tool(tool)
        name = getattr(compactor, "__name__", type(compactor).__name__)
        self._registered.insert(0, _Registered(takes, cast(CompactFunction, compact), name))
        return compactor

    @property
    def may_wait(self) -> bool:
        """`compact` may block on user code: call it off the event loop."""
        return bool(self._registered)

    def compact(self, result: Result, hint: Hint) -> Compacted:
        """Return the compacted result within the limits of the hint; never raises.

        Masking keeps the length of credentials, so passage offsets stay valid.
        """
        if not hint.masks_credentials:
            return self._compacted(result, hint)
        masked = result.readings.get(_MASKED)
        if masked is None:
            content, arguments = masked_in_place(result.content), masked_in_place(result.arguments)
            masked = result.readings[_MASKED] = replace(result, content=content, arguments=arguments)
        return _without_padding(self._compacted(masked, hint))

    def _compacted(self, result: Result, hint: Hint) -> Compacted:
        for one in tuple(self._registered):
            compacted = self._tried(one, result, hint)
            if compacted is not None:
                return compacted
        try:
            return composed(self._reading(result), hint)
        except Exception as error:
            self._complain("the built-in compactor", error)
            outcome = "failed" if result.is_error else "succeeded"
            return Compacted(f"{result.source[:60]} {outcome}.", f"{len(result.content):,} characters", "")

    def _tried(self, one: _Registered, result: Result, hint: Hint) -> Compacted | None:
        def asked() -> tuple[bool, Any]:
            return (True, one.compact(result, hint)) if one.takes(result) else (False, None)

        try:
            is_taken, compacted = _within(_SECONDS, asked)
            if not is_taken:
                return None
            problem = contract_violation(compacted, result, hint)
            if problem is None:
                return self._whole(compacted, result, hint)
            self._complain(one.name, ValueError(problem))
        except _TooSlowError as error:
            self._registered = [other for other in self._registered if other is not one]
            self._complain(one.name, error)
        except Exception as error:
            self._complain(one.name, error)
        return None

    def _whole(self, compacted: Compacted, result: Result, hint: Hint) -> Compacted:
        """Apply the generic excerpt if the compactor chose none."""
        if hint.facts_limit_tokens <= 0:
            compacted = replace(compacted, facts="")
        if hint.excerpt_limit_tokens <= 0:
            return replace(compacted, excerpt=None, table="")
        if compacted.is_part:
            return compacted
        generic = composed(Reading(result, analyze_anything(result)), replace(hint, facts_limit_tokens=0))
        return replace(compacted, excerpt=generic.excerpt, table=generic.table)

    def _reading(self, result: Result) -> Reading:
        reading = result.readings.get(self._analyzers)
        if reading is None:
            inner = unwrapped(result.content)
            analysis = self._analyze(replace(result, content=inner.elided.text))
            reading = result.readings[self._analyzers] = Reading(result, analysis, inner)
        return reading

    def _analyze(self, result: Result) -> Analysis:
        for analyze in self._analyzers:
            try:
                analysis = analyze(result)
            except Exception as error:
                self._complain(getattr(analyze, "__name__", repr(analyze)), error)
                continue
            if analysis is not None:
                return analysis
        return analyze_anything(result)

    def _complain(self, name: str, error: Exception) -> None:
        """Log once per compactor."""
        if name not in self._complained:
            self._complained.add(name)
            _logger.warning("compactor %s is passed over: %s: %s", name, type(error).__name__, error)


def _without_padding(compacted: Compacted) -> Compacted:
    return replace(
        compacted,
        status=without_padding(compacted.status),
        description=without_padding(compacted.description),
        facts=without_padding(compacted.facts),
        table=without_padding(compacted.table),
        labels=[(passage, without_padding(name)) for passage, name in compacted.labels],
    )


class _TooSlowError(Exception): ...


def _within(seconds: float, function: Callable[[], _Answer]) -> _Answer:
    """Run a function in its own thread.

    Raises:
        _TooSlowError: It timed out.
    """
    answer = in_own_thread(function, "memory_context compactor")
    try:
        return answer.result(seconds)
    except FutureTimeoutError as error:
        if answer.done():  # the function itself raised TimeoutError
            raise
        raise _TooSlowError(f"it took longer than {seconds:g} s and is not asked again") from error


def _takes_tool(pattern: str) -> Callable[[Result], bool]:
    return lambda result: fnmatchcase(result.source, pattern)


def contract_violation(compacted: Any, result: Result, hint: Hint) -> str | None:
    """Return a sentence on the violated part of the contract; None if valid."""
    if not isinstance(compacted, Compacted):
        return f"it returned {type(compacted).__name__}, not Compacted"
    texts = (compacted.status, compacted.description, compacted.facts, compacted.table)
    if not all(isinstance(text, str) for text in cast(tuple[object, ...], texts)):
        return "status, description, facts and table must be str"
    if len(compacted.status) > _STATUS_LIMIT_CHARACTERS:
        return f"its status has {len(compacted.status)} characters; {_STATUS_LIMIT_CHARACTERS} are allowed"
    tokens = hint.counter.count(compacted.facts) if compacted.facts and hint.facts_limit_tokens > 0 else 0
    if tokens > hint.facts_limit_tokens + _TOLERATED_TOKENS:
        return f"its facts take {tokens} tokens; {hint.facts_limit_tokens} are allowed"
    room = hint.excerpt_limit_tokens + hint.facts_limit_tokens - tokens
    if hint.excerpt_limit_tokens > 0 and hint.counter.is_over(compacted.table, room):
        return f"its table takes {hint.counter.count(compacted.table)} tokens; {room} are allowed"
    if not compacted.excerpt or hint.excerpt_limit_tokens <= 0:
        return None
    end = 0
    for passage in compacted.excerpt:
        if not end <= passage.start <= passage.end <= len(result.content):
            return f"the passages of its excerpt are not in order or not in the content: {passage!r}"
        end = passage.end
    shown = sum(hint.counter.count(result.content[one.start : one.end]) for one in compacted.excerpt)
    if shown > hint.excerpt_limit_tokens + FIRST_ELISION_TOKENS:
        return f"its excerpt takes {shown} tokens; {hint.excerpt_limit_tokens} are allowed"
    return None
