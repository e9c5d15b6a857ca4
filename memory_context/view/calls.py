"""The recorded model calls of a session again: their bill, the view of a call, and what calls cost with another policy.

All read saved events: an archive joined by `whole_history`, or the transcript of a saved state.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from autogen_core.models import LLMMessage

from memory_context.compaction.offloader import fetch_parts
from memory_context.foundation.policy import CachePolicy, ContextPolicy
from memory_context.foundation.runtime.background import in_thread_if_large
from memory_context.foundation.tokens import TokenCounter, default_token_counter
from memory_context.foundation.utf8 import unescape_json
from memory_context.memory.agent_memory import AgentMemory
from memory_context.sessions.transcript.codec import load_transcript, saved_events
from memory_context.sessions.transcript.entries import Entry, PartId
from memory_context.sessions.transcript.observation_decisions import (
    ObservationBuffered,
    ObservationsActivated,
    ObservationsRestored,
    Reflected,
)
from memory_context.sessions.transcript.part_decisions import (
    CompactedTextChosen,
    CredentialsMasked,
    FirstViewChosen,
    PartOffloaded,
)
from memory_context.sessions.transcript.transcript import Decision, Transcript, decision_from_json
from memory_context.sessions.transcript.view_decisions import Forked, HistoryFolded, ViewShown

from .bill import Bill, ModelCall, UsageMeter
from .budget import Budget
from .render import Renderer
from .view import View

__all__ = ["CallView", "bill_with", "recorded_calls", "view_of_call"]

_OF_PARTS = frozenset(one.kind for one in (PartOffloaded, FirstViewChosen, CompactedTextChosen, CredentialsMasked))
"""Kinds of decisions that are in no bill, and hold most of the text."""
_NO_TAG = "000000"  # as long as that in the keys of a session's folds, which stand in the view
_EVENT_CHARACTERS = 200  # an event costs as much time as a text of this length; many are read in a thread


def recorded_calls(saved: Mapping[str, Any], prices: CachePolicy | None = None) -> list[tuple[ModelCall, Counter[str]]]:
    """Return the bill of saved events, each call with the counts of what was decided before it, such as `folds`.

    No message is read and nothing is replayed: a thousand calls take a tenth of a second.

    Args:
        prices: In place of the recorded ones.

    Raises:
        ValueError: A newer version saved the events, or they are damaged.
    """
    transcript = load_transcript({**saved, "entries": [], "decisions": []})  # checks the version
    unread, first = Decision(), saved["first_position"]
    transcript.log = [
        (at, unread if one["kind"] in _OF_PARTS else decision_from_json(unescape_json(one)))
        for at, one in saved["decisions"]
    ]
    calls: list[tuple[ModelCall, Counter[str]]] = []
    before = max((number + 1 for number, _ in transcript.decisions(Forked)), default=0)
    for call in Bill(transcript, prices).calls:
        changes = Counter[str]()
        for _, decision in transcript.log[before : call.decision]:
            changes.update(decision.tally())
        newest = call.messages - 1 - first
        held = saved["entries"][newest] if 0 <= newest < len(saved["entries"]) else None
        at = datetime.fromisoformat(held["added_at"]) if held else None
        calls.append((replace(call, at=at), changes))
        before = call.decision + 1
    return calls


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
    size = _EVENT_CHARACTERS * (len(saved["entries"]) + len(saved["decisions"]))
    calls = [call for call, _ in await in_thread_if_large(size, recorded_calls, saved)]
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
    transcript = await in_thread_if_large(size, load_transcript, then)
    lost = await _restore(transcript, saved, memory)
    view = await in_thread_if_large(size, Renderer(policy, counter).render, transcript)
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
    for _, data in saved["decisions"]:
        if data["kind"] == PartOffloaded.kind:
            one = PartOffloaded.from_json(unescape_json(data))
            if one.stored.refs:
                keys[one.position, one.address] = one.stored.refs[0].key
    return keys


def bill_with(
    policy: ContextPolicy,
    saved: Mapping[str, Any],
    counter: TokenCounter | None = None,
    *,
    recorded: ContextPolicy | None = None,
    first_call: int = 1,
) -> list[tuple[ModelCall, ModelCall]]:
    """Return each recorded call beside the same one with another policy, both by the recorded prices.

    What the policy's budget and prices decide is decided anew at each call: compactions, folds, withdrawals, texts
    made shorter. Everything else stays as recorded: what was stored, its texts and first views, what was opened. With
    the session's own policy it is the recorded bill, except that a result whose facts were still being chosen may be
    compacted a call earlier.

    Args:
        recorded: The session's policy. Results that the new one stores no more, or shows whole, then cost their full
            length, and with `observation.mode="off"` folds take the place of observations. Texts that nobody made
            cannot be priced: lower limits of stored or whole results, or observations that were off, change nothing.
        first_call: Calls before this one stay as recorded.

    Raises:
        ValueError: A newer version saved the events, or they are damaged.
    """
    counter = counter or default_token_counter()
    transcript = Transcript(saved["first_position"])
    folds = (one["ref"]["key"] for _, one in saved["decisions"] if one["kind"] == HistoryFolded.kind)
    tag = next(folds, _NO_TAG).rpartition("_")[2]
    budget = Budget(policy, counter, renderer := Renderer(policy, counter), tag)
    bill = [call for call, _ in recorded_calls(saved)]
    kept = bill[first_call - 2].decision if 1 < first_call <= len(bill) + 1 else -1
    meter: UsageMeter | None = None
    number = -1  # of the decision
    for event in saved_events(saved):
        if isinstance(event, Entry):
            transcript.take(event)
            continue
        number += 1
        if number <= kept:
            transcript.replay(*event)
            continue
        if meter is None:
            meter = UsageMeter(transcript, policy)
            budget.bill = meter.bill
            if kept >= 0:  # the view before, of which a cache holds what is equal
                meter.views = View(), renderer.render(transcript)
        if (joined := _is_joined_call(event[1])) is not None:
            meter.record(transcript, budget.fit(transcript), is_joined=joined)
        elif not event[1].is_planned and not (recorded and _falls_away(event[1], transcript, policy, recorded)):
            transcript.replay(*event)
    again = meter.bill.calls if meter else bill
    return [*zip(bill, again, strict=True)]


def _falls_away(decision: Decision, transcript: Transcript, policy: ContextPolicy, recorded: ContextPolicy) -> bool:
    """Return whether a decision of the recorded policy would not have been taken with another."""
    match decision:
        case ObservationBuffered() | ObservationsActivated() | ObservationsRestored() | Reflected():
            return policy.observation.mode == "off"
        case FirstViewChosen(position=position, address=address, headline="") if position >= transcript.first:
            tokens = transcript[position].part(address).tokens
            return recorded.result_limit_tokens < tokens <= policy.result_limit_tokens
        case PartOffloaded(position=position, address=address) if position >= transcript.first:
            tokens = transcript[position].part(address).tokens
            return recorded.offload_threshold_tokens < tokens <= policy.offload_threshold_tokens
        case _:
            return False


def _is_joined_call(decision: Decision) -> bool | None:
    match decision:
        case ViewShown(digest=digest, is_joined=is_joined) if digest:
            return is_joined
        case _:
            return None
