"""Regular expressions: the library's own, compiled at their first use, and untrusted ones, in linear time by RE2."""

import re
import time
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any, AnyStr, ParamSpec, Protocol, TypeVar, cast

from .errors import TransformError

# fmt: off
__all__ = [
    "PATTERN_LIMIT_CHARACTERS", "BytesPattern", "LinePattern", "OutOfTimeError", "TextPattern", "at_first_use", "regex",
]
# fmt: on

_P = ParamSpec("_P")
_T = TypeVar("_T")

PATTERN_LIMIT_CHARACTERS = 1000
_LARGE_PATTERN_BYTES = 1 << 28

# beginning of RE2's error message, lack, alternative
_LACKS = (
    ("invalid perl operator: (?=", "look-around", "match the words themselves and read the context lines"),
    ("invalid perl operator: (?!", "look-around", "match the wanted lines only, or read the context lines"),
    ("invalid perl operator: (?<", "look-behind", "match the words themselves and read the context lines"),
    ("invalid perl operator: (?>", "atomic groups", "use (?:…), which cannot run away here"),
    ("invalid perl operator: (?P", "back-references", "write the repeated text out (a group is (?P<name>…))"),
    ("invalid perl operator: (?#", "comments", "leave the comment out"),
    ("invalid perl operator: (?", "this group", "use (?:…), (?i), (?s) or (?P<name>…)"),
    (
        "bad repetition operator",
        "this repetition",
        "use *, +, ? or {m,n} once after an item; possessive ones are not known",
    ),
    ("invalid repetition size", "repeat counts above 1000", "use + or *"),
    ("pattern too large", "room for so large a pattern", "lower the repeat counts"),
)
_LACKED_ESCAPES = {"Z": r"use \z", "h": r"use [ \t]", "R": r"use \n", "u": r"use \x{…}", "K": "leave it out"}


class OutOfTimeError(Exception):
    """A search passed its deadline; earlier matches are valid."""


class _Match(Protocol):
    def span(self) -> tuple[int, int]: ...


class _Regex(Protocol):
    @property
    def programsize(self) -> int: ...
    def finditer(self, text: bytes, pos: int, endpos: int) -> Iterator[_Match]: ...
    def search(self, text: bytes) -> _Match | None: ...
    def fullmatch(self, text: bytes) -> _Match | None: ...
    def sub(self, by: Callable[[object], bytes], text: bytes) -> bytes: ...


class _AtFirstUse:
    def __init__(self, make: Callable[[], object], **known: object) -> None:
        self._made = cache(make)
        vars(self).update(known)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        value = getattr(self._made(), name)
        setattr(self, name, value)  # the next access costs what it costs at the object itself
        return value


def at_first_use(make: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """Return what stands for `make(*args, **kwargs)`, which is called when an attribute of its object is first used.

    For constants of modules. Two threads may call it twice.
    """
    return cast(_T, _AtFirstUse(partial(make, *args, **kwargs)))


def regex(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return `re.compile(pattern, flags)`, compiled at its first use: to compile all takes a third of an import."""
    return cast("re.Pattern[AnyStr]", _AtFirstUse(partial(re.compile, pattern, flags), pattern=pattern))


class LinePattern:
    """A pattern that matches within one line; TransformError if RE2 does not support it, or it is too long."""

    def __init__(self, pattern: str, ignore_case: bool = False, limit: int = PATTERN_LIMIT_CHARACTERS) -> None:
        # without never_nl `a([^q]*q)?` is quadratic: it reads to the end
        self._regex = _compile(pattern, b"(?m)", limit, never_nl=True, case_sensitive=not ignore_case)

    @property
    def size(self) -> int:
        """The most steps per byte."""
        return self._regex.programsize

    def spans(self, data: bytes, start: int, end: int, deadline: float) -> Iterator[tuple[int, int]]:
        """Yield byte offsets of non-empty matches; OutOfTimeError after `time.monotonic()` passed `deadline`."""
        for match in self._regex.finditer(data, start, end):
            if time.monotonic() > deadline:
                raise OutOfTimeError
            span = match.span()
            if span[0] < span[1]:
                yield span


class TextPattern:
    """A pattern for `match` and `search` of JSON path."""

    def __init__(self, pattern: str) -> None:
        self._regex = _compile(pattern, b"")

    def is_in(self, text: str) -> bool:
        return self._regex.search(text.encode("utf-8", "surrogatepass")) is not None

    def is_whole(self, text: str) -> bool:
        return self._regex.fullmatch(text.encode("utf-8", "surrogatepass")) is not None


class BytesPattern:
    """A pattern of any length, made by the library; matches may span lines."""

    def __init__(self, pattern: str) -> None:
        self._regex = _compile(pattern, b"", limit=len(pattern), max_mem=_LARGE_PATTERN_BYTES)

    def is_in(self, data: bytes) -> bool:
        return self._regex.search(data) is not None

    def found(self, data: bytes) -> list[bytes]:
        return [data[slice(*match.span())] for match in self._regex.finditer(data, 0, len(data))]

    def replaced(self, data: bytes, by: bytes) -> bytes:
        return self._regex.sub(lambda match: by, data)


def _compile(pattern: str, prefix: bytes, limit: int = PATTERN_LIMIT_CHARACTERS, **options: int) -> _Regex:
    if not pattern:
        raise TransformError("the pattern is empty; send the text or regular expression to look for")
    if len(pattern) > limit:
        raise TransformError(
            f"the pattern has {len(pattern):,} characters; send at most {PATTERN_LIMIT_CHARACTERS:,}, "
            "for example only its rarest part"
        )
    import re2  # pyright: ignore[reportMissingTypeStubs] - see the protocols above; few processes match by it

    engine = cast(Any, re2)
    settings = engine.Options()
    settings.log_errors = False
    for name, value in options.items():
        setattr(settings, name, value)
    try:
        return engine.compile(prefix + pattern.encode("utf-8", "surrogatepass"), settings)
    except engine.error as error:
        raw = error.args[0] if error.args else b""
        reason = raw.decode("utf-8", "replace") if isinstance(raw, bytes) else str(raw)
        raise TransformError(_explain(pattern, reason.replace(prefix.decode(), "", 1))) from None


def _explain(pattern: str, reason: str) -> str:
    shown = repr(pattern if len(pattern) <= 80 else pattern[:79] + "…")
    for beginning, lack, remedy in _LACKS:
        if reason.startswith(beginning):
            return f"the pattern {shown} is unusable ({reason}): the engine, RE2, has no {lack}; {remedy}"
    escape = reason.rpartition("\\")[2] if reason.startswith("invalid escape sequence") else ""
    if escape[:1].isdigit():
        remedy = "the engine, RE2, has no back-references; write the repeated text out"
    elif escape:
        remedy = _LACKED_ESCAPES.get(escape[0], f"the engine, RE2, does not know it; send '{escape}' to mean itself")
    else:
        remedy = r"to find such characters literally, put a backslash before each of . ^ $ * + ? ( ) [ ] { } | \ "
    return f"the pattern {shown} is unusable ({reason}): {remedy.strip()}"
