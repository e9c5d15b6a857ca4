"""What somebody who knows a sort of content sees in it: the part that differs from one built-in compactor to the next.

A *reader* looks at a result once and says what it is, what is worth a line, which names matter and where to look first;
what fits of it is chosen by one common rule (`compaction.composing`). So a new sort of content is one function.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .compactor import Result
from .excerpt import Label, Passage

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
        landmarks: Passages to show first when the content is too long: errors, definitions, headings, changed hunks.
            The most important first; they may overlap and need not be whole lines.
        labels: What passages are, to name what is left out: (passage, name), in order, such as the body of `def fit`.
    """

    description: str
    has_failed: bool | None = None
    facts: Sequence[str] = ()
    names: Sequence[str] = ()
    landmarks: Sequence[Passage] = ()
    labels: Sequence[Label] = ()


Reader = Callable[[Result], Reading | None]
"""Returns what it sees in a result; None if this is not its sort of content. Must not raise on any content."""
