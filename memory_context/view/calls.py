"""The recorded model calls of a session again: the view of a call, and what calls cost with another policy.

Both read saved events: an archive joined by `whole_history`, or the transcript of a saved state.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from autogen_core.models import LLMMessage

from memory_context.compaction.offloader import fetch_parts
from memory_context.foundation.policy import ContextPolicy
from memory_context.foundation.tokens import TokenCounter, default_token_counter
from memory_context.memory.agent_memory import AgentMemory
from memory_context.sessions.transcript.codec import load_transcript, saved_events
from memory_context.sessions.transcript.entries import Entry, PartId
from memory_context.sessions.transcript.part_decisions import PartOffloaded
from memory_context.sessions.transcript.transcript import Decision, Transcript
from memory_context.sessions.transcript.view_decisions import ViewShown

from .bill import Bill, ModelCall, UsageMeter
from .budget import Budget
from .render import Renderer
from .view import View

__all__ = ["CallView", "bill_with", "view_of_call"]


@dataclass(frozen=True)
class CallView:
    """The view of one model call, made again.

    Attributes:
        messages: As they were handed out; see `problem`.
        view: The same with segments. `transcript`: as it was then.
        problem: Why these are not the recorded bytes; "" if they are.
    """

    messages: list[LLMMessage]
    view: View
    transcript: Transcript
    problem: str = ""


async def view_of_call(
    saved: Mapping[str, Any],
    number: int,
    memory: AgentMemory,
    policy: ContextPolicy | None = None,
    counter: TokenCounter | None = None,
) -> CallView:
    """Return the view of a call, byte for byte as it was handed out; its `problem` says if that cannot be.

    Args:
        saved: Events of the session, as `whole_history` or a state has them.
        number: Of the call in the bill, from 1.
        memory: Reads contents that only the store has.
        policy: The session's; None for the default one.

    Raises:
        IndexError: The bill has no such call.
        ValueError: A newer version saved the events, or they are damaged.
        StoreError: The store cannot be read.
    """
    policy, counter = policy or ContextPolicy(), counter or default_token_counter()
    calls = Bill(load_transcript(saved)).calls
    if not 1 <= number <= len(calls):
        raise IndexError(f"no call {number}: this session has {len(calls)} recorded calls")
    call, first = calls[number - 1], saved["first_position"]
    if call.messages <= first:
        raise IndexError(f"the messages of call {number} were cleared and are not in this state; the archive has them")
    then = {
        **saved,
        "entries": saved["entries"][: call.messages - first],
        "decisions": saved["decisions"][: call.decision + 1],
    }
    transcript = load_transcript(then)
    lost = await _restore(transcript, saved, memory)
    view = Renderer(policy, counter).render(transcript)
    shown = transcript.decisions(ViewShown)[-1][1]
    problem = ""
    if view.digest != shown.digest:
        reason = "another policy or counter, a rewritten archive, or images of connectors, which are not archived"
        problem = f"not what was handed out: {lost or f'a content that was forgotten or renamed since, {reason}'}"
    return CallView(view.copies(joins_user_messages=shown.is_joined), view, transcript, problem)


async def _restore(transcript: Transcript, saved: Mapping[str, Any], memory: AgentMemory) -> str:
    """Take texts from the store that the session held then; return what is not there."""
    keys = _stored_keys(saved)
    state = transcript.state
    missing = [
        (entry, part.address, keys.get((entry.position, part.address)))
        for entry in transcript.entries()
        if not state.is_hidden(entry.position)
        for part in entry.measured
        if part.address in entry.dropped and (entry.position, part.address) not in state.compacted
    ]
    contents = await fetch_parts(((address, key) for _, address, key in missing if key), memory)
    for entry, address, key in missing:
        if key in contents:
            entry.restore_texts({address: contents[key]})
    lost = [key or f"a text of message {entry.position + 1}" for entry, _, key in missing if key not in contents]
    return f"the store no longer has {', '.join(lost)}" if lost else ""


def _stored_keys(saved: Mapping[str, Any]) -> dict[PartId, str]:
    """Return the key of each stored part, also of those stored later than a view: the archive has no text of them."""
    keys: dict[PartId, str] = {}
    for event in saved_events(saved):
        match event:
            case (_, PartOffloaded(position=position, address=address, stored=stored)) if stored.refs:
                keys[position, address] = stored.refs[0].key
            case _:
                pass
    return keys


def bill_with(
    policy: ContextPolicy, saved: Mapping[str, Any], counter: TokenCounter | None = None
) -> list[tuple[ModelCall, ModelCall]]:
    """Return each recorded call beside the same one with another policy, both by the recorded prices.

    What the policy's budget and prices decide is decided anew at each call: compactions, folds, withdrawals, texts
    made shorter. Everything else stays as recorded: what was stored, its texts and first views, what was opened.

    Raises:
        ValueError: A newer version saved the events, or they are damaged.
    """
    counter = counter or default_token_counter()
    transcript = Transcript(saved["first_position"])
    budget = Budget(policy, counter, Renderer(policy, counter), "")
    meter = UsageMeter(transcript, policy)
    for event in saved_events(saved):
        if isinstance(event, Entry):
            transcript.take(event)
        elif (joined := _is_joined_call(event[1])) is not None:
            meter.record(transcript, budget.fit(transcript), is_joined=joined)
        elif not event[1].is_planned:
            transcript.replay(*event)
    return [*zip(Bill(load_transcript(saved)).calls, meter.bill.calls, strict=True)]


def _is_joined_call(decision: Decision) -> bool | None:
    match decision:
        case ViewShown(digest=digest, is_joined=is_joined) if digest:
            return is_joined
        case _:
            return None
