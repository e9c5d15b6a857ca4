"""Notices in place of look-ups that the model made before, so that it does not loop.

Equal calls have the same tool and normalised arguments, searches and listings also the same results.

| shown in this turn | stands whole in the view | the call is answered with                                     |
|--------------------|--------------------------|---------------------------------------------------------------|
| no                 | no                       | the content                                                   |
| any number         | yes                      | that it stands above, and the next step                       |
| once               | no                       | the content again, and to keep the needed part                |
| twice or more      | no                       | that it was shown so often, and the next step                 |
| nothing was found  | -                        | a new look-up; if still nothing, that it was so before        |

A turn is the time since the user's last message, at most 50 messages.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from autogen_core import FunctionCall
from autogen_core.models import AssistantMessage

from memory_context.foundation.messages import Address, calls_of
from memory_context.foundation.policy import ContextPolicy
from memory_context.foundation.references import MemoryRef
from memory_context.memory.items import MemoryItem
from memory_context.sessions.transcript.entries import Entry
from memory_context.sessions.transcript.transcript import Transcript
from memory_context.view.render import current_task, text_in_view

__all__ = ["NOTE_TOKENS", "Answer", "PreviousAnswers", "find_previous_answers", "with_repeat_notice"]

NOTE_TOKENS = 60
"""Room of every answer for a repeat notice."""

_TURN_MESSAGES = 50
_LOOKED_BACK_MESSAGES = 1000  # takes some milliseconds
_MAX_SHOWN = 2


@dataclass(frozen=True)
class Answer:
    """The answer of a tool.

    Attributes:
        label: Text to which the content collapses later; empty without content.
        next_step: Sentence on an alternative to the same call.
        found: Result of a search or listing.
        failed: The text says what to do instead.
        data: The answer for a program, JSON-native.
        image: The image that the text describes; not subject to repeat notices.
    """

    text: str
    label: str = ""
    next_step: str = ""
    found: str = ""
    failed: bool = False
    stored: MemoryRef | None = None
    data: Mapping[str, Any] = field(default_factory=dict[str, Any])
    image: MemoryItem | None = None


@dataclass(frozen=True)
class PreviousAnswers:
    """The earlier answers to the same call.

    Attributes:
        shown: Times the content was shown in this turn.
        stands: The content is or will be whole in the view.
        calls_ago: Steps with calls since then.
        said: Last answer in this turn that the view still has.
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
    """Return the earlier answers to the same call; `is_content` tells content from notes and problems."""
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
            if text is not None and not is_content(text):  # only content can leave without becoming an item
                continue
            calls_ago = calls_ago or steps
            shown += entry.position > turn
            stands = stands or _will_stand(transcript, policy, result, address)
        steps += bool(calls)
    return PreviousAnswers(shown, stands, calls_ago, said)


def _will_stand(transcript: Transcript, policy: ContextPolicy, entry: Entry, address: Address) -> bool:
    """Return whether the next view surely shows a look-up whole."""
    if transcript.state.is_away(entry.position):
        return False
    part = entry.part(address) if entry.parts is not None else None
    if part is None:
        return True
    may_collapse = part.stored is not None and entry.position < transcript.state.consumed
    return not may_collapse and text_in_view(transcript, policy, entry, part)[0] == "full"


def _is_beside(transcript: Transcript, is_same: Callable[[FunctionCall], bool], call_id: str | None) -> bool:
    """Return whether an equal call precedes this one in the same step."""
    newest = transcript[transcript.end - 1].message if transcript.end > transcript.first else None
    if not call_id or not isinstance(newest, AssistantMessage):
        return False
    same = [call for call in calls_of(newest) if is_same(call)]
    return any(call.id == call_id for call in same) and same[0].id != call_id


def with_repeat_notice(answer: Answer, earlier: PreviousAnswers, *, is_new: bool) -> tuple[str, bool]:
    """Return the text for the model, by the table above, and whether it shows the content."""
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
