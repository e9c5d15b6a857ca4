"""A stand-in for a model, so that the page works without an API key: rules instead of a network, word by word.

`rules.py` decides; this is the form in which an agent takes it.
"""

import asyncio
import json
import math
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Literal

from autogen_core import CancellationToken, FunctionCall
from autogen_core.models import (
    ChatCompletionClient,
    CreateResult,
    LLMMessage,
    ModelCapabilities,  # type: ignore[deprecated]
    ModelFamily,
    ModelInfo,
    RequestUsage,
)
from autogen_core.tools import Tool, ToolSchema
from pydantic import BaseModel

from .rules import decide

__all__ = ["ScriptedClient"]


class ScriptedClient(ChatCompletionClient):
    """Decides by rules what a model would decide.

    Args:
        seconds_per_word: How fast it writes when it streams.
        most_seconds: The longest that an answer streams; a long one comes several words at a time.
    """

    component_type = "model"
    component_config_schema = BaseModel

    def __init__(self, seconds_per_word: float = 0.012, most_seconds: float = math.inf) -> None:
        self._most_seconds = most_seconds
        self._seconds_per_word = seconds_per_word
        self._calls = 0

    async def create(
        self,
        messages: Sequence[LLMMessage],
        *,
        tools: Sequence[Tool | ToolSchema] = (),
        tool_choice: Tool | Literal["auto", "required", "none"] = "auto",
        json_output: bool | type[BaseModel] | None = None,
        extra_create_args: Mapping[str, Any] | None = None,
        cancellation_token: CancellationToken | None = None,
    ) -> CreateResult:
        """Return the whole decision at once."""
        decision = decide(messages)
        if isinstance(decision, str):
            return _result("stop", decision)
        self._calls += 1
        name, arguments = decision
        call = FunctionCall(id=f"call_{self._calls}_{len(messages)}", name=name, arguments=json.dumps(arguments))
        return _result("function_calls", [call])

    async def create_stream(
        self,
        messages: Sequence[LLMMessage],
        *,
        tools: Sequence[Tool | ToolSchema] = (),
        tool_choice: Tool | Literal["auto", "required", "none"] = "auto",
        json_output: bool | type[BaseModel] | None = None,
        extra_create_args: Mapping[str, Any] | None = None,
        cancellation_token: CancellationToken | None = None,
    ) -> AsyncGenerator[str | CreateResult, None]:
        """Give an answer word by word, then as a whole."""
        result = await self.create(messages, tools=tools)
        if isinstance(result.content, str):
            words = re.findall(r"\s*\S+\s*?", result.content)
            at_a_time = max(1, math.ceil(len(words) * self._seconds_per_word / self._most_seconds))
            for place in range(0, len(words), at_a_time):
                await asyncio.sleep(self._seconds_per_word)
                yield "".join(words[place : place + at_a_time])
        yield result

    async def close(self) -> None:
        """Nothing is open."""

    def actual_usage(self) -> RequestUsage:
        """Rules use no tokens."""
        return RequestUsage(prompt_tokens=0, completion_tokens=0)

    def total_usage(self) -> RequestUsage:
        """Rules use no tokens."""
        return self.actual_usage()

    def count_tokens(self, messages: Sequence[LLMMessage], *, tools: Sequence[Tool | ToolSchema] = ()) -> int:
        """Rules use no tokens."""
        return 0

    def remaining_tokens(self, messages: Sequence[LLMMessage], *, tools: Sequence[Tool | ToolSchema] = ()) -> int:
        """As much as anybody could want."""
        return 1_000_000

    @property
    def capabilities(self) -> ModelCapabilities:  # type: ignore[deprecated]
        """What `model_info` says."""
        return self.model_info

    @property
    def model_info(self) -> ModelInfo:
        """It calls tools, and that is all."""
        return ModelInfo(
            vision=False, function_calling=True, json_output=False, family=ModelFamily.UNKNOWN, structured_output=False
        )


def _result(reason: Literal["stop", "function_calls"], content: str | list[FunctionCall]) -> CreateResult:
    usage = RequestUsage(prompt_tokens=0, completion_tokens=0)
    return CreateResult(finish_reason=reason, content=content, usage=usage, cached=False)
