"""The base of memory tools, and how a tool loaded from component data finds its context.

A tool never raises: problems are part of its text. A tool that refuses a request raises its error in `_answer`. The
context recognises an answer by its hash and collapses it to its label. A loaded tool names the template of its context.
If several contexts were made from that, the tool belongs to the one whose view was read last in its task: an agent
reads the view before it lists and calls tools.
"""

import asyncio
import json
import logging
import threading
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import replace
from difflib import get_close_matches
from typing import Annotated, Any, ClassVar, Protocol, cast, get_args
from weakref import WeakSet, WeakValueDictionary, ref

from autogen_core import CancellationToken, Component, FunctionCall
from autogen_core.tools import BaseTool, ToolSchema
from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, model_validator
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import ErrorDetails
from typing_extensions import Self

from memory_context.foundation.errors import (
    ItemDamagedError,
    ItemNotFoundError,
    NotesError,
    SecretError,
    StoreError,
    TransformError,
)
from memory_context.foundation.patterns import regex
from memory_context.foundation.policy import ContextPolicy
from memory_context.foundation.references import KEY_PATTERN, shorten
from memory_context.foundation.tokens import TokenCounter
from memory_context.foundation.utf8 import sayable
from memory_context.memory.agent_memory import AgentMemory
from memory_context.memory.items import MemoryItem
from memory_context.sessions.transcript.transcript import Transcript

from .repeats import NOTE_TOKENS, Answer, find_previous_answers, with_repeat_notice

__all__ = [
    "MemoryTool",
    "MemoryToolConfig",
    "Template",
    "Texts",
    "ToolArguments",
    "ToolHost",
    "Unlisted",
    "answer_limit",
    "config_of",
    "failed_answer",
    "find_hosts",
    "fitting",
    "hosts_of_session",
    "key_in",
    "note_view_read",
    "register_host",
]

_logger = logging.getLogger("memory_context")

_MIN_ANSWER_TOKENS = 500
_ANSWER_SECONDS = 9.5
_SCHEMA_KEYS = ("type", "enum", "items", "description")
_MAX_PARSED_CALLS = 2000  # parsing takes 50 us each

_WRITTEN_KEY = regex(rf"[\[`'\"]*(?:MemoryRef: ?)?({KEY_PATTERN.pattern}?)(?: - .*)?[\]`'\".,]*")

_REFUSALS = (ItemDamagedError, ItemNotFoundError, NotesError, SecretError, TransformError, ValueError)
"""They say what is wrong with a request, and what to send instead."""

_SCHEMAS: dict[type[BaseTool[Any, Any]], str] = {}
_call_id: ContextVar[str | None] = ContextVar("call_id", default=None)


def _read_list(value: object) -> object:
    if not isinstance(value, str):
        return value
    with suppress(ValueError, RecursionError):
        if isinstance(given := json.loads(value), list):
            return cast(object, given)
    return [value] if value.strip() else []


Unlisted = SkipJsonSchema
"""Of an argument that is taken, but stands in no schema: it is seldom sent, and each call pays for a schema."""

Texts = Annotated[list[str], BeforeValidator(_read_list)]
"""A list, which some clients send as JSON text, or as its only text."""

TemplateKey = tuple[str, str, str]
"""User, agent, template."""


class ToolHost(Protocol):
    """The part of a context that tools need."""

    user_id: str
    agent_id: str
    session_id: str
    template_id: str
    policy: ContextPolicy
    token_counter: TokenCounter

    @property
    def agent_memory(self) -> AgentMemory: ...

    @property
    def transcript(self) -> Transcript: ...

    async def open_image(self, item: MemoryItem) -> bool:
        """Show a stored image to the model after the results; False if it is shown none."""
        ...

    def note_tools(self, names: Iterable[str], *, are_late: bool = False) -> None:
        """Record the names of the tools that the agent has."""
        ...


class MemoryToolConfig(BaseModel):
    """Names the template of a tool's context; `is_late` tools are offered once something is stored."""

    user_id: str
    agent_id: str
    template_id: str
    is_late: bool = False

    @model_validator(mode="before")
    @classmethod
    def _read_earlier(cls, data: object) -> object:
        """Accept data of version 0.1.0, which named the session."""
        if isinstance(data, dict) and "template_id" not in data and "session_id" in data:
            earlier = cast(dict[str, object], data)
            return {**earlier, "template_id": earlier["session_id"]}
        return cast(object, data)

    @property
    def key(self) -> TemplateKey:
        return self.user_id, self.agent_id, self.template_id


def config_of(host: ToolHost, *, is_late: bool = False) -> MemoryToolConfig:
    """Return the config for a context."""
    return MemoryToolConfig(user_id=host.user_id, agent_id=host.agent_id, template_id=host.template_id, is_late=is_late)


class ToolArguments(BaseModel):
    """Arguments of a memory tool; unknown ones are refused.

    Clients send null for what is optional, or "" for a number, since the JSON schema, part of every model call, has no
    titles, defaults, bounds or null branches. They are read as if left out.
    """

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _leave_out_nulls(cls, data: object) -> object:
        if not isinstance(data, dict):
            return data
        optional = {name: one.annotation for name, one in cls.model_fields.items() if not one.is_required()}
        texts = {name for name, kind in optional.items() if str in (kind, *get_args(kind))}
        given = cast(dict[str, object], data)
        is_given = {name: value is not None and (value != "" or name in texts) for name, value in given.items()}
        return {name: value for name, value in given.items() if is_given[name] or name not in optional}

    @classmethod
    def model_json_schema(cls, *args: Any, **kwargs: Any) -> dict[str, Any]:
        schema = super().model_json_schema(*args, **kwargs)
        return {**schema, "properties": {name: _short(one) for name, one in schema["properties"].items()}}


class MemoryTool(BaseTool[BaseModel, BaseModel], Component[MemoryToolConfig]):
    """A tool of one context; subclasses define name, description, arguments and `_answer`.

    Args:
        config: Names the context by user, agent and template.
        host: The context; None to find it by its template.
    """

    component_config_schema = MemoryToolConfig
    tool_name: ClassVar[str]
    tool_description: ClassVar[str]
    args_model: ClassVar[type[BaseModel]]
    undone: ClassVar[str] = ""  # begins the answer of a tool that could not change what it was asked to
    waits_for_person: ClassVar[bool] = False

    def __init__(self, config: MemoryToolConfig, host: ToolHost | None = None) -> None:
        super().__init__(self.args_model, cast(type[BaseModel], str), self.tool_name, self.tool_description)
        self._config = config
        self._own_host = host
        self._template: Template | None = None
        self._parsed_calls: dict[str, str | None] = {}

    @property
    def schema(self) -> ToolSchema:
        """The schema for a model. AutoGen reads it twice a step, so it is made once a class (2 ms) and kept as JSON."""
        kind = type(self)
        if kind not in _SCHEMAS:
            schema = super().schema
            parameters = schema.get("parameters")
            if parameters is not None:  # saves tokens; unknown arguments are refused anyway
                parameters.pop("additionalProperties", None)
                if not parameters.get("required"):
                    parameters.pop("required", None)
            _SCHEMAS[kind] = json.dumps(schema)
        return cast(ToolSchema, json.loads(_SCHEMAS[kind]))

    @property
    def is_due(self) -> bool:
        """True if a `MemoryWorkbench` offers it now: late tools are offered once something needs them."""
        host = self._bound_host() or next(iter(find_hosts(self._config.key)), None)
        return not self._config.is_late or host is None or self.name in host.transcript.state.offered.memory_tools

    async def run_json(
        self, args: Mapping[str, Any], cancellation_token: CancellationToken, call_id: str | None = None
    ) -> Any:
        """Return the answer as text, also for invalid arguments."""
        token = _call_id.set(call_id)  # `run` does not get it
        try:
            return await super().run_json(args, cancellation_token, call_id)
        except ValidationError as error:
            return self._refusal(error)
        finally:
            _call_id.reset(token)

    async def run(self, args: BaseModel, cancellation_token: CancellationToken) -> Any:
        try:
            host = self._bound_host() or self._find_host()
        except LookupError as error:
            return str(error.args[0])
        memory = host.agent_memory
        request = self._normalised(args)
        earlier = find_previous_answers(
            host.transcript,
            host.policy,
            lambda call: call.name == self.name and self._request_of(call) == request,
            lambda text: (known := memory.find_answer(text)) is not None and known.shows_content,
            _call_id.get(),
        )
        answer = await self._answer_safely(host, args)
        answer = replace(
            answer, text=sayable(answer.text), label=sayable(answer.label), next_step=sayable(answer.next_step)
        )
        if answer.image is not None:  # each call may show it anew
            memory.register_answer(answer.text, answer.label)
            return answer.text
        owner = f"{host.user_id} {host.agent_id} {host.session_id}"
        found = f"{owner} {request} {answer.found}" if answer.found else ""
        is_new = bool(found) and memory.find_answer(found) is None
        text, shows_content = with_repeat_notice(answer, earlier, is_new=is_new)
        if shows_content:
            for known in {text, answer.text, found or text}:  # also without the note
                memory.register_answer(known, answer.label)
        elif answer.label:
            memory.register_answer(text, answer.label, shows_content=False)
        return text

    async def answer(self, args: Mapping[str, Any]) -> Answer:
        """Return the answer outside of a conversation, problems included. Needs a context."""
        assert self._own_host is not None
        try:
            parsed = self.args_model.model_validate(args)
        except ValidationError as error:
            return Answer(self._refusal(error), failed=True)
        return await self._answer_safely(self._own_host, parsed)

    def _bound_host(self) -> ToolHost | None:
        read_last = current() if self._template is not None and (current := _current.get()) is not None else None
        if read_last is not None and _key_of(read_last) == self._config.key:
            self._own_host = read_last
        return self._own_host

    def _find_host(self) -> ToolHost:
        """Return the only context of the template, or raise LookupError."""
        config = self._config
        hosts = find_hosts(config.key)
        if not hosts:
            raise LookupError(
                f"This tool has nothing to look in: no memory context of user {config.user_id!r}, agent "
                f"{config.agent_id!r}, template {config.template_id!r} is open in this process. Load it together with "
                "its context."
            )
        if len(hosts) > 1:
            raise LookupError(
                f"This tool cannot tell where to look: {len(hosts)} contexts were made from its template "
                f"{config.template_id!r}. Call it after `get_messages` of its context, as an agent does."
            )
        return hosts[0]

    async def _answer_safely(self, host: ToolHost, args: Any) -> Answer:
        """Return the answer, or a sentence on a refusal, a time-out or a failure."""
        seconds = None if self.waits_for_person else _ANSWER_SECONDS
        hide = host.agent_memory.secrets.filter.hide
        try:
            answer = await asyncio.wait_for(self._answer(host, args), seconds)
            return replace(answer, text=hide(answer.text), label=hide(answer.label), next_step=hide(answer.next_step))
        except asyncio.TimeoutError:
            text = f"The memory did not answer within {_ANSWER_SECONDS:g} s. Go on without it, or try again later."
            return Answer(text, failed=True)
        except _REFUSALS as error:
            return Answer(f"{self.undone}{error}.", failed=True)
        except Exception as error:
            return failed_answer(self.name, error, self.undone)

    @abstractmethod
    async def _answer(self, host: ToolHost, args: Any) -> Answer: ...

    def _refusal(self, error: ValidationError) -> str:
        problems = [_problem(one, list(self.args_model.model_fields)) for one in error.errors()]
        return sayable(
            f"{self.name} cannot take these arguments: {'; '.join(problems)}. Send it again with those mended."
        )

    def _normalised(self, args: Any) -> str:
        """Return the same text for all equal requests."""
        return json.dumps(args.model_dump())  # pydantic's JSON refuses lone surrogates, which models send

    def _request_of(self, call: FunctionCall) -> str | None:
        if call.arguments not in self._parsed_calls:
            if len(self._parsed_calls) >= _MAX_PARSED_CALLS:
                self._parsed_calls.clear()
            try:
                request = self._normalised(self.args_model.model_validate(json.loads(call.arguments)))
            except (ValueError, RecursionError):
                request = None
            self._parsed_calls[call.arguments] = request
        return self._parsed_calls[call.arguments]

    def _to_config(self) -> MemoryToolConfig:
        return self._config if self._own_host is None else config_of(self._own_host, is_late=self._config.is_late)

    @classmethod
    def _from_config(cls, config: MemoryToolConfig) -> Self:
        tool = cls(config)
        tool._template = _register_tool(config.key, tool.name, is_late=config.is_late)
        return tool


class Template:
    """The live contexts of one template, and the tools loaded for them by name, with whether they are late.

    Its contexts and tools hold it, and it goes with the last of them.
    """

    def __init__(self) -> None:
        self.hosts: WeakSet[ToolHost] = WeakSet()
        self.tools: dict[str, bool] = {}


_lock = threading.RLock()
_templates: WeakValueDictionary[TemplateKey, Template] = WeakValueDictionary()
_current: ContextVar["ref[ToolHost] | None"] = ContextVar("current_context", default=None)


def register_host(host: ToolHost) -> Template:
    """Let tools of its template find this context, which is told of those that were loaded."""
    with _lock:
        template = _templates.setdefault(_key_of(host), Template())
        template.hosts.add(host)
        for name, is_late in template.tools.items():
            host.note_tools([name], are_late=is_late)
        return template


def _register_tool(key: TemplateKey, name: str, *, is_late: bool) -> Template:
    with _lock:
        template = _templates.setdefault(key, Template())
        if template.tools.get(name) != is_late:
            template.tools[name] = is_late
            for host in template.hosts:
                host.note_tools([name], are_late=is_late)
        return template


def note_view_read(host: ToolHost) -> None:
    """Have tools that this task, or one that it starts, calls belong to this context if they are of its template."""
    _current.set(ref(host))


def _key_of(host: ToolHost) -> TemplateKey:
    return host.user_id, host.agent_id, host.template_id


def find_hosts(key: TemplateKey) -> list[ToolHost]:
    """Return the live contexts of a template."""
    with _lock:
        return [*template.hosts] if (template := _templates.get(key)) is not None else []


def hosts_of_session(user_id: str, session_id: str) -> list[ToolHost]:
    """Return the live contexts of a session, whichever agent's."""
    with _lock:
        hosts = [host for (owner, *_), one in _templates.items() if owner == user_id for host in one.hosts]
    return [host for host in hosts if host.session_id == session_id]


def failed_answer(tool: str, error: Exception, undone: str = "") -> Answer:
    """Return a sentence on a store that is away, or on a defect, which is logged."""
    if isinstance(error, StoreError):
        the = "the" if undone else "The"
        text = f"{the} memory cannot be reached at the moment ({error}). Go on without it, or try again later."
    else:
        _logger.error("%s failed", tool, exc_info=error)
        text = f"{tool} failed by a defect of the memory ({type(error).__name__}). Go on without it."
    return Answer(f"{undone}{text}", failed=True)


def key_in(text: str) -> str:
    """Return the key that a model wrote, also in quotes or with the whole placeholder."""
    written = _WRITTEN_KEY.fullmatch(text.strip())
    return written[1] if written else text.strip()


def answer_limit(host: ToolHost) -> int:
    """Return the most tokens of an answer: those of a first view, but not too few."""
    return max(host.policy.result_limit_tokens, _MIN_ANSWER_TOKENS) - NOTE_TOKENS


def fitting(lines: Iterable[str], limit_tokens: int, counter: TokenCounter) -> list[str]:
    """Return the first lines that fit, also without any of them."""
    shown: list[str] = []
    for line in lines:
        limit_tokens -= counter.count(f"{line}\n")
        if limit_tokens < 0:
            break
        shown.append(line)
    return shown


def _short(schema: Mapping[str, Any]) -> dict[str, Any]:
    kinds: list[dict[str, Any]] = [one for one in schema.get("anyOf", ()) if one.get("type") != "null"]
    whole: dict[str, Any] = {**(kinds[0] if kinds else {}), **schema}
    return {key: whole[key] for key in _SCHEMA_KEYS if key in whole}


def _problem(error: ErrorDetails, known: list[str]) -> str:
    name = ".".join(map(str, error["loc"]))
    if error["type"] == "missing":
        return f"{name} is missing"
    if error["type"] == "extra_forbidden":
        near = get_close_matches(name, known, 1, 0.5)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
        return f"there is no argument {shorten(repr(name), 60)} ({hint})"
    return f"{name or 'the arguments'} = {shorten(repr(error['input']), 60)}: {error['msg']}"
