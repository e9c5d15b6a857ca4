"""What a stack trace says, whichever language wrote it: what was raised, and the frames that led there."""

import re
from dataclasses import dataclass, field

from ...references import shorten
from ..excerpt import Passage
from .framing import FACT_LIMIT, fact

__all__ = ["Trace", "TraceFrame", "is_foreign", "raised_in"]

_WORD = re.compile(r"[A-Za-z_][\w.$]*")
_RAISED_NAMES = ("Error", "Exception", "Exit", "Interrupt", "Warning", "Throwable", "Failure", "Group", "Fault")
_NAMED_CHARACTERS = 300
_FOREIGN = re.compile(
    r"(?:site|dist)-packages/|node_modules/|lib/python|<frozen |node:|/usr/lib/|/rustc/|/usr/local/go/src/|/go/pkg/mod/"
    r"|\.cargo/registry|internal/|\\Lib\\"
)


@dataclass(frozen=True)
class TraceFrame:
    """One frame: file, line and function as written, where it stands, and whether it is in one's own code."""

    file: str
    line: str
    function: str
    passage: Passage
    is_own: bool

    def __str__(self) -> str:
        function = self.function.strip()
        where = f"{self.file}:{self.line}"
        return f"{where} in {function}" if function and function != "<module>" else where


@dataclass
class Trace:
    """One stack trace.

    Attributes:
        start: Where it begins.
        end: Where it ends.
        raised: The exception and its message, in a line.
        raised_at: Where that stands.
        frames: Its frames, the innermost first.
        is_cause: Whether a further trace says that it followed from this one, or the other way round.
    """

    start: int
    end: int
    raised: str = ""
    raised_at: Passage | None = None
    frames: list[TraceFrame] = field(default_factory=list[TraceFrame])
    is_cause: bool = False

    @property
    def own_frames(self) -> list[TraceFrame]:
        """The frames outside of installed packages, the innermost first; all frames if there are none."""
        return [frame for frame in self.frames if frame.is_own] or self.frames

    @property
    def name(self) -> str:
        """The name of the exception."""
        match = raised_in(self.raised)
        return match[0].rstrip(".") if match else self.raised.split(":", 1)[0][:60]

    def line(self) -> str:
        """Return the exception and where in one's own code it came up, as a fact."""
        frames = self.own_frames
        where = f" ({frames[0]})" if frames else ""
        return fact(f"{shorten(self.raised, max(60, FACT_LIMIT - len(where)))}{where}")


def raised_in(text: str) -> re.Match[str] | None:
    """Find the name of an exception near the beginning of a line."""
    words = _WORD.finditer(text[:_NAMED_CHARACTERS])
    return next((word for word in words if word[0].rstrip(".").endswith(_RAISED_NAMES)), None)


def is_foreign(path: str) -> bool:
    """Whether a file belongs to an installed package or to the language's own library."""
    return _FOREIGN.search(path) is not None
