"""Scripted models and tools with real, large outputs."""

from typing import Any

from autogen_core.models import CreateResult, LLMMessage, ModelInfo, RequestUsage
from autogen_ext.models.replay import ReplayChatCompletionClient

from memory_context.foundation.messages import texts_of
from memory_context.testing import Call, tool_calls

MODEL_INFO = ModelInfo(vision=False, function_calling=True, json_output=True, family="unknown", structured_output=True)
USAGE = RequestUsage(prompt_tokens=0, completion_tokens=0)


def calls(*wanted: tuple[str, dict[str, Any]], thought: str | None = None) -> CreateResult:
    """Return a model's answer that calls tools: `calls(("read", {"path": "a"}))`."""
    return tool_calls(*(Call(tool=name, arguments=arguments) for name, arguments in wanted), thought=thought)


def model(*answers: str | CreateResult) -> ReplayChatCompletionClient:
    """Return a model that gives these answers, one a call."""
    return ReplayChatCompletionClient(list(answers), model_info=MODEL_INFO)


def seen(client: ReplayChatCompletionClient, call: int = -1) -> list[LLMMessage]:
    """Return the messages of one call to a scripted model."""
    return list(client.create_calls[call]["messages"])


def text_of(messages: list[LLMMessage]) -> str:
    """Return everything messages say, for looking something up."""
    return "\n".join(text for message in messages for _, text in texts_of(message))


def report(topic: str, lines: int = 300) -> str:
    """Return a long report on a topic; every line can be told from the others."""
    return "\n".join(f"{topic} finding {i}: value {i * 37 % 1009}" for i in range(lines))
