"""A model without a network, which makes scripted decisions and records its views."""

import json
import re
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from typing import Any, Literal

from autogen_core import Component, FunctionCall
from autogen_core.models import (
    AssistantMessage,
    ChatCompletionClient,
    CreateResult,
    FunctionExecutionResultMessage,
    LLMMessage,
    ModelCapabilities,  # type: ignore[deprecated]  # the base class asks for it
    ModelFamily,
    ModelInfo,
    RequestUsage,
    UserMessage,
)
from pydantic import BaseModel
from typing_extensions import Self

from ..tokens import default_token_counter

__all__ = ["Call", "Decision", "ScriptedModel", "ScriptedModelConfig", "call", "tool_calls"]

_REFERENCE = re.compile(r"\[MemoryRef: ([^\s\]]+)")
_INFO = ModelInfo(
    vision=False, function_calling=True, json_output=False, family=ModelFamily.UNKNOWN, structured_output=False
)
_CONTEXT_TOKENS = 1_000_000


class Call(BaseModel, frozen=True):
    """A decision to call a tool."""

    tool: str
    arguments: dict[str, Any] = {}


Decision = str | Call | list[Call]


def call(tool: str, **arguments: Any) -> Call:
    """Return a tool call: `call("read_file", path="context.py")`."""
    return Call(tool=tool, arguments=arguments)


def tool_calls(*wanted: Call, thought: str | None = None, id_prefix: str = "call") -> CreateResult:
    """Return a model's answer that calls tools, with ids `call_0`, `call_1`, …"""
    content = [
        FunctionCall(id=f"{id_prefix}_{i}", name=one.tool, arguments=json.dumps(one.arguments))
        for i, one in enumerate(wanted)
    ]
    return _result("function_calls", content, thought)


class ScriptedModelConfig(BaseModel):
    """A scripted model as component data."""

    decisions: list[Decision]


class ScriptedModel(ChatCompletionClient, Component[ScriptedModelConfig]):
    """Makes one decision per assistant message in the view; the last one repeats.

    In texts and arguments `{key}` becomes the newest reference in the view, `{result}` the last tool result.

    Args:
        *decisions: A text, a `Call`, a list of them, or a function of the view that returns one of these.
        model_info: None for a model that can call tools.

    Attributes:
        views: The messages of each call.
    """

    component_type = "model"
    component_config_schema = ScriptedModelConfig
    component_provider_override = "memory_context.testing.ScriptedModel"

    def __init__(
        self,
        *decisions: Decision | Callable[[Sequence[LLMMessage]], Decision],
        model_info: ModelInfo | None = None,
    ) -> None:
        if not decisions:
            raise ValueError("a scripted model needs at least one decision: give a text or a Call")
        self._decisions = decisions
        self._info = _INFO if model_info is None else model_info
        self._usage = RequestUsage(0, 0)
        self.views: list[list[LLMMessage]] = []

    async def create(self, messages: Sequence[LLMMessage], **_: Any) -> CreateResult:
        """Return the next decision."""
        self.views.append(list(messages))
        made = sum(isinstance(message, AssistantMessage) for message in messages)
        decision = self._decisions[min(made, len(self._decisions) - 1)]
        if callable(decision):
            decision = decision(messages)
        if isinstance(decision, str):
            return _result("stop", _filled(decision, messages))
        wanted = [decision] if isinstance(decision, Call) else decision
        return tool_calls(*(_filled_call(one, messages) for one in wanted), id_prefix=f"call_{made}")

    async def create_stream(self, messages: Sequence[LLMMessage], **_: Any) -> AsyncGenerator[str | CreateResult, None]:
        """Yield a text's words, then the decision."""
        result = await self.create(messages)
        for word in re.findall(r"\S+\s*", result.content) if isinstance(result.content, str) else ():
            yield word
        yield result

    async def close(self) -> None:
        """Do nothing."""

    def actual_usage(self) -> RequestUsage:
        """Return no usage."""
        return self._usage

    def total_usage(self) -> RequestUsage:
        """Return no usage."""
        return self._usage

    def count_tokens(self, messages: Sequence[LLMMessage], **_: Any) -> int:
        """Return the tokens of texts only."""
        return sum(default_token_counter().count(text) for text in _texts(messages))

    def remaining_tokens(self, messages: Sequence[LLMMessage], **_: Any) -> int:
        """Return the tokens left of a million."""
        return _CONTEXT_TOKENS - self.count_tokens(messages)

    @property
    def capabilities(self) -> ModelCapabilities:  # type: ignore[deprecated]  # the base class asks for it
        return self._info  # type: ignore[return-value]

    @property
    def model_info(self) -> ModelInfo:
        return self._info

    def _to_config(self) -> ScriptedModelConfig:
        if any(callable(decision) for decision in self._decisions):
            raise ValueError("a decision that is a function cannot be written down: give a text or a Call")
        return ScriptedModelConfig(decisions=[one for one in self._decisions if not callable(one)])

    @classmethod
    def _from_config(cls, config: ScriptedModelConfig) -> Self:
        return cls(*config.decisions)


def _result(
    reason: Literal["stop", "function_calls"], content: str | list[FunctionCall], thought: str | None = None
) -> CreateResult:
    usage = RequestUsage(0, 0)
    return CreateResult(finish_reason=reason, content=content, usage=usage, cached=False, thought=thought)


def _filled_call(one: Call, view: Sequence[LLMMessage]) -> Call:
    arguments = {
        name: _filled(value, view) if isinstance(value, str) else value for name, value in one.arguments.items()
    }
    return Call(tool=one.tool, arguments=arguments)


def _filled(text: str, view: Sequence[LLMMessage]) -> str:
    """The system message is ignored: its references are examples."""
    results = [result for one in view if isinstance(one, FunctionExecutionResultMessage) for result in one.content]
    keys = _REFERENCE.findall("\n".join(_texts(view)))
    return text.replace("{key}", keys[-1] if keys else "").replace("{result}", results[-1].content if results else "")


def _texts(view: Sequence[LLMMessage]) -> Iterator[str]:
    for message in view:
        if isinstance(message, FunctionExecutionResultMessage):
            yield from (result.content for result in message.content)
        elif isinstance(message, UserMessage) and isinstance(message.content, str):
            yield message.content
