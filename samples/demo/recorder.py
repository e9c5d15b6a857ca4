"""What every model call costs: a model client that passes everything on and writes down what went by.

The rule for the cost of input is the one of providers with prompt caching: what stands unchanged at the head of the
messages since the call before is read at a tenth of the price, everything else is written to the cache at 1.25 of it,
and a head under 1,024 tokens is not cached. Keeping everything only ever appends, so all that the call before sent is
its unchanged head. Of the first call of a process nothing is known, so it is taken to be cached in neither case.
"""

import json
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

from autogen_core import CancellationToken, FunctionCall
from autogen_core.models import (
    ChatCompletionClient,
    CreateResult,
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    LLMMessage,
    ModelCapabilities,  # type: ignore[attr-defined]  # deprecated, yet abstract
    ModelInfo,
    RequestUsage,
)
from autogen_core.tools import Tool, ToolSchema
from pydantic import BaseModel, TypeAdapter

from memory_context import MemoryContext, Segment

__all__ = ["Call", "ModelError", "Recorder", "as_bytes", "cost_share", "results_in"]

CACHED_PRICE = 0.1
NEW_PRICE = 1.25
LEAST_CACHED_TOKENS = 1024

_MESSAGES: TypeAdapter[list[LLMMessage]] = TypeAdapter(list[LLMMessage])


class ModelError(Exception):
    """The model did not answer; the text says what it said instead."""


@dataclass(frozen=True)
class Call:
    """One model call, in tokens of messages; system prompt and tool schemas are left out.

    Attributes:
        number: Counts from 1, over all turns and processes.
        turn: Counts from 1.
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

    @property
    def cached_share(self) -> float | None:
        """Share of the view that a prompt cache serves, 0 to 1; None in the first call of a process."""
        return None if self.view_cached_tokens is None else self.view_cached_tokens / max(self.view_tokens, 1)


def cost_share(calls: Iterable[Call]) -> float:
    """Return what the views cost, relative to keeping everything."""
    calls = list(calls)
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
    return [
        result
        for message in messages
        if isinstance(message, FunctionExecutionResultMessage)
        for result in message.content
    ]


class Recorder(ChatCompletionClient):
    """Passes calls on to a model and records each with what its context says of the view.

    Args:
        client: The model.
        on_begin: Called with number and view tokens before each call.
        on_end: Called with each finished call.
        first_number: The number of the first call.

    Attributes:
        context: The context whose views these are; set it before the first call.
        turn: Which turn calls belong to.
        calls: What was recorded.
        views: The messages of each call, as the model got them, without the system message.
        segments: What the context says the last view was made of.
        lookups: Each use of `retrieve_memory`: its arguments and the answer.
    """

    def __init__(
        self,
        client: ChatCompletionClient,
        on_begin: Callable[[int, int], None],
        on_end: Callable[[Call], None],
        first_number: int = 1,
    ) -> None:
        self._client = client
        self._on_begin, self._on_end = on_begin, on_end
        self._number = first_number
        self._asked: dict[str, dict[str, Any]] = {}
        self.context: MemoryContext | None = None
        self.turn = 1
        self.calls: list[Call] = []
        self.views: list[list[LLMMessage]] = []
        self.segments: tuple[Segment, ...] = ()
        self.lookups: list[tuple[dict[str, Any], str]] = []

    async def create(
        self,
        messages: Sequence[LLMMessage],
        *,
        tools: Sequence[Tool | ToolSchema] = [],
        tool_choice: Tool | Literal["auto", "required", "none"] = "auto",
        json_output: bool | type[BaseModel] | None = None,
        extra_create_args: Mapping[str, Any] = {},
        cancellation_token: CancellationToken | None = None,
    ) -> CreateResult:
        """Return the model's answer, after recording the call.

        Raises:
            ModelError: There is none.
        """
        assert self.context is not None
        stats, report = self.context.stats, await self.context.explain()
        before = self.calls[-1] if self.calls else None
        self._see(messages[1:], report.segments)
        number = self._number + len(self.calls)
        self._on_begin(number, report.tokens)
        try:
            answer = await self._client.create(
                messages,
                tools=tools,
                tool_choice=tool_choice,
                json_output=json_output,
                extra_create_args=extra_create_args,
                cancellation_token=cancellation_token,
            )
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
        self._on_end(call)
        return answer

    def _see(self, view: Sequence[LLMMessage], segments: tuple[Segment, ...]) -> None:
        self.views.append(list(view))
        self.segments = segments
        for result in results_in(view):
            if asked := self._asked.pop(result.call_id, None):
                self.lookups.append((asked, result.content))

    def _action(self, answer: CreateResult) -> str:
        if isinstance(answer.content, str):
            return "answers"
        for call in answer.content:
            if call.name == "retrieve_memory":
                with suppress(ValueError):  # a live model may send anything
                    self._asked[call.id] = json.loads(call.arguments)
        first, *others = answer.content
        more = f" (+{len(others)})" if others else ""
        return f"{first.name} {_in_short(first)}{more}"

    # --- everything else is the model's ----------------------------------------------------------------------------

    def create_stream(self, *args: Any, **kwargs: Any) -> AsyncGenerator[str | CreateResult, None]:
        """Pass a stream on; not recorded, as the demo's agent does not stream."""
        return self._client.create_stream(*args, **kwargs)

    async def close(self) -> None:
        """Close the model."""
        await self._client.close()

    def actual_usage(self) -> RequestUsage:
        """Return what the model says its last call used."""
        return self._client.actual_usage()

    def total_usage(self) -> RequestUsage:
        """Return what the model says all calls used."""
        return self._client.total_usage()

    def count_tokens(self, messages: Sequence[LLMMessage], **kwargs: Any) -> int:
        """Return the model's own count."""
        return self._client.count_tokens(messages, **kwargs)

    def remaining_tokens(self, messages: Sequence[LLMMessage], **kwargs: Any) -> int:
        """Return what the model has left."""
        return self._client.remaining_tokens(messages, **kwargs)

    @property
    def capabilities(self) -> ModelCapabilities:  # type: ignore[override]
        """What the model can do, as AutoGen once called it."""
        return self._client.capabilities

    @property
    def model_info(self) -> ModelInfo:
        """What the model can do."""
        return self._client.model_info


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
