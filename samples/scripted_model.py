"""A model for samples without a key: it decides what it was told to, and is shown exactly what a live model would be.

A decision is a text or a `Call`. In both, `{key}` stands for the newest reference in the view and `{result}` for what
the last tool returned; a decision that depends on more is a function of the view. How many the agent has made already
is read from the view too, so that a conversation goes on where it was with another object, or in another process.
"""

import json
import re
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from typing import Any, Literal

from autogen_core import FunctionCall
from autogen_core.models import (
    AssistantMessage,
    CreateResult,
    FunctionExecutionResultMessage,
    LLMMessage,
    ModelFamily,
    ModelInfo,
    RequestUsage,
    UserMessage,
)
from autogen_ext.models.replay import ReplayChatCompletionClient
from pydantic import BaseModel
from typing_extensions import Self

__all__ = ["Call", "Decision", "ScriptedModel", "ScriptedModelConfig", "call"]

_REFERENCE = re.compile(r"\[MemoryRef: ([^\s\]]+)")
_INFO = ModelInfo(
    vision=False, function_calling=True, json_output=False, family=ModelFamily.UNKNOWN, structured_output=False
)


class Call(BaseModel, frozen=True):
    """A decision to call a tool."""

    tool: str
    arguments: dict[str, Any] = {}


Decision = str | Call


def call(tool: str, **arguments: Any) -> Call:
    """Return a decision to call a tool: `call("read_file", path="context.py")`."""
    return Call(tool=tool, arguments=arguments)


class ScriptedModelConfig(BaseModel):
    """A scripted model as component data; its decisions can be written by hand."""

    decisions: list[Decision]


class ScriptedModel(ReplayChatCompletionClient):
    """Decides without a network.

    Args:
        *decisions: One for each call; afterwards the last one again.
    """

    component_config_schema = ScriptedModelConfig  # type: ignore[assignment]  # the replayed client has its own
    component_provider_override = f"{__name__}.ScriptedModel"

    def __init__(self, *decisions: Decision | Callable[[Sequence[LLMMessage]], Decision]) -> None:
        super().__init__([], model_info=_INFO)
        self._decisions = decisions

    async def create(self, messages: Sequence[LLMMessage], **_: Any) -> CreateResult:
        """Return the decision that comes next in this conversation."""
        made = sum(isinstance(message, AssistantMessage) for message in messages)
        decision = self._decisions[min(made, len(self._decisions) - 1)]
        if callable(decision):
            decision = decision(messages)
        if isinstance(decision, str):
            return _result("stop", _filled(decision, messages))
        arguments = {
            name: _filled(value, messages) if isinstance(value, str) else value
            for name, value in decision.arguments.items()
        }
        return _result("function_calls", [FunctionCall(f"call_{made}", json.dumps(arguments), decision.tool)])

    async def create_stream(self, messages: Sequence[LLMMessage], **_: Any) -> AsyncGenerator[str | CreateResult, None]:
        """Give the words of a text one by one, then the whole decision."""
        result = await self.create(messages)
        if isinstance(result.content, str):
            for word in re.findall(r"\S+\s*", result.content):
                yield word
        yield result

    def _to_config(self) -> ScriptedModelConfig:  # type: ignore[override]
        if any(callable(decision) for decision in self._decisions):
            raise ValueError("a decision that is a function cannot be written down: give a text or a Call")
        return ScriptedModelConfig(decisions=list(self._decisions))  # type: ignore[arg-type]

    @classmethod
    def _from_config(cls, config: ScriptedModelConfig) -> Self:  # type: ignore[override]
        return cls(*config.decisions)


def _result(reason: Literal["stop", "function_calls"], content: str | list[FunctionCall]) -> CreateResult:
    return CreateResult(finish_reason=reason, content=content, usage=RequestUsage(0, 0), cached=False)


def _filled(text: str, view: Sequence[LLMMessage]) -> str:
    """Put in what the view has; the system message, which explains references, has none."""
    results = [result for one in view if isinstance(one, FunctionExecutionResultMessage) for result in one.content]
    keys = _REFERENCE.findall("\n".join(_texts(view)))
    return text.replace("{key}", keys[-1] if keys else "").replace("{result}", results[-1].content if results else "")


def _texts(view: Sequence[LLMMessage]) -> Iterator[str]:
    for message in view:
        if isinstance(message, FunctionExecutionResultMessage):
            yield from (result.content for result in message.content)
        elif isinstance(message, UserMessage) and isinstance(message.content, str):
            yield message.content
