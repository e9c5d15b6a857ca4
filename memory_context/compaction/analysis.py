"""What a built-in compactor sees in one sort of content: the part that differs from one to the next.

A *reader* looks at a result once and says what it is, whether it failed, what is worth a line and which names matter;
what fits of it is chosen by one common rule (`compaction.compose`). So a new sort of content is one function.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .compactor import Result

__all__ = ["Reader", "Reading"]


@dataclass(frozen=True)
class Reading:
    """What a reader saw.

    Attributes:
        description: What the content is, in a few words with its size, such as `pytest log, 812 lines`.
        has_failed: Whether the content itself says that the call failed; None if it does not say.
        facts: Lines worth keeping whatever the agent is doing, the most important first; each at most 200 characters.
        names: Identifiers that are likely to be asked for (files with failures, ids, the names of records), verbatim as
            in the content, the most important first. Others are found by their form; these come before them.
    """

    description: str
    has_failed: bool | None = None
    facts: Sequence[str] = ()
    names: Sequence[str] = ()


Reader = Callable[[Result], Reading | None]
"""Returns what it sees in a result; None if this is not its sort of content. Must not raise on any content."""
