"""SecretTool, SecretStreamTool, SecretWorkbench: tools whose arguments may name secrets, resolved inside of the call.

AutoGen logs the arguments and results of `run_json`, so the value reaches only the inner tool's `run`.
"""

import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, cast

from autogen_core import EVENT_LOGGER_NAME, CancellationToken, Component, ComponentModel, trace_tool_span
from autogen_core.logging import ToolCallEvent
from autogen_core.tools import (
    BaseStreamTool,
    BaseTool,
    StaticWorkbench,
    TextResultContent,
    ToolResult,
    ToolSchema,
    Workbench,
)
from pydantic import BaseModel, ValidationError
from typing_extensions import Self

from memory_context.foundation.errors import SecretError

from .prompt_head import AnyTool, as_tools
from .secret_rules import SecretCall, SecretRules, SecretRulesConfig

__all__ = ["SecretStreamTool", "SecretTool", "SecretToolError", "SecretWorkbench", "tool_with_secrets"]

_CHUNK = "ModelClientStreamingChunkEvent"
_events = logging.getLogger(EVENT_LOGGER_NAME)


class SecretToolError(Exception):
    """What a tool raised, in its words, with names in place of secrets."""


class SecretToolConfig(SecretRulesConfig):
    """The inner tool, its permissions, and the template of its context."""

    tool: ComponentModel


class SecretWorkbenchConfig(SecretRulesConfig):
    """The inner workbench, its permissions, and the template of its context."""

    workbench: ComponentModel


class SecretTool(BaseTool[BaseModel, BaseModel], Component[SecretToolConfig]):
    """A tool that resolves `{{secret:NAME}}` where its rules allow; made by `MemoryContext.with_secrets`."""

    component_config_schema = SecretToolConfig
    component_provider_override = "memory_context.SecretTool"

    def __init__(self, tool: BaseTool[Any, Any], rules: SecretRules) -> None:
        super().__init__(tool.args_type(), cast(type[BaseModel], str), tool.name, tool.description)
        self._tool = tool
        self._rules = rules

    @property
    def schema(self) -> ToolSchema:
        return self._tool.schema

    async def save_state_json(self) -> Mapping[str, Any]:
        return await self._tool.save_state_json()

    async def load_state_json(self, state: Mapping[str, Any]) -> None:
        await self._tool.load_state_json(state)

    async def run(self, args: BaseModel, cancellation_token: CancellationToken) -> Any:
        return await self.run_json(args.model_dump(), cancellation_token)

    async def run_json(
        self, args: Mapping[str, Any], cancellation_token: CancellationToken, call_id: str | None = None
    ) -> str:
        """Return the tool's answer as text, without values.

        Raises:
            SecretError: The call is refused; says why.
            SecretToolError: The tool failed.
        """
        call = await self._rules.begin(self.name, args)
        with trace_tool_span(tool_name=self.name, tool_description=self.description, tool_call_id=call_id):
            text, has_failed = await self._run(call.arguments, cancellation_token)
            return await self._said(call, args, text, has_failed=has_failed)

    async def _run(self, args: Mapping[str, Any], cancellation_token: CancellationToken) -> tuple[str, bool]:
        """Return the answer, or the error's words and True; no exception leaves that could quote a value."""
        try:
            given = self._tool.args_type().model_validate(args)
            return self._tool.return_value_as_string(await self._tool.run(given, cancellation_token)), False
        except Exception as error:
            return f"{type(error).__name__}: {error}", True

    async def _said(self, call: SecretCall, args: Mapping[str, Any], text: str, *, has_failed: bool) -> str:
        """Return the answer with names, and log it; an error's words are raised."""
        text = await call.hidden(text, is_error=has_failed)
        if has_failed:
            raise SecretToolError(text)
        _events.info(ToolCallEvent(tool_name=self.name, arguments=call.hidden_in({**args}), result=text))
        return text

    def _to_config(self) -> SecretToolConfig:
        return SecretToolConfig(**self._rules.config, tool=self._tool.dump_component())

    @classmethod
    def _from_config(cls, config: SecretToolConfig) -> Self:
        tool = cast("BaseTool[Any, Any]", BaseTool.load_component(config.tool))
        return cls(tool, SecretRules(config.allow, config.hosts, config))


class SecretStreamTool(SecretTool, BaseStreamTool[BaseModel, Any, BaseModel]):
    """A streaming tool with secrets; pieces of a text come as one, so that no value is cut."""

    component_provider_override = "memory_context.SecretStreamTool"

    def run_stream(self, args: BaseModel, cancellation_token: CancellationToken) -> AsyncGenerator[Any, None]:
        return self.run_json_stream(args.model_dump(), cancellation_token)

    async def run_json_stream(
        self, args: Mapping[str, Any], cancellation_token: CancellationToken, call_id: str | None = None
    ) -> AsyncGenerator[Any, None]:
        """Yield what the tool streams, without values, and at last its answer as text; raises as `run_json`."""
        call = await self._rules.begin(self.name, args)
        tool = cast("BaseStreamTool[Any, Any, Any]", self._tool)
        pieces, last, text, has_failed = list[Any](), None, "", False
        with trace_tool_span(tool_name=self.name, tool_description=self.description, tool_call_id=call_id):
            try:
                async for one in tool.run_stream(tool.args_type().model_validate(call.arguments), cancellation_token):
                    if last is not None and not _is_piece(last):
                        yield await _hidden(call, last)
                    elif last is not None:
                        pieces.append(last)
                    if pieces and not _is_piece(one):
                        yield await _hidden(call, _joined(pieces))
                        pieces = []
                    last = one
                text = tool.return_value_as_string(last)
            except Exception as error:
                text, has_failed = f"{type(error).__name__}: {error}", True
            if pieces and not has_failed:  # else they may end within a value
                yield await _hidden(call, _joined(pieces))
            yield await self._said(call, args, text, has_failed=has_failed)


def _is_piece(streamed: Any) -> bool:
    return isinstance(streamed, str) or getattr(streamed, "type", None) == _CHUNK


def _joined(pieces: Sequence[Any]) -> Any:
    text = "".join(one if isinstance(one, str) else one.content for one in pieces)
    return text if isinstance(pieces[0], str) else pieces[0].model_copy(update={"content": text})


async def _hidden(call: SecretCall, streamed: Any) -> Any:
    """Return an event without values; as text if it cannot be made of what is left."""
    if not isinstance(streamed, BaseModel):
        return await call.hidden(str(streamed))
    data = streamed.model_dump(mode="json")
    if (hidden := call.hidden_in(data)) == data:
        return streamed
    try:
        return type(streamed).model_validate(hidden)
    except ValidationError:
        return await call.hidden(str(streamed))


class SecretWorkbench(Workbench, Component[SecretWorkbenchConfig]):
    """A workbench, such as that of an MCP server, with secrets; made by `MemoryContext.with_secrets`."""

    component_config_schema = SecretWorkbenchConfig
    component_provider_override = "memory_context.SecretWorkbench"

    def __init__(self, workbench: Workbench, rules: SecretRules) -> None:
        if isinstance(workbench, StaticWorkbench):
            raise ValueError(
                "a static workbench logs the arguments of its tools: give with_secrets its tools one by one"
            )
        self._workbench = workbench
        self._rules = rules

    async def list_tools(self) -> list[ToolSchema]:
        return await self._workbench.list_tools()

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        cancellation_token: CancellationToken | None = None,
        call_id: str | None = None,
    ) -> ToolResult:
        """Return the tool's result without values; a refused or failed call is an error result that says why."""
        try:
            call = await self._rules.begin(name, arguments or {}, (name,))
        except SecretError as error:
            return _error(name, str(error))
        try:
            result = await self._workbench.call_tool(name, call.arguments, cancellation_token, call_id)
        except Exception as error:
            return _error(name, await call.hidden(f"{type(error).__name__}: {error}", is_error=True))
        parts = [
            TextResultContent(content=await call.hidden(one.content, is_error=result.is_error))
            if isinstance(one, TextResultContent)
            else one
            for one in result.result
        ]
        return result.model_copy(update={"result": parts})

    async def start(self) -> None:
        await self._workbench.start()

    async def stop(self) -> None:
        await self._workbench.stop()

    async def reset(self) -> None:
        await self._workbench.reset()

    async def save_state(self) -> Mapping[str, Any]:
        return await self._workbench.save_state()

    async def load_state(self, state: Mapping[str, Any]) -> None:
        await self._workbench.load_state(state)

    def _to_config(self) -> SecretWorkbenchConfig:
        return SecretWorkbenchConfig(**self._rules.config, workbench=self._workbench.dump_component())

    @classmethod
    def _from_config(cls, config: SecretWorkbenchConfig) -> Self:
        return cls(Workbench.load_component(config.workbench), SecretRules(config.allow, config.hosts, config))


def _error(name: str, text: str) -> ToolResult:
    return ToolResult(name=name, result=[TextResultContent(content=text)], is_error=True)


def tool_with_secrets(tool: AnyTool | Workbench, rules: SecretRules) -> BaseTool[Any, Any] | Workbench:
    """Return the tool or workbench that resolves secrets as its rules allow; see `MemoryContext.with_secrets`."""
    if isinstance(tool, Workbench):
        return SecretWorkbench(tool, rules)
    (inner,) = as_tools([tool])
    made = SecretStreamTool if isinstance(inner, BaseStreamTool) else SecretTool
    return made(as_tools([tool])[0], rules)
