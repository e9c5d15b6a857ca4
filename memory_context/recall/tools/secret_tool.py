"""Tools and workbenches whose arguments may name secrets, which are resolved inside of the call only.

call {{secret:NAME}} ─▶ allowed at this path? ─▶ URLs name allowed hosts? ─▶ value ─▶ tool ─▶ text, names again
"""

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import urlsplit

from autogen_core import EVENT_LOGGER_NAME, CancellationToken, Component, ComponentModel, trace_tool_span
from autogen_core.logging import ToolCallEvent
from autogen_core.tools import BaseTool, StaticWorkbench, TextResultContent, ToolResult, ToolSchema, Workbench
from pydantic import BaseModel
from typing_extensions import Self

from memory_context.foundation.credentials.masks import MASK
from memory_context.foundation.errors import SecretError
from memory_context.foundation.patterns import BytesPattern, regex
from memory_context.foundation.runtime.background import in_thread_if_large
from memory_context.foundation.utf8 import from_utf8, map_strings, to_utf8
from memory_context.memory.vault.forms import DETECTED, SecretFilter, is_name, names_in, reference, resolved_text

from .base import MemoryToolConfig, ToolHost, config_of, find_hosts

__all__ = ["SecretRules", "SecretStreamTool", "SecretTool", "SecretToolError", "SecretWorkbench"]

_READ_SECONDS = 5.0
_FRAGMENT = 6  # characters
_ALL_DETECTED = f"{DETECTED}*"
_MASK = regex(rf"{re.escape(MASK[:-1])}\**\]")
_URL = regex(r"[A-Za-z][A-Za-z0-9+.-]*:[/\\]{2}[^\s\"'<>`]*")
_URL_NAMES = frozenset(("url", "urls", "uri", "href", "link", "endpoint", "host", "hostname", "base_url", "server"))
_SAFE_SCHEMES = frozenset(("https", "wss"))
_REFERENCE = regex(rb"(\{\{secret:[^{}]+\}\})")
_KEY = "(a name)"
_events = logging.getLogger(EVENT_LOGGER_NAME)

_Path = tuple[str, ...]
_Address = tuple[str | None, str, int | None]
"""Scheme, host and port."""


class SecretToolError(Exception):
    """What a tool raised, in its words, with names in place of secrets."""


@dataclass(frozen=True)
class _Call:
    """A call that may be made: its arguments hold values, its answer is hidden before anybody reads it."""

    arguments: dict[str, Any]
    values: Mapping[str, str]
    filters: Sequence[SecretFilter]

    async def hidden(self, text: str) -> str:
        """Return a text with names in place of values."""
        for one in self.filters:
            text = await in_thread_if_large(len(text), one.hide, text)
        return text

    async def failure(self, words: str) -> str:
        """Return an error's words without values and their pieces, since messages quote what they cut."""
        return await in_thread_if_large(len(words), _without_pieces, await self.hidden(words), self.values)


class SecretRules:
    """The permissions of `MemoryContext.with_secrets`.

    A call that names a secret elsewhere, or reaches for another host, is refused with the reason. What the tool returns
    or raises holds names, not values.

    Args:
        allow: Paths by name, such as `headers.Authorization`; of a workbench `fetch.headers.Authorization`. `*` stands
            for any name or number.
        hosts: Such as `api.example.com`, `*.example.com` (not `example.com` itself) or `http://localhost:8080`; HTTPS
            unless a scheme is given. Without any, a call with a secret and a URL is refused.
        context: The config of a tool finds the context by its template.
    """

    def __init__(
        self, allow: Mapping[str, Sequence[str]], hosts: Sequence[str], context: ToolHost | MemoryToolConfig
    ) -> None:
        self._allow = {name: [tuple(path.split(".")) for path in paths] for name, paths in allow.items()}
        if isinstance(hosts, str) or not self._allow or not all(self._allow.values()):
            raise ValueError("with_secrets takes paths for each secret, and a list of hosts")
        for name, paths in self._allow.items():
            if name != _ALL_DETECTED and not is_name(name):
                raise ValueError(f"allow: {name!r} is not the name of a secret, nor {_ALL_DETECTED!r}")
            if not all(step for path in paths for step in path):
                raise ValueError(f"allow[{name!r}]: {allow[name]!r} has a path unlike 'headers.Authorization'")
        self._hosts = {one: _checked_host(one) for one in hosts}
        self._context = context

    async def begin(self, tool: str, arguments: Mapping[str, Any], path: _Path = ()) -> _Call:
        """Return the call with values, or raise SecretError, which says why it is refused.

        Args:
            path: The place of the arguments in the paths of `allow`.
        """
        if isinstance(self._context, MemoryToolConfig):
            hosts = find_hosts(self._context.key)
            if not hosts:
                raise SecretError(f"{tool} was not called: load it together with its memory context")
            self._context = hosts[0]  # any of them is of the same user
        secrets, values = self._context.agent_memory.secrets, dict[str, str]()
        await secrets.ready(_READ_SECONDS)
        for place, text in _strings_of(arguments, path):
            for name in names_in(text):
                self._check_path(tool, name, place)
                values[name] = values[name] if name in values else await secrets.value_of(name)
            if _MASK.search(text):
                raise SecretError(
                    f"argument {'.'.join(place)} holds {MASK}, which stands for a credential that was masked and is "
                    "not kept: leave that part unchanged, or ask the user for the secret's name"
                )
        if values:
            self._check_hosts(tool, arguments, values)
        resolved = map_strings(dict(arguments), lambda text: resolved_text(text, values))
        return _Call(resolved, values, (SecretFilter(values), secrets.filter))

    def _check_path(self, tool: str, name: str, path: _Path) -> None:
        allowed = self._allow.get(name, []) + (self._allow.get(_ALL_DETECTED, []) if name.startswith(DETECTED) else [])
        if path[-1] != _KEY and any(
            len(path) == len(one) and all(step in ("*", own) for own, step in zip(path, one, strict=True))
            for one in allowed
        ):
            return
        where = " or ".join(".".join(one) for one in allowed)
        may = f"may stand only in {where}" if where else f"is not given to {tool}"
        raise SecretError(f"{tool} was not called: {reference(name)} {may}, not in {'.'.join(path)}")

    def _check_hosts(self, tool: str, arguments: Mapping[str, Any], values: Mapping[str, str]) -> None:
        for path, text in _strings_of(arguments):
            resolved = resolved_text(text, values)
            urls = [resolved.strip()] if _is_address(path, resolved) else []
            if self._hosts and resolved != text:
                urls += _URL.findall(resolved)
            for url in urls:
                address = _address(url)
                if address is None or not any(_is_within(address, one) for one in self._hosts.values()):
                    raise SecretError(
                        f"{tool} was not called: argument {'.'.join(path)} names another host than those that "
                        f"its secrets may reach ({', '.join(self._hosts) or 'no host at all'})"
                    )

    @property
    def config(self) -> dict[str, Any]:
        """The fields of component data."""
        context = self._context if isinstance(self._context, MemoryToolConfig) else config_of(self._context)
        allow = {name: [".".join(path) for path in paths] for name, paths in self._allow.items()}
        named = {name: getattr(context, name) for name in MemoryToolConfig.model_fields}
        return {**named, "allow": allow, "hosts": [*self._hosts]}


class SecretToolConfig(MemoryToolConfig):
    """The inner tool, its permissions, and the template of its context."""

    allow: dict[str, list[str]]
    hosts: list[str]
    tool: ComponentModel


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
        call, tool, failed = await self._rules.begin(self.name, args), self._tool, False
        with trace_tool_span(tool_name=self.name, tool_description=self.description, tool_call_id=call_id):
            try:  # AutoGen logs what passes through `run_json`, so values go to `run`
                given = tool.args_type().model_validate(call.arguments)
                text = tool.return_value_as_string(await tool.run(given, cancellation_token))
            except Exception as error:
                text, failed = f"{type(error).__name__}: {error}", True
            if failed:  # raised here, since an exception in a chain could quote a value
                raise SecretToolError(await call.failure(text))
            text, said = await call.hidden(text), {**args}
            for one in call.filters:
                said = one.hide_in(said)
            _events.info(ToolCallEvent(tool_name=self.name, arguments=said, result=text))
            return text

    def _to_config(self) -> SecretToolConfig:
        return SecretToolConfig(**self._rules.config, tool=self._tool.dump_component())

    @classmethod
    def _from_config(cls, config: SecretToolConfig) -> Self:
        tool = cast("BaseTool[Any, Any]", BaseTool.load_component(config.tool))
        return cls(tool, SecretRules(config.allow, config.hosts, config))


SecretStreamTool = SecretTool
"""Component data of before names streaming tools so; they answer without streaming now."""


class SecretWorkbenchConfig(MemoryToolConfig):
    """The inner workbench, its permissions, and the template of its context."""

    allow: dict[str, list[str]]
    hosts: list[str]
    workbench: ComponentModel


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
            return _error(name, await call.failure(f"{type(error).__name__}: {error}"))
        hide = call.failure if result.is_error else call.hidden
        parts = [
            TextResultContent(content=await hide(one.content)) if isinstance(one, TextResultContent) else one
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


def _without_pieces(text: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        pieces = {re.escape(value[at : at + _FRAGMENT]) for at in range(max(len(value) - _FRAGMENT, 0) + 1)}
        pattern, said = BytesPattern("|".join(sorted(pieces))), to_utf8(reference(name))
        parts = _REFERENCE.split(to_utf8(text))  # a reference may have letters of a value
        text = from_utf8(b"".join(one if at % 2 else pattern.replaced(one, said) for at, one in enumerate(parts)))
    return text


def _strings_of(value: Any, path: _Path = ()) -> Iterator[tuple[_Path, str]]:
    """Yield all strings with their paths, names of fields too."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for name, one in cast(Mapping[str, Any], value).items():
            yield (*path, _KEY), str(name)
            yield from _strings_of(one, (*path, str(name)))
    elif isinstance(value, (list, tuple)):
        for number, one in enumerate(cast(Sequence[Any], value)):
            yield from _strings_of(one, (*path, str(number)))


def _is_address(path: _Path, text: str) -> bool:
    """Return whether an argument is a URL, or named as one; a path such as `/v1/items` reaches no other host."""
    text = text.strip()
    if _URL.fullmatch(text) or text[:2] in ("//", "\\\\", "/\\", "\\/"):
        return True
    is_named = any(step.lower() in _URL_NAMES for step in path[-2:])
    return is_named and bool(text) and not text.startswith("/")


def _address(url: str) -> _Address | None:
    """Return the address of a URL; None for what parsers may read differently."""
    if not url.isascii() or not url.isprintable() or "\\" in url or " " in url:
        return None
    has_scheme = "://" in url.partition("?")[0]
    try:
        parts = urlsplit(url if has_scheme else f"x://{url.removeprefix('//')}")
        host, port = (parts.hostname or "").rstrip("."), parts.port
    except ValueError:
        return None
    return (parts.scheme.lower() if has_scheme else None, host, port) if host else None


def _checked_host(text: str) -> _Address:
    address = _address(text)
    if address is None or re.search("[/?#@]", text.rpartition("://")[2].rstrip("/")):
        raise ValueError(f"hosts: {text!r} is not a host such as 'api.example.com' or 'http://localhost:8080'")
    return address


def _is_within(address: _Address, allowed: _Address) -> bool:
    (scheme, host, port), (own_scheme, own_host, own_port) = address, allowed
    is_scheme = scheme is None or (scheme == own_scheme if own_scheme else scheme in _SAFE_SCHEMES)
    is_host = host.endswith(own_host[1:]) if own_host.startswith("*.") else host == own_host
    return is_scheme and is_host and own_port in (None, port)
