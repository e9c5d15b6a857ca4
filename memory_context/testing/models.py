"""Models without a network: one makes scripted decisions and records its views, one observes by rule."""

import json
import re
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from itertools import groupby
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

from memory_context.foundation.patterns import regex
from memory_context.foundation.tokens import default_token_counter

__all__ = ["Call", "Decision", "ScriptedModel", "ScriptedModelConfig", "call", "observe_by_script", "tool_calls"]

_REFERENCE = regex(r"\[MemoryRef: ([^\s\]]+)")
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

    total_usage = actual_usage

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


_OBSERVED = regex(r"^=== (\d+) \| (\w+)[^|\n]* \| (\d\d:\d\d)\n(.*?)(?=^=== |^</memory|\Z)", re.MULTILINE | re.DOTALL)
_HEADING = regex(r"^result of [^\n]*:\n", re.MULTILINE)
_CALLED = regex(r"called (\S+) with:\n([^\n]*)")
_LOGGED = regex(r"^\[(\d+)\] \S+ \S+ (!!|!|~|x) (.*)", re.MULTILINE)
_WORDS = {"user": 40, "agent": 20, "tool": 10, "other": 20}
_LIMIT = regex(r"at most (\d+) tokens")
_MERGED, _KEPT_WORDS = 6, 5
_LINE_OVERHEAD, _CHARACTERS_PER_TOKEN = 30, 2


def observe_by_script(messages: Sequence[LLMMessage]) -> str:
    """Return what a small model might answer to an observer's or a reflector's prompt; "{}" to any other.

    An observer's line has the first words of a message, or a call and the first words of its result. A reflector merges
    the oldest lines, six to one with a few words of each, until the log is as short as it is told.
    """
    text = "\n".join(message.content for message in messages if isinstance(message.content, str))
    if observed := _OBSERVED.findall(text):
        lines = "\n".join(_observations(observed))
        return f"<observations>\n{lines}\n</observations>\n<current-task>\n\n</current-task>"
    if logged := _LOGGED.findall(text):
        limit = _LIMIT.search(text)
        return "\n".join(_edits(logged, int(limit[1]) if limit else 0))
    return "{}"


def _observations(observed: Sequence[tuple[str, str, str, str]]) -> Iterator[str]:
    called = ""
    for number, origin, at, text in observed:
        if calls := _CALLED.findall(text):
            called = "; ".join(f"{tool} {arguments[:80]}" for tool, arguments in calls)
            continue
        said = _HEADING.sub("", text).split()
        words = " ".join(said[: min(_WORDS[origin], 5 + len(said) // 6)])
        mark = {"user": "!!", "agent": "!"}.get(origin, "~")
        yield f"- {at} {mark} {called} gave {words} ({number})" if called else f"- {at} {mark} {words} ({number})"
        called = ""


def _edits(logged: Sequence[tuple[str, str, str]], limit_tokens: int) -> Iterator[str]:
    excess = sum(len(text) + _LINE_OVERHEAD for _, _, text in logged) - _CHARACTERS_PER_TOKEN * limit_tokens
    for _, same in groupby(logged, lambda line: line[1] == "!!"):  # the user's lines merge among each other only
        lines = list(same)
        for start in range(0, len(lines), _MERGED):
            if excess <= 0:
                return
            group = lines[start : start + _MERGED]
            kept = "; ".join(" ".join(text.split()[:_KEPT_WORDS]) for _, _, text in group)
            excess -= sum(len(text) + _LINE_OVERHEAD for _, _, text in group) - len(kept) - _LINE_OVERHEAD
            yield f"{'merge' if len(group) > 1 else 'reword'} {', '.join(number for number, _, _ in group)}: {kept}"
