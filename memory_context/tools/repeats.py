"""Repeated look-ups: notices in place of content that the model has seen, so that no agent goes round in circles.

An agent may rightly look again at what has collapsed; a model that does so without end has to be told. Two calls are
the same if tool and normalised arguments are; for searches and listings the result has to be the same too. Earlier
answers are read from the transcript, so they survive save and load.

| shown in this turn | stands whole in the view | the call is answered with                                     |
|--------------------|--------------------------|---------------------------------------------------------------|
| no                 | no                       | the content                                                   |
| any number         | yes                      | that it stands above, and what comes next                     |
| once               | no                       | the content again, and to keep what is needed of it           |
| twice or more      | no                       | that it was shown so often, and what comes next               |
| nothing was found  | -                        | looked up again; if still nothing, that it was so before       |

"In this turn" means since the user's last message and within the last 50 messages: in a turn of hundreds of steps a
third look is no loop. The same call twice in one step is answered once.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from autogen_core import FunctionCall
from autogen_core.models import AssistantMessage

from ..messages import Address, calls_of
from ..policy import ContextPolicy
from ..references import MemoryRef
from ..transcript import Entry, Transcript
from ..view import current_task
from ..view.render import text_in_view

__all__ = ["NOTE_TOKENS", "Answer", "PreviousAnswers", "find_previous_answers", "with_repeat_notice"]

NOTE_TOKENS = 60
"""Room of every answer for the note that it was read before."""

_TURN_MESSAGES = 50
_LOOKED_BACK_MESSAGES = 1000  # some milliseconds of reading calls
_MAX_SHOWN = 2


@dataclass(frozen=True)
class Answer:
    """The answer of a tool.

    Attributes:
        text: Text for the model.
        label: Source of the content, which the answer collapses to later; empty if there was nothing to see.
        next_step: Alternative to asking for the same again: a sentence, best with the exact call.
        found: Result, if it may change between two calls for the same; empty if it never does.
        failed: True if the request could not be done, so that the text says what to do instead.
        stored: The item that was stored.
        data: The same for a program, JSON-native.
    """

    text: str
    label: str = ""
    next_step: str = ""
    found: str = ""
    failed: bool = False
    stored: MemoryRef | None = None
    data: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class PreviousAnswers:
    """The earlier answers to the same call.

    Attributes:
        shown: Number of times the content was shown in this turn.
        stands: True if the content stands whole in the view, or is about to.
        calls_ago: Steps with calls since it was shown; 0 in this one.
        said: Text of the last answer in this turn, if the view still has it.
    """

    shown: int = 0
    stands: bool = False
    calls_ago: int = 0
    said: str | None = None


def find_previous_answers(
    transcript: Transcript,
    policy: ContextPolicy,
    is_same: Callable[[FunctionCall], bool],
    is_content: Callable[[str], bool],
    call_id: str | None,
) -> PreviousAnswers:
    """Return the earlier answers to the same call.

    Args:
        transcript: Transcript of the calling agent's context.
        policy: Policy of that context.
        is_same: Tells whether a call asks for the same.
        is_content: Tells whether a text is content rather than a note or a problem.
        call_id: Id of the call, to tell it from the same one beside it.
    """
    if _is_beside(transcript, is_same, call_id):
        return PreviousAnswers(1, stands=True)
    end, task = transcript.end, current_task(transcript, policy)
    turn = max(end - _TURN_MESSAGES, task or 0)
    shown, steps, calls_ago, stands = 0, 0, 0, False
    said: str | None = None
    for entry in reversed(transcript.entries(max(transcript.state.start, end - _LOOKED_BACK_MESSAGES))):
        calls = calls_of(entry.message)
        for index, call in enumerate(calls):
            place = transcript.pairing.answers[entry.position][index]
            if place is None or not is_same(call):
                continue
            result, address = transcript[place[0]], Address("result", place[1])
            text = result.text(address)
            if entry.position > turn and text is not None:
                said = said or text
            if text is not None and not is_content(text):  # only content leaves the transcript without becoming an item
                continue
            calls_ago = calls_ago or steps
            shown += entry.position > turn
            stands = stands or _will_stand(transcript, policy, result, address)
        steps += bool(calls)
    return PreviousAnswers(shown, stands, calls_ago, said)


def _will_stand(transcript: Transcript, policy: ContextPolicy, entry: Entry, address: Address) -> bool:
    """Return whether the next view surely shows a look-up whole; an answered large one may collapse with that view."""
    if transcript.state.is_folded(entry.position):
        return False
    part = entry.part(address) if entry.parts is not None else None
    if part is None:
        return True
    may_collapse = part.stored is not None and entry.position < transcript.state.consumed
    return not may_collapse and text_in_view(transcript, policy, entry, part)[0] == "full"


def _is_beside(transcript: Transcript, is_same: Callable[[FunctionCall], bool], call_id: str | None) -> bool:
    """Return whether the same call comes before this one in the step that is being answered."""
    newest = transcript[transcript.end - 1].message if transcript.end > transcript.first else None
    if not call_id or not isinstance(newest, AssistantMessage):
        return False
    same = [call for call in calls_of(newest) if is_same(call)]
    return any(call.id == call_id for call in same) and same[0].id != call_id


def with_repeat_notice(answer: Answer, earlier: PreviousAnswers, *, is_new: bool) -> tuple[str, bool]:
    """Return the text for the model, by the table above, and whether it shows the content.

    Args:
        answer: The tool's answer.
        earlier: The answers to the same call before.
        is_new: True if the result differs this time.
    """
    ago = f"{earlier.calls_ago} call{'s' if earlier.calls_ago > 1 else ''} ago" if earlier.calls_ago else "just now"
    if not answer.label:
        if earlier.said is not None and earlier.said.startswith(answer.text):
            return f"{answer.text} You asked for the same before, with the same answer: do something else.", False
        return answer.text, False
    if is_new or not (earlier.shown or earlier.stands):
        return answer.text, True
    if earlier.stands:
        return (
            f"You have this already: {answer.label}, read {ago}, stands above and has not changed. {answer.next_step}",
            False,
        )
    if earlier.shown < _MAX_SHOWN:
        note = (
            f"[You read this {ago} as well; what you look up is replaced by its reference after a while. "
            "Keep what you need of it in your answer: it is not shown a third time.]"
        )
        return f"{answer.text}\n{note}", True
    return (
        f"Not shown again: {answer.label} was shown {earlier.shown} times in this turn, last {ago}, "
        f"and has not changed. {answer.next_step}",
        False,
    )
