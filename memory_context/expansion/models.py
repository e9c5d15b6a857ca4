"""The values of a turn's decision: what is asked, what is on offer, what was decided.

Text of tool results is no part of them but for what the view already shows (`kept_text`), so that the words of a tool
can at most make one offered key look relevant; they open nothing by themselves.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from ..references import MemoryRef

__all__ = ["CandidateReference", "Expansion", "ExpansionAnswer", "ExpansionReason", "ExpansionRequest"]

ExpansionReason = Literal["named", "matched", "model"]


@dataclass(frozen=True)
class CandidateReference:
    """Something stored that this turn may need.

    Attributes:
        ref: Key, description and tokens.
        source: The tool or speaker it came from.
        kept_text: What the view still shows of it: status, placeholder, kept lines.
        messages_ago: How many messages ago it came.
        is_visible: Whether the view shows the whole of it now, so that there is nothing to expand.
    """

    ref: MemoryRef
    source: str = ""
    kept_text: str = ""
    messages_ago: int = 0
    is_visible: bool = False


@dataclass(frozen=True)
class ExpansionRequest:
    """What is to be decided about: the user's words and what is at hand.

    Attributes:
        request: The user's unanswered words, of any length.
        last_answer: The agent's last answer; "" if there is none.
        references: What is on offer, in any order.
        visible_text: The texts that the view shows in full (results, earlier words of the user), without the request
            itself, the last answer, and placeholders: what is said there needs no expansion. A function, so that it
            costs nothing when nobody looks.
    """

    request: str
    last_answer: str = ""
    references: tuple[CandidateReference, ...] = ()
    visible_text: Callable[[], Iterable[str]] | Sequence[str] = ()

    def visible_texts(self) -> Iterable[str]:
        """Return the texts that the view shows in full."""
        return self.visible_text() if callable(self.visible_text) else self.visible_text


@dataclass(frozen=True)
class Expansion:
    """An item to bring back into the view for this turn.

    Attributes:
        key: Its key; always one that was on offer.
        reason: Named in the request, matched by a rare term, or chosen by the light model.
        why: The reason in a few words, such as "rare word 'E1234'".
    """

    key: str
    reason: ExpansionReason
    why: str


@dataclass(frozen=True)
class ExpansionAnswer:
    """What was decided.

    Attributes:
        expansions: What to bring back, most certain first.
        is_ambiguous: Whether the request needs something that is not at hand, so that the user's memories should be
            searched.
        search_query: What to search for, one line; "" if nothing.
        decided_by: The rules or the light model.
        why: The reason in a few words.
    """

    expansions: tuple[Expansion, ...] = ()
    is_ambiguous: bool = False
    search_query: str = ""
    decided_by: Literal["rules", "model"] = "rules"
    why: str = ""
