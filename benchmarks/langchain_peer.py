"""LangChain's ContextEditingMiddleware as a peer: its own code clears old tool results, on LangChain's messages.

Messages keep their place as their id, so that what the middleware hands to the model becomes the same AutoGen messages
again, and only what it changed has changed. Tokens are counted by the benchmarks' counter, which the middleware takes
in place of its own estimate of four characters a token; the system prompt does not count, as with its own.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any

from autogen_core import FunctionCall
from autogen_core.models import (
    AssistantMessage,
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    LLMMessage,
    SystemMessage,
)
from langchain.agents.middleware import ClearToolUsesEdit, ContextEditingMiddleware
from langchain.agents.middleware.types import ModelRequest
from langchain_core import messages as langchain

from benchmarks.prompts import render

__all__ = ["ClearedResults"]


class ClearedResults:
    """What `ContextEditingMiddleware` makes of a conversation before each call.

    Args:
        count: Counts the tokens of a text.
        trigger: Tokens above which `ClearToolUsesEdit` clears; its own default if None.
    """

    def __init__(self, count: Callable[[str], int], trigger: int | None = None) -> None:
        self._count = count
        edit = ClearToolUsesEdit() if trigger is None else ClearToolUsesEdit(trigger=trigger)
        self._middleware = ContextEditingMiddleware(edits=[edit], token_counter=self._tokens)
        self._messages: list[LLMMessage] = []
        self._converted: list[langchain.BaseMessage] = []

    async def add_message(self, message: LLMMessage) -> None:
        """Take in the next message."""
        self._converted += _to_langchain(message, f"{len(self._messages)}")
        self._messages.append(message)

    async def get_messages(self) -> list[LLMMessage]:
        """Return the messages for the next call."""
        handed: list[langchain.BaseMessage] = []

        async def model(request: ModelRequest) -> Any:
            handed.extend(request.messages)
            return langchain.AIMessage("")

        request: Any = ModelRequest(model=None, messages=self._converted)  # type: ignore[arg-type]
        await self._middleware.awrap_model_call(request, model)
        return self._to_autogen(handed)

    def _tokens(self, messages: Sequence[langchain.BaseMessage]) -> int:
        return sum(render(message, self._count).tokens for message in self._to_autogen(messages))

    def _to_autogen(self, messages: Sequence[langchain.BaseMessage]) -> list[LLMMessage]:
        results: dict[str, list[FunctionExecutionResult]] = {}
        for message in messages:
            of_message = results.setdefault(str(message.id), [])
            if isinstance(message, langchain.ToolMessage):
                of_message.append(_result(message))
        return [
            FunctionExecutionResultMessage(content=contents) if contents else self._messages[int(place)]
            for place, contents in results.items()
        ]


def _result(message: langchain.ToolMessage) -> FunctionExecutionResult:
    return FunctionExecutionResult(
        content=str(message.content), name=message.name or "", call_id=message.tool_call_id, is_error=False
    )


def _to_langchain(message: LLMMessage, place: str) -> list[langchain.BaseMessage]:
    if isinstance(message, FunctionExecutionResultMessage):
        return [
            langchain.ToolMessage(result.content, tool_call_id=result.call_id, name=result.name, id=place)
            for result in message.content
        ]
    if isinstance(message, AssistantMessage):
        if isinstance(message.content, str):
            return [langchain.AIMessage(message.content, id=place)]
        calls = [_call(call) for call in message.content]
        return [
            langchain.AIMessage(
                message.thought or "",
                id=place,
                tool_calls=[call for call in calls if call["type"] == "tool_call"],
                invalid_tool_calls=[call for call in calls if call["type"] != "tool_call"],
            )
        ]
    assert isinstance(message.content, str), "recorded runs hold text only"
    if isinstance(message, SystemMessage):
        return [langchain.SystemMessage(message.content, id=place)]
    return [langchain.HumanMessage(message.content, id=place)]


def _call(call: FunctionCall) -> Any:
    """Return a call as LangChain's parsers do: one whose arguments are no JSON object is invalid."""
    try:
        arguments = json.loads(call.arguments)
    except ValueError:
        arguments = None
    if isinstance(arguments, dict):
        return {"type": "tool_call", "id": call.id, "name": call.name, "args": arguments}
    return {"type": "invalid_tool_call", "id": call.id, "name": call.name, "args": call.arguments, "error": None}
