"""Component JSON, as AutoGen dumps agents and teams: read, checked, and told in sentences what is wrong and where.

Loading a component imports the modules it names and runs what they build, so nothing is imported before its namespace
is known: AutoGen's own and this library's, and what AUTOGEN_ALLOWED_PROVIDER_NAMESPACES adds. Known namespaces are no
sandbox: a `FunctionTool` carries Python in its JSON, an executor runs what a model writes, an MCP workbench starts a
command. `Checked.reach` says which of these a component brings; who may paste one may run code on the server.
"""

import copy
import importlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from autogen_agentchat.base import ChatAgent, Team
from autogen_core import is_component_class
from autogen_core._component_config import WELL_KNOWN_PROVIDERS
from autogen_core.code_executor import CodeExecutor
from autogen_core.models import ChatCompletionClient
from autogen_core.tools import BaseTool, FunctionTool, Workbench
from pydantic import BaseModel, ValidationError

__all__ = ["KNOWN_NAMESPACES", "AgentPlace", "Checked", "ComponentError", "check_component", "read_component"]

KNOWN_NAMESPACES = ("autogen_agentchat", "autogen_core", "autogen_ext", "memory_context")
NAMESPACES_ENV = "AUTOGEN_ALLOWED_PROVIDER_NAMESPACES"

_MOST_CHARACTERS = 1_000_000
_MOST_DEPTH = 40
_MASK = set("*")
# a dump holds them, and the schema asks for them; who writes by hand leaves them out
_WRITTEN_BY_DUMPS: dict[str, Any] = {
    "description": "An agent.",
    "reflect_on_tool_use": False,
    "tool_call_summary_format": "{result}",
    "max_tool_iterations": 20,
    "model_client_stream": True,
}


class ComponentError(ValueError):
    """The component cannot be used; the text says where in the JSON, and what to write instead."""


@dataclass(frozen=True)
class AgentPlace:
    """One agent of a component.

    Attributes:
        path: Where it is, such as `config.participants[0]`; "" for the component itself.
        name: Its name, which is whose memory it has.
        config: Its part of the JSON.
        takes_context: Whether it can be given a context.
        takes_tools: Whether it can be given tools.
    """

    path: str
    name: str
    config: dict[str, Any]
    takes_context: bool
    takes_tools: bool


@dataclass(frozen=True)
class Checked:
    """A component that can be loaded.

    Attributes:
        component: The JSON, a copy.
        kind: Whether it is one agent or a team.
        agents: Its agents, at whatever depth, in order.
        model_places: The parts of the JSON that name a model client, by their paths.
        reach: What it may run or reach on the server, a sentence each; empty for a component that only talks.
        notes: What will not work as one might expect, a sentence each.
    """

    component: dict[str, Any]
    kind: str
    agents: tuple[AgentPlace, ...]
    model_places: Mapping[str, dict[str, Any]]
    reach: tuple[str, ...]
    notes: tuple[str, ...]


def read_component(text: str) -> dict[str, Any]:
    """Return the component that a pasted text is.

    Raises:
        ComponentError: It is no JSON object.
    """
    if len(text) > _MOST_CHARACTERS:
        raise ComponentError(f"This is {len(text):,} characters; a component takes {_MOST_CHARACTERS:,} at most.")
    try:
        found: Any = json.loads(text)
    except RecursionError:
        raise ComponentError("This cannot be a component: it is nested too deeply.") from None
    except ValueError as error:
        where = f"line {error.lineno}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else "it"
        raise ComponentError(f"This is no JSON: {getattr(error, 'msg', error)} ({where}).") from None
    if not isinstance(found, dict) or "provider" not in found:
        raise ComponentError(
            'A component is a JSON object with "provider" and "config", as `agent.dump_component().model_dump_json()` '
            "writes it."
        )
    return cast("dict[str, Any]", found)


def check_component(component: Mapping[str, Any], *, has_model: bool = False) -> Checked:
    """Return what a component is, with the fields a person leaves out filled in; nothing is loaded.

    Args:
        component: An agent or a team, as component data.
        has_model: Whether the application has a model for agents that name none.

    Raises:
        ComponentError: It cannot be used.
    """
    whole = copy.deepcopy(dict(component))
    agents: list[AgentPlace] = []
    models: dict[str, dict[str, Any]] = {}
    modelless: dict[str, dict[str, Any]] = {}
    reach: list[str] = []
    notes: list[str] = []
    for path, part in _parts(whole, "", 0):
        cls = _class_of(part, path)
        config = part.setdefault("config", {})
        if not isinstance(config, dict):
            raise ComponentError(f"{_at(path, 'config')}: this has to be an object.")
        config = cast("dict[str, Any]", config)
        _refuse_keys(config, _at(path, "config"))
        fields = _fields_of(cls)
        if issubclass(cls, ChatCompletionClient):
            models[path] = part
        if "model_client" in fields and fields["model_client"].is_required() and config.get("model_client") is None:
            if not has_model:
                raise ComponentError(f"{_at(path, 'config.model_client')} is missing: which model is it to use?")
            modelless[_at(path, "config.model_client")] = config
        if issubclass(cls, ChatAgent):
            config.pop("model_context", None)  # another takes its place, so it need not be one that can be loaded
            if "tools" in fields and "model_client_stream" in fields:
                for name, value in _WRITTEN_BY_DUMPS.items():
                    config.setdefault(name, value)
                if config["max_tool_iterations"] == 1:
                    notes.append(
                        f"{_at(path, 'config.max_tool_iterations')} is 1: the agent answers with what its first tool "
                        "returned and cannot look anything up in its memory; 20 lets it go on."
                    )
            agents.append(
                AgentPlace(path, str(config.get("name", "")), config, "model_context" in fields, "tools" in fields)
            )
        reach += _reach_of(cls, part, path)
    for path, config in modelless.items():
        config["model_client"] = models[path] = {"provider": "", "config": {}}
    for agent in agents:
        if agent.takes_context:
            agent.config["model_context"] = {"provider": "", "config": {}}
    kind = _class_of(whole, "")
    if not issubclass(kind, (ChatAgent, Team)):
        raise ComponentError(
            f"{whole['provider']!r} is neither an agent nor a team; paste one, such as "
            "autogen_agentchat.agents.AssistantAgent or autogen_agentchat.teams.RoundRobinGroupChat."
        )
    for path, part in _parts(whole, "", 0):
        if part["provider"]:
            _validate(_class_of(part, path), part, path)
    _refuse_same_names(agents)
    return Checked(
        whole, "team" if issubclass(kind, Team) else "agent", tuple(agents), models, tuple(reach), tuple(notes)
    )


# --- walking through it


def _at(path: str, inner: str) -> str:
    return f"{path}.{inner}" if path else inner


def _parts(node: Any, path: str, depth: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every component in it, outer ones first, each with its path."""
    if depth > _MOST_DEPTH:
        raise ComponentError(f"{path}: this is nested too deeply to be a component.")
    if isinstance(node, dict):
        mapping = cast("dict[str, Any]", node)
        if isinstance(mapping.get("provider"), str) and (not path or "config" in mapping):
            yield path, mapping
        for name, value in [*mapping.items()]:
            yield from _parts(value, _at(path, str(name)), depth + 1)
    elif isinstance(node, list):
        for place, value in enumerate(cast("list[Any]", node)):
            yield from _parts(value, f"{path}[{place}]", depth + 1)


def _class_of(part: Mapping[str, Any], path: str) -> type[Any]:
    """Import the class that a component names, if its namespace is a known one."""
    where = _at(path, "provider")
    if not isinstance(part["provider"], str):
        raise ComponentError(
            f"{where}: this has to be the path of a class, such as autogen_agentchat.agents.AssistantAgent."
        )
    provider = WELL_KNOWN_PROVIDERS.get(part["provider"], part["provider"])
    module_name, _, class_name = provider.rpartition(".")
    if not module_name:
        raise ComponentError(f"{where}: {provider!r} is not the path of a class; write its module too.")
    added = tuple(name.strip() for name in os.environ.get(NAMESPACES_ENV, "").split(",") if name.strip())
    namespaces = (*KNOWN_NAMESPACES, *added)
    if module_name.partition(".")[0] not in namespaces and not any(
        module_name == name or module_name.startswith(f"{name}.") for name in namespaces
    ):
        raise ComponentError(
            f"{where}: {provider!r} is outside of the known namespaces ({', '.join(namespaces)}). Loading a component "
            f"runs its code: add a namespace you trust to {NAMESPACES_ENV}, and start again."
        )
    try:
        found = getattr(importlib.import_module(module_name), class_name, None)
    except ImportError as error:
        raise ComponentError(f"{where}: {provider!r} cannot be imported: {error}.") from error
    if not isinstance(found, type) or not is_component_class(found):
        raise ComponentError(f"{where}: {provider!r} is no component.")
    return cast("type[Any]", found)


def _fields_of(cls: type[Any]) -> Mapping[str, Any]:
    schema = getattr(cls, "component_config_schema", None)
    return schema.model_fields if isinstance(schema, type) and issubclass(schema, BaseModel) else {}


# --- what is refused, and what is told


def _validate(cls: type[Any], part: Mapping[str, Any], path: str) -> None:
    try:
        cls.component_config_schema.model_validate(part["config"])
    except ValidationError as error:
        problems = (
            f"{_at(path, 'config')}{_in_path(one['loc'])}: "
            + ("this is missing" if one["type"] == "missing" else f"{one['msg'][:1].lower()}{one['msg'][1:]}")
            for one in error.errors(include_url=False, include_context=False)
        )
        raise ComponentError(f"{cls.__name__} cannot take this. {'; '.join(problems)}.") from None


def _in_path(places: tuple[int | str, ...]) -> str:
    return "".join(f"[{place}]" if isinstance(place, int) else f".{place}" for place in places)


def _refuse_keys(config: Mapping[str, Any], path: str) -> None:
    """Refuse a key that would be kept, readable, with the conversation."""
    for name in ("api_key", "azure_ad_token", "password"):
        value = config.get(name)
        if isinstance(value, str) and value and not set(value) <= _MASK:
            raise ComponentError(
                f"{path}.{name}: a secret in the JSON would be kept with the chat. Leave it out: the server takes it "
                "from its environment (OPENAI_API_KEY), or use the model of this application."
            )


def _refuse_same_names(agents: list[AgentPlace]) -> None:
    seen: dict[str, str] = {}
    for agent in agents:
        if agent.name in seen:
            raise ComponentError(
                f"{_at(agent.path, 'config.name')}: there is an agent {agent.name!r} already at "
                f"{seen[agent.name] or 'the top'}; a name is whose memory it is, so give each its own."
            )
        seen[agent.name] = agent.path


def _reach_of(cls: type[Any], part: Mapping[str, Any], path: str) -> Iterator[str]:
    config, where = part["config"], path or "the component itself"
    if issubclass(cls, FunctionTool):
        yield f"{where}: the tool {config.get('name')!r} is Python in this JSON; it runs when it is loaded and called"
    elif issubclass(cls, CodeExecutor):
        yield f"{where}: {cls.__name__} runs what a model writes, with the rights of this server"
    elif issubclass(cls, BaseTool) and "code" in cls.__name__.lower():
        yield f"{where}: {cls.__name__} runs code that a model writes"
    elif issubclass(cls, BaseTool) and cls.__module__.startswith("autogen_ext."):
        yield f"{where}: {cls.__name__} reaches what this server reaches"
    elif issubclass(cls, Workbench) and isinstance(config.get("server_params"), dict):
        server = cast("dict[str, Any]", config["server_params"])
        command = " ".join([str(server.get("command", "")), *map(str, server.get("args") or [])]).strip()
        what = f"starts the command `{command}`" if command else f"connects to {server.get('url')}"
        yield f"{where}: {what} (MCP)"
    elif issubclass(cls, (ChatAgent, Team)) and cls.__module__.startswith("autogen_ext."):
        yield f"{where}: {cls.__name__} reaches files or pages from this server"
    elif not cls.__module__.startswith(KNOWN_NAMESPACES):
        yield f"{where}: {cls.__module__}.{cls.__name__} is code of your own namespace"
