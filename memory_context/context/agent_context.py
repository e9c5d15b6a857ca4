"""What an agent thought, did and perceived, for applications that build its prompt themselves."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from itertools import takewhile
from typing import Any, cast

from autogen_core import FunctionCall, Image
from autogen_core.models import (
    AssistantMessage,
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
)
from pydantic_core import to_jsonable_python

from memory_context.connectors.protocols import (
    AgentContext,
    ConnectorObservation,
    ConnectorState,
    Element,
    HistoryThought,
    HistoryTurn,
)
from memory_context.foundation.messages import Address, calls_of, texts_of
from memory_context.foundation.patterns import regex
from memory_context.foundation.policy import ContextPolicy
from memory_context.foundation.utf8 import json_object, sayable, sayable_json, sayable_name
from memory_context.sessions.transcript.entries import Entry
from memory_context.sessions.transcript.transcript import Transcript
from memory_context.view.render import text_in_view

__all__ = ["agent_context", "in_utc", "turn_messages"]

_NAME = regex(r"[A-Za-z0-9_-]{1,64}")
_NO_ACTION = "null"
_FOLLOWS = "Done; what was observed follows."


def agent_context(transcript: Transcript, policy: ContextPolicy, states: Sequence[ConnectorState]) -> AgentContext:
    """Return the history since the last clear beside the present states, with times as a model reads them."""
    now = datetime.now(timezone.utc)
    history = [*_history(transcript, policy)]
    is_one_day = {at.date() for at, _, _ in history} <= {now.date()}
    time_format = "%H:%M:%S" if is_one_day else "%Y-%m-%d %H:%M:%S"
    return AgentContext(
        tuple(_record(at.strftime(time_format), said, observed) for at, said, observed in history),
        now.strftime(time_format),
        tuple(states),
    )


def turn_messages(
    agent_id: str, action: object, observations: Sequence[ConnectorObservation | str | Image]
) -> tuple[AssistantMessage, FunctionExecutionResultMessage, Sequence[ConnectorObservation | str | Image]]:
    """Return an action as a call and its result, and the observations that follow the result.

    Raises:
        ValueError: The action is not JSON.
    """
    call = _call_of(action)
    texts = [*takewhile(lambda one: isinstance(one, str), observations)]
    others = observations[len(texts) :]
    text = "\n".join(map(str, texts)) or (_FOLLOWS if others else "")
    result = FunctionExecutionResult(content=text, name=call.name, call_id=call.id, is_error=False)
    said = AssistantMessage(content=[call], source=agent_id)
    return said, FunctionExecutionResultMessage(content=[result]), others


def in_utc(timestamp: datetime | None) -> datetime | None:
    """Return a time in UTC; one without a zone is local time."""
    return None if timestamp is None else timestamp.astimezone(timezone.utc)


_Told = tuple[datetime, "str | FunctionCall | None", "list[Element]"]
"""Time, words or a call (None: no action), observations."""


def _record(
    timestamp: str, said: str | FunctionCall | None, observed: Sequence[Element]
) -> HistoryThought | HistoryTurn:
    if isinstance(said, str):
        return HistoryThought(timestamp, sayable(said))
    return HistoryTurn(timestamp, _NO_ACTION if said is None else _json_of(said), tuple(observed))


def _json_of(call: FunctionCall) -> str:
    try:
        arguments: object = json.loads(sayable_json(call.arguments) or "{}")
    except ValueError:  # of a model
        arguments = sayable(call.arguments)
    return json.dumps({"name": sayable_name(call.name), "arguments": arguments}, ensure_ascii=False)


def _history(transcript: Transcript, policy: ContextPolicy) -> list[_Told]:
    told: list[_Told] = []
    observed: list[Element] | None = None  # of the newest turn, since the agent's last words
    for entry in transcript.entries():
        if entry.position in transcript.state.redelivered:
            continue
        if isinstance(entry.message, AssistantMessage):
            told += (said := [*_said(transcript, policy, entry)])
            observed = said[-1][2] if calls_of(entry.message) else None
        elif entry.carries_result:
            if observed is None:
                observed = []
                told.append((entry.added_at, None, observed))
            observed += _elements(transcript, policy, entry)
    return told


def _said(transcript: Transcript, policy: ContextPolicy, entry: Entry) -> Iterator[_Told]:
    for address, _ in texts_of(entry.message):
        if address.kind != "arguments" and (text := _text(transcript, policy, entry, address)):
            yield entry.added_at, text, []
    answers = transcript.pairing.answers.get(entry.position, [])
    for call, answer in zip(calls_of(entry.message), answers, strict=True):
        result = None if answer is None else (transcript[answer[0]], Address("result", answer[1]))
        text = "" if result is None else _text(transcript, policy, *result)
        yield entry.added_at, call, [] if text in ("", _FOLLOWS) else [text]


def _elements(transcript: Transcript, policy: ContextPolicy, entry: Entry) -> Iterator[Element]:
    content = entry.message.content
    for index, block in enumerate([content] if isinstance(content, str) else content):
        if isinstance(block, Image):
            yield block
        elif isinstance(block, str):
            yield _text(transcript, policy, entry, Address("text", index))


def _text(transcript: Transcript, policy: ContextPolicy, entry: Entry, address: Address) -> str:
    """Return a text as views show it; of one that left memory, what refers to it."""
    part = next((one for one in entry.measured if one.address == address), None)
    shown = None if part is None else text_in_view(transcript, policy, entry, part)[1]
    text = entry.text(address) if shown is None else shown
    if text is not None:
        return sayable(text)
    return part.stored.compacted if part is not None and part.stored is not None else ""


def _call_of(action: object) -> FunctionCall:
    if isinstance(action, FunctionCall):
        return action
    try:
        data = to_jsonable_python(action)
        if isinstance(data, str) and (parsed := json_object(data)) is not None:
            data = parsed
        name, arguments = _named(cast("Mapping[str, Any]", data) if isinstance(data, Mapping) else {"action": data})
        written = json.dumps(arguments, allow_nan=False)
    except (TypeError, ValueError) as error:  # the serializer's error is a ValueError
        raise ValueError(f"action {action!r} is not JSON ({error}): give a mapping, a model or a dataclass") from error
    return FunctionCall(id=f"turn_{uuid.uuid4().hex[:12]}", name=name, arguments=written)


def _named(data: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    name, arguments = data.get("name"), data.get("arguments")
    if isinstance(name, str) and _NAME.fullmatch(name) and isinstance(arguments, Mapping) and len(data) == 2:
        return name, cast("Mapping[str, Any]", arguments)
    return "action", data
