"""The same look-up again: told, so that no agent goes round in circles, and never refused what it cannot see.

A large look-up collapses to what it was a look at some time after the agent has answered, so an agent may rightly look
again; a model that does so without end has to be told. Two calls are the same if the tool and what is asked for are the
same, however it is spelled; for searches and listings also what comes of it has to be the same. What was answered
before is read from the transcript itself, so it holds after a saved state is loaded, and nothing is kept beside it.

| shown in this turn | stands whole in the view | the call is answered with                                     |
|--------------------|--------------------------|---------------------------------------------------------------|
| no                 | no                       | the content                                                   |
| any number         | yes                      | that it stands above, and what comes next                     |
| once               | no                       | the content again, and to keep what is needed of it           |
| twice or more      | no                       | that it was shown so often, and what comes next               |
| nothing was found  | -                        | looked up again; if still nothing, that it was so before       |

"In this turn" is since the user's last message, and within the last 50 messages: in a turn of hundreds of steps a third
look is no loop. The same call twice in one step is answered once.
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
"""Room that every answer leaves for the note that it was read before."""

_TURN_MESSAGES = 50
_LOOKED_BACK_MESSAGES = 1000  # some milliseconds of reading calls
_MOST_SHOWN = 2


@dataclass(frozen=True)
class Answer:
    """What a tool has to say.

    Attributes:
        text: For the model.
        label: What was looked at, which the answer collapses to later; empty if there was nothing to see.
        next_step: What to do instead of asking for the same again: a sentence, best with the exact call.
        found: What came of it, for what may change between two calls for the same; empty if it never does.
        failed: Whether what was asked for could not be done, so that the text says what to do instead.
        stored: The item that was stored.
        data: The same for a program, JSON-native: what was found, listed, opened or stored.
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
    """What the same call was answered with before.

    Attributes:
        shown: How often its content was shown in this turn.
        stands: Whether the content stands whole in the view, or is about to.
        calls_ago: Steps with calls since it was shown; 0 in this one.
        said: The text of the last answer in this turn, if the view still has it.
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
    call_id: str | None = None,
) -> PreviousAnswers:
    """Return what the same call was answered with before, as the transcript has it.

    Args:
        transcript: Of the context whose agent calls.
        policy: Of that context.
        is_same: Whether a call is the same.
        is_content: Whether a text is the content of a look-up rather than a note or a problem.
        call_id: The id of the call, to tell it from the same one beside it.
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
            where = transcript.pairing.answers[entry.position][index]
            if where is None or not is_same(call):
                continue
            result, address = transcript[where[0]], Address("result", where[1])
            text = result.text(address)
            if entry.position > turn and text is not None:
                said = said or text
            # only the content of a look-up leaves the transcript without having become an item
            if text is not None and not is_content(text):
                continue
            calls_ago = calls_ago or steps
            shown += entry.position > turn
            stands = stands or _will_stand(transcript, policy, result, address)
        steps += bool(calls)
    return PreviousAnswers(shown, stands, calls_ago, said)


def _will_stand(transcript: Transcript, policy: ContextPolicy, entry: Entry, address: Address) -> bool:
    """Whether the next view shows a look-up whole, for sure.

    One that is answered and large enough to collapse may do so with the next view, although it has not yet.
    """
    if transcript.state.is_folded(entry.position):
        return False
    part = entry.part(address) if entry.parts is not None else None
    if part is None:
        return True
    may_collapse = part.stored is not None and entry.position < transcript.state.consumed
    return not may_collapse and text_in_view(transcript, policy, entry, part)[0] == "full"


def _is_beside(transcript: Transcript, is_same: Callable[[FunctionCall], bool], call_id: str | None) -> bool:
    """Whether the same call stands before this one in the step that is being answered."""
    newest = transcript[transcript.end - 1].message if transcript.end > transcript.first else None
    if not call_id or not isinstance(newest, AssistantMessage):
        return False
    same = [call for call in calls_of(newest) if is_same(call)]
    return any(call.id == call_id for call in same) and same[0].id != call_id


def with_repeat_notice(answer: Answer, earlier: PreviousAnswers, *, is_new: bool = False) -> tuple[str, bool]:
    """Return what the model is told, by the table above, and whether that is the content.

    Args:
        answer: What the tool has to say.
        earlier: What the same call was answered with before.
        is_new: Whether something else came of it this time.
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
    if earlier.shown < _MOST_SHOWN:
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
