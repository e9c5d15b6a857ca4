"""What memory tools have in common: the context they belong to, and answers that are recognised later.

Each tool answers in text a model can act on, within the limit of a first view, so that the answer is never cut again.
What a tool answered is remembered by its hash: the context shows it once and then lets it collapse to what it was a
look at, instead of storing it as something new. The same look-up again is told as such (see `repeats`).

The tools are Components. A loaded one belongs to the context that was loaded from the same data (see `hosts`).
"""

import asyncio
import copy
import json
import logging
from abc import abstractmethod
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import replace
from difflib import get_close_matches
from typing import Any, ClassVar, Protocol, cast

from autogen_core import CancellationToken, Component, FunctionCall
from autogen_core.tools import BaseTool, ToolSchema
from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic_core import ErrorDetails
from typing_extensions import Self

from ..memory import AgentMemory
from ..policy import ContextPolicy
from ..references import one_line
from ..tokens import TokenCounter
from ..transcript import Transcript
from ..utf8 import sayable
from .hosts import attach_tool, find_hosts
from .repeats import NOTE_TOKENS, Answer, find_previous_answers, with_repeat_notice

__all__ = ["MemoryTool", "MemoryToolConfig", "ToolArguments", "ToolHost", "answer_limit", "config_of"]

_logger = logging.getLogger("memory_context")

LEAST_ANSWER_TOKENS = 500
_ANSWER_SECONDS = 9.5
_SCHEMA_KEYS = ("type", "enum", "items", "description")
_MOST_READ_CALLS = 2000  # remembered as read: reading takes some 50 us

_call_id: ContextVar[str | None] = ContextVar("call_id", default=None)


class ToolHost(Protocol):
    """What a tool needs of its context."""

    user_id: str
    agent_id: str
    session_id: str
    template_id: str
    policy: ContextPolicy
    token_counter: TokenCounter

    @property
    def agent_memory(self) -> AgentMemory:
        """The items the context's agent stores and reads."""
        ...

    @property
    def transcript(self) -> Transcript:
        """The messages and decisions."""
        ...


class MemoryToolConfig(BaseModel):
    """Names the context a tool belongs to: the one that was loaded from the same template.

    Attributes:
        is_late: Whether a `MemoryWorkbench` offers it, once something is stored; else it always is offered.
    """

    user_id: str
    agent_id: str
    template_id: str
    is_late: bool = False

    @model_validator(mode="before")
    @classmethod
    def _read_earlier(cls, data: object) -> object:
        """Take what version 0.1.0 wrote, which named the session of the context."""
        if isinstance(data, dict) and "template_id" not in data and "session_id" in data:
            earlier = cast(dict[str, object], data)
            return {**earlier, "template_id": earlier["session_id"]}
        return cast(object, data)


def config_of(host: ToolHost, *, is_late: bool = False) -> MemoryToolConfig:
    """Return what names a context for its tools."""
    return MemoryToolConfig(user_id=host.user_id, agent_id=host.agent_id, template_id=host.template_id, is_late=is_late)


class ToolArguments(BaseModel):
    """Arguments of a memory tool: unknown ones are refused, and the JSON schema says no more than a model needs.

    The schema stands in every model call, so it has no titles, defaults, bounds or null branches: an argument that is
    not required may be left out, and a value out of bounds is answered with its bounds.
    """

    model_config = ConfigDict(extra="forbid")

    @classmethod
    def model_json_schema(cls, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Return the schema that a model is sent."""
        schema = super().model_json_schema(*args, **kwargs)
        return {**schema, "properties": {name: _short(one) for name, one in schema["properties"].items()}}


class MemoryTool(BaseTool[BaseModel, BaseModel], Component[MemoryToolConfig]):
    """A tool that belongs to one context; a subclass says what it is called, takes and answers.

    Args:
        config: Names the context by user, agent and template.
        host: The context itself; None if it is found by its template.
    """

    component_config_schema = MemoryToolConfig
    tool_name: ClassVar[str]
    tool_description: ClassVar[str]
    args_model: ClassVar[type[BaseModel]]
    waits_for_person: ClassVar[bool] = False

    def __init__(self, config: MemoryToolConfig, host: ToolHost | None = None) -> None:
        super().__init__(self.args_model, cast(type[BaseModel], str), self.tool_name, self.tool_description)
        self._config = config
        self._own_host = host
        self._read_calls: dict[str, str | None] = {}
        self._schema: ToolSchema | None = None

    @property
    def schema(self) -> ToolSchema:
        """The tool as a model is told of it, computed once: AutoGen asks for it twice a step, at 0.6 ms each."""
        if self._schema is None:
            schema = super().schema
            parameters = schema.get("parameters")
            if parameters is not None:  # what says nothing takes no tokens; unknown arguments are refused in words
                parameters.pop("additionalProperties", None)
                if not parameters.get("required"):
                    parameters.pop("required", None)
            self._schema = schema
        return copy.deepcopy(self._schema)

    async def run_json(
        self, args: Mapping[str, Any], cancellation_token: CancellationToken, call_id: str | None = None
    ) -> Any:
        """Return the answer as text; arguments that do not fit are told in the text too."""
        token = _call_id.set(call_id)  # `run` is not given it, and it tells a call from the same one beside it
        try:
            return await super().run_json(args, cancellation_token, call_id)
        except ValidationError as error:
            return self._refusal(error)
        finally:
            _call_id.reset(token)

    async def run(self, args: BaseModel, cancellation_token: CancellationToken) -> Any:
        """Return the answer as text; problems are told in the text, never raised."""
        config = self._config
        host = self._own_host
        if host is None:
            contexts = find_hosts((config.user_id, config.agent_id, config.template_id))
            if len(contexts) != 1:
                which = f"memory context of user {config.user_id!r}, agent {config.agent_id!r}"
                return (
                    f"This tool has nothing to look in: no {which}, template {config.template_id!r} is open in this "
                    "process. Load it together with its context."
                    if not contexts
                    else f"This tool cannot tell where to look: {len(contexts)} contexts were made from its template "
                    f"{config.template_id!r}. Load it together with its context."
                )
            host = self._own_host = cast(ToolHost, contexts[0])
        memory = host.agent_memory
        asked = self._what_is_asked(args)
        earlier = find_previous_answers(
            host.transcript,
            host.policy,
            lambda call: call.name == self.name and self._asked_by(call) == asked,
            lambda text: (known := memory.find_answer(text)) is not None and known.shows_content,
            _call_id.get(),
        )
        answer = await self._answer_safely(host, args)
        answer = replace(
            answer, text=sayable(answer.text), label=sayable(answer.label), next_step=sayable(answer.next_step)
        )
        whose = f"{host.user_id} {host.agent_id} {host.session_id}"
        found = f"{whose} {asked} {answer.found}" if answer.found else ""
        text, shows_content = with_repeat_notice(
            answer, earlier, is_new=bool(found) and memory.find_answer(found) is None
        )
        if shows_content:
            # without the note too, and what was found, so that both are known when they come again
            for known in {text, answer.text, found or text}:
                memory.register_answer(known, answer.label)
        elif answer.label:  # nothing new to store either
            memory.register_answer(text, answer.label, shows_content=False)
        return text

    async def answer(self, args: Mapping[str, Any]) -> Answer:
        """Return what there is to say to who asks outside of a conversation, where nothing was read or collapses.

        Problems, those of the arguments too, are told in the answer, never raised. Only for a tool with a context.
        """
        assert self._own_host is not None
        try:
            read = self.args_model.model_validate(args)
        except ValidationError as error:
            return Answer(self._refusal(error), failed=True)
        return await self._answer_safely(self._own_host, read)

    @property
    def has_host(self) -> bool:
        """Whether it belongs to a context."""
        return self._own_host is not None

    @property
    def is_late(self) -> bool:
        """Whether a `MemoryWorkbench` offers it, once something is stored."""
        return self._config.is_late

    @property
    def is_due(self) -> bool:
        """Whether the model is to be offered it now."""
        host = self._own_host
        return not self.is_late or host is None or bool(host.transcript.state.offered.memory_tools)

    def bind(self, host: object) -> None:
        """Belong to this context from now on."""
        self._own_host = cast(ToolHost, host)

    async def _answer_safely(self, host: ToolHost, args: Any) -> Answer:
        """Return the answer; one that takes too long, or fails for a reason nobody expected, is told in a sentence."""
        seconds = None if self.waits_for_person else _ANSWER_SECONDS
        try:
            return await asyncio.wait_for(self._answer(host, args), seconds)
        except asyncio.TimeoutError:
            text = f"The memory did not answer within {_ANSWER_SECONDS:g} s. Go on without it, or try again later."
        except Exception as error:
            _logger.exception("%s failed", self.name)
            text = f"{self.name} failed by a defect of the memory ({type(error).__name__}). Go on without it."
        return Answer(text, failed=True)

    def _refusal(self, error: ValidationError) -> str:
        """Return which arguments do not fit, and what to send instead."""
        problems = [_problem(one, list(self.args_model.model_fields)) for one in error.errors()]
        return sayable(
            f"{self.name} cannot take these arguments: {'; '.join(problems)}. Send it again with those mended."
        )

    @abstractmethod
    async def _answer(self, host: ToolHost, args: Any) -> Answer: ...

    def _what_is_asked(self, args: Any) -> str:
        """Return the arguments in the one way of writing them that all calls for the same have.

        Not by pydantic's JSON, which refuses lone surrogates; models send them.
        """
        return json.dumps(args.model_dump())

    def _asked_by(self, call: FunctionCall) -> str | None:
        """Return what a call of this tool asked for; None if that could not be read."""
        if call.arguments not in self._read_calls:
            if len(self._read_calls) >= _MOST_READ_CALLS:
                self._read_calls.clear()
            try:
                asked = self._what_is_asked(self.args_model.model_validate(json.loads(call.arguments)))
            except (ValueError, RecursionError):
                asked = None
            self._read_calls[call.arguments] = asked
        return self._read_calls[call.arguments]

    def _to_config(self) -> MemoryToolConfig:
        host = self._own_host
        if host is None:
            return self._config
        return config_of(host, is_late=self.is_late)

    @classmethod
    def _from_config(cls, config: MemoryToolConfig) -> Self:
        tool = cls(config)
        attach_tool(tool, (config.user_id, config.agent_id, config.template_id))
        return tool


def answer_limit(host: ToolHost) -> int:
    """Return what an answer may take: as much as a first view shows, but enough to say how to go on."""
    return max(host.policy.result_limit_tokens, LEAST_ANSWER_TOKENS) - NOTE_TOKENS


def _short(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of one argument without what a model need not read."""
    kinds: list[dict[str, Any]] = [one for one in schema.get("anyOf", ()) if one.get("type") != "null"]
    whole: dict[str, Any] = {**(kinds[0] if kinds else {}), **schema}
    return {key: whole[key] for key in _SCHEMA_KEYS if key in whole}


def _problem(error: ErrorDetails, known: list[str]) -> str:
    where = ".".join(map(str, error["loc"]))
    if error["type"] == "missing":
        return f"{where} is missing"
    if error["type"] == "extra_forbidden":
        near = get_close_matches(where, known, 1, 0.5)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
        return f"there is no argument {one_line(repr(where), 60)} ({hint})"
    return f"{where or 'the arguments'} = {one_line(repr(error['input']), 60)}: {error['msg']}"
