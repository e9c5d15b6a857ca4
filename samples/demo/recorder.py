"""What every model call costs: `Recorder` stands between an agent and its model and writes down what goes by.

The rule for the cost of input is the one of providers with prompt caching: what stands unchanged at the head of the
messages since the call before is read at a tenth of the price, everything else is written to the cache at 1.25 of it,
and a head under 1,024 tokens is not cached. Keeping everything only ever appends, so all that the call before sent is
its unchanged head. Of the first call of a process nothing is known, so it is taken to be cached in neither case.
"""

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from typing import Any

from autogen_core import FunctionCall
from autogen_core.models import (
    ChatCompletionClient,
    CreateResult,
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    LLMMessage,
)
from pydantic import TypeAdapter

from memory_context import MemoryContext, Segment

from .display import Display

__all__ = ["LEAST_CACHED_TOKENS", "Call", "ModelError", "Recorder", "as_bytes", "cost_share", "results_in"]

CACHED_PRICE, NEW_PRICE = 0.1, 1.25
LEAST_CACHED_TOKENS = 1024

_MESSAGES: TypeAdapter[list[LLMMessage]] = TypeAdapter(list[LLMMessage])


class ModelError(Exception):
    """The model did not answer; the text says what it said instead."""


@dataclass(frozen=True)
class Call:
    """One model call, in tokens of messages; system prompt and tool schemas are left out.

    Attributes:
        number: Counts from 1, over all turns and processes.
        action: What the model answered, in a line.
        raw_tokens: What keeping everything would have sent.
        view_tokens: What was sent.
        raw_cached_tokens: What of `raw_tokens` a prompt cache would have served; None in the first call of a process.
        view_cached_tokens: What of `view_tokens` it serves; None in the first call of a process.
        folds: Folds so far.
        compactions: Planned compactions so far.
    """

    number: int
    turn: int
    action: str
    raw_tokens: int
    view_tokens: int
    raw_cached_tokens: int | None
    view_cached_tokens: int | None
    folds: int
    compactions: int


def cost_share(calls: Sequence[Call]) -> float:
    """Return what the views cost, relative to keeping everything."""
    kept = sum(_price(call.raw_tokens, call.raw_cached_tokens) for call in calls)
    sent = sum(_price(call.view_tokens, call.view_cached_tokens) for call in calls)
    return sent / kept if kept else 1.0


def _price(tokens: int, cached_tokens: int | None) -> float:
    cached = cached_tokens or 0
    return cached * CACHED_PRICE + (tokens - cached) * NEW_PRICE


def as_bytes(messages: Sequence[LLMMessage]) -> bytes:
    """Return messages as the bytes that two views are compared by."""
    return _MESSAGES.dump_json(list(messages))


def results_in(messages: Iterable[LLMMessage]) -> list[FunctionExecutionResult]:
    """Return all tool results in messages, in order."""
    found = (message for message in messages if isinstance(message, FunctionExecutionResultMessage))
    return [result for message in found for result in message.content]


class Recorder:
    """Records each call of a model, with what the context says of the view.

    Attributes:
        client: The model for the agent.
        turn: Which turn calls belong to.
        views: The messages of each call, as the model got them, without the system message.
        segments: What the context says the last view was made of.
        lookups: Each use of `retrieve_memory`: its arguments and the answer.
    """

    def __init__(
        self, client: ChatCompletionClient, context: MemoryContext, display: Display, first_number: int
    ) -> None:
        self._create, self._context, self._display, self._first_number = client.create, context, display, first_number
        self.client = copy(client)  # the light model may be the same client, whose own calls are not the agent's
        self.client.create = self._recorded  # type: ignore[method-assign]
        self._asked: dict[str, dict[str, Any]] = {}
        self.turn = 1
        self.calls: list[Call] = []
        self.views: list[list[LLMMessage]] = []
        self.segments: tuple[Segment, ...] = ()
        self.lookups: list[tuple[dict[str, Any], str]] = []

    async def _recorded(self, messages: Sequence[LLMMessage], **others: Any) -> CreateResult:
        """Return the model's answer; raise ModelError if there is none."""
        stats, report = self._context.stats, await self._context.explain()
        before = self.calls[-1] if self.calls else None
        self.views.append(list(messages[1:]))
        self.segments = report.segments
        for result in results_in(messages):
            if asked := self._asked.pop(result.call_id, None):
                self.lookups.append((asked, result.content))
        number = self._first_number + len(self.calls)
        self._display.begin_call(number, report.tokens)
        try:
            answer = await self._create(messages, **others)
        except Exception as error:  # each client has errors of its own
            raise ModelError(f"Call {number}: the model did not answer. {type(error).__name__}: {error}") from error
        call = Call(
            number=number,
            turn=self.turn,
            action=self._action(answer),
            raw_tokens=stats.raw_tokens,
            view_tokens=report.tokens,
            raw_cached_tokens=_if_cached(before.raw_tokens) if before else None,
            view_cached_tokens=_if_cached(report.stable_tokens) if before else None,
            folds=stats.folds,
            compactions=stats.compactions,
        )
        self.calls.append(call)
        cached = call.view_cached_tokens
        share = None if cached is None else cached / max(call.view_tokens, 1)
        self._display.end_call(number, call.action, call.raw_tokens, call.view_tokens, share)
        return answer

    def _action(self, answer: CreateResult) -> str:
        if isinstance(answer.content, str):
            return "answers"
        for call in answer.content:
            if call.name == "retrieve_memory":
                with suppress(ValueError):  # a live model may send anything
                    self._asked[call.id] = json.loads(call.arguments)
        first, *others = answer.content
        return f"{first.name} {_in_short(first)}" + (f" (+{len(others)})" if others else "")


def _if_cached(tokens: int) -> int:
    return tokens if tokens >= LEAST_CACHED_TOKENS else 0


def _in_short(call: FunctionCall) -> str:
    """Return the arguments of a call as a person would type them; of a look-up, what is looked for comes first."""
    try:
        arguments: Any = json.loads(call.arguments)
    except ValueError:
        return call.arguments
    if not isinstance(arguments, dict):
        return call.arguments
    values = {name: str(value).replace('cd "$CODE_ROOT" && ', "") for name, value in arguments.items()}
    if call.name == "retrieve_memory":
        lines = "-".join(values[name] for name in ("start_line", "end_line") if name in values)
        values = {"what": values.get("pattern") or (f"lines {lines}" if lines else values.get("transform", "full"))}
    return " ".join(" ".join(values.values()).split())
